//! The members of one JSON object, borrowed from its text and not parsed further.
//!
//! The order is kept, the last of two equal keys wins, and unknown members are allowed. A derived struct cannot do
//! this: it rejects repeated keys and cannot distinguish `null` from absent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::wire::json::{self, Kind, RawValue};
use crate::wire::values::MAX_VALUES;

/// The members of an object, in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Members<'a> {
    entries: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Members<'a> {
    /// Parses an object. Valid JSON of another kind is an error too. Use [`Kind::of`] first where the difference
    /// matters.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The members of a raw value that is an object; `None` for any other kind.
    pub fn of(raw: &'a RawValue) -> Option<Self> {
        match Kind::of(raw) {
            Kind::Object => Self::parse(raw.get()).ok(),
            _ => None,
        }
    }

    /// The raw value of a member, `null` included.
    pub fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.entries.iter().rev().find(|(key, _)| key == name).map(|&(_, value)| value)
    }

    /// The raw value of a member that is present and not `null`.
    pub fn some(&self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| Kind::of(raw) != Kind::Null)
    }

    /// The text of a member that is a string.
    pub fn str(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).and_then(json::string)
    }

    /// The members of the object in this member.
    pub fn object(&self, name: &str) -> Option<Self> {
        self.raw(name).and_then(Self::of)
    }

    /// Whether the member is present, `null` included.
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// All members. For two equal keys, both are returned in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.entries.iter().map(|(key, value)| (key.as_ref(), *value))
    }

    /// The number of members, duplicates included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the object is `{}`.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    if entries.len() == MAX_VALUES {
                        return Err(A::Error::custom(format_args!("an object of more than {MAX_VALUES} members")));
                    }
                    entries.push((key, map.next_value()?));
                }
                Ok(Members { entries })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The name of a member, borrowed unless it contains escapes. Unlike in a value, an unpaired surrogate in a name is an
/// error. Such a name need not be carried, and serde_json's lenient mode for it would also accept control characters.
pub(in crate::wire) struct Key<'a>(pub(in crate::wire) Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_equal_keys_wins_and_null_is_not_absent() {
        let members = Members::parse(r#"{"a":1,"b":null,"\u0061":1.0}"#).unwrap();
        assert_eq!(members.raw("a").map(RawValue::get), Some("1.0"));
        assert_eq!(members.raw("b").map(RawValue::get), Some("null"));
        assert!(members.has("b") && members.some("b").is_none());
        assert!(members.raw("c").is_none());
    }

    #[test]
    fn raw_values_are_kept_byte_for_byte() {
        let members = Members::parse(r#"{"n":123456789012345678901234567890, "s" : "\ud83d" }"#).unwrap();
        assert_eq!(members.raw("n").map(RawValue::get), Some("123456789012345678901234567890"));
        assert_eq!(members.raw("s").map(RawValue::get), Some(r#""\ud83d""#));
    }

    #[test]
    fn anything_but_a_single_object_is_an_error() {
        for text in [
            "[]",
            "1",
            "{} {}",
            "{\"a\":NaN}",
            "{\"a\":1,}",
            "{'a':1}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\u{1}\":1}",
            "{\"a\":1",
            r#"{"\ud83d":1}"#,
        ] {
            assert!(Members::parse(text).is_err(), "{text}");
        }
    }
}
