//! Compares a recorded message with a live one after normalising values that change from run to run.
//!
//! Normalised are identifiers of sessions, cursors and tokens, times, durations and random names (UUIDs and long
//! hexadecimal numbers): both values must have the same JSON type. A masked value (`***`) of the recording equals any
//! value.

use std::collections::BTreeMap;

use serde_json::Value;

/// The text that redaction writes instead of a secret.
const MASK: &str = "***";

/// How many differences of one message are collected.
const MOST: usize = 50;

/// Names of members whose scalar values change from run to run, in lower case and without `_` and `-`.
const VOLATILE: [&str; 27] = [
    "created",
    "createdat",
    "cursor",
    "date",
    "endedat",
    "expires",
    "expiresat",
    "expiresin",
    "finishedat",
    "lastmodified",
    "lastupdatedat",
    "nextcursor",
    "nonce",
    "pid",
    "servertime",
    "session",
    "sessionid",
    "sessiontoken",
    "spanid",
    "startedat",
    "taskid",
    "time",
    "timestamp",
    "traceid",
    "traceparent",
    "ts",
    "updatedat",
];

/// Names of members that are durations, also with a unit after them.
const DURATIONS: [&str; 5] = ["duration", "elapsed", "latency", "took", "uptime"];

/// The units of durations in names of members.
const UNITS: [&str; 8] = ["", "ns", "us", "ms", "s", "secs", "seconds", "millis"];

/// A place where a live message differs from the recorded one.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The place, as a JSON pointer. Empty for the whole message.
    pub path: String,
    /// The recorded value. `None`: the recorded message does not have the member.
    pub recorded: Option<Value>,
    /// The live value. `None`: the live message does not have the member.
    pub live: Option<Value>,
}

/// Recorded names that the server chose at random, such as cursors, with their live values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings(BTreeMap<String, String>);

impl Bindings {
    /// A text of the recorded client with the live names in it. Names are replaced only as whole JSON strings.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (recorded, live) in &self.0 {
            let quoted = |name: &str| Value::from(name).to_string();
            text = text.replace(&quoted(recorded), &quoted(live));
        }
        text
    }

    fn bind(&mut self, recorded: &str, live: &str) {
        // Short texts such as "1" may stand for something else.
        if recorded != live && recorded.len() >= 6 && recorded != MASK {
            self.0.insert(recorded.to_owned(), live.to_owned());
        }
    }
}

/// Whether a recorded text contains a masked value.
pub fn is_masked(text: &str) -> bool {
    text.contains(MASK)
}

/// The differences of two messages. `ignored` are members of the message itself that are not compared.
pub fn compare(recorded: &Value, live: &Value, ignored: &[&str], bindings: &mut Bindings) -> Vec<Difference> {
    let mut comparison = Comparison { bindings, differences: Vec::new() };
    match (recorded, live) {
        (Value::Object(_), Value::Object(_)) => {
            let without = |value: &Value| {
                let mut members = value.as_object().cloned().unwrap_or_default();
                members.retain(|name, _| !ignored.contains(&name.as_str()));
                Value::Object(members)
            };
            comparison.values(&without(recorded), &without(live), "", "");
        }
        _ => comparison.values(recorded, live, "", ""),
    }
    comparison.differences
}

struct Comparison<'b> {
    bindings: &'b mut Bindings,
    differences: Vec<Difference>,
}

