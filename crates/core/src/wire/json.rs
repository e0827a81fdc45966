//! Checks on JSON text that need no parsed tree, and shared functions for writing JSON.

use std::borrow::Cow;
use std::io::Write;

pub use serde_json::value::RawValue;

/// Whether arrays and objects nest deeper than `limit`.
///
/// Text with at most `limit` opening brackets cannot nest deeper, and counting them is fast. Only text with more
/// brackets is scanned in full.
pub fn is_deeper_than(text: &[u8], limit: usize) -> bool {
    // Chunks of 128 bytes, so that a `u8` can hold the count. The compiler can then vectorise the comparison.
    let opening = |piece: &[u8]| piece.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum::<u8>();
    let brackets: usize = text.chunks(128).map(|piece| usize::from(opening(piece))).sum();
    if brackets <= limit {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The offset of the first unpaired `\uD800`–`\uDFFF` escape.
pub fn lone_surrogate(text: &[u8]) -> Option<usize> {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'\\', &text[at..]) {
        at += offset;
        match unit(at) {
            Some(0xd800..=0xdbff) => match unit(at + 6) {
                Some(0xdc00..=0xdfff) => at += 12,
                _ => return Some(at),
            },
            Some(0xdc00..=0xdfff) => return Some(at),
            Some(_) => at += 6,
            None => at = (at + 2).min(text.len()),
        }
    }
    None
}

/// The kind of a raw JSON value, determined by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// `1`, `-0.5e3`
    Number,
    /// `true`, `false`
    Bool,
    /// `null`
    Null,
}

impl Kind {
    /// The kind of a valid JSON value.
    pub fn of(raw: &RawValue) -> Self {
        match raw.get().as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    /// The type name in JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Number => "number",
            Self::Bool => "boolean",
            Self::Null => "null",
        }
    }
}

/// The text of a raw JSON string. `None` if the value is not a string or contains an unpaired surrogate.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(text).ok().map(Cow::Owned)
}

/// A raw value from text that the caller knows to be JSON.
///
/// If the text is not JSON after all, the result is `null` instead of a panic.
pub fn raw(text: String) -> Box<RawValue> {
    debug_assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "not JSON: {text}");
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A serializable value as raw JSON.
pub fn to_raw<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Appends a value as compact JSON.
pub fn write<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Only a map with non-string keys can fail, and this project writes none. Keep the output valid anyway.
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

/// Appends a value as compact JSON with all non-ASCII characters escaped.
pub fn write_ascii<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let mut plain = Vec::new();
    write(&mut plain, value);
    escape_non_ascii(out, &String::from_utf8_lossy(&plain));
}

/// Appends JSON text with all non-ASCII characters escaped as `\uXXXX`, in surrogate pairs if needed.
pub fn escape_non_ascii(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character as u8);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a Vec cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// Turns raw JSON text into one line. In valid JSON, line breaks occur only between tokens, where a space is
/// equivalent.
pub fn flatten(text: &mut [u8]) {
    let mut at = 0;
    while let Some(offset) = memchr::memchr2(b'\n', b'\r', &text[at..]) {
        at += offset;
        text[at] = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_between_tokens_become_blanks() {
        let mut text = *b"{\r\n  \"a\\n\": 1\r}";
        flatten(&mut text);
        assert_eq!(&text, b"{    \"a\\n\": 1 }");
    }

    #[test]
    fn brackets_inside_strings_do_not_count() {
        let text = format!("[\"{}\\\"{}\"]", "[".repeat(200), "{".repeat(200));
        assert!(!is_deeper_than(text.as_bytes(), 128));
        assert!(is_deeper_than("[".repeat(129).as_bytes(), 128));
    }

    #[test]
    fn surrogates_are_found_only_when_alone() {
        assert_eq!(lone_surrogate(br#""\ud83d\ude00""#), None);
        assert_eq!(lone_surrogate(br#""\\ud83d""#), None);
        assert_eq!(lone_surrogate(br#""x\ud83d""#), Some(2));
        assert_eq!(lone_surrogate(br#""\ude00""#), Some(1));
        assert_eq!(lone_surrogate(br#""\ud83d\u0041""#), Some(1));
        assert_eq!(lone_surrogate(b"\\"), None);
    }

    #[test]
    fn non_ascii_is_escaped_in_pairs() {
        let mut out = Vec::new();
        write_ascii(&mut out, "é😀a\n");
        assert_eq!(out, br#""\u00e9\ud83d\ude00a\n""#);
    }
}
