//! JSON as people write it into configuration files: with comments and commas too many. Read, and changed in one place
//! without touching the rest.

use std::ops::Range;

use gladhand_wire::{Members, RawValue};
use serde::Serialize;

/// Why a text cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadJson {
    /// It is none.
    #[error("not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// Something in it has another shape than it should have.
    #[error("`{0}` is not an object")]
    NotObject(String),
}

/// A text with comments and superfluous commas blanked out: plain JSON in which everything is where it was.
#[derive(Debug)]
pub(crate) struct Cleaned {
    pub(crate) text: String,
    /// Where commas stood that were followed by the end of an object or array.
    commas: Vec<usize>,
}

/// Blanks out what plain JSON does not have.
pub(crate) fn clean(text: &str) -> Cleaned {
    let mut bytes = text.as_bytes().to_vec();
    let mut commas = Vec::new();
    let mut comma = None;
    let mut at = 0;
    if text.starts_with('\u{feff}') {
        blank(&mut bytes[..3]);
        at = 3;
    }
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                comma = None;
                at = end_of_string(&bytes, at);
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end);
                blank(&mut bytes[at..end]);
                at = end;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let end = text[at + 2..].find("*/").map_or(bytes.len(), |end| at + 2 + end + 2);
                blank(&mut bytes[at..end]);
                at = end;
            }
            byte => {
                match byte {
                    b',' => comma = Some(at),
                    b'}' | b']' => {
                        if let Some(comma) = comma.take() {
                            bytes[comma] = b' ';
                            commas.push(comma);
                        }
                    }
                    byte if byte.is_ascii_whitespace() => {}
                    _ => comma = None,
                }
                at += 1;
            }
        }
    }
    // Only whole comments were blanked, so that it is still text.
    Cleaned { text: String::from_utf8(bytes).unwrap_or_default(), commas }
}

/// Where the string that begins here is over.
fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}

/// The text with `section.name` set to a value; `None` if it is so already. Everything else stays as it is, comments
/// included.
pub(crate) fn put(text: &str, section: &str, name: &str, value: &impl Serialize) -> Result<Option<String>, BadJson> {
    let text = if text.trim_start_matches('\u{feff}').trim().is_empty() { "{}\n" } else { text };
    let cleaned = clean(text);
    let root = Members::parse(&cleaned.text)?;
    let Some(raw) = root.raw(section) else {
        let begin = cleaned.text.find('{').unwrap_or_default();
        let end = cleaned.text.rfind('}').map_or(cleaned.text.len(), |end| end + 1);
        let with_section = insert(text, &cleaned, begin..end, section, &serde_json::Map::new())?;
        return put(&with_section, section, name, value);
    };
    let members = Members::of(raw).ok_or_else(|| BadJson::NotObject(section.to_owned()))?;
    let Some(old) = members.raw(name) else {
        return insert(text, &cleaned, span(&cleaned.text, raw), name, value).map(Some);
    };
    if serde_json::from_str::<serde_json::Value>(old.get())? == serde_json::to_value(value)? {
        return Ok(None);
    }
    let old = span(&cleaned.text, old);
    let indent = indent_of_line(text, old.start);
    let new = pretty(value, unit(text), indent, newline(text))?;
    Ok(Some(format!("{}{new}{}", &text[..old.start], &text[old.end..])))
}

/// Where a value is in the text that it was read from.
fn span(text: &str, raw: &RawValue) -> Range<usize> {
    let begin = raw.get().as_ptr() as usize - text.as_ptr() as usize;
    begin..begin + raw.get().len()
}

/// Puts a member at the end of an object.
fn insert(
    text: &str,
    cleaned: &Cleaned,
    object: Range<usize>,
    name: &str,
    value: &impl Serialize,
) -> Result<String, BadJson> {
    let close = object.end - 1;
    let last = object.start + cleaned.text[object.start..close].trim_end().len();
    let has_comma = cleaned.commas.iter().any(|comma| (last..close).contains(comma));
    let comma = if last == object.start + 1 || has_comma { "" } else { "," };
    let line = text[..close].rfind('\n').map_or(0, |end| end + 1);
    let (newline, unit) = (newline(text), unit(text));
    let is_alone = line > object.start && text[line..close].trim().is_empty();
    let outer = indent_of_line(text, if is_alone { close } else { object.start });
    let inner = format!("{outer}{unit}");
    let key = serde_json::to_string(name)?;
    let member = format!("{inner}{key}: {}", pretty(value, unit, &inner, newline)?);
    let (between, end) = (&text[last..if is_alone { line } else { close }], &text[close..]);
    // What stands between the last member and the brace, comments perhaps, stays before the new one.
    let between = if is_alone { between.to_owned() } else { format!("{}{newline}", between.trim_end()) };
    Ok(format!("{}{comma}{between}{member}{newline}{outer}{end}", &text[..last]))
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn indent_of_line(text: &str, at: usize) -> &str {
    let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..at];
    &line[..line.len() - line.trim_start().len()]
}

