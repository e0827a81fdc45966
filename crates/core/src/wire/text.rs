//! Lines to text: what each dialect says about CR, byte-order marks, bad UTF-8 and surrogates.
//!
//! The answers differ from dialect to dialect, so they are data ([`TextPolicy`]), and one function
//! applies them. Depth is bounded here too, because everything behind this point may recurse.

use std::borrow::Cow;

use crate::wire::json;
use crate::wire::lines::{Line, Terminator};

/// How deep JSON may nest.
pub const MAX_DEPTH: usize = 128;

/// What to do with a byte-order mark at the beginning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrderMark {
    /// Take the line as if it were not there.
    Skip,
    /// Leave it: the line is then no JSON.
    Refuse,
}

/// What to do with bytes that are no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadUtf8 {
    /// Each bad sequence becomes U+FFFD.
    Replace,
    /// The line cannot be read.
    Refuse,
}

/// What to do with `\ud83d` that is no half of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoneSurrogate {
    /// It is carried as it was written.
    Carry,
    /// The line cannot be read.
    Refuse,
}

/// A dialect's rules for the text of a line. Blanks around a line never matter, blank lines are
/// never answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPolicy {
    /// What ends a line.
    pub terminator: Terminator,
    /// What a byte-order mark means.
    pub byte_order_mark: ByteOrderMark,
    /// What bad UTF-8 means.
    pub bad_utf8: BadUtf8,
    /// What half a surrogate pair means.
    pub lone_surrogate: LoneSurrogate,
}

impl TextPolicy {
    /// The policy before a dialect is known: as lenient as any of them.
    pub const UNDECIDED: Self = Self {
        terminator: Terminator::Lf,
        byte_order_mark: ByteOrderMark::Skip,
        bad_utf8: BadUtf8::Refuse,
        lone_surrogate: LoneSurrogate::Carry,
    };

    /// The text of a line: `None` for a blank one.
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

/// Why a line cannot be read. Each dialect answers it with its own parse error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// More bytes than the limit without a terminator.
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
    /// The bytes are not UTF-8.
    #[error("the line is not UTF-8 (first bad byte at offset {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Half a surrogate pair, where the dialect does not carry one.
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
    /// Keeps the parser's words but not its "line 1", which every message is.
    fn from(error: serde_json::Error) -> Self {
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
