//! Conditions on the arguments of a call, such as `path within "/srv" and not force == true`.
//!
//! ```text
//! condition  = both { "or" both }
//! both       = single { "and" single }
//! single     = "not" single | "(" condition ")" | path test
//! test       = ("==" | "!=" | "<" | "<=" | ">" | ">=") value
//!            | ("starts_with" | "ends_with" | "contains" | "within") string
//!            | "in" "[" value { "," value } "]" | "exists"
//! path       = name { "." name | "[" number "]" }
//! value      = a JSON string, number, true, false or null
//! ```
//!
//! An absent value equals nothing: `!=` is true for it, every other test is false. A comparison with something of another
//! type does not hold either; nothing is converted.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use super::{grammar, paths};

/// A condition that was understood. Shows itself as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    Test(Vec<Step>, Test),
}

/// A step from a value to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    Index(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Is(Value),
    IsNot(Value),
    /// Compares in this order; the second value states whether equal values match.
    Compares(Ordering, bool, Value),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Within(String),
    In(Vec<Value>),
    Exists,
}

/// Why a condition was not understood, and where: the number of characters before the mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where it is.
    pub at: usize,
    /// The expected token.
    pub problem: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.problem)
    }
}

impl std::error::Error for ExpressionError {}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expression {
    /// Understands a condition.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self { text: text.to_owned(), root: grammar::parse(text)? })
    }

    /// Whether it holds for these arguments.
    pub fn holds(&self, arguments: &Value) -> bool {
        self.root.holds(arguments)
    }
}

impl Node {
    fn holds(&self, arguments: &Value) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(arguments)),
            Self::All(nodes) => nodes.iter().all(|node| node.holds(arguments)),
            Self::Not(node) => !node.holds(arguments),
            Self::Test(path, test) => test.holds(part(arguments, path)),
        }
    }
}

fn part<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Name(name) => value.get(name),
        Step::Index(index) => value.get(index),
    })
}

impl Test {
    fn holds(&self, value: Option<&Value>) -> bool {
        let text = || value.and_then(Value::as_str);
        match self {
            Self::Exists => value.is_some(),
            Self::Is(expected) => value.is_some_and(|value| is_same(value, expected)),
            Self::IsNot(expected) => !value.is_some_and(|value| is_same(value, expected)),
            Self::Compares(order, or_equal, bound) => {
                let found = value.and_then(|value| compare(value, bound));
                found.is_some_and(|found| found == *order || (*or_equal && found == Ordering::Equal))
            }
            Self::StartsWith(start) => text().is_some_and(|text| text.starts_with(start.as_str())),
            Self::EndsWith(end) => text().is_some_and(|text| text.ends_with(end.as_str())),
            Self::Contains(wanted) => match value {
                Some(Value::String(text)) => text.contains(wanted.as_str()),
                Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(wanted)),
                _ => false,
            },
            Self::Within(folder) => text().is_some_and(|path| is_within(path, folder)),
            Self::In(values) => value.is_some_and(|value| values.iter().any(|one| is_same(value, one))),
        }
    }
}

/// Equal as values: `1` and `1.0` are.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || compare(one, other) == Some(Ordering::Equal)
}

/// Numbers by size, strings by their characters.
fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => {
            let whole = |number: &serde_json::Number| {
                number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
            };
            match (whole(one), whole(other)) {
                (Some(one), Some(other)) => Some(one.cmp(&other)),
                _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
            }
        }
        _ => None,
    }
}

/// Whether a path is a folder or leads into it, once `.` and `..` are followed. Links are not: nothing here looks at
/// files, which may be on another machine.
fn is_within(path: &str, folder: &str) -> bool {
    let Some(folder) = steps(folder) else { return false };
    let stays = |path: &str| steps(path).is_some_and(|path| path.starts_with(&folder));
    let readings = paths::readings(path);
    !readings.is_empty() && readings.iter().all(|path| stays(path))
}

