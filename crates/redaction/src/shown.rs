//! Redacts command lines, headers, JSON and settings, and learns the secrets in them.

use std::ops::Range;

use gladhand_core::wire::{RawValue, json};
use serde_json::Value;

use crate::flags::in_words;
use crate::known::{Life, learn};
use crate::names::is_sensitive;
use crate::rules::{self, SCHEMES};
use crate::walk::{Rules, redacted};
use crate::{LONGEST_MESSAGE, MASK, redact};

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
    in_tree(value, is_sensitive);
}

/// The same for settings. Their secrets have their own type, so names do not count: `auth = "oauth"` is not a secret.
pub fn redact_settings(value: &mut Value) {
    in_tree(value, |_| false);
}

fn in_tree(value: &mut Value, is_secret: fn(&str) -> bool) {
    let rules = Rules { is_secret, also: &|_| Vec::new(), max_bytes: usize::MAX };
    if let Some(shown) = redacted(&json::to_raw(value), &rules) {
        *value = serde_json::from_str(shown.get()).unwrap_or_else(|_| MASK.into());
    }
}

/// The same for raw JSON. Returns `None` if there is nothing to redact. Everything that is no secret keeps its spelling.
/// JSON that is nested too deeply is masked as a whole.
pub fn redact_raw(raw: &RawValue) -> Option<Box<RawValue>> {
    redact_raw_at(raw, |_| Vec::new())
}

/// The same, and also masks the places that a function finds in each string and in the name of each member.
pub fn redact_raw_at(raw: &RawValue, also: impl Fn(&str) -> Vec<Range<usize>>) -> Option<Box<RawValue>> {
    redacted(raw, &Rules { is_secret: is_sensitive, also: &also, max_bytes: usize::MAX })
}

/// The same for JSON in a message of a peer. About [`LONGEST_MESSAGE`] bytes of it are read and shown. The result is
/// JSON, with [`CUT`](crate::CUT) where it was cut.
pub fn redact_raw_cut(raw: &RawValue) -> Option<Box<RawValue>> {
    redacted(raw, &Rules { is_secret: is_sensitive, also: &|_| Vec::new(), max_bytes: LONGEST_MESSAGE })
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
    use serde_json::{Map, json};

    use super::*;
    use crate::CUT;

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
            (&["curl", "-u", "ann:hush", "x"], &["curl", "-u", "ann:***", "x"]),
            (&["docker", "run", "-u", "1:1", "curl"], &["docker", "run", "-u", "1:1", "curl"]),
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
    fn a_long_message_is_cut_and_its_structure_stays() {
        let shown = |value: &Value| {
            let cut = redact_raw_cut(&json::to_raw(value)).map(|raw| raw.get().to_owned());
            cut.map(|text| serde_json::from_str::<Value>(&text).unwrap())
        };
        let long = "x".repeat(LONGEST_MESSAGE);
        assert_eq!(shown(&json!(long[2..])), None, "two bytes are quotes");
        assert!(shown(&json!(long)) == Some(json!(format!("{}{CUT}", &long[1..]))));
        let mixed = json!([1, {"a": long[11..]}, ["b"], {"c": 1}]);
        assert!(shown(&mixed) == Some(json!([1, {"a": long[11..]}, CUT])));
        let words = json!(["--token", "hush", long, "--token", "hush"]);
        let cut = format!("{}{CUT}", &long["['--token','hush','".len()..]);
        assert!(shown(&words) == Some(json!(["--token", "***", cut])));
        let many: Map<String, Value> = (0..LONGEST_MESSAGE).map(|n| (n.to_string(), json!([n]))).collect();
        let kept = shown(&Value::Object(many)).unwrap();
        assert!(kept.as_object().unwrap().len() < LONGEST_MESSAGE / 8 && kept[CUT].is_null());
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