impl Comparison<'_> {
    fn differ(&mut self, path: &str, recorded: Option<&Value>, live: Option<&Value>) {
        if self.differences.len() < MOST {
            let (recorded, live) = (recorded.cloned(), live.cloned());
            self.differences.push(Difference { path: path.to_owned(), recorded, live });
        }
    }

    fn values(&mut self, recorded: &Value, live: &Value, path: &str, member: &str) {
        match (recorded, live) {
            (Value::String(text), _) if text == MASK => {}
            (Value::Object(recorded), Value::Object(live)) => {
                for (name, value) in recorded {
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    match live.get(name) {
                        Some(other) => self.values(value, other, &path, name),
                        None => self.differ(&path, Some(value), None),
                    }
                }
                for (name, value) in live.iter().filter(|(name, _)| !recorded.contains_key(*name)) {
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    self.differ(&path, None, Some(value));
                }
            }
            (Value::Array(recorded), Value::Array(live)) => {
                for at in 0..recorded.len().max(live.len()) {
                    let path = format!("{path}/{at}");
                    match (recorded.get(at), live.get(at)) {
                        (Some(value), Some(other)) => self.values(value, other, &path, member),
                        (value, other) => self.differ(&path, value, other),
                    }
                }
            }
            (Value::String(one), Value::String(other)) if one == other => {}
            (Value::String(one), Value::String(other)) if is_volatile(member) => self.bindings.bind(one, other),
            (Value::String(one), Value::String(other)) => {
                let (plain, live_plain) = (normalised(one), normalised(other));
                if plain == live_plain {
                    // The whole text is one random name.
                    if plain == UUID || plain == HEX {
                        self.bindings.bind(one, other);
                    }
                } else if !(is_masked(one) && fits_mask(&plain, &live_plain)) {
                    self.differ(path, Some(recorded), Some(live));
                }
            }
            (Value::Number(_), Value::Number(_)) if is_volatile(member) => {}
            (Value::Number(one), Value::Number(other)) if one == other || one.as_f64() == other.as_f64() => {}
            _ if recorded == live => {}
            _ => self.differ(path, Some(recorded), Some(live)),
        }
    }
}

fn is_volatile(member: &str) -> bool {
    let name: String = member.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect();
    let unit = DURATIONS.iter().find_map(|duration| name.strip_prefix(duration));
    VOLATILE.contains(&name.as_str()) || unit.is_some_and(|unit| UNITS.contains(&unit))
}

