//! Redacts command lines, headers, JSON and settings, and learns the secrets in them.

use std::borrow::Cow;
use std::ops::Range;

use gladhand_core::wire::{RawValue, json};
use serde_json::{Map, Value};

use crate::flags::in_words;
use crate::known::{Life, learn};
use crate::names::is_sensitive;
use crate::rules::{self, SCHEMES};
use crate::{CUT, LONGEST_MESSAGE, MASK, redact, redact_within};

/// Headers whose values are not secrets.
const HARMLESS: [&str; 8] =
    ["accept", "accept-encoding", "accept-language", "content-type", "host", "origin", "referer", "user-agent"];

/// Learns the secrets that the form of a text shows, such as the password in a URL.
pub fn learn_text(text: &str, life: Life) {
    for place in rules::spans(text) {
        learn_encoded(&text[place], life);
    }
    for place in rules::userinfo(text) {
        // If there is a password, the user name is not a secret.
        if let Some((_, password)) = text[place].split_once(':') {
            learn_encoded(password, life);
        }
    }
}

/// Learns the secrets in a command line.
pub fn learn_words(words: &[String], life: Life) {
    for (word, places) in words.iter().zip(in_words(words)) {
        places.into_iter().for_each(|place| learn_encoded(&word[place], life));
        learn_text(word, life);
    }
}

/// Learns the value of a header, with the scheme and without.
pub fn learn_header(name: &str, value: &str, life: Life) {
    if HARMLESS.iter().any(|harmless| harmless.eq_ignore_ascii_case(name)) {
        return;
    }
    let value = value.trim();
    let (scheme, credentials) = value.split_once(' ').unwrap_or(("", value));
    match SCHEMES.iter().find(|known| known.eq_ignore_ascii_case(scheme)) {
        Some(&"basic") => {
            learn(credentials, life);
            if let Some(pair) = decoded_base64(credentials) {
                learn(pair.split_once(':').map_or(pair.as_str(), |(_, password)| password), life);
            }
        }
        Some(_) => learn(credentials, life),
        None => learn(value, life),
    }
}

/// Learns the secrets in an environment variable of a program: the whole value if its name is sensitive.
pub fn learn_variable(name: &str, value: &str, life: Life) {
    learn_text(value, life);
    if is_sensitive(name) {
        learn(value, life);
    }
}

/// Redacts a command line.
pub fn redact_words(words: &[String]) -> Vec<String> {
    let shown = |(word, mut places): (&String, Vec<Range<usize>>)| {
        places.extend(rules::spans(word));
        redact(&rules::masked(word, places)).into_owned()
    };
    words.iter().zip(in_words(words)).map(shown).collect()
}

/// Redacts a setting whose value is a secret. References and the scheme of a header stay, and everything else is
/// masked.
pub fn redact_written(value: &str) -> String {
    let scheme = value.split_once(' ').map(|(scheme, _)| scheme);
    let scheme = scheme.filter(|scheme| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)));
    let begin = scheme.map_or(0, |scheme| scheme.len() + 1);
    if !value.contains("${") {
        return MASK.to_owned();
    }
    rules::masked(value, rules::literals(value, begin..value.len())).into_owned()
}

/// Redacts a JSON value: each string, each member's name, each list of strings as a command line, and each member with
/// a sensitive name.
pub fn redact_json(value: &mut Value) {
    Walk::new(is_sensitive).value(value);
}

/// The same for settings. Their secrets have their own type, so names do not count: `auth = "oauth"` is not a secret.
pub fn redact_settings(value: &mut Value) {
    Walk::new(|_| false).value(value);
}

/// The same for raw JSON. Returns `None` if there is nothing to redact. JSON that is nested too deeply to be parsed is
/// masked as a whole.
pub fn redact_raw(raw: &RawValue) -> Option<Box<RawValue>> {
    Walk::new(is_sensitive).raw(raw)
}

/// The same for JSON in a message of a peer. At most [`LONGEST_MESSAGE`] bytes of its strings are shown.
pub fn redact_raw_cut(raw: &RawValue) -> Option<Box<RawValue>> {
    Walk { left: LONGEST_MESSAGE, ..Walk::new(is_sensitive) }.raw(raw)
}

/// Walks through a JSON value.
struct Walk {
    /// Whether the name of a member makes the member secret.
    is_secret: fn(&str) -> bool,
    /// How many more bytes of strings may be shown.
    left: usize,
    has_changed: bool,
}

impl Walk {
    fn new(is_secret: fn(&str) -> bool) -> Self {
        Self { is_secret, left: usize::MAX, has_changed: false }
    }

