//! Parses the arguments of a call, and rejects everything that two parsers could read differently.
//!
//! A rule checks the arguments, and then the provider gets them as they were sent. If the two parsers disagree (a
//! duplicate name, a number out of range), a caller could evade the rule. Such arguments are rejected.

use std::fmt;

use gladhand_core::wire::values;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// The arguments as a value, or the reason why they are ambiguous.
pub(super) fn read(arguments: &str) -> Result<Value, String> {
    values::read::<Certain>(arguments).map(|certain| certain.0).map_err(|error| error.to_string())
}

struct Certain(Value);

impl<'de> Deserialize<'de> for Certain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading).map(Self)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that does not fit"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Certain(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Certain(value) = members.next_value()?;
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{name:?} is there twice")));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_arguments_are_rejected() {
        let text = r#"{"a":[1,-2,0.5,"x",null,true,{"b":{}}]}"#;
        assert_eq!(read(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(read(r#"{"a":{"b":1,"\u0062":2}}"#).unwrap_err(), r#""b" is there twice"#);
        assert!(read(&format!("{}1{}", "[".repeat(500), "]".repeat(500))).is_err());
        assert!(read("1e400").is_err());
    }
}
