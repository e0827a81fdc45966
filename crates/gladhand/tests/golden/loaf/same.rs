//! Whether a line is as recorded: what varies from run to run is compared by type or by shape, and random names must be
//! used as consistently as in the recording.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::replay::kind;

/// Members that are times, durations, process data, or depend on the texts of instructions, tools and systems.
const VARIES: [&str; 26] = [
    "timestamp",
    "time",
    "createdAt",
    "updatedAt",
    "enqueuedAt",
    "at_iso",
    "updated_at_iso",
    "created_at",
    "updated_at",
    "fetchedAt",
    "last_refresh",
    "summary_updated_at",
    "duration_ms",
    "durationMs",
    "delayMs",
    "seconds",
    "pid",
    "contextTokenEstimate",
    "total_tokens_estimate",
    "pinned_tokens",
    "tool_schema_tokens",
    "estimated_tokens_before",
    "estimated_tokens_after",
    "shell",
    "shell_command",
    "shell_args",
];

/// Recorded random names and what they are in this run.
#[derive(Debug, Default, Clone)]
pub(super) struct Names {
    ours: BTreeMap<String, String>,
    recorded: BTreeMap<String, String>,
}

impl Names {
    /// Says that a recorded name is this one here. False if either is another one already.
    fn bind(&mut self, recorded: &str, ours: &str) -> bool {
        let here = self.ours.entry(recorded.to_owned()).or_insert_with(|| ours.to_owned());
        let there = self.recorded.entry(ours.to_owned()).or_insert_with(|| recorded.to_owned());
        here == ours && there == recorded
    }

    /// The recorded name for one of our names.
    pub(super) fn recorded<'a>(&'a self, ours: &'a str) -> &'a str {
        self.recorded.get(ours).map_or(ours, String::as_str)
    }

    /// A recorded text with our names in it. A client may say the beginning of one, in any case.
    pub(super) fn put_into(&self, text: &str) -> String {
        self.ours.iter().fold(text.to_owned(), |text, (recorded, ours)| {
            let text = text.replace(recorded, ours);
            [8, 6].into_iter().filter(|_| is_uuid(recorded)).fold(text, |text, length| {
                let (start, our_start) = (&recorded[..length], &ours[..length]);
                text.replace(start, our_start).replace(&start.to_uppercase(), &our_start.to_uppercase())
            })
        })
    }

    /// Whether everything that runs in the background and is named in a recorded text is known.
    pub(super) fn know_all_of(&self, text: &str) -> bool {
        let parts = random_parts(text);
        parts.iter().filter(|part| part.starts_with("bg-")).all(|part| self.ours.contains_key(*part))
    }
}

/// Whether a line is as recorded; else where and how it differs.
pub(super) fn same(expected: &Value, got: &Value, path: &str, names: &mut Names) -> Result<(), String> {
    let differ = |what: &str| Err(format!("{path}: {what}\n    recorded {expected}\n    got      {got}"));
    let member = path.rsplit('/').next().unwrap_or_default();
    if VARIES.contains(&member) {
        return if kind(expected) == kind(got) { Ok(()) } else { differ("another type") };
    }
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => members(expected, got, path, names),
        (Value::Array(expected), Value::Array(got)) if expected.len() == got.len() => {
            let pairs = expected.iter().zip(got).enumerate();
            pairs.into_iter().try_for_each(|(at, (value, item))| same(value, item, &format!("{path}/{at}"), names))
        }
        (Value::Array(expected), Value::Array(got)) => {
            differ(&format!("{} instead of {} entries", got.len(), expected.len()))
        }
        (Value::String(recorded), Value::String(ours)) if member == "url" => {
            if login(recorded) == login(ours) {
                Ok(())
            } else {
                differ("another address")
            }
        }
        (Value::String(recorded), Value::String(ours)) if recorded.starts_with('{') && recorded != ours => {
            match (serde_json::from_str(recorded), serde_json::from_str(ours)) {
                (Ok(recorded), Ok(ours)) => same(&recorded, &ours, path, names),
                _ => differ("another text"),
            }
        }
        (Value::String(recorded), Value::String(ours)) => {
            if texts(recorded, ours, names) {
                Ok(())
            } else {
                differ("another text")
            }
        }
        _ if expected == got => Ok(()),
        _ => differ("another value"),
    }
}

