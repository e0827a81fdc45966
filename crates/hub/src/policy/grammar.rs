//! How conditions are read; see `expression.rs` for the grammar.

use std::cmp::Ordering;

use serde_json::Value;

use super::condition::{ExpressionError, Node, Step, Test};

/// How deep conditions may nest.
const DEEPEST: usize = 32;

/// Words that are no names of arguments unless they are quoted.
const RESERVED: &[&str] = &["and", "or", "not", "in", "exists", "true", "false", "null"];

type Parsed<T> = Result<T, ExpressionError>;

pub(super) fn parse(text: &str) -> Parsed<Node> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let node = reader.condition()?;
    reader.skip_blanks();
    if reader.rest().is_empty() { Ok(node) } else { Err(reader.expected("`and`, `or` or the end")) }
}

struct Reader<'t> {
    text: &'t str,
    /// How many bytes are read.
    at: usize,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn condition(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.both()?];
        while self.word("or") {
            nodes.push(self.both()?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    fn both(&mut self) -> Parsed<Node> {
        let mut nodes = vec![self.single()?];
        while self.word("and") {
            nodes.push(self.single()?);
        }
        Ok(one_or(nodes, Node::All))
    }

    fn single(&mut self) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(format!("conditions nest more than {DEEPEST} deep")));
        }
        let node = if self.word("not") {
            Node::Not(Box::new(self.single()?))
        } else if self.sign("(") {
            let node = self.condition()?;
            self.must("(…)", ")")?;
            node
        } else {
            let path = self.path()?;
            Node::Test(path, self.test()?)
        };
        self.depth -= 1;
        Ok(node)
    }

    fn path(&mut self) -> Parsed<Vec<Step>> {
        let mut path = vec![Step::Name(self.name("the name of an argument")?)];
        loop {
            if self.rest().starts_with('.') {
                self.at += 1;
                path.push(Step::Name(self.name("a name")?));
            } else if self.rest().starts_with('[') {
                self.at += 1;
                let digits = self.take_while(|c| c.is_ascii_digit());
                let index = digits.parse().map_err(|_| self.expected("a number"))?;
                self.must("[…]", "]")?;
                path.push(Step::Index(index));
            } else {
                return Ok(path);
            }
        }
    }

    fn name(&mut self, what: &str) -> Parsed<String> {
        self.skip_blanks();
        if self.rest().starts_with('"') {
            return self.string();
        }
        let start = self.at;
        let name = self.take_while(is_of_name);
        if name.is_empty() || RESERVED.contains(&name) {
            self.at = start;
            return Err(self.expected(what));
        }
        Ok(name.to_owned())
    }

    fn test(&mut self) -> Parsed<Test> {
        for (sign, order, or_equal) in [
            ("<=", Ordering::Less, true),
            (">=", Ordering::Greater, true),
            ("<", Ordering::Less, false),
            (">", Ordering::Greater, false),
        ] {
            if self.sign(sign) {
                self.skip_blanks();
                let start = self.at;
                let value = self.value()?;
                if !value.is_number() && !value.is_string() {
                    self.at = start;
                    return Err(self.expected("a number or a string"));
                }
                return Ok(Test::Compares(order, or_equal, value));
            }
        }
        if self.sign("==") {
            return Ok(Test::Is(self.value()?));
        }
        if self.sign("!=") {
            return Ok(Test::IsNot(self.value()?));
        }
        if self.word("exists") {
            return Ok(Test::Exists);
        }
        if self.word("in") {
            return self.list().map(Test::In);
        }
        for (word, test) in [
            ("starts_with", Test::StartsWith as fn(String) -> Test),
            ("ends_with", Test::EndsWith),
            ("contains", Test::Contains),
            ("within", Test::Within),
        ] {
            if self.word(word) {
                return self.string().map(test);
            }
        }
        let tests = "one of ==, !=, <, <=, >, >=, in, exists, starts_with, ends_with, contains, within";
        Err(self.expected(tests))
    }

    fn list(&mut self) -> Parsed<Vec<Value>> {
        self.must("in", "[")?;
        let mut values = vec![self.value()?];
        while self.sign(",") {
            values.push(self.value()?);
        }
        self.must("[…", "]")?;
        Ok(values)
    }

    fn string(&mut self) -> Parsed<String> {
        self.skip_blanks();
        if !self.rest().starts_with('"') {
            return Err(self.expected("a string in double quotes"));
        }
        match self.json()? {
            Value::String(text) => Ok(text),
            _ => Err(self.expected("a string in double quotes")),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        self.skip_blanks();
        if self.rest().starts_with(['[', '{']) {
            return Err(self.expected("a string, a number, true, false or null"));
        }
        self.json()
    }

    /// One JSON value, regardless of the text after it.
    fn json(&mut self) -> Parsed<Value> {
        let read = if self.rest().starts_with('"') {
            let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter();
            values.next().and_then(Result::ok).map(|value| (value, values.byte_offset()))
        } else {
            let ends = |c: char| c.is_whitespace() || [',', ']', ')'].contains(&c);
            let word = self.rest().split(ends).next().unwrap_or_default();
            serde_json::from_str(word).ok().map(|value| (value, word.len()))
        };
        let (value, length) = read.ok_or_else(|| self.expected("a string, a number, true, false or null"))?;
        self.at += length;
        Ok(value)
    }

    fn must(&mut self, after: &str, sign: &str) -> Parsed<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}` for `{after}`"))) }
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let is_here = self.rest().starts_with(sign);
        if is_here {
            self.at += sign.len();
        }
        is_here
    }

    fn word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let is_here = self.rest().strip_prefix(word).is_some_and(|after| !after.starts_with(is_of_name));
        if is_here {
            self.at += word.len();
        }
        is_here
    }

    fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn take_while(&mut self, is_taken: fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_taken(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn expected(&self, what: &str) -> ExpressionError {
        let found = match self.rest().split_whitespace().next() {
            Some(word) => format!("`{}`", word.chars().take(20).collect::<String>()),
            None => "the end".to_owned(),
        };
        self.wrong(format!("expected {what}, found {found}"))
    }

    fn wrong(&self, problem: String) -> ExpressionError {
        ExpressionError { at: self.text[..self.at].chars().count(), problem }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn one_or(mut nodes: Vec<Node>, several: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(node) if nodes.is_empty() => node,
        last => several(nodes.into_iter().chain(last).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn condition_mistakes_have_their_character_position() {
        for (condition, told) in [
            ("", "at character 1: expected the name of an argument, found the end"),
            (
                "a =",
                "at character 3: expected one of ==, !=, <, <=, >, >=, in, exists, starts_with, ends_with, contains, within, found `=`",
            ),
            ("a == ", "at character 6: expected a string, a number, true, false or null, found the end"),
            ("a == main", "at character 6: expected a string, a number, true, false or null, found `main`"),
            ("ä == 1 und", "at character 8: expected `and`, `or` or the end, found `und`"),
            ("a == 1 and", "at character 11: expected the name of an argument, found the end"),
            ("a == 1 and not", "at character 15: expected the name of an argument, found the end"),
            ("(a == 1", "at character 8: expected `)` for `(…)`, found the end"),
            ("a.[1] == 1", "at character 3: expected a name, found `[1]`"),
            ("a[x] == 1", "at character 3: expected a number, found `x]`"),
            ("a in 1", "at character 6: expected `[` for `in`, found `1`"),
            ("a in [1 2]", "at character 9: expected `]` for `[…`, found `2]`"),
            ("a starts_with 1", "at character 15: expected a string in double quotes, found `1`"),
            ("a < true", "at character 5: expected a number or a string, found `true`"),
            ("a == [1]", "at character 6: expected a string, a number, true, false or null, found `[1]`"),
            ("in == 1", "at character 1: expected the name of an argument, found `in`"),
        ] {
            assert_eq!(parse(condition).unwrap_err().to_string(), told, "{condition}");
        }
        let deep = format!("{}a == 1{}", "(".repeat(100), ")".repeat(100));
        assert!(parse(&deep).unwrap_err().problem.contains("nest"));
        assert!(parse(&format!("{}a == 1", "not ".repeat(100_000))).is_err());
    }
}
