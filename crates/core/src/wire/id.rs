//! Request ids, kept exactly as the peer wrote them.
//!
//! `1`, `1.0`, `"1"` and a thirty-digit integer are four different ids. A peer does not recognise a response whose id
//! was changed. `null` is an id too; an absent id is `Option::None`.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::wire::json::{Kind, RawValue};

/// A peer's identifier as raw JSON.
#[derive(Clone)]
pub struct Id(Text);

/// Length up to which an id needs no allocation: that of all numbers of 64 bits.
const SHORT: usize = 22;

#[derive(Clone)]
enum Text {
    /// The bytes, and how many of them there are.
    Short([u8; SHORT], u8),
    Long(Box<str>),
}

impl Id {
    /// Maximum length of an id, in bytes of JSON. Ids are kept until their call ends, so their memory must be bounded.
    pub const MAX_BYTES: usize = 4096;

    /// Whether an id is short enough to be kept.
    pub fn is_keepable(raw: &RawValue) -> bool {
        raw.get().len() <= Self::MAX_BYTES
    }

    /// The id that a peer wrote.
    pub fn of(raw: &RawValue) -> Self {
        Self::written(raw.get())
    }

    fn written(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Self(Text::Short(bytes, text.len() as u8))
            }
            None => Self(Text::Long(text.into())),
        }
    }

    /// An id that we generate.
    pub fn number(number: u64) -> Self {
        Self::written(&number.to_string())
    }

    /// The id as raw JSON.
    pub fn as_json(&self) -> &str {
        match &self.0 {
            Text::Short(..) => std::str::from_utf8(self.as_bytes()).expect("the bytes of a text"),
            Text::Long(text) => text,
        }
    }

    /// The bytes of the id as raw JSON.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short(bytes, length) => &bytes[..usize::from(*length)],
            Text::Long(text) => text.as_bytes(),
        }
    }

    /// Whether JSON-RPC allows the id: it is a string or a number.
    pub fn is_string_or_number(raw: &RawValue) -> bool {
        matches!(Kind::of(raw), Kind::String | Kind::Number)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Id {}

impl PartialEq<RawValue> for Id {
    fn eq(&self, other: &RawValue) -> bool {
        self.as_bytes() == other.get().as_bytes()
    }
}

impl Hash for Id {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_bytes().hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json;

    #[test]
    fn short_and_long_ids_are_kept_as_written() {
        for length in [1, SHORT - 1, SHORT, SHORT + 1, Id::MAX_BYTES] {
            let written = json::raw(format!("\"{}\"", "é".repeat(length / 2)));
            let id = Id::of(&written);
            assert_eq!(id.as_json(), written.get());
            assert_eq!((id.clone(), id.as_bytes()), (Id::of(&written), written.get().as_bytes()));
            assert!(id == *written && id != Id::number(1));
        }
        assert_eq!(Id::number(u64::MAX).as_json(), u64::MAX.to_string());
    }
}
