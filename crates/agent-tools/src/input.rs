//! What a tool was given. Nothing is validated against a schema: what has the wrong type counts as absent.

use gladhand_core::wire::RawValue;
use serde_json::{Map, Value};

use crate::text;

/// The members of a call's input.
#[derive(Debug)]
pub(crate) struct Input(Map<String, Value>);

impl Input {
    /// Reads a JSON object; anything else has no members.
    pub(crate) fn read(raw: &RawValue) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_default())
    }

    /// A text, as given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A text without blanks at its ends, if anything is left of it.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.text(name).map(text::trim).filter(|word| !word.is_empty())
    }

    /// Whether something is true; `default` if it is not said.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    /// A whole number, possibly outside of what makes sense.
    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        let number = self.0.get(name)?.as_f64()?;
        // The cast saturates, which is all that is wanted of numbers beyond it.
        Some(number.floor() as i64)
    }

    /// A whole number within bounds; beyond them, the nearest one.
    pub(crate) fn within(&self, name: &str, default: usize, least: usize, most: usize) -> usize {
        match self.whole(name) {
            Some(number) => usize::try_from(number).unwrap_or(0).clamp(least, most),
            None => default,
        }
    }

    /// A list of texts: an array, an array written as a text, or words separated by blanks.
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

    /// All members whose value can be written as a text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.as_str(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Some((name.as_str(), value.to_string())),
            _ => None,
        })
    }

    /// How long the call may take: `timeout_seconds`, from a second to twenty minutes.
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
