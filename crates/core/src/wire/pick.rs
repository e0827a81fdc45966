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
    let mut picked = Picked::NOTHING;
    Names { names: &names, picked: &mut picked }.deserialize(&mut deserializer).ok()?;
    (picked.kind == Kind::Object).then_some(picked.members)
}

impl<const N: usize> Picked<'_, N> {
    /// A value that is `null`.
    pub(in crate::wire) const NOTHING: Self = Self { kind: Kind::Null, members: [None; N] };
}

/// Deserializes any value into a variable, and picks members by name.
#[derive(Debug)]
pub(in crate::wire) struct Names<'n, 'de, const N: usize> {
    /// The names of the members.
    pub(in crate::wire) names: &'n [&'n str; N],
    /// The variable, without any member yet.
    pub(in crate::wire) picked: &'n mut Picked<'de, N>,
}

impl<const N: usize> Names<'_, '_, N> {
    fn none_of<E>(self, kind: Kind) -> Result<(), E> {
        self.picked.kind = kind;
        Ok(())
    }
}

impl<'de, const N: usize> DeserializeSeed<'de> for Names<'_, 'de, N> {
    type Value = ();

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Names<'_, 'de, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        self.picked.kind = Kind::Object;
        while let Some(position) = map.next_key_seed(Position(self.names))? {
            match position {
                Some(at) => self.picked.members[at] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        self.none_of(Kind::Array)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        self.none_of(Kind::String)
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.none_of(Kind::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        self.none_of(Kind::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        self.none_of(Kind::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        self.none_of(Kind::Number)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        self.none_of(Kind::Null)
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
