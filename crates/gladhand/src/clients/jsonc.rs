//! JSON as people write it into configuration files: with comments and commas too many. Read, and changed in one place
//! without touching the rest.

use std::ops::Range;

use gladhand_core::wire::{Members, RawValue};
use serde::Serialize;
use serde_json::Value;

use super::BadFile;

/// A text with comments and superfluous commas blanked out: plain JSON in which everything is where it was.
#[derive(Debug)]
pub(super) struct Cleaned {
    pub(super) text: String,
    /// Where commas stood that were followed by the end of an object or array.
    commas: Vec<usize>,
}

/// Blanks out what plain JSON does not have.
pub(super) fn clean(text: &str) -> Cleaned {
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
pub(super) fn put(text: &str, section: &str, name: &str, value: &impl Serialize) -> Result<Option<String>, BadFile> {
    if let Some(old) = member(&clean(text).text, section, name)?
        && serde_json::from_str::<Value>(old.get())? == serde_json::to_value(value)?
    {
        return Ok(None);
    }
    let render = |indent: &str| pretty(value, unit(text), indent, newline(text));
    place(text, section, name, &render).map(Some)
}

/// The text with `section.name` as it was written before; the same text if there is something of that name.
pub(super) fn restore(text: &str, section: &str, name: &str, written: &str) -> Result<String, BadFile> {
    match member(&clean(text).text, section, name)? {
        Some(_) => Ok(text.to_owned()),
        None => place(text, section, name, &|_| Ok(written.to_owned())),
    }
}

/// The text without `section.name`, and what was written there; `None` if there is no such member.
pub(super) fn take(text: &str, section: &str, name: &str) -> Result<Option<(String, String)>, BadFile> {
    let cleaned = clean(text);
    let Some(value) = member(&cleaned.text, section, name)? else { return Ok(None) };
    let (value, object) = (span(&cleaned.text, value), section_of(&cleaned.text, section)?);
    let members = Members::of(object).ok_or_else(|| BadFile::NotObject(section.to_owned()))?;
    // Between the value before and this one there is nothing but a comma, blanks and the key.
    let ends = members.iter().map(|(_, other)| span(&cleaned.text, other).end);
    let before = ends.filter(|end| *end < value.start).max().unwrap_or_else(|| span(&cleaned.text, object).start + 1);
    let key = before + cleaned.text[before..value.start].find('"').unwrap_or_default();
    let blanks = |from: usize| cleaned.text[from..].len() - cleaned.text[from..].trim_start().len();
    let behind = value.end + blanks(value.end);
    let follows = cleaned.text[behind..].starts_with(',');
    let trailing = cleaned.commas.iter().copied().find(|comma| (value.end..behind).contains(comma));
    let end = if follows { behind + 1 } else { trailing.map_or(value.end, |comma| comma + 1) };
    // The last member takes the comma before it along.
    let comma = cleaned.text[before..key].find(',').filter(|_| !follows && trailing.is_none());
    let cut = whole_lines(text, &cleaned.text, key..end);
    let head = match comma {
        Some(comma) => format!("{}{}", &text[..before + comma], &text[before + comma + 1..cut.start]),
        None => text[..cut.start].to_owned(),
    };
    let rest = format!("{head}{}", &text[cut.end..]);
    let mut expected: Value = serde_json::from_str(&cleaned.text)?;
    let _ = expected[section].as_object_mut().and_then(|members| members.remove(name));
    match serde_json::from_str::<Value>(&clean(&rest).text) {
        Ok(found) if found == expected => Ok(Some((rest, text[value].to_owned()))),
        _ => Err(BadFile::Uneditable(name.to_owned())),
    }
}

/// A place, or the whole lines around it if nothing else but a comment behind it stands in them.
fn whole_lines(text: &str, cleaned: &str, place: Range<usize>) -> Range<usize> {
    let begin = cleaned[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let end = cleaned[place.end..].find('\n').map_or(cleaned.len(), |at| place.end + at + 1);
    let is_alone = cleaned[begin..place.start].trim().is_empty() && cleaned[place.end..end].trim().is_empty();
    // A comment before it is not its own, and one that goes on in the next line cannot be cut.
    let is_whole = text[begin..place.start].trim().is_empty() && !text[place.end..end].contains("/*");
    let blanks = cleaned[place.end..].len() - cleaned[place.end..].trim_start_matches(' ').len();
    match is_alone && is_whole && begin > 0 {
        true => begin..end,
        false if text[place.end..place.end + blanks].trim().is_empty() => place.start..place.end + blanks,
        false => place,
    }
}

/// The value of `section.name` in plain JSON.
fn member<'t>(text: &'t str, section: &str, name: &str) -> Result<Option<&'t RawValue>, BadFile> {
    if is_blank(text) || !Members::parse(text)?.has(section) {
        return Ok(None);
    }
    let members = Members::of(section_of(text, section)?).ok_or_else(|| BadFile::NotObject(section.to_owned()))?;
    Ok(members.raw(name))
}