    fn raw(&mut self, raw: &RawValue) -> Option<Box<RawValue>> {
        let Ok(mut value) = serde_json::from_str::<Value>(raw.get()) else { return Some(json::to_raw(MASK)) };
        self.value(&mut value);
        self.has_changed.then(|| json::to_raw(&value))
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) if items.iter().all(Value::is_string) => self.words(items),
            Value::Array(items) => self.items(items),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&mut self, text: &mut String) {
        let length = text.len();
        if let Cow::Owned(redacted) = redact_within(text, self.left) {
            self.change(text, redacted);
        }
        self.left = self.left.saturating_sub(length);
    }

    fn items(&mut self, items: &mut Vec<Value>) {
        let mut shown = 0;
        for item in items.iter_mut() {
            if self.left == 0 {
                break;
            }
            self.value(item);
            shown += 1;
        }
        if shown < items.len() {
            self.cut(items, shown);
        }
    }

    /// Redacts a list of strings as a command line. It is cut between two of them.
    fn words(&mut self, items: &mut Vec<Value>) {
        let mut words: Vec<String> = Vec::with_capacity(items.len());
        for text in items.iter().filter_map(Value::as_str) {
            let Some(left) = self.left.checked_sub(text.len()) else { break };
            self.left = left;
            words.push(text.to_owned());
        }
        for (item, shown) in items.iter_mut().zip(redact_words(&words)) {
            if item.as_str() != Some(&shown) {
                self.change(item, Value::String(shown));
            }
        }
        if words.len() < items.len() {
            self.left = 0;
            self.cut(items, words.len());
        }
    }

    fn cut(&mut self, items: &mut Vec<Value>, length: usize) {
        self.has_changed = true;
        items.truncate(length);
        items.push(CUT.into());
    }

    fn members(&mut self, members: &mut Map<String, Value>) {
        for (index, (mut name, mut member)) in std::mem::take(members).into_iter().enumerate() {
            if self.left == 0 {
                self.has_changed = true;
                members.insert(CUT.to_owned(), Value::Null);
                break;
            }
            let is_secret = (self.is_secret)(&name);
            self.text(&mut name);
            match &mut member {
                // An empty value means that there is no secret.
                Value::String(text) if is_secret && !text.is_empty() && !rules::has_reference(text, 0..text.len()) => {
                    self.change(text, MASK.to_owned());
                }
                member => self.value(member),
            }
            if members.contains_key(&name) {
                name = format!("{name} {index}");
            }
            members.insert(name, member);
        }
    }

    fn change<T: PartialEq>(&mut self, place: &mut T, shown: T) {
        self.has_changed |= *place != shown;
        *place = shown;
    }
}

/// Learns a value that may be percent-encoded, both encoded and decoded.
fn learn_encoded(value: &str, life: Life) {
    learn(value, life);
    if value.contains('%') {
        learn(&decoded_percent(value), life);
    }
}

