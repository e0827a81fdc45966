//! The text of a configuration file as a tree with the position of every value, and the mistakes in it.

use std::fmt;
use std::ops::Range;

use gladhand_core::wire::invisible::{Layout, escape};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::words;

/// How deep mistakes are told apart: section, upstream, key.
const DEEPEST: usize = 3;

/// One mistake in a configuration file. It never quotes a value, which may be a secret. Text that it quotes from the
/// file contains no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0 for what has no place in the file.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key, as in `upstreams.git.cwd`, or `policy.rules#2.effect` in the second item of a list; empty where the text is
    /// no TOML.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl Problem {
    /// Whether it is one of this key, or of one inside it.
    pub fn is_of(&self, path: &[&str]) -> bool {
        let inside = self.key.strip_prefix(&path.join("."));
        inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('.'))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        match self.key.as_str() {
            "" => f.write_str(&self.message),
            key => write!(f, "{key}: {}", self.message),
        }
    }
}

/// A file's text that is TOML.
#[derive(Debug)]
pub struct Source<'t> {
    text: &'t str,
    pub(super) root: DeTable<'t>,
}

impl<'t> Source<'t> {
    /// Reads the text, as far as it can be, and says everything that is wrong with it if it is no TOML.
    pub fn read(text: &'t str) -> (Self, Vec<Problem>) {
        let (root, mistakes) = DeTable::parse_recoverable(text);
        let source = Self { text, root: root.into_inner() };
        let problem = |mistake: &toml::de::Error| source.at(mistake.span(), "", mistake.message());
        let problems = in_order(mistakes.iter().map(problem).collect());
        (source, problems)
    }

    /// Deserializes a type that has a default for every key, and leaves out keys with mistakes. Returns at most one
    /// mistake per key.
    pub fn parse<T: DeserializeOwned>(&self) -> (Option<T>, Vec<Problem>) {
        let whole = match T::deserialize(document(self.root.clone())) {
            Ok(parsed) => return (Some(parsed), Vec::new()),
            Err(error) => error,
        };
        let (mut rest, mut problems) = (self.root.clone(), Vec::new());
        self.search::<T>(&mut Vec::new(), &self.root, &mut |path, problem| {
            remove(&mut rest, path);
            problems.push(problem);
        });
        if problems.is_empty() {
            // Each key is valid alone, but not in combination with the others.
            problems.push(self.at(whole.span(), "", &words::told(whole.message())));
        }
        (T::deserialize(document(rest)).ok(), problems)
    }

    /// Searches for mistakes by checking each key alone, so that a mistake in one key does not hide others.
    fn search<T: DeserializeOwned>(
        &self,
        path: &mut Vec<String>,
        table: &DeTable<'_>,
        found: &mut impl FnMut(&[String], Problem),
    ) -> bool {
        let mut is_wrong = false;
        for (key, value) in table.iter() {
            path.push(key.get_ref().to_string());
            if let Err(error) = T::deserialize(document(only(path, key.span(), value.clone()))) {
                is_wrong = true;
                let is_deeper = match value.get_ref() {
                    DeValue::Table(inner) if path.len() < DEEPEST => self.search::<T>(path, inner, found),
                    DeValue::Array(items) => self.search_items::<T>(path, key.span(), items, found),
                    _ => false,
                };
                if !is_deeper {
                    found(path, self.at(error.span(), &path.join("."), &words::told(error.message())));
                }
            }
            path.pop();
        }
        is_wrong
    }

    /// Searches for mistakes in each table of a list. Required keys may be in the same table, so a key with a mistake
    /// is removed before the search continues.
    fn search_items<T: DeserializeOwned>(
        &self,
        path: &[String],
        span: Range<usize>,
        items: &DeArray<'_>,
        found: &mut impl FnMut(&[String], Problem),
    ) -> bool {
        let mut is_wrong = false;
        for (number, item) in items.iter().enumerate() {
            let (mut item, mut removed) = (item.clone(), Vec::new());
            let name = format!("{}#{}", path.join("."), number + 1);
            loop {
                let mut alone = DeArray::new();
                alone.push(item.clone());
                let alone = Spanned::new(item.span(), DeValue::Array(alone));
                let Err(error) = T::deserialize(document(only(path, span.clone(), alone))) else { break };
                let (place, message) = (error.span(), error.message());
                let DeValue::Table(table) = item.get_mut() else { break };
                is_wrong = true;
                let key = place.as_ref().and_then(|place| key_at(table, place.start));
                match key {
                    Some(key) => {
                        found(path, self.at(place, &format!("{name}.{key}"), &words::told(message)));
                        table.remove(key.as_str());
                        removed.push(key);
                    }
                    // The key is missing only because the search removed it.
                    None if words::missing(message).is_some_and(|key| removed.iter().any(|gone| gone == key)) => break,
                    None => {
                        found(path, self.at(Some(item.span()), &name, &words::told(message)));
                        break;
                    }
                }
            }
        }
        is_wrong
    }

