//! An entry of memory: how it is parsed, identified and returned.

use std::collections::BTreeMap;
use std::fmt;

use gladhand_core::wire::json::{self, Kind};
use gladhand_core::wire::{RawValue, values};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Maximum number of tags of an entry.
const MAX_TAGS: usize = 256;

/// The memory that a tag takes in addition to its text: the `String` itself and the allocator's overhead.
const TAG_BYTES: usize = size_of::<String>() + 16;

/// Identifies an entry: a digest of its key that does not depend on the order of members.
pub(super) type Identity = [u8; 32];

/// Why an entry cannot be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InvalidEntry {
    /// It is not a valid entry.
    Wrong(String),
    /// It is too large.
    Large(String),
}

/// The tags of an entry; `None` if there are too many.
#[derive(Debug)]
struct Tags(Option<Vec<String>>);

impl Default for Tags {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

/// An entry that can be stored.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Box<RawValue>,
    pub(super) identity: Identity,
    pub(super) content: Box<RawValue>,
    pub(super) tier: String,
    pub(super) tags: Vec<String>,
    pub(super) source: String,
    pub(super) ttl: i64,
    /// When it expires, by our clock.
    pub(super) expires_at: Option<f64>,
    /// When it was first stored, if the client says so.
    pub(super) created_at: Option<f64>,
    pub(super) updated_at: f64,
    /// Its size, which counts towards the limits.
    pub(super) bytes: usize,
}

impl Entry {
    /// Parses an entry as a client wrote it, or says what is wrong with it. A score in the entry is ignored: the score
    /// in a response says how well an entry matches a query.
    pub(super) fn read(written: &RawValue, now: f64) -> Result<Self, InvalidEntry> {
        #[derive(Deserialize)]
        struct Written {
            key: Box<RawValue>,
            content: Box<RawValue>,
            tier: String,
            #[serde(default, deserialize_with = "limited_tags")]
            tags: Tags,
            #[serde(default)]
            source: String,
            #[serde(default, rename = "score")]
            _score: f64,
            #[serde(default, deserialize_with = "seconds")]
            ttl: i64,
            created_at: Option<f64>,
            updated_at: Option<f64>,
        }

        let written: Written = values::read(written.get()).map_err(|error| InvalidEntry::Wrong(error.to_string()))?;
        let Written { key, content, tier, tags, source, ttl, created_at, updated_at, .. } = written;
        if Kind::of(&key) != Kind::Object {
            return Err(InvalidEntry::Wrong(format!("its key must be an object, not {}", Kind::of(&key).name())));
        }
        let Some(tags) = tags.0 else { return Err(InvalidEntry::Large(format!("it has more than {MAX_TAGS} tags"))) };
        let tagged: usize = tags.iter().map(|tag| tag.len() + TAG_BYTES).sum();
        Ok(Self {
            identity: identity(&key),
            bytes: key.get().len() + content.get().len() + tier.len() + source.len() + tagged,
            expires_at: (ttl > 0).then_some(now + ttl as f64),
            updated_at: updated_at.unwrap_or(now),
            key,
            content,
            tier,
            tags,
            source,
            ttl,
            created_at,
        })
    }
}

/// Parses tags, and drops all of them if there are too many. Even an empty tag takes memory.
fn limited_tags<'de, D: Deserializer<'de>>(from: D) -> Result<Tags, D::Error> {
    struct TagVisitor;

    impl<'de> Visitor<'de> for TagVisitor {
        type Value = Tags;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut tags = Vec::new();
            while let Some(tag) = list.next_element()? {
                if tags.len() == MAX_TAGS {
                    while list.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(Tags(None));
                }
                tags.push(tag);
            }
            Ok(Tags(Some(tags)))
        }
    }

    from.deserialize_seq(TagVisitor)
}

/// Parses a time to live: whole seconds, also written as `60.0`.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let seconds = f64::deserialize(from)?;
    if seconds.fract() == 0.0 && seconds >= 0.0 {
        Ok(seconds as i64)
    } else {
        Err(serde::de::Error::custom(format!("its ttl must be a whole number of seconds, not {seconds}")))
    }
}

/// The identity of a key.
pub(super) fn identity(key: &RawValue) -> Identity {
    let mut canonical = Vec::new();
    write_canonical(&mut canonical, key);
    crate::sha256(&[&canonical])
}

/// Writes a value with sorted members and without whitespace. Numbers stay as written, however large they are.
fn write_canonical(out: &mut Vec<u8>, value: &RawValue) {
    match Kind::of(value) {
        Kind::Object => {
            let members: BTreeMap<String, &RawValue> = values::read(value.get()).unwrap_or_default();
            out.push(b'{');
            for (name, member) in members {
                json::write(out, &name);
                out.push(b':');
                write_canonical(out, member);
                out.push(b',');
            }
            out.push(b'}');
        }
        Kind::Array => {
            let elements = values::items(value.get()).unwrap_or_default();
            out.push(b'[');
            for element in elements {
                write_canonical(out, element);
                out.push(b',');
            }
            out.push(b']');
        }
        Kind::String => match json::string(value) {
            Some(text) => json::write(out, &text),
            None => out.extend_from_slice(value.get().as_bytes()),
        },
        Kind::Number | Kind::Bool | Kind::Null => out.extend_from_slice(value.get().as_bytes()),
    }
}

/// An entry in a response.
#[derive(Debug, Serialize)]
pub(super) struct ReturnedEntry<'a> {
    pub(super) key: &'a RawValue,
    pub(super) content: &'a RawValue,
    pub(super) tier: &'a str,
    pub(super) tags: &'a [String],
    pub(super) source: &'a str,
    pub(super) score: f64,
    pub(super) ttl: i64,
    pub(super) created_at: f64,
    pub(super) updated_at: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(left: &str, right: &str) -> bool {
        identity(&json::raw(left.to_owned())) == identity(&json::raw(right.to_owned()))
    }

    #[test]
    fn the_identity_ignores_member_order_and_formatting() {
        assert!(same(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#, r#"{ "b": {"d":null, "c": [1, 2]}, "a": 1 }"#));
        assert!(same(r#"{"é":"\n"}"#, r#"{"\u00e9":"\u000a"}"#));
    }

    #[test]
    fn tags_count_with_their_memory_and_their_number_is_limited() {
        let read = |tags: usize| {
            let tags = vec![""; tags];
            let entry = serde_json::json!({"key": {}, "content": "x", "tier": "working", "tags": tags});
            Entry::read(&json::to_raw(&entry), 0.0)
        };
        let (none, many) = (read(0).unwrap().bytes, read(MAX_TAGS).unwrap().bytes);
        assert!(many - none >= MAX_TAGS * size_of::<String>(), "{none} {many}");
        assert_eq!(read(MAX_TAGS + 9).unwrap_err(), InvalidEntry::Large("it has more than 256 tags".to_owned()));
    }

    #[test]
    fn different_values_have_different_identities() {
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
        assert!(!same(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
        assert!(!same(r#"{"a":123456789012345678901}"#, r#"{"a":123456789012345678902}"#));
        assert!(!same(r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#));
    }
}
