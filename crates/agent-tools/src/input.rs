//! The input of a tool call. It is not validated against a schema: a member of the wrong type counts as absent.

use gladhand_core::javascript;
use gladhand_core::wire::RawValue;
use serde_json::{Map, Value};

/// The members of a call's input.
#[derive(Debug)]
pub(crate) struct Input(Map<String, Value>);

impl Input {
    /// Parses a JSON object. Any other value has no members.
    pub(crate) fn read(raw: &RawValue) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_default())
    }

    /// A string, unchanged.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A string without whitespace at its ends; `None` if it is empty.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.text(name).map(javascript::trim).filter(|word| !word.is_empty())
    }

    /// A boolean, or `default` if it is absent.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// An integer, not limited to a range.
    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        let number = self.0.get(name)?.as_f64()?;
        // The cast saturates, which is fine for numbers out of range.
        Some(number.floor() as i64)
    }

    /// An integer, clamped to a range.
    pub(crate) fn within(&self, name: &str, default: usize, min: usize, max: usize) -> usize {
        match self.whole(name) {
            Some(number) => usize::try_from(number).unwrap_or(0).clamp(min, max),
            None => default,
        }
    }

    /// A list of strings: an array, an array as JSON text, or words separated by whitespace.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let texts = |array: &[Value]| array.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        match self.0.get(name) {
            Some(Value::Array(array)) => texts(array),
            Some(Value::String(text)) => match serde_json::from_str::<Vec<Value>>(text) {
                Ok(array) => texts(&array),
                Err(_) => text.split_whitespace().map(str::to_owned).collect(),
            },
            _ => Vec::new(),
        }
    }

    /// The members of a member.
    pub(crate) fn inner(&self, name: &str) -> Self {
        Self(self.0.get(name).and_then(Value::as_object).cloned().unwrap_or_default())
    }

    /// All members whose value can be converted to a string.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.as_str(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Some((name.as_str(), value.to_string())),
            _ => None,
        })
    }

    /// The timeout of the call: `timeout_seconds`, from 1 second to 20 minutes.
    pub(crate) fn limit(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.within("timeout_seconds", 120, 1, 1200) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: &str) -> Input {
        Input::read(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn wrong_types_count_as_absent_and_numbers_are_bounded() {
        let input = input(r#"{"a":1,"b":"x","n":99.9,"low":-5,"huge":1e300,"flag":"yes"}"#);
        assert_eq!(input.text("a"), None);
        assert_eq!(input.within("n", 8, 1, 25), 25);
        assert_eq!(input.within("low", 8, 1, 25), 1);
        assert_eq!(input.within("huge", 8, 1, 25), 25);
        assert_eq!(input.within("b", 8, 1, 25), 8);
        assert!(input.flag("flag", true));
        assert!(self::input("[1]").text("a").is_none());
    }

    #[test]
    fn lists_come_in_three_forms() {
        let input = input(r#"{"a":["x","y z",1],"b":"[\"x\",\"y\"]","c":" x  y "}"#);
        assert_eq!(input.list("a"), ["x", "y z"]);
        assert_eq!(input.list("b"), ["x", "y"]);
        assert_eq!(input.list("c"), ["x", "y"]);
        assert!(input.list("d").is_empty());
    }
}
