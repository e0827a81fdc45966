//! Identifiers, kept exactly as they were written.
//!
//! `1`, `1.0`, `"1"` and a thirty-digit integer are four different ids: an id that we "improve" is
//! a reply that never arrives. `null` is an id too; an absent one is `Option::None`.

use std::fmt;

use crate::wire::json::{Kind, RawValue};

/// A peer's identifier as raw JSON.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Box<str>);

impl Id {
    /// The longest id that is accepted, in bytes of JSON. Ids are kept until their call ends, so they
    /// must not be able to fill the memory.
    pub const LONGEST: usize = 4096;

    /// Whether an id is short enough to be kept.
    pub fn is_keepable(raw: &RawValue) -> bool {
        raw.get().len() <= Self::LONGEST
    }

    /// The id that a peer wrote.
    pub fn of(raw: &RawValue) -> Self {
        Self(raw.get().into())
    }

    /// An id of our own making.
    pub fn number(number: u64) -> Self {
        Self(number.to_string().into())
    }

    /// The raw JSON of it.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Whether JSON-RPC allows it: a string or a number.
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
