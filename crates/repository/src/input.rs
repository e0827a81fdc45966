//! Reads parameters that must be objects. Serde also accepts a list for a struct, field by field, which no client
//! intends.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::Value;

/// An object, or nothing for `null`.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        object @ Value::Object(_) => serde_json::from_value(object).map(Some).map_err(Error::custom),
        _ => Err(Error::custom("expected an object")),
    }
}

/// A value of the wanted type, or nothing for anything else.
pub(crate) fn readable_or_nothing<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// An object, or nothing for anything else: older callers send other things as context, which were always ignored.
pub(crate) fn object_or_nothing<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    match Value::deserialize(deserializer)? {
        object @ Value::Object(_) => serde_json::from_value(object).map(Some).map_err(Error::custom),
        _ => Ok(None),
    }
}