/// The section, which must be there.
fn section_of<'t>(text: &'t str, section: &str) -> Result<&'t RawValue, BadFile> {
    Members::parse(text)?.raw(section).ok_or_else(|| BadFile::NotObject(section.to_owned()))
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// Writes a value, given the indentation of its line.
type Render<'r> = &'r dyn Fn(&str) -> Result<String, BadFile>;

/// Puts `section.name` where it belongs.
fn place(text: &str, section: &str, name: &str, value: Render<'_>) -> Result<String, BadFile> {
    let text = if is_blank(text) { "{}\n" } else { text };
    let cleaned = clean(text);
    let Some(raw) = Members::parse(&cleaned.text)?.raw(section) else {
        let begin = cleaned.text.find('{').unwrap_or_default();
        let end = cleaned.text.rfind('}').map_or(cleaned.text.len(), |end| end + 1);
        let with_section = insert(text, &cleaned, begin..end, section, &|_| Ok("{}".to_owned()))?;
        return place(&with_section, section, name, value);
    };
    let members = Members::of(raw).ok_or_else(|| BadFile::NotObject(section.to_owned()))?;
    let Some(old) = members.raw(name) else {
        return insert(text, &cleaned, span(&cleaned.text, raw), name, value);
    };
    let old = span(&cleaned.text, old);
    let new = value(indent_of_line(text, old.start))?;
    Ok(format!("{}{new}{}", &text[..old.start], &text[old.end..]))
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
    value: Render<'_>,
) -> Result<String, BadFile> {
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
    let member = format!("{inner}{key}: {}", value(&inner)?);
    let (between, end) = (&text[last..if is_alone { line } else { close }], &text[close..]);
    // Comments between the last member and the brace stay before the new member.
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

fn pretty(value: &impl Serialize, unit: &str, indent: &str, newline: &str) -> Result<String, BadFile> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    let text = String::from_utf8(text).unwrap_or_default();
    Ok(text.replace('\n', &format!("{newline}{indent}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn a_different_json_member_is_replaced_and_an_equal_one_kept() {
        let text = "{\n  \"servers\": {\n    \"new\": { \"x\": 2 }, // mine\n    \"b\": 3\n  }\n}\n";
        let new = put_in(text);
        assert!(new.contains("\"x\": 1\n    }, // mine\n    \"b\": 3"), "{new}");
        assert!(put(&new, "servers", "new", &json!({ "x": 1 })).unwrap().is_none());
        let once = put_in("{ /* nothing */ }");
        assert!(once.contains("/* nothing */"));
        assert!(put(&once, "servers", "new", &json!({ "x": 1 })).unwrap().is_none());
    }

    #[test]
    fn a_removed_json_member_can_be_restored_and_the_rest_is_unchanged() {
        let kept = "{\n  \"servers\": {\n    // first\n    \"a\": {\"x\": 1},\n    \"c\": 3\n  },\n  \"z\": 0\n}\n";
        let b = "\"b\": {\n      // why\n      \"y\": [1, 2,],\n    }";
        for (text, without) in [
            (kept.replace("    \"c\"", &format!("    {b}, // mine\n    \"c\"")), kept.to_owned()),
            (kept.replace("\"c\": 3", &format!("\"c\": 3,\n    {b}")), kept.to_owned()),
            (kept.replace("\"c\": 3", &format!("\"c\": 3,\n    {b},")), kept.replace("\"c\": 3", "\"c\": 3,")),
        ] {
            let (rest, written) = take(&text, "servers", "b").unwrap().unwrap();
            assert_eq!(rest, without);
            assert_eq!(format!("\"b\": {written}"), b);
            let again = restore(&rest, "servers", "b", &written).unwrap();
            assert!(again.contains(b), "{again}");
            assert_eq!(restore(&again, "servers", "b", "5").unwrap(), again, "what is there stays");
        }
        assert_eq!(take(r#"{"s":{"a":1,"b":2}}"#, "s", "a").unwrap().unwrap().0, r#"{"s":{"b":2}}"#);
        assert_eq!(take(r#"{"s":{"a":1, "b":2}}"#, "s", "b").unwrap().unwrap().0, r#"{"s":{"a":1 }}"#);
        assert_eq!(take(r#"{ "s": { "a": 1 } }"#, "s", "a").unwrap().unwrap().0, r#"{ "s": { } }"#);
        assert_eq!(
            take("{\n\"s\": {\n\"a\": 1 /* x\n*/ }}", "s", "a").unwrap().unwrap().0,
            "{\n\"s\": {\n /* x\n*/ }}"
        );
        assert!(take(r#"{"s":{}}"#, "s", "a").unwrap().is_none());
        assert!(take("", "s", "a").unwrap().is_none());
        assert!(matches!(take(r#"{"s":{"a":1,"a":2}}"#, "s", "a"), Err(BadFile::Uneditable(_))));
    }

    #[test]
    fn only_json_objects_are_edited() {
        assert!(matches!(put("[]", "s", "n", &json!(1)), Err(BadFile::NotJson(_))));
        assert!(matches!(put("{\"s\": []}", "s", "n", &json!(1)), Err(BadFile::NotObject(_))));
        assert!(matches!(put("{", "s", "n", &json!(1)), Err(BadFile::NotJson(_))));
    }
}
