//! JSON in few words: what a tool is called with, what came of it, what a command answered.

use std::fmt::Write as _;

use gladhand_core::wire::invisible::escape_json;
use gladhand_core::wire::{Members, RawValue, json};
use serde_json::Value;

use crate::terminal::text::{exact_lines, plain};

/// The longest text of one value.
const LONGEST: usize = 100;
/// How much of a call is shown to the person who decides about it: of its beginning, and of its end.
const SHOWN: (usize, usize) = (3000, 1000);
/// Longer runs of blanks and line breaks are counted instead of shown.
const BLANKS: usize = 40;
/// Where the outcome of a tool has its words, the best place first.
const WORDS: [&str; 8] = ["output", "stdout", "stderr", "text", "content", "result", "message", "error"];

/// The arguments of a tool call, in one line.
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

/// The arguments of a tool call, for the user who decides about it. Nothing is left out: a member that is given twice
/// is shown twice, what cannot be seen is escaped, and blanks that would push something out of sight are counted.
pub(super) fn whole(json: &str) -> String {
    let Ok(members) = Members::parse(json) else { return format!("  {}", visible(json)) };
    let member = |(name, value): (&str, &RawValue)| {
        let value = match json::string(value) {
            Some(text) => visible(&text),
            None => counted(&escape_json(&compact(value.get()))),
        };
        format!("  {}: {}\n", plain(name), value.replace('\n', "\n    "))
    };
    members.iter().map(member).collect()
}

/// The beginning and the end of a text that is too long to be read at once; none if it is not.
pub(super) fn ends(text: &str) -> Option<String> {
    let (beginning, end) = SHOWN;
    let left_out = text.chars().count().checked_sub(beginning + end).filter(|left_out| *left_out > 0)?;
    let at = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..at(beginning)], &text[at(beginning + left_out)..]);
    Some(format!("{head}\n  … ({left_out} characters are left out here) …\n{tail}"))
}

/// JSON without the blanks and line breaks between its values, which could push one of them out of sight.
fn compact(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let mut stays = |letter: char| {
        let is_quote = letter == '"' && !is_escaped;
        is_escaped = is_text && letter == '\\' && !is_escaped;
        is_text ^= is_quote;
        is_text || !letter.is_ascii_whitespace()
    };
    json.chars().filter(|letter| stays(*letter)).collect()
}

/// Text of several lines in which everything can be seen.
fn visible(text: &str) -> String {
    counted(&exact_lines(text))
}

/// Text in which long runs of blanks and line breaks are counted instead of shown.
fn counted(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(char::is_whitespace) {
        let length = rest[start..].find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - start);
        let (before, blanks) = (&rest[..start], &rest[start..start + length]);
        shown.push_str(before);
        match blanks.chars().count() {
            count if count > BLANKS => drop(write!(shown, " … ({count} blanks) … ")),
            _ => shown.push_str(blanks),
        }
        rest = &rest[start + length..];
    }
    shown + rest
}

/// The result of a tool call, in one line.
pub(super) fn outcome(json: &str) -> String {
    let Ok(said) = serde_json::from_str::<Value>(json) else { return shortened(json) };
    words(&said).unwrap_or_else(|| match said.get("exit_code").and_then(Value::as_i64) {
        Some(code) => format!("no output, exit code {code}"),
        None => value(&said),
    })
}

/// The failure of a tool, in one line. A command that failed has output besides.
pub(super) fn failure(error: &str, result: Option<&str>) -> String {
    let said = result.and_then(|result| serde_json::from_str::<Value>(result).ok());
    let output = said.filter(|said| said.get("exit_code").is_some());
    let output = output.and_then(|said| ["stderr", "stdout"].iter().find_map(|name| words(said.get(*name)?)));
    match output.filter(|output| !error.contains(output.as_str())) {
        Some(output) => format!("{}: {output}", shortened(error)),
        None => shortened(error),
    }
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

/// The result of a command: members one below the other, lists of named things as a table.
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

/// Describes a compression of the conversation: how many messages it covers, and the tokens before and after. The agent
/// counts only the messages, so the tokens of the tools are added here.
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
        assert_eq!(outcome(r#"{"exit_code":0,"stdout":"","stderr":""}"#), "no output, exit code 0");
        let failed = Some(r#"{"exit_code":2,"stdout":"a","stderr":"no such file\nb"}"#);
        assert_eq!(failure("exit code 2", failed), "exit code 2: no such file (+1 lines)");
        assert_eq!((failure("denied", None), failure("denied", Some("null"))), ("denied".into(), "denied".into()));
        assert_eq!(outcome("\"\\u001b[2J\""), "\\u{1b}[2J");
    }

    #[test]
    fn an_approval_shows_the_whole_call_escaped() {
        assert_eq!(whole(r#"{"b":"x\ny","a":[1, 2.0]}"#), "  b: x\n    y\n  a: [1,2.0]\n");
        assert_eq!(whole(r#"{"command":"ls","command":"rm"}"#), "  command: ls\n  command: rm\n", "both are sent");
        let hidden = "{\"a\\nb\":\"ls \u{202e}x\\u001b[2K\\r\",\"o\":{\"\u{200b}\":1}}";
        assert_eq!(whole(hidden), "  a\\nb: ls \\u{202e}x\\u{1b}[2K\\u{d}\n  o: {\"\\u200b\":1}\n");
        let far = json!({"command": format!("ls{};rm", " ".repeat(3000))}).to_string();
        assert_eq!(whole(&far), "  command: ls … (3000 blanks) … ;rm\n");
        let far = json!({"command": format!("ls{};rm", "\n".repeat(300))}).to_string();
        assert_eq!(whole(&far), "  command: ls … (300 blanks) … ;rm\n");
        let far = format!("{{\"o\":{{\"c\":\"rm \\\\\\\" x\"{},\r \"n\":\"{}\"}}}}", "\n".repeat(60), " ".repeat(60));
        assert_eq!(whole(&far), "  o: {\"c\":\"rm \\\\\\\" x\",\"n\":\" … (60 blanks) … \"}\n");
    }

    #[test]
    fn the_end_of_a_long_call_is_in_view() {
        assert_eq!(ends(&"x".repeat(SHOWN.0 + SHOWN.1)), None);
        let long = ends(&format!("{}rm -rf /", "é".repeat(9000))).unwrap();
        assert!(long.starts_with('é') && long.ends_with("rm -rf /"), "{long}");
        assert!(long.contains("(5008 characters are left out here)"), "{long}");
    }

    #[test]
    fn a_compression_reports_its_result() {
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
