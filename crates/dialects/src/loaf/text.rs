//! Strings with JavaScript's semantics: sequences of UTF-16 units that can contain unpaired surrogates, trimmed like
//! `trim()` (`loaf` §1).
//!
//! Almost every string is ordinary text and stays a `str`. A string with an unpaired surrogate is kept as units, so
//! that it can be compared, trimmed and echoed too.

use std::borrow::Cow;
use std::fmt::Write;

use gladhand_core::javascript::{is_white_space, trim};
use gladhand_core::wire::{RawValue, json};

/// The text of a JSON string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// Ordinary text.
    Plain(Cow<'a, str>),
    /// Text with an unpaired surrogate.
    Units(Vec<u16>),
}

impl<'a> Text<'a> {
    /// The text of a raw value that is a string.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        if let Some(text) = json::string(raw) {
            return Some(Self::Plain(text));
        }
        let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        Some(Self::Units(units(inner)))
    }

    /// The same text without surrounding white space.
    pub(super) fn trimmed(self) -> Self {
        match self {
            Self::Plain(Cow::Borrowed(text)) => Self::Plain(Cow::Borrowed(trim(text))),
            Self::Plain(Cow::Owned(text)) => Self::Plain(Cow::Owned(trim(&text).to_owned())),
            Self::Units(units) => {
                let is_text = |unit: &u16| !char::from_u32(u32::from(*unit)).is_some_and(is_white_space);
                let from = units.iter().position(is_text).unwrap_or(units.len());
                let to = units.iter().rposition(is_text).map_or(from, |at| at + 1);
                Self::Units(units[from..to].to_vec())
            }
        }
    }

    /// Whether the text is empty.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Plain(text) => text.is_empty(),
            Self::Units(units) => units.is_empty(),
        }
    }

    /// The text, if it is ordinary.
    pub(super) fn plain(&self) -> Option<&str> {
        match self {
            Self::Plain(text) => Some(text),
            Self::Units(_) => None,
        }
    }

    /// The text for people and for the neutral model. Unpaired surrogates become U+FFFD.
    pub(super) fn lossy(self) -> Cow<'a, str> {
        match self {
            Self::Plain(text) => text,
            Self::Units(units) => Cow::Owned(String::from_utf16_lossy(&units)),
        }
    }

    /// The text as a JSON string.
    pub(super) fn to_raw(&self) -> Box<RawValue> {
        self.after("")
    }

    /// The text after a prefix, as a JSON string.
    pub(super) fn after(&self, words: &str) -> Box<RawValue> {
        match self {
            Self::Plain(text) if words.is_empty() => json::to_raw(text),
            Self::Plain(text) => json::to_raw(&format!("{words}{text}")),
            Self::Units(units) => {
                let mut out = json::to_raw(words).get().to_owned();
                out.pop();
                for unit in char::decode_utf16(units.iter().copied()) {
                    match unit {
                        Ok(character) => {
                            let quoted = json::to_raw(&character);
                            let inside = quoted.get().get(1..quoted.get().len() - 1);
                            out.push_str(inside.unwrap_or_default());
                        }
                        Err(alone) => {
                            // Writing to a String cannot fail.
                            let _ = write!(out, "\\u{:04x}", alone.unpaired_surrogate());
                        }
                    }
                }
                out.push('"');
                json::raw(out)
            }
        }
    }
}

/// Decodes the content of a valid JSON string.
fn units(inner: &str) -> Vec<u16> {
    let mut units = Vec::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            continue;
        }
        units.push(match characters.next() {
            Some('n') => 0x0a,
            Some('r') => 0x0d,
            Some('t') => 0x09,
            Some('b') => 0x08,
            Some('f') => 0x0c,
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                u16::from_str_radix(&digits, 16).unwrap_or(0xfffd)
            }
            // `"`, `\` and `/` stand for themselves. Valid JSON has no other escapes.
            Some(other) => u16::try_from(u32::from(other)).unwrap_or(0xfffd),
            None => 0xfffd,
        });
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(raw: &str) -> String {
        let raw: &RawValue = serde_json::from_str(raw).unwrap();
        Text::of(raw).unwrap().trimmed().to_raw().get().to_owned()
    }

    #[test]
    fn strings_are_trimmed_and_echoed_as_javascript_does() {
        for (sent, echoed) in [
            (r#"" a b ""#, r#""a b""#),
            (r#""\ufeff\u00a0a\u2028\u3000""#, r#""a""#),
            ("\"\u{85}a\"", "\"\u{85}a\""),
            (r#"" \ud83d ""#, r#""\ud83d""#),
            (r#""x\"\\\n\/\ud83d\ude00\ude00é""#, r#""x\"\\\n/😀\ude00é""#),
            (r#""   ""#, r#""""#),
            (r#""\u0020\ud83d\u0000\t""#, r#""\ud83d\u0000""#),
        ] {
            assert_eq!(echo(sent), echoed, "{sent}");
        }
        assert_eq!(Text::of(serde_json::from_str("5").unwrap()), None);
    }

    #[test]
    fn a_prefix_can_precede_any_text() {
        for (sent, expected) in [(r#""x""#, r#""not \"x""#), (r#""\ud83d""#, r#""not \"\ud83d""#)] {
            let raw: &RawValue = serde_json::from_str(sent).unwrap();
            assert_eq!(Text::of(raw).unwrap().after("not \"").get(), expected);
        }
    }
}