fn decoded_percent(value: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decoded_base64(value: &str) -> Option<String> {
    use base64::Engine as _;
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(value).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn command_lines_are_shown_without_their_secrets() {
        for (written, shown) in [
            (&["s", "--token", "hush", "-v"][..], &["s", "--token", "***", "-v"][..]),
            (&["s", "--token", "--flag"], &["s", "--token", "--flag"]),
            (&["s", "--api-key=hush", "x"], &["s", "--api-key=***", "x"]),
            (&["s", "postgres://a:hush@h/d"], &["s", "postgres://***@h/d"]),
            (&["s", "--password", "${secret:p}"], &["s", "--password", "${secret:p}"]),
            (&["s", "--header", "X-Own: hush"], &["s", "--header", "X-Own: ***"]),
            (&["s", "--header", "Authorization: Bearer ${T}"], &["s", "--header", "Authorization: Bearer ${T}"]),
            (&["s", "-e", "DB_PASSWORD=hush"], &["s", "-e", "DB_PASSWORD=***"]),
            (&["mysql", "-uroot", "-phush", "db"], &["mysql", "-uroot", "-p***", "db"]),
            (&["docker", "exec", "db", "mariadb-dump", "-phush"], &["docker", "exec", "db", "mariadb-dump", "-p***"]),
            (&["docker", "run", "-p80:80", "mysql"], &["docker", "run", "-p80:80", "mysql"]),
            (&["ssh", "-p2222", "host"], &["ssh", "-p2222", "host"]),
            (&["s", "AKIAIOSFODNN7EXAMPLE"], &["s", "***"]),
            (&["sh", "-c", "srv --password hush"], &["sh", "-c", "srv --password ***"]),
        ] {
            assert_eq!(redact_words(&words(written)), words(shown));
        }
    }

    #[test]
    fn only_the_references_of_a_secret_setting_are_shown() {
        for (written, shown) in [
            ("hush", "***"),
            ("Bearer hush", "***"),
            ("Bearer ${secret:t}", "Bearer ${secret:t}"),
            ("hush ${X}", "***${X}"),
            ("${X:-hush}", "${X:-***}"),
            ("${A}:${B}", "${A}:${B}"),
            ("hush$${X}", "***"),
        ] {
            assert_eq!(redact_written(written), shown);
        }
    }

    #[test]
    fn redacted_json_is_valid_json() {
        let mut value = json!({"a": ["x", "--token", "hush"], "b": {"password": "hush", "token": "", "n": 12345678},
            "c": [{"url": "http://u:hush@x/"}, 1]});
        redact_json(&mut value);
        let shown = json!({"a": ["x", "--token", "***"], "b": {"password": "***", "token": "", "n": 12345678},
            "c": [{"url": "http://***@x/"}, 1]});
        assert_eq!(value, shown);
        assert!(redact_raw(&json::to_raw(&json!({"a": 1, "b": ["c", {"d": "e"}]}))).is_none());
        let deep = json::raw("[".repeat(1000) + &"]".repeat(1000));
        assert_eq!(redact_raw(&deep).unwrap().get(), r#""***""#);
    }

    #[test]
    fn secrets_in_names_of_members_are_masked() {
        let shown = |value: &Value| redact_raw(&json::to_raw(value)).unwrap().get().to_owned();
        assert_eq!(shown(&json!({"http://u:hush@x/": 1})), r#"{"http://***@x/":1}"#);
        let two = shown(&json!({"http://u:hush@x/": 1, "http://u:other@x/": 2}));
        assert_eq!(
            serde_json::from_str::<Value>(&two).unwrap().as_object().unwrap().len(),
            2,
            "no member is lost: {two}"
        );
    }

    #[test]
    fn the_strings_of_a_long_message_are_cut_and_its_structure_stays() {
        let shown = |value: &Value| {
            let cut = redact_raw_cut(&json::to_raw(value)).map(|raw| raw.get().to_owned());
            cut.map(|text| serde_json::from_str::<Value>(&text).unwrap())
        };
        let long = "x".repeat(LONGEST_MESSAGE);
        assert_eq!(shown(&json!(long)), None);
        assert_eq!(shown(&json!(format!("{long}x"))), Some(json!(format!("{long}{CUT}"))));
        let mixed = json!([1, {"a": long[1..]}, ["b"], {"c": 1}]);
        assert_eq!(shown(&mixed), Some(json!([1, {"a": long[1..]}, CUT])));
        let words = json!(["--token", "hush", long, "--token", "hush"]);
        assert_eq!(shown(&words), Some(json!(["--token", "***", CUT])));
        let many: Map<String, Value> = (0..LONGEST_MESSAGE).map(|n| (n.to_string(), json!([n]))).collect();
        let kept = shown(&Value::Object(many)).unwrap();
        assert!(kept.as_object().unwrap().len() < LONGEST_MESSAGE / 4 && kept[CUT].is_null());
    }

    #[test]
    fn secrets_learned_from_a_url_and_a_command_are_found_elsewhere() {
        learn_text("https://ann:pass%2Fword-1@x/?api_key=url-key-1234&profile=visible-profile", Life::Recent);
        learn_words(&words(&["srv", "--token", "argument-token-1", "postgres://u:dsn-password-1@h/d"]), Life::Recent);
        learn_header("X-Own", "header-value-1", Life::Recent);
        learn_header("authorization", "Basic YW5uOmJhc2ljLXBhc3N3b3JkLTE=", Life::Recent);
        learn_header("Accept", "application/json", Life::Recent);
        assert_eq!(redact("Basic YW5uOmJhc2ljLXBhc3N3b3JkLTE= and"), "Basic *** and");
        for secret in [
            "pass/word-1",
            "pass%2Fword-1",
            "url-key-1234",
            "argument-token-1",
            "dsn-password-1",
            "header-value-1",
            "basic-password-1",
        ] {
            assert_eq!(redact(&format!("echo {secret} end")), "echo *** end");
        }
        assert_eq!(redact("visible-profile application/json"), "visible-profile application/json");
    }
}
