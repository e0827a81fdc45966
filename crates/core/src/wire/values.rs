//! Reads JSON of a peer into memory, with a bound on the number of values.
//!
//! A value takes up to a few hundred bytes in memory, however short it is on the wire: `{"":0}` becomes a node of a
//! map. A limit on the length of a text is therefore no limit on the memory of its tree. All code that turns text of a
//! peer into a tree reads it with [`read`], or with [`items`] and [`Members`](crate::wire::Members), which parse one
//! level and borrow the rest.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value;

use crate::wire::json::RawValue;

/// Maximum number of JSON values that one text may become.
pub const MAX_VALUES: usize = 200_000;

/// The memory that one counted value takes at most, approximately, in bytes. An object with one short member is the
/// worst case: it counts as three values and takes about 700 bytes.
const VALUE_BYTES: usize = 256;

/// Why a text was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text has more than [`MAX_VALUES`] values.
    #[error("it has more than {MAX_VALUES} JSON values")]
    TooManyValues,
    /// The text is not the expected JSON.
    #[error("{}", without_position(.0))]
    Json(#[from] serde_json::Error),
}

/// Reads JSON text that may have at most [`MAX_VALUES`] values. The values are counted before memory is allocated for
/// them. A text that is too short to have so many is not counted.
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, ReadError> {
    if has_more_than(MAX_VALUES, text.as_bytes()) {
        return Err(ReadError::TooManyValues);
    }
    Ok(serde_json::from_str(text)?)
}

/// Like [`read`], from bytes.
pub fn read_bytes<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T, ReadError> {
    if has_more_than(MAX_VALUES, text) {
        return Err(ReadError::TooManyValues);
    }
    Ok(serde_json::from_slice(text)?)
}

/// The items of an array, at most [`MAX_VALUES`] of them, borrowed and not parsed further.
pub fn items(text: &str) -> Result<Vec<&RawValue>, serde_json::Error> {
    serde_json::from_str::<Items<'_>>(text).map(|items| items.0)
}

/// Whether JSON text may have more than `limit` values. A text that is too short for that is not scanned.
pub fn has_more_than(limit: usize, text: &[u8]) -> bool {
    text.len() > limit && in_text(text) > limit
}

/// Counts the values in JSON text at all depths, without allocating memory. The result is never too low.
///
/// Every value except the first follows a comma, a colon or an opening bracket. A member counts twice, because its
/// name takes memory too.
pub fn in_text(text: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

/// Counts the values in a tree, including the root.
pub fn in_tree(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(in_tree).sum(),
        Value::Object(members) => members.values().map(in_tree).sum(),
        _ => 0,
    }
}

/// The memory in bytes that the tree of a JSON text takes at most, approximately. A text with too many values does not
/// become a tree.
pub fn memory_of(text: &str) -> usize {
    text.len() + VALUE_BYTES * in_text(text.as_bytes()).min(MAX_VALUES)
}

/// The message of a parser without the position, which means nothing to the sender of the text.
fn without_position(error: &serde_json::Error) -> String {
    let problem = error.to_string();
    problem.rsplit_once(" at line ").map_or_else(|| problem.clone(), |(problem, _)| problem.to_owned())
}

/// The items of an array.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    if items.len() == MAX_VALUES {
                        return Err(A::Error::custom(format_args!("a list of more than {MAX_VALUES} items")));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Members;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, in_text, in_tree) in [("[0,0,0]", 4, 4), (r#"{"a":[1,2],"b,,\\\":,,":"[[[["}"#, 7, 5), ("1", 1, 1)] {
            let tree: Value = read(text).unwrap();
            assert_eq!((super::in_text(text.as_bytes()), super::in_tree(&tree)), (in_text, in_tree), "{text}");
        }
    }

    #[test]
    fn a_text_with_too_many_values_is_not_read() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        let most = list("0", MAX_VALUES - 1);
        assert!(read::<Value>(&most).is_ok() && read_bytes::<Value>(most.as_bytes()).is_ok());
        for (item, count) in [("0", MAX_VALUES), (r#"{"":0}"#, MAX_VALUES / 3 + 1), ("[[]]", MAX_VALUES / 3 + 1)] {
            let text = list(item, count);
            let refused = read::<Value>(&text).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some("it has more than 200000 JSON values"), "{item}");
            assert!(read_bytes::<Value>(text.as_bytes()).is_err());
        }
        let long = format!("\"{}\"", ",".repeat(2 * MAX_VALUES));
        assert_eq!(read::<String>(&long).unwrap().len(), 2 * MAX_VALUES, "the length of a string does not count");
        assert_eq!(read::<u8>("\"x\"").unwrap_err().to_string(), r#"invalid type: string "x", expected u8"#);
    }

    #[test]
    fn one_level_of_a_text_has_a_bound_of_entries() {
        let list = |count: usize| format!("[{}]", vec!["[0,0,0]"; count].join(","));
        assert_eq!(items(&list(MAX_VALUES)).unwrap().len(), MAX_VALUES, "what an item holds does not count");
        assert!(items(&list(MAX_VALUES + 1)).is_err() && items("{}").is_err());
        let object = |count: usize| format!("{{{}}}", vec![r#""":0"#; count].join(","));
        assert_eq!(Members::parse(&object(MAX_VALUES)).unwrap().len(), MAX_VALUES);
        assert!(Members::parse(&object(MAX_VALUES + 1)).is_err());
    }

    #[test]
    fn the_memory_of_a_tree_is_not_underestimated() {
        // A map has nodes for eleven members, each a string and a value.
        let node = 11 * (size_of::<String>() + size_of::<Value>()) + 64;
        let text = format!("[{}]", vec![r#"{"":0}"#; 1000].join(","));
        assert!(memory_of(&text) >= 1000 * (node + size_of::<Value>()), "{}", memory_of(&text));
    }
}
