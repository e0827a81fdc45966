//! The tokens of JSON text, and the characters of its strings. Finding them builds no tree.
//!
//! The text is valid JSON, or the beginning of it. Other text has some tokens too: the caller, and not this module,
//! knows whether the text is valid. Every function takes linear time and constant memory.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

/// Represents an unpaired surrogate in raw JSON. It is a noncharacter.
pub const LONE_SURROGATE: char = '\u{ffff}';

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonToken {
    /// `{`
    BeginObject,
    /// `}`
    EndObject,
    /// `[`
    BeginArray,
    /// `]`
    EndArray,
    /// `:`
    Colon,
    /// `,`
    Comma,
    /// `"…"`, a value or the name of a member. Without its second quote if the text ends before that.
    String,
    /// A number, `true`, `false` or `null`.
    Word,
}

/// The tokens of JSON text with their ranges. The range of a string includes its quotes.
#[derive(Debug, Clone)]
pub struct JsonTokens<'j> {
    json: &'j [u8],
    at: usize,
}

impl<'j> JsonTokens<'j> {
    /// All tokens of a text.
    pub fn of(json: &'j str) -> Self {
        Self { json: json.as_bytes(), at: 0 }
    }
}

impl Iterator for JsonTokens<'_> {
    type Item = (JsonToken, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let blanks = self.json[self.at..].iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))?;
        let start = self.at + blanks;
        let (token, end) = match self.json[start] {
            b'{' => (JsonToken::BeginObject, start + 1),
            b'}' => (JsonToken::EndObject, start + 1),
            b'[' => (JsonToken::BeginArray, start + 1),
            b']' => (JsonToken::EndArray, start + 1),
            b':' => (JsonToken::Colon, start + 1),
            b',' => (JsonToken::Comma, start + 1),
            b'"' => {
                let end = closing_quote(self.json, start + 1).map_or(self.json.len(), |quote| quote + 1);
                (JsonToken::String, end)
            }
            _ => {
                let is_end = |byte: &u8| {
                    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"')
                };
                let length = self.json[start..].iter().position(is_end).unwrap_or(self.json.len() - start);
                (JsonToken::Word, start + length)
            }
        };
        self.at = end;
        Some((token, start..end))
    }
}

/// The strings of JSON text, as ranges between their quotes.
#[derive(Debug, Clone)]
pub struct Strings<'j> {
    json: &'j [u8],
    at: usize,
}

impl<'j> Strings<'j> {
    /// All strings of a text.
    pub fn of(json: &'j str) -> Self {
        Self { json: json.as_bytes(), at: 0 }
    }
}

impl Iterator for Strings<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.at + memchr(b'"', self.json.get(self.at..)?)? + 1;
        let quote = closing_quote(self.json, start)?;
        self.at = quote + 1;
        Some(start..quote)
    }
}

/// The quote that ends the string whose first quote is before `at`.
fn closing_quote(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// The text of a string, given its range between the quotes.
pub fn decoded(json: &str, string: Range<usize>) -> Cow<'_, str> {
    let written = &json[string.clone()];
    match memchr(b'\\', written.as_bytes()) {
        None => Cow::Borrowed(written),
        Some(_) => Characters::of_json(json, string).map(|character| character.value).collect::<String>().into(),
    }
}

/// A character and the byte range of its written form.
#[derive(Debug, Clone)]
pub struct Character {
    /// Where it is written.
    pub range: Range<usize>,
    /// What it is.
    pub value: char,
}

/// The characters of a text, or of one string in JSON text.
#[derive(Debug, Clone)]
pub struct Characters<'t> {
    text: &'t str,
    at: usize,
    end: usize,
    has_escapes: bool,
}

impl<'t> Characters<'t> {
    /// The characters of a text.
    pub fn of_text(text: &'t str) -> Self {
        Self { text, at: 0, end: text.len(), has_escapes: false }
    }

    /// The characters of a string in JSON text, given its range between the quotes.
    pub fn of_json(json: &'t str, string: Range<usize>) -> Self {
        Self { text: json, at: string.start, end: string.end, has_escapes: true }
    }

    /// The character of an escape, and how many bytes the escape has.
    fn escape(&self) -> (char, usize) {
        let unit = |at: usize| -> Option<u32> {
            let digits = self.text.get(at..at + 6).filter(|_| at + 6 <= self.end)?.strip_prefix("\\u")?;
            u32::from_str_radix(digits, 16).ok()
        };
        let value = match self.text.as_bytes().get(self.at + 1).filter(|_| self.at + 1 < self.end) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let Some(first) = unit(self.at) else { return ('\\', 1) };
                return match (first, unit(self.at + 6)) {
                    (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => {
                        let value = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                        (char::from_u32(value).unwrap_or(LONE_SURROGATE), 12)
                    }
                    _ => (char::from_u32(first).unwrap_or(LONE_SURROGATE), 6),
                };
            }
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            // Not JSON: the backslash stands for itself.
            _ => return ('\\', 1),
        };
        (value, 2)
    }
}

impl Iterator for Characters<'_> {
    type Item = Character;

    fn next(&mut self) -> Option<Character> {
        let first = self.text[self.at..self.end].chars().next()?;
        let (value, length) = if self.has_escapes && first == '\\' { self.escape() } else { (first, first.len_utf8()) };
        let range = self.at..self.at + length;
        self.at = range.end;
        Some(Character { range, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(json: &str) -> Vec<&str> {
        JsonTokens::of(json).map(|(_, range)| &json[range]).collect()
    }

    #[test]
    fn the_tokens_of_a_text_are_found_with_their_spelling() {
        let json = "{ \"a\\\"b\" :\t[1.0e5, -0,\ttrue,null ,\"\"],\"\":{}}\n";
        let found = ["{", "\"a\\\"b\"", ":", "[", "1.0e5", ",", "-0", ",", "true", ",", "null", ",", "\"\"", "]", ","];
        assert_eq!(tokens(json)[..15], found);
        assert_eq!(tokens(json)[15..], ["\"\"", ":", "{", "}", "}"]);
        assert_eq!(JsonTokens::of(r#"["#).next(), Some((JsonToken::BeginArray, 0..1)));
    }

    #[test]
    fn a_text_that_ends_in_a_token_has_that_token() {
        for (json, last) in
            [("[\"a\\", "\"a\\"), ("[\"", "\""), ("[12", "12"), ("[ ", "["), ("\"\\\\\\\"", "\"\\\\\\\"")]
        {
            assert_eq!(tokens(json).last(), Some(&last), "{json}");
        }
        assert!(tokens(" \n").is_empty() && tokens("").is_empty());
    }

    #[test]
    fn strings_are_decoded_with_any_escapes() {
        let json = r#""\u0061\n\/\ud83d\ude00\ud83d\"é\x""#;
        assert_eq!(decoded(json, 1..json.len() - 1), "a\n/😀\u{ffff}\"é\\x");
        assert_eq!(decoded(json, 1..4), "\\u0", "an escape that is cut stands for itself");
        assert_eq!(decoded(r#""ab""#, 1..3), "ab");
    }
}
