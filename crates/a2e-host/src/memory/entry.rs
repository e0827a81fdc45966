//! An entry of memory: how it is read, what it is identified by, how it is shown.

use std::collections::BTreeMap;
use std::fmt;

use gladhand_core::wire::RawValue;
use gladhand_core::wire::json::{self, Kind};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

/// How many tags an entry may have.
const MOST_TAGS: usize = 256;

/// What a tag takes in memory beside its text: the string that owns it, and what the allocator adds.
const TAG_BYTES: usize = size_of::<String>() + 16;

/// What an entry is identified by: its key, whatever the order of its members.
pub(super) type Identity = [u8; 32];

/// Why an entry cannot be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is not written as an entry.
    Wrong(String),
    /// It is too large.
    Large(String),
}

/// The tags of an entry; none if they are too many.
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
    /// When it ends, by our clock.
    pub(super) expires_at: Option<f64>,
    /// When it was first stored, if its caller says so.
    pub(super) created_at: Option<f64>,
    pub(super) updated_at: f64,
    /// What it weighs.
    pub(super) bytes: usize,
}

impl Entry {
    /// Reads an entry as a caller wrote it, or says what is wrong with it. A score that it came with is of no use: the one
    /// that is shown says how well an entry fits a question.
    pub(super) fn read(written: &RawValue, now: f64) -> Result<Self, Unfit> {
        #[derive(Deserialize)]
        struct Written {
            key: Box<RawValue>,
            content: Box<RawValue>,
            tier: String,
            #[serde(default, deserialize_with = "few_tags")]
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

        let written: Written = serde_json::from_str(written.get()).map_err(|error| {
            let problem = error.to_string();
            Unfit::Wrong(
                problem.rsplit_once(" at line ").map_or_else(|| problem.clone(), |(problem, _)| problem.to_owned()),
            )
        })?;
        let Written { key, content, tier, tags, source, ttl, created_at, updated_at, .. } = written;
        if Kind::of(&key) != Kind::Object {
            return Err(Unfit::Wrong(format!("its key is no object but of type {}", Kind::of(&key).name())));
        }
        let Some(tags) = tags.0 else { return Err(Unfit::Large(format!("it has more than {MOST_TAGS} tags"))) };
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

/// Reads tags, and keeps none if they are too many: an empty one takes more memory than text.
fn few_tags<'de, D: Deserializer<'de>>(from: D) -> Result<Tags, D::Error> {
    struct Few;

    impl<'de> Visitor<'de> for Few {
        type Value = Tags;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut tags = Vec::new();
            while let Some(tag) = list.next_element()? {
                if tags.len() == MOST_TAGS {
                    while list.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(Tags(None));
                }
                tags.push(tag);
            }
            Ok(Tags(Some(tags)))
        }
    }

    from.deserialize_seq(Few)
}

/// Reads a time to live: whole seconds, also as `60.0`.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let seconds = f64::deserialize(from)?;
    if seconds.fract() == 0.0 && seconds >= 0.0 {
        Ok(seconds as i64)
    } else {
        Err(serde::de::Error::custom(format!("its ttl is not a number of whole seconds: {seconds}")))
    }
}

/// What a key identifies.
pub(super) fn identity(key: &RawValue) -> Identity {
    let mut canonical = Vec::new();
    write_canonical(&mut canonical, key);
    Sha256::digest(canonical).into()
}

/// Writes a value with the members of objects in order and without blanks. Numbers stay as they were written, however large.
fn write_canonical(out: &mut Vec<u8>, value: &RawValue) {
    match Kind::of(value) {
        Kind::Object => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).unwrap_or_default();
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
            let elements: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_default();
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

/// An entry as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
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
    fn the_order_of_members_and_the_way_of_writing_do_not_matter() {
        assert!(same(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#, r#"{ "b": {"d":null, "c": [1, 2]}, "a": 1 }"#));
        assert!(same(r#"{"é":"\n"}"#, r#"{"\u00e9":"\u000a"}"#));
    }

    #[test]
    fn tags_weigh_what_they_take_and_are_few() {
        let read = |tags: usize| {
            let tags = vec![""; tags];
            let entry = serde_json::json!({"key": {}, "content": "x", "tier": "working", "tags": tags});
            Entry::read(&json::to_raw(&entry), 0.0)
        };
        let (none, many) = (read(0).unwrap().bytes, read(MOST_TAGS).unwrap().bytes);
        assert!(many - none >= MOST_TAGS * size_of::<String>(), "{none} {many}");
        assert_eq!(read(MOST_TAGS + 9).unwrap_err(), Unfit::Large("it has more than 256 tags".to_owned()));
    }

    #[test]
    fn different_values_do() {
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
        assert!(!same(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
        assert!(!same(r#"{"a":123456789012345678901}"#, r#"{"a":123456789012345678902}"#));
        assert!(!same(r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#));
    }
}