/// The steps of a path from its root, which is the first of them; `None` if it leads out of where it starts.
fn steps(path: &str) -> Option<Vec<&str>> {
    // A server on another system may take either for what parts a path.
    let is_between = |c| c == '/' || c == '\\';
    let mut steps = vec![if path.starts_with(is_between) { "/" } else { "." }];
    for step in path.split(is_between) {
        match step {
            "" | "." => {}
            ".." if steps.len() > 1 => drop(steps.pop()),
            ".." => return None,
            step => steps.push(step),
        }
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_hold_or_do_not() {
        let arguments = json!({
            "path": "/srv/src/main.rs", "amount": 100, "ratio": 0.5, "branch": "main", "force": true, "none": null,
            "tags": ["a", "b"], "to": {"name": "x", "at": [{"n": 1}, {"n": 2}]}, "big": 18_446_744_073_709_551_615_u64,
        });
        for (condition, holds) in [
            (r#"path starts_with "/srv""#, true),
            (r#"path ends_with ".rs""#, true),
            (r#"path contains "src""#, true),
            (r#"tags contains "b""#, true),
            (r#"tags contains "c""#, false),
            (r#"path within "/srv""#, true),
            ("amount <= 100", true),
            ("amount < 100", false),
            ("amount >= 1e2", true),
            ("amount == 100.0", true),
            ("ratio > 0.25", true),
            ("big > 18446744073709551614", true),
            (r#"amount < "200""#, false),
            (r#"branch != "main""#, false),
            (r#"branch in ["main", "release"]"#, true),
            ("amount in [1, 100.0]", true),
            (r#"branch >= "lane""#, true),
            ("force == true", true),
            ("not force == true", false),
            ("none == null", true),
            ("none exists", true),
            ("absent exists", false),
            ("absent == null", false),
            ("absent != 1", true),
            ("absent < 1", false),
            ("not absent exists and force == true", true),
            ("to.at[1].n == 2", true),
            ("to.at[2].n == 2", false),
            (r#"to.name == "y" or to.name == "x""#, true),
            (r#"(to.name == "y" or force == true) and amount > 1"#, true),
            (r#"to.name == "x" or amount > 1 and force == false"#, true),
            (r#""to"."name" == "x""#, true),
        ] {
            assert_eq!(Expression::parse(condition).unwrap().holds(&arguments), holds, "{condition}");
        }
    }

    #[test]
    fn a_path_is_within_a_folder_only_if_it_stays_there() {
        for (path, within) in [
            ("/srv", true),
            ("/srv/", true),
            ("/srv/a/../b", true),
            ("/srv/./a", true),
            ("//srv//a", true),
            ("/srv-old", false),
            ("/srv/../etc/passwd", false),
            ("/srv/a/../../etc", false),
            ("/../srv", false),
            ("work", false),
            ("", false),
            (r"/srv\..\etc", false),
            ("/srv/%2e%2e/etc", false),
            ("/srv/%2E%2E%2Fetc", false),
            ("/srv/%252e%252e/etc", false),
            ("/srv/..%5cetc", false),
            ("/srv/a%20b", true),
            ("/srv/100%", true),
            ("file:///srv/a", true),
            ("FILE://localhost/srv/a%20b", true),
            ("file:///srv/../etc", false),
            ("file:///srv/%2e%2e/etc", false),
            ("file:///srv/a?/../../etc", false),
            ("file:///etc/passwd", false),
            ("file://elsewhere/srv/a", false),
            ("/srv/a\0/../../etc", false),
            ("/srv/%00", false),
        ] {
            let condition = Expression::parse(r#"path within "/srv""#).unwrap();
            assert_eq!(condition.holds(&json!({"path": path})), within, "{path}");
        }
        let relative = Expression::parse(r#"path within "src""#).unwrap();
        assert!(relative.holds(&json!({"path": "src/a"})) && !relative.holds(&json!({"path": "src/../../a"})));
    }
}
