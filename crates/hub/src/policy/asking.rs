//! Asks the person at the client before a call is made.

use std::borrow::Cow;

use gladhand_core::negotiation::{Agreement, Side};
use gladhand_core::operations::{Answered, Question};
use gladhand_core::wire::invisible::{Layout, escape, escape_json};
use gladhand_core::wire::{Members, RawValue};
use serde_json::json;

/// Maximum number of characters of name and arguments that a person sees. A call that needs more is refused.
const MOST_SHOWN: usize = 4000;

/// Maximum number of characters of a single string: the first of these with which everything fits is used.
const LONGEST_STRINGS: [usize; 2] = [1800, 200];

/// One in this many of those characters comes from the end of the string.
const SHARE_OF_THE_END: usize = 6;

/// The answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// Yes, this once.
    Once,
    /// Yes, for the rest of this session.
    Always,
    /// No, or an answer that is not a clear yes.
    Refused,
}

/// Whether the client can ask a person with a form.
pub(super) fn can_be_asked(agreement: &Agreement) -> bool {
    let agreed = |capability| agreement.allows(Side::Client, capability);
    agreed("elicitation") && (agreed("elicitation.form") || !agreed("elicitation.url"))
}

/// The question, or `None` if a person could not see all of the arguments. `always` is offered only if there is a
/// session to remember it for. The question has no name, so that no client can answer it before it was asked.
pub(super) fn question(tool: &str, arguments: &RawValue, reason: &str, offers_always: bool) -> Option<Question> {
    let tool = escape(tool, Layout::Line);
    let room = MOST_SHOWN.checked_sub(tool.chars().count())?;
    let arguments = escape_json(arguments.get());
    let shown = LONGEST_STRINGS.iter().find_map(|longest| shown(&arguments, *longest, room))?;
    let why = if reason.is_empty() { String::new() } else { format!("\n{reason}") };
    let answers: &[&str] = if offers_always { &["yes", "no", "always"] } else { &["yes", "no"] };
    let hint = if offers_always { "`always`: also the next times, in this session" } else { "Whether it is done" };
    let answer = json!({"type": "string", "title": "Allow it?", "description": hint, "enum": answers});
    let schema = json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]});
    Some(Question::form(&format!("Allow {tool} with {shown}?{why}"), &schema))
}

/// The arguments as a person sees them, or `None` if they need more than `room` characters.
///
/// They are shown as they were sent, so that a duplicate name is seen twice. Blanks between tokens are removed, because
/// they could push something out of sight. Only string values are shortened: every member name, number and short string
/// stays whole.
fn shown(arguments: &str, longest: usize, room: usize) -> Option<String> {
    let (mut shown, mut used, mut rest) = (String::new(), 0, arguments);
    while !rest.is_empty() {
        let (between, string, after) = first_string(rest);
        let between: String = between.chars().filter(|c| !c.is_whitespace()).collect();
        let is_name = after.trim_start().starts_with(':');
        let string = if is_name { Cow::Borrowed(string) } else { shortened(string, longest) };
        used += between.chars().count() + string.chars().count();
        if used > room {
            return None;
        }
        shown.extend([&*between, &*string]);
        rest = after;
    }
    Some(shown)
}

