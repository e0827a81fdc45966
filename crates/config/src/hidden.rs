//! Values that may be secrets: compared, and not printed.

use gladhand_core::Secret;
use gladhand_redaction::{self as redaction, Life, MASK, learn};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that may be a secret: compared, and not printed.
#[derive(Debug, Clone)]
pub struct Hidden(pub Secret);

impl PartialEq for Hidden {
    fn eq(&self, other: &Self) -> bool {
        self.0.matches(&other.0)
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Secret::new(text)))
    }
}

impl Serialize for Hidden {
    /// Shows a value that is only a reference to a secret, and masks every other value.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&redaction::redact_written(self.0.expose()))
    }
}

pub(crate) fn secrets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret>, D::Error> {
    let tokens = Vec::<String>::deserialize(deserializer)?;
    let secret = |token: String| {
        learn(&token, Life::Process);
        Secret::new(token)
    };
    Ok(tokens.into_iter().map(secret).collect())
}

pub(crate) fn masked_all<S: Serializer>(secrets: &[Secret], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(secrets.iter().map(|_| MASK))
}
