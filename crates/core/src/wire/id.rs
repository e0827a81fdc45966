//! Request ids, kept exactly as the peer wrote them.
//!
//! `1`, `1.0`, `"1"` and a thirty-digit integer are four different ids. A peer does not recognise a response whose id
//! was changed. `null` is an id too; an absent id is `Option::None`.

use std::fmt;

use crate::wire::json::{Kind, RawValue};

/// A peer's identifier as raw JSON.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Box<str>);

impl Id {
    /// Maximum length of an id, in bytes of JSON. Ids are kept until their call ends, so their memory must be bounded.
    pub const MAX_BYTES: usize = 4096;

    /// Whether an id is short enough to be kept.
    pub fn is_keepable(raw: &RawValue) -> bool {
        raw.get().len() <= Self::MAX_BYTES
    }

    /// The id that a peer wrote.
    pub fn of(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// An id that we generate.
    pub fn number(number: u64) -> Self {
        Self(number.to_string().into())
    }

    /// The id as raw JSON.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Whether JSON-RPC allows the id: it is a string or a number.
    pub fn is_string_or_number(raw: &RawValue) -> bool {
        matches!(Kind::of(raw), Kind::String | Kind::Number)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<RawValue> for Id {
    fn eq(&self, other: &RawValue) -> bool {
        *self.0 == *other.get()
    }
}