/// One step of indentation, as the text has it.
fn unit(text: &str) -> &str {
    let indents = text.lines().map(|line| &line[..line.len() - line.trim_start().len()]);
    let shortest = indents.filter(|indent| !indent.is_empty()).min_by_key(|indent| indent.len());
    shortest.unwrap_or("  ")
}

fn pretty(value: &impl Serialize, unit: &str, indent: &str, newline: &str) -> Result<String, BadJson> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    let text = String::from_utf8(text).unwrap_or_default();
    Ok(text.replace('\n', &format!("{newline}{indent}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn comments_and_commas_are_blanked_and_strings_are_not() {
        let text = "\u{feff}{ // one ü\n \"a//b\": [1, 2,], /* two\n */ \"c\\\"\": \"/*,}\",\n}";
        let cleaned = clean(text);
        assert_eq!(cleaned.text.len(), text.len());
        let value: Value = serde_json::from_str(&cleaned.text).unwrap();
        assert_eq!(value, json!({ "a//b": [1, 2], "c\"": "/*,}" }));
        for odd in ["", "/", "\"", "\"\\", "/*", "{,}", "//"] {
            assert_eq!(clean(odd).text.len(), odd.len(), "{odd}");
        }
    }

    fn put_in(text: &str) -> String {
        put(text, "servers", "new", &json!({ "x": 1 })).unwrap().unwrap()
    }

    #[test]
    fn a_member_is_added_where_it_belongs_and_the_rest_stays() {
        assert_eq!(put_in(""), "{\n  \"servers\": {\n    \"new\": {\n      \"x\": 1\n    }\n  }\n}\n");
        let text = "{\n\t// mine\n\t\"servers\": {\n\t\t\"old\": {}, // kept\n\t},\n\t\"z\": 1 /* too */\n}\n";
        let expected = "{\n\t// mine\n\t\"servers\": {\n\t\t\"old\": {}, // kept\n\t\t\"new\": {\n\t\t\t\"x\": 1\n\t\t}\n\t},\n\t\"z\": 1 /* too */\n}\n";
        assert_eq!(put_in(text), expected);
        let text = "{\n  \"a\": 1 // last\n}";
        let expected = "{\n  \"a\": 1, // last\n  \"servers\": {\n    \"new\": {\n      \"x\": 1\n    }\n  }\n}";
        assert_eq!(put_in(text), expected);
        let text = r#"{"servers":{"old":1}}"#;
        assert_eq!(serde_json::from_str::<Value>(&put_in(text)).unwrap()["servers"]["old"], 1);
        assert_eq!(
            put_in("{\r\n  \"a\": 1\r\n}").matches('\n').count(),
            put_in("{\r\n  \"a\": 1\r\n}").matches("\r\n").count()
        );
    }

    #[test]
    fn what_is_there_is_replaced_if_it_differs_and_doing_it_twice_changes_nothing() {
        let text = "{\n  \"servers\": {\n    \"new\": { \"x\": 2 }, // mine\n    \"b\": 3\n  }\n}\n";
        let new = put_in(text);
        assert!(new.contains("\"x\": 1\n    }, // mine\n    \"b\": 3"), "{new}");
        assert!(put(&new, "servers", "new", &json!({ "x": 1 })).unwrap().is_none());
        let once = put_in("{ /* nothing */ }");
        assert!(once.contains("/* nothing */"));
        assert!(put(&once, "servers", "new", &json!({ "x": 1 })).unwrap().is_none());
    }

    #[test]
    fn what_is_no_object_is_not_changed() {
        assert!(matches!(put("[]", "s", "n", &json!(1)), Err(BadJson::NotJson(_))));
        assert!(matches!(put("{\"s\": []}", "s", "n", &json!(1)), Err(BadJson::NotObject(_))));
        assert!(matches!(put("{", "s", "n", &json!(1)), Err(BadJson::NotJson(_))));
    }
}
