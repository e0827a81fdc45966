//! The keyword `uniqueItems`, checked by sorting.
//!
//! The validator's own check compares hashes. Lists of nested items whose hashes are all equal are easy to write, and cost a
//! comparison of each item with all others. Sorting costs the same for every list.

use std::fmt::Write as _;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// From here on a number is a float in any notation.
const BEYOND_INTEGERS: f64 = 18_446_744_073_709_551_616.0;

/// Whether items of a list must differ from each other.
pub(crate) struct UniqueItems {
    is_wanted: bool,
}

impl UniqueItems {
    #[expect(clippy::unnecessary_wraps, reason = "the validator wants this signature")]
    pub(crate) fn build<'a>(
        _parent: &'a Map<String, Value>,
        wanted: &'a Value,
        _place: Location,
    ) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
        Ok(Box::new(Self { is_wanted: *wanted == Value::Bool(true) }))
    }
}

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if Keyword::is_valid(self, value) {
            return Ok(());
        }
        Err(ValidationError::custom("has non-unique elements"))
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        let Value::Array(items) = value else { return true };
        !self.is_wanted || are_unique(items)
    }
}

fn are_unique(items: &[Value]) -> bool {
    let mut texts: Vec<String> = items.iter().map(canonical).collect();
    texts.sort_unstable();
    texts.windows(2).all(|two| two[0] != two[1])
}

/// A text that is the same for equal values: members are in order, and equal numbers are written alike.
fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, member) in members {
                write_text(name, text);
                write_canonical(member, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::String(string) => write_text(string, text),
        Value::Number(number) => {
            let is_whole = |float: &f64| number.is_f64() && float.fract() == 0.0 && float.abs() < BEYOND_INTEGERS;
            let _ = match number.as_f64().filter(is_whole) {
                // The sum makes a plain zero of a negative one.
                Some(whole) => write!(text, "{:.0}", whole + 0.0),
                None => write!(text, "{number}"),
            };
        }
        Value::Bool(_) | Value::Null => {
            let _ = write!(text, "{value}");
        }
    }
}

/// The length comes first, so that no text can imitate what follows it.
fn write_text(string: &str, text: &mut String) {
    let _ = write!(text, "{}\"{string}", string.len());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_are_found_however_they_are_written() {
        let unique = |items: Value| are_unique(items.as_array().unwrap());
        for items in [
            json!([]),
            json!([1, "1", true, null, [], {}, "", [1], {"a": 1}, 1.5]),
            json!(["1\"a", "a"]),
            json!([["a", "b"], ["a,b"], ["ab"], [["a"], "b"]]),
            json!([{"a": "b"}, {"ab": ""}, {"a": {"b": 1}}]),
            json!([0, false, "0", [0], 1e300, u64::MAX]),
        ] {
            assert!(unique(items.clone()), "{items}");
        }
        for items in [
            json!([1, 1.0]),
            json!([-0.0, 0]),
            json!([1e3, 1000]),
            json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
            json!([null, null]),
            json!([[[]], [], [[]]]),
        ] {
            assert!(!unique(items.clone()), "{items}");
        }
    }
}