/// Splits JSON text into the part before its first string, the string with its quotes, and the rest.
fn first_string(json: &str) -> (&str, &str, &str) {
    let (between, from) = json.split_at(json.find('"').unwrap_or(json.len()));
    let mut is_escaped = true;
    let end = from.find(|c| {
        let ends = c == '"' && !is_escaped;
        // The opening quote does not end the string, as if it were escaped.
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let (string, after) = from.split_at(end.map_or(from.len(), |end| end + 1));
    (between, string, after)
}

/// A string with its quotes, without its middle if it is longer than `longest`. No escape is cut in two.
fn shortened(string: &str, longest: usize) -> Cow<'_, str> {
    let count = string.chars().count();
    if count <= longest {
        return Cow::Borrowed(string);
    }
    let tail = longest / SHARE_OF_THE_END;
    let (mut head_end, mut tail_start) = ((0, 0), (count, string.len()));
    let (mut position, mut rest) = ((0, 0), string);
    while let Some(first) = rest.chars().next() {
        if position.0 <= longest - tail {
            head_end = position;
        } else if position.0 >= count - tail {
            tail_start = position;
            break;
        }
        let characters = match first {
            '\\' if rest[1..].starts_with('u') => 6,
            '\\' => 2,
            _ => 1,
        };
        // An escape consists of ASCII characters.
        let bytes = if characters == 1 { first.len_utf8() } else { characters };
        position = (position.0 + characters, position.1 + bytes);
        rest = &rest[bytes..];
    }
    let left_out = tail_start.0 - head_end.0;
    let (head, tail) = (&string[..head_end.1], &string[tail_start.1..]);
    Cow::Owned(format!("{head} … ({left_out} characters are left out) … {tail}"))
}

/// The consent that an answer expresses.
pub(super) fn consent(answered: &Answered) -> Consent {
    let Ok(raw) = answered else { return Consent::Refused };
    let Some(members) = Members::of(raw).filter(|members| members.str("action").as_deref() == Some("accept")) else {
        return Consent::Refused;
    };
    let answer = members.object("content").and_then(|content| content.str("answer"));
    match answer.as_deref() {
        Some("yes") => Consent::Once,
        Some("always") => Consent::Always,
        _ => Consent::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the question about these arguments.
    fn asked(arguments: &str) -> Option<String> {
        let question = question("t", &gladhand_core::wire::json::raw(arguments.to_owned()), "", false)?;
        let params: serde_json::Value = serde_json::from_str(question.params.get()).unwrap();
        let message = params["message"].as_str().unwrap();
        Some(message.strip_prefix("Allow t with ").unwrap().strip_suffix('?').unwrap().to_owned())
    }

    #[test]
    fn nothing_is_pushed_out_of_sight() {
        let blanks = " ".repeat(400);
        let hiding = format!(r#"{{"path":"/safe"{blanks},"path":"/etc/shadow","cmd":"rm \" -rf  /"}}"#);
        assert_eq!(asked(&hiding).unwrap(), r#"{"path":"/safe","path":"/etc/shadow","cmd":"rm \" -rf  /"}"#);
        let hidden = asked("{\"cmd\":\"ls \u{202e}\u{e0041}\u{9b}2J\"}").unwrap();
        assert_eq!(hidden, r#"{"cmd":"ls \u202e\udb40\udc41\u009b2J"}"#, "a person sees what is run");
    }

    #[test]
    fn long_strings_become_shorter_and_everything_else_stays() {
        let arguments = |length: usize| {
            let long = "x".repeat(length);
            format!(
                r#"{{"a":"{long}","cmd":["rm \"\\","-rf"],"n":-1.5e3,"b":"{long}","path" : "/etc/shadow","c":"{long}"}}"#
            )
        };
        for length in [1000, 2000, 100_000] {
            let seen = asked(&arguments(length)).unwrap();
            assert!(seen.chars().count() <= MOST_SHOWN, "{seen}");
            for whole in [r#""cmd":["rm \"\\","-rf"],"n":-1.5e3,"b":"#, r#""path":"/etc/shadow","c":"#] {
                assert!(seen.contains(whole), "{whole} is missing: {seen}");
            }
        }
        let seen = asked(&format!(r#"{{"a":"begins {} ends"}}"#, r"\u0007\n".repeat(1000))).unwrap();
        let (head, tail) = seen.split_once(" characters are left out) … ").unwrap();
        assert!(head.starts_with(r#"{"a":"begins \u0007\n"#) && tail.ends_with(r#"\u0007\n ends"}"#), "{seen}");
        assert!(tail.starts_with(r"\u0007") || tail.starts_with(r"\n"), "no escape is cut: {tail}");
        let left_out: usize = head.rsplit_once('(').unwrap().1.parse().unwrap();
        let shown = seen.chars().count() - format!(" … ({left_out} characters are left out) … ").chars().count();
        assert_eq!(shown + left_out, r#"{"a":"begins  ends"}"#.len() + 8000);
    }

    #[test]
    fn arguments_that_cannot_be_shown_are_not_asked_about() {
        let many = |part: &str| part.repeat(2000);
        for too_long in [
            format!("[{}1]", many("1,")),
            format!("[{}1]", many("\"a\",")),
            format!(r#"{{"{}":1}}"#, many("name")),
            format!("1{}", many("000")),
            format!("[{}1]", format!("\"{}\",", "x".repeat(200)).repeat(30)),
        ] {
            assert_eq!(asked(&too_long), None);
        }
        assert!(question(&many("name"), &gladhand_core::wire::json::raw("{}".to_owned()), "", false).is_none());
    }
}
