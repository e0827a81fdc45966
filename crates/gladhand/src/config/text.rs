//! Values as they are written in TOML.

use serde_json::Value;

/// A value on one line. What is null is left away.
pub(crate) fn value(value: &Value) -> String {
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
pub(crate) fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_bare { name.to_owned() } else { string(name) }
}

/// A string in quotes. JSON's escapes are TOML's, but for one character that JSON does not escape.
fn string(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let written = json!({
            "text": "a \"b\" \\ \n \u{1} \u{7f} ü",
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
        assert_eq!(value(&json!({ "a": null, "b": 1 })), "{ b = 1 }");
    }
}
