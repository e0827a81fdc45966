//! Values as they are written in TOML.

use std::fmt::Write as _;

use gladhand_core::wire::invisible::escape_with;
use serde_json::Value;

/// Formats a value on one line. Null members are omitted.
pub fn value(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(is) => is.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => string(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().filter(|item| !item.is_null()).map(self::value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let there = members.iter().filter(|(_, member)| !member.is_null());
            let members: Vec<_> =
                there.map(|(name, member)| format!("{} = {}", key(name), self::value(member))).collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}

/// A key, in quotes where it needs them.
pub fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_bare { name.to_owned() } else { string(name) }
}

/// A quoted string. TOML accepts JSON's escapes. Invisible characters that JSON does not escape are escaped as well.
fn string(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let escaped = escape_with(&quoted, |out, value| {
        let value = u32::from(value);
        // Writing to a String cannot fail.
        let _ = if value > 0xffff { write!(out, "\\U{value:08X}") } else { write!(out, "\\u{value:04X}") };
    });
    escaped.into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn written_toml_values_are_read_back_unchanged() {
        let written = json!({
            "text": "a \"b\" \\ \n \u{1} \u{7f} ü \u{202e} \u{e0041} 👩🏽‍🚀",
            "list": [1, -2, 2.5, true, "x"],
            "a key": { "in.ner": [], "deep": { "x": {} } },
        });
        let lines: Vec<_> = written
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, member)| format!("{} = {}", key(name), value(member)))
            .collect();
        let read: toml::Table = lines.join("\n").parse().unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), written);
        assert_eq!(value(&json!("a\u{202e}\u{e0041}")), r#""a\u202E\U000E0041""#);
        assert_eq!(value(&json!({ "a": null, "b": 1 })), "{ b = 1 }");
    }
}
