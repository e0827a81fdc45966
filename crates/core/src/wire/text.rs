//! Converts lines to text, with a policy for CR, byte-order marks, invalid UTF-8 and surrogates.
//!
//! Dialects differ in these rules, so the rules are data ([`TextPolicy`]) and one function applies them. Nesting depth
//! is limited here too, because all later code may recurse.

use std::borrow::Cow;

use crate::wire::json;
use crate::wire::lines::{Line, Terminator};

/// Maximum nesting depth of JSON.
pub const MAX_DEPTH: usize = 128;

/// The treatment of a byte-order mark at the beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrderMark {
    /// Ignore the mark.
    Skip,
    /// Keep the mark. The line is then not valid JSON.
    Refuse,
}

/// The treatment of invalid UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadUtf8 {
    /// Replace each invalid sequence with U+FFFD.
    Replace,
    /// Reject the line.
    Refuse,
}

/// The treatment of an unpaired surrogate such as `\ud83d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoneSurrogate {
    /// Carry it unchanged.
    Carry,
    /// Reject the line.
    Refuse,
}

/// A dialect's rules for the text of a line. Whitespace around a line is always ignored, and blank lines are never
/// answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPolicy {
    /// The line terminator.
    pub terminator: Terminator,
    /// The treatment of a byte-order mark.
    pub byte_order_mark: ByteOrderMark,
    /// The treatment of invalid UTF-8.
    pub bad_utf8: BadUtf8,
    /// The treatment of an unpaired surrogate.
    pub lone_surrogate: LoneSurrogate,
}

impl TextPolicy {
    /// The policy before the dialect is known. It ignores a byte-order mark, carries unpaired surrogates, and refuses
    /// invalid UTF-8.
    pub const UNDECIDED: Self = Self {
        terminator: Terminator::Lf,
        byte_order_mark: ByteOrderMark::Skip,
        bad_utf8: BadUtf8::Refuse,
        lone_surrogate: LoneSurrogate::Carry,
    };

    /// The text of a line. `None` for a blank line.
    pub fn read<'a>(&self, line: Line<'a>) -> Result<Option<Cow<'a, str>>, Fault> {
        let bytes = match line {
            Line::Bytes(bytes) => bytes,
            Line::TooLong { limit } => return Err(Fault::TooLong { limit }),
        };
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(error) => match self.bad_utf8 {
                BadUtf8::Replace => String::from_utf8_lossy(bytes),
                BadUtf8::Refuse => return Err(Fault::NotUtf8 { at: error.valid_up_to() }),
            },
        };
        let text = match text {
            Cow::Borrowed(text) => Cow::Borrowed(self.trim(text)),
            Cow::Owned(text) => Cow::Owned(self.trim(&text).to_owned()),
        };
        if text.is_empty() {
            return Ok(None);
        }
        if json::is_deeper_than(text.as_bytes(), MAX_DEPTH) {
            return Err(Fault::TooDeep { limit: MAX_DEPTH });
        }
        if self.lone_surrogate == LoneSurrogate::Refuse
            && let Some(at) = json::lone_surrogate(text.as_bytes())
        {
            return Err(Fault::LoneSurrogate { at });
        }
        Ok(Some(text))
    }

    fn trim<'a>(&self, text: &'a str) -> &'a str {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        match self.byte_order_mark {
            ByteOrderMark::Skip => match text.strip_prefix('\u{feff}') {
                Some(rest) => rest.trim_start_matches([' ', '\t', '\r', '\n']),
                None => text,
            },
            ByteOrderMark::Refuse => text,
        }
    }
}

/// Why a line cannot be read. Each dialect answers a fault with its own parse error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The line has more bytes than the limit.
    #[error("the line is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// Arrays and objects nest too deeply.
    #[error("the JSON nests deeper than {limit} levels")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// The line is not UTF-8.
    #[error("the line is not UTF-8 (first bad byte at offset {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// The line contains an unpaired surrogate, and the dialect does not carry it.
    #[error("the line holds half a surrogate pair at offset {at}")]
    LoneSurrogate {
        /// Offset of the escape.
        at: usize,
    },
    /// The text is not one JSON value.
    #[error("the line is not valid JSON: {0}")]
    NotJson(String),
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&serde_json::Error> for Fault {
    /// Keeps the parser's message but removes its "line 1", which applies to every message.
    fn from(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let words = text.split(" at line ").next().unwrap_or(&text);
        Self::NotJson(format!("{words} at column {}", error.column()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: TextPolicy = TextPolicy {
        terminator: Terminator::Lf,
        byte_order_mark: ByteOrderMark::Refuse,
        bad_utf8: BadUtf8::Refuse,
        lone_surrogate: LoneSurrogate::Refuse,
    };
    const LENIENT: TextPolicy = TextPolicy {
        terminator: Terminator::LfOrCr,
        byte_order_mark: ByteOrderMark::Skip,
        bad_utf8: BadUtf8::Replace,
        lone_surrogate: LoneSurrogate::Carry,
    };

    fn read(policy: TextPolicy, bytes: &[u8]) -> Result<Option<String>, Fault> {
        policy.read(Line::Bytes(bytes)).map(|text| text.map(Cow::into_owned))
    }

    #[test]
    fn blanks_around_a_line_and_blank_lines_never_matter() {
        for policy in [STRICT, LENIENT] {
            assert_eq!(read(policy, b" \t {}\r"), Ok(Some("{}".into())));
            assert_eq!(read(policy, b" \t\r"), Ok(None));
            assert_eq!(read(policy, b""), Ok(None));
        }
    }

    #[test]
    fn each_policy_has_its_own_answer() {
        assert_eq!(read(LENIENT, b"\xef\xbb\xbf {}"), Ok(Some("{}".into())));
        assert_eq!(read(STRICT, b"\xef\xbb\xbf{}"), Ok(Some("\u{feff}{}".into())));
        assert_eq!(read(LENIENT, b"\"a\xff\""), Ok(Some("\"a\u{fffd}\"".into())));
        assert_eq!(read(STRICT, b"\"a\xff\""), Err(Fault::NotUtf8 { at: 2 }));
        assert_eq!(read(LENIENT, br#""\ud83d""#), Ok(Some(r#""\ud83d""#.into())));
        assert_eq!(read(STRICT, br#""\ud83d""#), Err(Fault::LoneSurrogate { at: 1 }));
        assert_eq!(read(STRICT, br#""\ud83d\ude00""#), Ok(Some(r#""\ud83d\ude00""#.into())));
    }

    #[test]
    fn depth_is_bounded_at_128() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(STRICT, nested(128).as_bytes()).is_ok());
        assert_eq!(read(STRICT, nested(129).as_bytes()), Err(Fault::TooDeep { limit: 128 }));
        let wide = format!("[{}]", "[],".repeat(500));
        assert!(read(STRICT, wide.as_bytes()).is_ok());
    }
}