fn members(
    expected: &Map<String, Value>,
    got: &Map<String, Value>,
    path: &str,
    names: &mut Names,
) -> Result<(), String> {
    let absent: Vec<_> = expected.keys().filter(|name| !got.contains_key(*name)).collect();
    let further: Vec<_> = got.keys().filter(|name| !expected.contains_key(*name)).collect();
    if !absent.is_empty() || !further.is_empty() {
        let got = Value::Object(got.clone());
        return Err(format!("{path}: without {absent:?}, with {further:?}\n    got      {got}"));
    }
    expected.iter().try_for_each(|(name, value)| same(value, &got[name], &format!("{path}/{name}"), names))
}

/// Whether two texts are the same but for random names and times in them.
fn texts(recorded: &str, ours: &str, names: &mut Names) -> bool {
    if recorded == ours {
        return true;
    }
    // The rest of the text depends on the JSON parser, or on the operating system and the runtime.
    for (theirs, mine) in [("parse error: ", "parse error: "), ("ENOENT: ", "No such file or directory")] {
        if let (Some((said, _)), Some((says, _))) = (recorded.split_once(theirs), ours.split_once(mine)) {
            return says.starts_with(said);
        }
    }
    // Estimates depend on the instructions.
    if recorded.contains(" est. tokens") {
        return without_digits(recorded) == without_digits(ours);
    }
    let (theirs, mine) = (random_parts(recorded), random_parts(ours));
    let rest =
        |text: &str, parts: &[&str]| parts.iter().fold(text.to_owned(), |text, part| text.replacen(part, "*", 1));
    theirs.len() == mine.len()
        && rest(recorded, &theirs) == rest(ours, &mine)
        && theirs.iter().zip(&mine).all(|(recorded, ours)| {
            is_time(recorded) == is_time(ours) && (is_time(recorded) || names.bind(recorded, ours))
        })
}

/// The random names and times in a text.
fn random_parts(text: &str) -> Vec<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-:._".contains(character);
    let words = text.split(|character| !is_part(character)).filter(|word| word.contains('-') && word.len() > 12);
    words.flat_map(parts_of_word).collect()
}

fn parts_of_word(word: &str) -> Vec<&str> {
    let uuid = (0..word.len().saturating_sub(35)).find_map(|at| word.get(at..at + 36).filter(|part| is_uuid(part)));
    match uuid {
        // The time in the name of a chat file, and the chat.
        Some(uuid) if word.starts_with("rollout-") => vec![&word[8..26], uuid],
        Some(uuid) => vec![uuid],
        None if ["bg-", "run-", "rpc-image-"].iter().any(|start| word.starts_with(start)) => {
            vec![word.split('.').next().unwrap_or(word)]
        }
        None if is_time(word) => vec![word],
        None => Vec::new(),
    }
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |at: usize| [8, 13, 18, 23].contains(&at);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// Whether a text is a time: `2026-01-01T00:00:00.000Z`.
fn is_time(text: &str) -> bool {
    let shape: String =
        text.chars().map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}

/// The address of a login page, without what is random in it: the port of the way back, the state, and the challenge.
fn login(text: &str) -> Option<(String, BTreeMap<String, String>)> {
    let url = url::Url::parse(&text.replace("<PROVIDER>", "http://provider")).ok()?;
    let fixed = url.query_pairs().filter(|(name, _)| name != "state" && name != "code_challenge");
    let fixed = fixed.map(|(name, value)| {
        let value = if name == "redirect_uri" { without_digits(&value) } else { value.into_owned() };
        (name.into_owned(), value)
    });
    Some((url[..url::Position::AfterPath].to_owned(), fixed.collect()))
}

/// A text without digits, and the commas between them.
pub(super) fn without_digits(text: &str) -> String {
    text.split(|character: char| character.is_ascii_digit() || character == ',').collect()
}
