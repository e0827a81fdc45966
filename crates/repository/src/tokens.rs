//! Tokens of languages without a grammar: words, strings and punctuation. Comments are left out.
//!
//! That is as much as it takes to read imports, marks such as `SpringApplication.run(` and the few facts in Gradle
//! files and Gemfiles, and not to be taken in by a comment or a text that mentions them.

use std::ops::Range;

/// How a language writes comments and strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lexis {
    /// Java, Kotlin, Groovy, C#: `//`, `/* */`, `"`, `'`, `"""`.
    Braces,
    /// PHP: as above, and `#`; code begins at `<?php`.
    Php,
    /// Ruby: `#`, `=begin`, `"`, `'`.
    Ruby,
    /// go.mod: `//`, `"`, and line ends that mean something.
    GoMod,
}

/// A piece of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    /// The text of the token; for a string, without the quotes.
    pub(crate) text: &'a str,
    /// Where it is.
    pub(crate) at: Range<usize>,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Text,
    Sign,
    /// The end of a line, where that matters.
    End,
}

impl Token<'_> {
    pub(crate) fn is(&self, sign: &str) -> bool {
        self.kind != Kind::Text && self.text == sign
    }
}

/// Cuts a program into tokens. Never fails: an unclosed token extends to the end.
pub(crate) fn tokens(text: &str, lexis: Lexis) -> Vec<Token<'_>> {
    let start = if lexis == Lexis::Php { text.find("<?php").map_or(0, |at| at + 5) } else { 0 };
    let mut cutter = Cutter { text, at: start, lexis, tokens: Vec::new() };
    while cutter.step() {}
    cutter.tokens
}

/// Whether every bracket outside of comments and strings is closed in order; if not, where it goes wrong.
pub(crate) fn unbalanced(text: &str, lexis: Lexis) -> Option<usize> {
    let mut open: Vec<(char, usize)> = Vec::new();
    for token in tokens(text, lexis).iter().filter(|token| token.kind == Kind::Sign) {
        let sign = token.text.chars().next()?;
        match sign {
            '(' | '[' | '{' => open.push((sign, token.at.start)),
            ')' | ']' | '}' => {
                let fits =
                    matches!((open.pop(), sign), (Some(('(', _)), ')') | (Some(('[', _)), ']') | (Some(('{', _)), '}'));
                if !fits {
                    return Some(token.at.start);
                }
            }
            _ => {}
        }
    }
    open.pop().map(|(_, at)| at)
}

struct Cutter<'a> {
    text: &'a str,
    at: usize,
    lexis: Lexis,
    tokens: Vec<Token<'a>>,
}

impl<'a> Cutter<'a> {
    fn step(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else { return false };
        if first == '\n' && self.lexis == Lexis::GoMod {
            self.push(Kind::End, self.at..self.at + 1);
        } else if first.is_whitespace() {
            self.at += first.len_utf8();
        } else if let Some(length) = self.comment(rest) {
            self.at += length;
        } else if let Some((open, close)) = self.quotes(rest, first) {
            self.string(open, close);
        } else if self.goes_on(first) {
            let length = rest.find(|c| !self.goes_on(c)).unwrap_or(rest.len());
            self.push(Kind::Word, self.at..self.at + length);
        } else {
            self.push(Kind::Sign, self.at..self.at + first.len_utf8());
        }
        true
    }

    /// Versions and module paths are single words in go.mod.
    fn goes_on(&self, c: char) -> bool {
        is_word(c) || self.lexis == Lexis::GoMod && matches!(c, '.' | '/' | '-' | '+' | '~' | '@' | '!')
    }

    fn comment(&self, rest: &str) -> Option<usize> {
        let to_line_end = || rest.find('\n').unwrap_or(rest.len());
        let slashes = self.lexis != Lexis::Ruby;
        if slashes && rest.starts_with("//") || rest.starts_with('#') && self.hash_begins_comment(rest) {
            return Some(to_line_end());
        }
        if slashes && rest.starts_with("/*") {
            return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
        }
        let at_line_start = self.at == 0 || self.text[..self.at].ends_with('\n');
        if self.lexis == Lexis::Ruby && at_line_start && rest.starts_with("=begin") {
            return Some(rest.find("\n=end").map_or(rest.len(), |end| end + 5));
        }
        None
    }

    fn hash_begins_comment(&self, rest: &str) -> bool {
        match self.lexis {
            Lexis::Ruby => true,
            // `#[Attribute]` is code since PHP 8.
            Lexis::Php => !rest.starts_with("#["),
            Lexis::Braces | Lexis::GoMod => false,
        }
    }

    fn quotes(&self, rest: &str, first: char) -> Option<(&'static str, &'static str)> {
        match first {
            '"' if self.lexis == Lexis::Braces && rest.starts_with("\"\"\"") => Some(("\"\"\"", "\"\"\"")),
            '"' => Some(("\"", "\"")),
            '\'' if self.lexis != Lexis::GoMod => Some(("'", "'")),
            '`' if self.lexis == Lexis::Ruby || self.lexis == Lexis::Php => Some(("`", "`")),
            _ => None,
        }
    }

    fn string(&mut self, open: &str, close: &str) {
        let start = self.at + open.len();
        let bytes = self.text.as_bytes();
        let mut end = start;
        while end < bytes.len() && !self.text[end..].starts_with(close) {
            let length = self.text[end..].chars().next().map_or(1, char::len_utf8);
            end += length;
            if bytes[end - length] == b'\\' && end < bytes.len() {
                end += self.text[end..].chars().next().map_or(0, char::len_utf8);
            }
        }
        self.tokens.push(Token { kind: Kind::Text, text: &self.text[start..end], at: self.at..end });
        self.at = (end + close.len()).min(self.text.len());
    }

    fn push(&mut self, kind: Kind, at: Range<usize>) {
        self.tokens.push(Token { kind, text: &self.text[at.clone()], at: at.clone() });
        self.at = at.end;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, lexis: Lexis) -> Vec<&str> {
        tokens(text, lexis).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn text_in_comments_and_strings_yields_no_tokens() {
        let java = "import a.B; // import c.D;\n/* import e.F; */ String s = \"import g.H; \\\" x\";";
        assert_eq!(
            texts(java, Lexis::Braces),
            ["import", "a", ".", "B", ";", "String", "s", "=", "import g.H; \\\" x", ";"]
        );
        let ruby = "=begin\ngem 'no'\n=end\ngem \"yes\" # gem 'no'\n";
        assert_eq!(texts(ruby, Lexis::Ruby), ["gem", "yes"]);
        let php = "<html># <?php use A\\B; # c\n#[Route]\n";
        assert_eq!(texts(php, Lexis::Php), ["use", "A", "\\", "B", ";", "#", "[", "Route", "]"]);
    }

    #[test]
    fn unclosed_strings_and_comments_are_tokenized() {
        for text in ["\"", "'\\", "/*", "\"\"\"x", "=begin", "`é"] {
            for lexis in [Lexis::Braces, Lexis::Php, Lexis::Ruby, Lexis::GoMod] {
                tokens(text, lexis);
            }
        }
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert_eq!(unbalanced("f(a[\")\"], { /* ( */ });", Lexis::Braces), None);
        assert_eq!(unbalanced("f(]", Lexis::Braces), Some(2));
        assert_eq!(unbalanced("f(", Lexis::Braces), Some(1));
    }
}