    /// All keys of all sections, in the order of the file. A section that is no table has none.
    pub(super) fn keys(&self) -> Vec<(&str, &str)> {
        let mut keys = Vec::new();
        for (section, value) in self.root.iter() {
            let DeValue::Table(table) = value.get_ref() else { continue };
            keys.extend(
                table.iter().map(|(key, _)| (key.span().start, section.get_ref().as_ref(), key.get_ref().as_ref())),
            );
        }
        keys.sort_by_key(|(start, ..)| *start);
        keys.into_iter().map(|(_, section, key)| (section, key)).collect()
    }

    /// A problem with the value of a key, or with the nearest table around it.
    pub fn problem(&self, path: &[&str], message: impl Into<String>) -> Problem {
        self.at(Some(self.span(path)), &path.join("."), &message.into())
    }

    /// Where a key is in the text, or the nearest table around it. The second item of a list is `key#2`.
    pub(super) fn span(&self, path: &[&str]) -> Range<usize> {
        let mut found = 0..0;
        let mut table = &self.root;
        for name in path {
            let Some(value) = member(table, name, &mut found) else { break };
            let DeValue::Table(inner) = value else { break };
            table = inner;
        }
        found
    }

    pub(super) fn at(&self, span: Option<Range<usize>>, key: &str, message: &str) -> Problem {
        let (line, column) = span.map_or((0, 0), |span| place(self.text, span.start));
        Problem { line, column, key: harmless(key), message: harmless(message) }
    }
}

/// What a table has under a key, or as an item of the list under it, and where that is.
fn member<'s, 't>(table: &'s DeTable<'t>, name: &str, place: &mut Range<usize>) -> Option<&'s DeValue<'t>> {
    let of_key = |name: &str| table.get_key_value(name);
    if let Some((key, value)) = of_key(name) {
        *place = key.span();
        return Some(value.get_ref());
    }
    let (name, number) = name.rsplit_once('#')?;
    let (key, value) = of_key(name)?;
    *place = key.span();
    let DeValue::Array(items) = value.get_ref() else { return None };
    let item = items.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
    *place = item.span();
    Some(item.get_ref())
}

/// Text of the file as one line, in which everything can be seen.
fn harmless(text: &str) -> String {
    escape(text, Layout::Line).into_owned()
}

/// The key of a table in whose name or value a byte is.
fn key_at(table: &DeTable<'_>, byte: usize) -> Option<String> {
    let is_there = |span: Range<usize>| span.contains(&byte);
    let mut keys = table.iter().filter(|(key, value)| is_there(key.span()) || is_there(value.span()));
    keys.next().map(|(key, _)| key.get_ref().to_string())
}

/// From the beginning of the file to its end.
pub(super) fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

/// The line and column of a byte.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(1, |start| start.chars().count() + 1))
}

fn document(root: DeTable<'_>) -> toml::Deserializer<'_> {
    Spanned::new(0..0, root).into()
}

/// Takes away what is at a path.
fn remove(table: &mut DeTable<'_>, path: &[String]) {
    let Some((name, inside)) = path.split_first() else { return };
    if inside.is_empty() {
        table.remove(name.as_str());
    } else if let Some(DeValue::Table(inner)) = table.get_mut(name.as_str()).map(Spanned::get_mut) {
        remove(inner, inside);
    }
}

/// A document in which there is nothing but the value at a path.
fn only<'v>(path: &[String], span: Range<usize>, value: Spanned<DeValue<'v>>) -> DeTable<'v> {
    path.iter()
        .rev()
        .fold((DeTable::new(), value), |(_, value), name| {
            let around = value.span();
            let mut table = DeTable::new();
            table.insert(Spanned::new(span.clone(), name.clone().into()), value);
            (table.clone(), Spanned::new(around, DeValue::Table(table)))
        })
        .0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Whole {
        one: BTreeMap<String, Part>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only read to see whether it can be")]
    struct Part {
        number: u8,
        is: bool,
    }

    fn problems(text: &str) -> Vec<String> {
        let (source, problems) = Source::read(text);
        let problems = if problems.is_empty() { in_order(source.parse::<Whole>().1) } else { problems };
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_key_with_a_mistake_is_told_once_with_its_place_and_without_its_value() {
        let text = "[one.a]\nnumber = \"hush\"\nis = \"hush\"\n\n[one.b]\nnumbre = 1\n";
        assert_eq!(
            problems(text),
            [
                "line 2, column 10: one.a.number: expected a whole number",
                "line 3, column 6: one.a.is: expected true or false",
                "line 6, column 1: one.b.numbre: there is no key `numbre`: did you mean `number`?",
            ]
        );
    }

    #[test]
    fn what_is_right_is_read_beside_what_is_wrong() {
        let (source, _) = Source::read("[one.a]\nnumber = 7\nis = 5\n[two]\n");
        let (whole, problems) = source.parse::<Whole>();
        assert_eq!((whole.unwrap().one["a"].number, problems.len()), (7, 2));
    }

    #[test]
    fn text_that_is_no_toml_is_told_in_all_places() {
        let problems = problems("a = \nb = 1\nc = [\n");
        assert!(problems.len() >= 2 && problems[0].starts_with("line 1, column 5: "), "{problems:?}");
    }
}
