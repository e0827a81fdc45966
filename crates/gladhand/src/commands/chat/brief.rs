//! JSON in few words: what a tool is called with, what came of it, what a command answered.

use std::fmt::Write as _;

use serde_json::Value;

use crate::commands::plain::plain;

/// The longest text of one value.
const LONGEST: usize = 100;
/// How much of a call is shown to whoever decides about it.
const SHOWN: usize = 4000;
/// Where the outcome of a tool has its words, the best place first.
const WORDS: [&str; 8] = ["output", "stdout", "stderr", "text", "content", "result", "message", "error"];

/// What a tool is called with, in one line.
pub(super) fn input(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::Object(members)) if members.len() == 1 => members.values().map(value).collect(),
        Ok(Value::Object(members)) => {
            let members: Vec<_> = members.iter().map(|(name, member)| format!("{name}: {}", value(member))).collect();
            shortened(&members.join(", "))
        }
        _ => shortened(json),
    }
}

/// What a tool is called with, for whoever decides about it: nothing of it is left out quietly.
pub(super) fn whole(json: &str) -> String {
    let said = match serde_json::from_str(json) {
        Ok(Value::Object(members)) => {
            let member = |(name, member): (&String, &Value)| match member {
                Value::String(text) => format!("  {name}: {}\n", text.replace('\n', "\n    ")),
                other => format!("  {name}: {other}\n"),
            };
            members.iter().map(member).collect()
        }
        _ => format!("  {json}"),
    };
    match said.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} characters more)", &said[..end], said[end..].chars().count()),
        None => said,
    }
}

/// What came of a tool, in one line.
pub(super) fn outcome(json: &str) -> String {
    let Ok(said) = serde_json::from_str::<Value>(json) else { return shortened(json) };
    words(&said).unwrap_or_else(|| value(&said))
}

fn words(said: &Value) -> Option<String> {
    match said {
        Value::String(text) if !text.trim().is_empty() => {
            let mut lines = text.trim().lines();
            let first = shortened(lines.next().unwrap_or_default());
            let more = lines.count();
            Some(if more == 0 { first } else { format!("{first} (+{more} lines)") })
        }
        Value::Object(members) => WORDS.iter().find_map(|name| words(members.get(*name)?)),
        Value::Array(items) => items.iter().find_map(words),
        _ => None,
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => shortened(text),
        other => shortened(&other.to_string()),
    }
}

/// The beginning of a text as one line.
pub(super) fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => plain(&line[..end]) + "…",
        None => plain(&line),
    }
}

/// What a command answered: members one below the other, lists of named things as a table.
pub(super) fn report(said: &Value) -> String {
    let mut text = String::new();
    write_report(&mut text, 0, said);
    text
}

/// Saved chats, one in each line.
pub(super) fn chats(chats: &[Value]) -> String {
    if chats.is_empty() {
        return "there are no saved chats yet\n".to_owned();
    }
    let text = |chat: &Value, name: &str| chat[name].as_str().map(shortened).unwrap_or_default();
    let mut lines = String::new();
    for chat in chats {
        let (id, day) = (text(chat, "id"), text(chat, "updatedAt"));
        let (id, day) = (id.get(..8).unwrap_or(&id), day.get(..10).unwrap_or(&day));
        let count = &chat["messageCount"];
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{id}  {day}  {count:>4} messages  {}", text(chat, "title"));
    }
    lines + "/history ID takes one up\n"
}

/// What a conversation of so many messages was put into, which takes so many tokens now. The agent counts what is said;
/// with the tools it is what stands below answers.
pub(super) fn compressed(said: &Value, messages: Option<u64>, tokens: Option<u64>) -> String {
    if said["compressed"] != true {
        return "there is nothing to compress".to_owned();
    }
    let count = |name: &str| said[name].as_u64().unwrap_or_default();
    let (before, after) = (count("estimated_tokens_before"), count("estimated_tokens_after"));
    let tools = tokens.unwrap_or_default().saturating_sub(after);
    let (before, after) = (before + tools, after + tools);
    let messages = match messages {
        Some(1) => "1 message is".to_owned(),
        Some(messages) => format!("{messages} messages are"),
        None => "the conversation is".to_owned(),
    };
    let gain = if after < before { "" } else { ", which is no shorter" };
    format!("{messages} one summary now{gain}: about {before} tokens of context before, {after} now")
}

fn write_report(text: &mut String, indent: usize, said: &Value) {
    // Writing to a String cannot fail.
    match said {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::Null => {}
                    Value::Object(_) | Value::Array(_) => {
                        let is_empty = member.as_array().is_some_and(Vec::is_empty);
                        let none = if is_empty { " none" } else { "" };
                        let _ = writeln!(text, "{:indent$}{}:{none}", "", plain(name));
                        write_report(text, indent + 2, member);
                    }
                    member => drop(writeln!(text, "{:indent$}{}: {}", "", plain(name), value(member))),
                }
            }
        }
        Value::Array(items) => {
            let rows: Vec<_> = items.iter().map(row).collect();
            let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
            for (name, about) in rows {
                let line = format!("{name:width$}  {about}");
                let _ = writeln!(text, "{:indent$}{}", "", line.trim_end());
            }
        }
        other => drop(writeln!(text, "{:indent$}{}", "", value(other))),
    }
}

/// A thing with a name, and what it is.
fn row(item: &Value) -> (String, String) {
    let first = |names: &[&str]| names.iter().find_map(|name| item.get(name)?.as_str()).map(shortened);
    match first(&["name", "id"]) {
        Some(name) => (name, first(&["description", "title", "label"]).unwrap_or_default()),
        None => (value(item), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_takes_one_line() {
        assert_eq!(input(r#"{"command":"ls -l\n| wc"}"#), "ls -l | wc");
        assert_eq!(input(r#"{"path":"a","limit":3}"#), "limit: 3, path: a");
        assert_eq!(input("{}"), "");
        assert_eq!(input(&json!({"x": "y".repeat(200)}).to_string()).chars().count(), LONGEST + 1);
        assert_eq!(outcome(r#"{"status":"ok","output":"one\ntwo\nthree\n"}"#), "one (+2 lines)");
        assert_eq!(outcome(r#"{"content":[{"type":"text","text":"hello"}]}"#), "hello");
        assert_eq!(outcome(r#"{"count":3}"#), r#"{"count":3}"#);
        assert_eq!(outcome("\"\\u001b[2J\""), "\u{fffd}[2J");
    }

    #[test]
    fn a_compression_says_what_it_came_to() {
        let report = |compressed: bool, before: u64, after: u64| {
            let (before, after) = (("estimated_tokens_before", before), ("estimated_tokens_after", after));
            json!({"compressed": compressed, "reason": "manual", before.0: before.1, after.0: after.1})
        };
        for (said, messages, tokens, expected) in [
            (
                report(true, 500, 200),
                Some(12),
                Some(600),
                "12 messages are one summary now: about 900 tokens of context before, 600 now",
            ),
            (
                report(true, 300, 300),
                Some(1),
                None,
                "1 message is one summary now, which is no shorter: about 300 tokens of context before, 300 now",
            ),
            (report(false, 200, 200), None, None, "there is nothing to compress"),
        ] {
            assert_eq!(compressed(&said, messages, tokens), expected);
        }
    }

    #[test]
    fn an_answer_is_laid_out() {
        let said = json!({"tools": [{"name": "bash", "description": "Runs."}, {"name": "ls"}], "n": 2, "none": []});
        assert_eq!(report(&said), "n: 2\nnone: none\ntools:\n  bash  Runs.\n  ls\n");
    }
}
