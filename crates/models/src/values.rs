//! Counts JSON values. A value can take a few hundred bytes in memory, however short it is on the wire.

use serde_json::Value;

/// Counts the values in JSON text at all depths, without allocating memory. The result is never too low.
///
/// Every value except the first follows a comma, a colon or an opening bracket. A member counts twice, because its
/// name takes memory too.
pub(crate) fn in_text(text: &[u8]) -> usize {
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
pub(crate) fn in_tree(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(in_tree).sum(),
        Value::Object(members) => members.values().map(in_tree).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, in_text, in_tree) in [("[0,0,0]", 4, 4), (r#"{"a":[1,2],"b,,\\\":,,":"[[[["}"#, 7, 5), ("1", 1, 1)] {
            let tree: Value = serde_json::from_str(text).unwrap();
            assert_eq!((super::in_text(text.as_bytes()), super::in_tree(&tree)), (in_text, in_tree), "{text}");
        }
    }
}
