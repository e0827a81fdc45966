//! A few members of an object by name, in one pass, borrowed and not looked into.
//!
//! This is the cheap sister of `Members` for the hot path: nothing is allocated, keys that nobody
//! asked for are skipped, the last of two equal keys wins.

use std::fmt;

use gladhand_wire::RawValue;
use gladhand_wire::json::Kind;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The members of these names, `null` included; `None` if the value is no object.
pub(super) fn pick<'a, const N: usize>(object: &'a RawValue, names: [&str; N]) -> Option<[Option<&'a RawValue>; N]> {
    if Kind::of(object) != Kind::Object {
        return None;
    }
    let mut deserializer = serde_json::Deserializer::from_str(object.get());
    Names(&names).deserialize(&mut deserializer).ok()
}

struct Names<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Names<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Names<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut picked = [None; N];
        while let Some(position) = map.next_key_seed(Position(self.0))? {
            match position {
                Some(at) => picked[at] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(picked)
    }
}

/// Which of the names a key is. Compared as bytes, so that half a surrogate pair in a key that
/// nobody asked for is nobody's problem.
struct Position<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Position<'_, N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<const N: usize> Visitor<'_> for Position<'_, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| name.as_bytes() == key))
    }
}

#[cfg(test)]
mod tests {
    use gladhand_wire::json::raw;

    use super::*;

    #[test]
    fn only_the_named_members_are_picked_and_the_last_of_two_wins() {
        let object = raw(r#"{"a":1,"\ud83d":[{"b":0}],"b":null,"\u0061":{"x":2}}"#.to_owned());
        let picked = pick(&object, ["a", "b", "c"]).unwrap();
        assert_eq!(picked.map(|member| member.map(RawValue::get)), [Some(r#"{"x":2}"#), Some("null"), None]);
        assert!(pick(&raw("[]".to_owned()), ["a"]).is_none());
    }
}
