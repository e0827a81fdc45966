//! Settings that are one word or several.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which of our variables a program gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inherit {
    /// All of them.
    All,
    /// The usual ones, and these.
    Also(Vec<String>),
}

impl Default for Inherit {
    fn default() -> Self {
        Self::Also(Vec::new())
    }
}

impl Serialize for Inherit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Also(names) => names.serialize(serializer),
        }
    }
}

/// One word or several.
struct OneOrMore(&'static str);

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, word: &str) -> Result<Self::Value, E> {
        Ok(vec![word.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = seq.next_element()? {
            words.push(word);
        }
        Ok(words)
    }
}

pub(super) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(OneOrMore("a string or a list of strings"))
}

impl<'de> Deserialize<'de> for Inherit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AllOrNames;
        impl<'de> Visitor<'de> for AllOrNames {
            type Value = Inherit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\" or a list of names")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                if word == "all" { Ok(Inherit::All) } else { Err(E::custom("expected \"all\" or a list of names")) }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                OneOrMore("a list of names").visit_seq(seq).map(Inherit::Also)
            }
        }
        deserializer.deserialize_any(AllOrNames)
    }
}
