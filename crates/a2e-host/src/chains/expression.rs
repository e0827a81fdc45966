//! Paths and conditions of chain nodes (a2e §16.4).
//!
//! A string that begins with `$` is a path into the data of the chain. Any other value stands for itself.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// The data that paths are resolved in.
pub(super) trait PathData {
    /// The top-level value of a name.
    fn named(&self, name: &str) -> Option<&Value>;

    /// Whether there is no data at all.
    fn is_empty(&self) -> bool;
}

/// A resolved value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Resolved<'a> {
    /// All data: the path `$`.
    Everything,
    /// One value.
    Value(Cow<'a, Value>),
}

/// Resolves a value: a path is looked up, any other value is returned unchanged.
pub(super) fn resolve<'a>(value: &'a Value, known: &'a impl PathData) -> Resolved<'a> {
    match value {
        Value::String(text) if text.starts_with('$') => walk(text, known),
        value => Resolved::Value(Cow::Borrowed(value)),
    }
}

/// Resolves a string: a path is looked up, any other string is returned unchanged.
pub(super) fn resolve_text<'a>(text: &str, known: &'a impl PathData) -> Resolved<'a> {
    if text.starts_with('$') { walk(text, known) } else { Resolved::Value(Cow::Owned(Value::from(text))) }
}

fn walk<'a>(path: &str, known: &'a impl PathData) -> Resolved<'a> {
    if path == "$" {
        return Resolved::Everything;
    }
    // Two characters are skipped. The second one is a dot in a correct path, but it is not checked.
    let names = path.char_indices().nth(2).map_or("", |(start, _)| &path[start..]);
    let mut names = names.split('.');
    let first = names.next().and_then(|name| known.named(name));
    let found = names.fold(first, |found, name| found?.as_object()?.get(name));
    Resolved::Value(found.map_or(Cow::Owned(Value::Null), Cow::Borrowed))
}

/// The operators, in the order in which they are searched.
const OPERATORS: [&str; 6] = ["==", "!=", ">=", "<=", ">", "<"];

/// Evaluates a condition. Returns an error if the two sides cannot be compared.
pub(super) fn holds(condition: &str, known: &impl PathData) -> Result<bool, String> {
    if condition.trim().is_empty() {
        return Ok(true);
    }
    let found = OPERATORS.iter().find_map(|operator| Some((*operator, condition.split_once(operator)?)));
    let Some((operator, (left, right))) = found else {
        return Ok(match resolve_text(condition.trim(), known) {
            Resolved::Everything => !known.is_empty(),
            Resolved::Value(value) => is_truthy(&value),
        });
    };
    let right = literal(right.trim());
    let left = match resolve_text(left.trim(), known) {
        Resolved::Value(value) => value,
        // No literal is an object, so this is unequal to every literal.
        Resolved::Everything => Cow::Owned(Value::Object(serde_json::Map::new())),
    };
    let order = compare(&left, &right);
    Ok(match operator {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        _ if left.is_null() => false,
        _ => {
            let incomparable = || format!("{} and {} cannot be compared", kind(&left), kind(&right));
            let order = order.ok_or_else(incomparable)?;
            match operator {
                ">=" => order.is_ge(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                _ => order.is_lt(),
            }
        }
    })
}

/// Parses the right side of a condition.
fn literal(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    if let Some(number) = text.parse().ok().and_then(serde_json::Number::from_f64) {
        return number.into();
    }
    match text {
        "true" => true.into(),
        "false" => false.into(),
        text => text.trim_matches(['"', '\'']).into(),
    }
}

/// Compares two values; `None` for values of different types.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (whole(left), whole(right)) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn whole(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    impl PathData for Value {
        fn named(&self, name: &str) -> Option<&Value> {
            self.get(name)
        }

        fn is_empty(&self) -> bool {
            self.as_object().is_none_or(serde_json::Map::is_empty)
        }
    }

    fn found(path: &str, known: &Value) -> Value {
        match resolve(&path.into(), known) {
            Resolved::Everything => known.clone(),
            Resolved::Value(value) => value.into_owned(),
        }
    }

    #[test]
    fn paths_reach_into_objects_and_are_null_when_not_found() {
        let known = json!({"a": {"b": [1], "": 2}, "": 3, "ä": {"b": 4}});
        assert_eq!(found("$", &known), known);
        assert_eq!(found("$.a.b", &known), json!([1]));
        assert_eq!(found("$.a.b.0", &known), Value::Null);
        assert_eq!(found("$.nobody.home", &known), Value::Null);
        assert_eq!(found("$.a.", &known), json!(2));
        assert_eq!(found("$.", &known), json!(3));
        assert_eq!(found("$ää.b", &known), json!(4));
        assert_eq!(found("plain", &known), json!("plain"));
        assert_eq!(resolve(&json!(["$.a"]), &known), Resolved::Value(Cow::Owned(json!(["$.a"]))));
    }

    #[test]
    fn conditions_are_evaluated() {
        let known = json!({"n": 5, "f": 2.5, "mode": "fast", "yes": true, "no": false, "list": [], "big": u64::MAX});
        let hold = [
            "",
            "  ",
            "$",
            "$.n > 3",
            "$.n >= 5",
            "$.n == 5.0",
            "$.f < 3",
            "$.mode == fast",
            "$.mode == \"fast\"",
            "$.mode == 'fast'",
            "$.mode != slow",
            "$.mode >= eager",
            "$.yes",
            "$.yes == true",
            "$.none != 1",
            "$.n != text",
            "anything",
            "$.big > 9223372036854775807",
            "$ != x",
        ];
        for condition in hold {
            assert_eq!(holds(condition, &known), Ok(true), "{condition}");
        }
        let fail =
            ["$.n > 5", "$.none >= 1", "$.none < 1", "$.none", "$.no", "$.list", "$.list == x", "$.none == null"];
        for condition in fail {
            assert_eq!(holds(condition, &known), Ok(false), "{condition}");
        }
        assert_eq!(holds("$", &json!({})), Ok(false));
    }

    #[test]
    fn values_that_cannot_be_compared_are_an_error() {
        let known = json!({"n": 5, "mode": "fast", "list": []});
        for condition in ["$.n > text", "$.mode < 3", "5 > 3", "$.list >= 1", "$ > 1", "$.n < true"] {
            assert!(holds(condition, &known).is_err(), "{condition}");
        }
    }

    #[test]
    fn the_first_operator_in_search_order_splits_the_condition() {
        let known = json!({"a": "x>y"});
        assert_eq!(holds("$.a == x>y", &known), Ok(true));
        assert_eq!(holds("$.a > w==", &known), Ok(false), "the path `$.a > w` finds nothing");
    }
}