/// Whether a text fits a recorded one in which secrets are masked.
fn fits_mask(recorded: &str, live: &str) -> bool {
    let pieces: Vec<_> = recorded.split(MASK).collect();
    let [first, between @ .., last] = pieces.as_slice() else { return recorded == live };
    let Some(mut rest) = live.strip_prefix(first) else { return false };
    for piece in between {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

const UUID: &str = "<uuid>";
const HEX: &str = "<hex>";

/// Shortest run of hexadecimal digits that counts as a random name.
const SHORTEST_HEX: usize = 16;

/// A text with its random names, times and durations replaced by placeholders.
fn normalised(text: &str) -> String {
    let mut shown = String::new();
    let mut at = 0;
    let mut follows_word = false;
    while let Some(next) = text[at..].chars().next() {
        let rest = &text[at..];
        let found = if follows_word || !next.is_ascii_alphanumeric() { None } else { volatile_at(rest) };
        if let Some((length, placeholder)) = found {
            shown.push_str(placeholder);
            at += length;
            follows_word = true;
        } else {
            shown.push(next);
            at += next.len_utf8();
            follows_word = next.is_alphanumeric();
        }
    }
    shown
}

/// The length of a volatile value at the start of a text, and its placeholder.
fn volatile_at(text: &str) -> Option<(usize, &'static str)> {
    let bytes = text.as_bytes();
    let ends = |length: usize| !bytes.get(length).is_some_and(u8::is_ascii_alphanumeric);
    if fits(bytes, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") && ends(36) {
        return Some((36, UUID));
    }
    if fits(bytes, "dddd-dd-dd") {
        let mut length = 10;
        if bytes.get(length).is_some_and(|byte| matches!(byte, b'T' | b' ')) && fits(&bytes[length + 1..], "dd:dd") {
            length += 6;
            length += digits_after(bytes, length, b':');
            length += digits_after(bytes, length, b'.');
            match bytes.get(length) {
                Some(b'Z') => length += 1,
                Some(b'+' | b'-') if fits(&bytes[length + 1..], "dd:dd") => length += 6,
                _ => {}
            }
            return Some((length, "<time>"));
        }
        // A date alone may be the version of a protocol.
        return None;
    }
    let hex = bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if hex >= SHORTEST_HEX && ends(hex) {
        return Some((hex, HEX));
    }
    let mut length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length > 0 {
        length += digits_after(bytes, length, b'.');
        let blank = usize::from(bytes.get(length) == Some(&b' '));
        let unit = ["milliseconds", "seconds", "ms", "µs", "us", "ns", "s"]
            .into_iter()
            .find(|unit| text[length + blank..].starts_with(unit) && ends(length + blank + unit.len()))?;
        return Some((length + blank + unit.len(), "<duration>"));
    }
    None
}

/// The length of a mark and the digits after it; 0 if there are none.
fn digits_after(bytes: &[u8], at: usize, mark: u8) -> usize {
    if bytes.get(at) != Some(&mark) {
        return 0;
    }
    match bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 => 0,
        digits => digits + 1,
    }
}

/// Whether bytes begin with a shape: `x` is a hexadecimal digit, `d` a digit, everything else itself.
fn fits(bytes: &[u8], shape: &str) -> bool {
    bytes.len() >= shape.len()
        && bytes.iter().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'x' => byte.is_ascii_hexdigit(),
            b'd' => byte.is_ascii_digit(),
            other => *byte == other,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(recorded: Value, live: Value) -> Vec<String> {
        let differences = compare(&recorded, &live, &["id"], &mut Bindings::default());
        differences.into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn values_that_change_from_run_to_run_are_normalised() {
        let run = |uuid: &str, time: &str, took: &str, number: f64| {
            json!({
                "id": number, "sessionId": uuid, "next_cursor": took, "created_at": number, "expiresAt": time,
                "uptime_seconds": number, "took": number, "text": format!("job {uuid} ran at {time}, took {took}."), "list": [{"session": uuid}],
            })
        };
        let one = run("0b1c2d3e-0000-4000-8000-0123456789ab", "2026-01-01T00:00:00Z", "12.5 ms", 1.0);
        let other = run("ffffffff-0000-4000-8000-0123456789ff", "2027-11-30 23:59:59.123+02:00", "3 s", 2.0);
        assert!(differences(one, other).is_empty());
    }

    #[test]
    fn other_values_are_compared() {
        let path = |recorded, live| differences(json!({"a": [recorded]}), json!({"a": [live]}));
        for (one, other) in [
            (json!("2025-11-25"), json!("2025-06-18")),
            (json!("12 apples"), json!("13 apples")),
            (json!("v12ms"), json!("v13ms")),
            (json!("abc123"), json!("abc124")),
            (json!(1), json!(2)),
            (json!(null), json!(false)),
            (json!("1"), json!(1)),
        ] {
            assert_eq!(path(one, other), ["/a/0"]);
        }
        assert!(path(json!(1), json!(1.0)).is_empty());
        assert_eq!(differences(json!({"x/y": 1, "~": 2}), json!({"z": 1, "~": 3})), ["/x~1y", "/~0", "/z"]);
        assert_eq!(differences(json!({"time": {"a": 1}}), json!({"time": {"a": 2}})), ["/time/a"]);
        assert_eq!(differences(json!({"tookOver": 1}), json!({"tookOver": 2})), ["/tookOver"]);
        assert_eq!(differences(json!({"time": 1}), json!({"time": "1"})), ["/time"]);
        assert_eq!(differences(json!([1, 2]), json!([1])), ["/1"]);
    }

    #[test]
    fn a_masked_value_equals_any_other() {
        assert!(differences(json!({"token": "***"}), json!({"token": {"x": 1}})).is_empty());
        assert!(differences(json!({"url": "https://u:***@h/?k=***"}), json!({"url": "https://u:p@h/?k=1"})).is_empty());
        assert_eq!(differences(json!({"url": "https://u:***@h"}), json!({"url": "https://u:p@other"})), ["/url"]);
    }

    #[test]
    fn names_of_the_server_are_put_into_later_messages_of_the_client() {
        let mut bindings = Bindings::default();
        let (recorded, live) = (json!({"nextCursor": "page-2-\"a"}), json!({"nextCursor": "page-2-\"b"}));
        assert!(compare(&recorded, &live, &[], &mut bindings).is_empty());
        assert_eq!(bindings.apply(r#"{"cursor":"page-2-\"a"}"#), r#"{"cursor":"page-2-\"b"}"#);
    }

    #[test]
    fn hostile_texts_are_normalised_in_linear_time() {
        for text in ["1".repeat(200_000), "2026-01-01T".repeat(20_000), "a-".repeat(100_000), "µé2026-".repeat(9_000)]
        {
            let live = format!("{text}!");
            assert_eq!(differences(json!(text), json!(live)).len(), 1);
        }
    }
}
