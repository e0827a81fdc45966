//! Reads a few named members of an object in one pass, borrowed and not parsed further.
//!
//! This is the fast variant of [`crate::wire::Members`] for the hot path. It allocates nothing and skips other keys.
//! The last of two equal keys wins.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::wire::json::{Kind, RawValue};

/// A value of any kind. If it is an object, some of its members.
#[derive(Debug, Clone, Copy)]
pub struct Picked<'a, const N: usize> {
    /// The kind of the value.
    pub kind: Kind,
    /// The requested members, `null` included.
    pub members: [Option<&'a RawValue>; N],
}

/// The members with these names, `null` included. `None` if the value is not an object.
pub fn pick<'a, const N: usize>(object: &'a RawValue, names: [&str; N]) -> Option<[Option<&'a RawValue>; N]> {
    let mut deserializer = serde_json::Deserializer::from_str(object.get());
    let picked = Names(&names).deserialize(&mut deserializer).ok()?;
    (picked.kind == Kind::Object).then_some(picked.members)
}

/// Deserializes any value and picks members by name.
#[derive(Debug, Clone, Copy)]
pub(in crate::wire) struct Names<'n, const N: usize>(pub(in crate::wire) &'n [&'n str; N]);

impl<const N: usize> Names<'_, N> {
    fn none_of<'a, E>(kind: Kind) -> Result<Picked<'a, N>, E> {
        Ok(Picked { kind, members: [None; N] })
    }
}

impl<'de, const N: usize> DeserializeSeed<'de> for Names<'_, N> {
    type Value = Picked<'de, N>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Names<'_, N> {
    type Value = Picked<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = [None; N];
        while let Some(position) = map.next_key_seed(Position(self.0))? {
            match position {
                Some(at) => members[at] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Picked { kind: Kind::Object, members })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Self::none_of(Kind::Array)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Self::none_of(Kind::String)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Self::none_of(Kind::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Self::none_of(Kind::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Self::none_of(Kind::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Self::none_of(Kind::Number)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Self::none_of(Kind::Null)
    }
}

/// Finds the index of a key among the names.
struct Position<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Position<'_, N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Position<'_, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::raw;

    #[test]
    fn only_the_named_members_are_picked_and_the_last_of_two_wins() {
        let object = raw(r#"{"a":1,"c d":[{"b":0}],"b":null,"\u0061":{"x":2}}"#.to_owned());
        let picked = pick(&object, ["a", "b", "c"]).unwrap();
        assert_eq!(picked.map(|member| member.map(RawValue::get)), [Some(r#"{"x":2}"#), Some("null"), None]);
    }

    #[test]
    fn nothing_is_picked_from_other_values_than_objects() {
        for text in ["[{\"a\":1}]", "1", "-1", "1.5", "\"a\"", "null", "true"] {
            assert!(pick(&raw(text.to_owned()), ["a"]).is_none(), "{text}");
        }
    }
}
