//! Asking the person at the other end before a call is made.

use gladhand_accord::{Agreement, Side};
use gladhand_operations::{Answered, Question};
use gladhand_wire::invisible::{Layout, escape, escape_json};
use gladhand_wire::{Members, RawValue};
use serde_json::json;

/// How much of the arguments is shown: of their beginning, and of their end.
const SHOWN: (usize, usize) = (1500, 300);

/// What a person may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// This once.
    Once,
    /// Also the next time, in this session.
    Always,
    /// No, or nothing that means yes.
    Refused,
}

/// Whether somebody can be asked by a form.
pub(super) fn can_be_asked(agreement: &Agreement) -> bool {
    let agreed = |capability| agreement.allows(Side::Client, capability);
    agreed("elicitation") && (agreed("elicitation.form") || !agreed("elicitation.url"))
}

/// The question. `always` is offered where there is a session to remember it for.
pub(super) fn question(tool: &str, arguments: &RawValue, reason: &str, offers_always: bool) -> Question {
    let shown = shown(arguments.get());
    let why = if reason.is_empty() { String::new() } else { format!("\n{reason}") };
    let answers: &[&str] = if offers_always { &["yes", "no", "always"] } else { &["yes", "no"] };
    let hint = if offers_always { "`always`: also the next times, in this session" } else { "Whether it is done" };
    let answer = json!({"type": "string", "title": "Allow it?", "description": hint, "enum": answers});
    let schema = json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]});
    let tool = escape(tool, Layout::Line);
    Question::form(&format!("Allow {tool} with {shown}?{why}"), &schema).named("consent")
}

/// Arguments as a person is shown them: as they were sent, so that a name given twice is seen twice, without blanks that
/// would push something out of sight, with invisible characters written as `\u200b`, and with word of what is left out.
fn shown(arguments: &str) -> String {
    let arguments = escape_json(arguments);
    let (mut in_string, mut is_escaped) = (false, false);
    let squeezed: Vec<char> = arguments
        .chars()
        .filter(|c| {
            let keep = in_string || !c.is_whitespace();
            (in_string, is_escaped) = match c {
                '"' if !is_escaped => (!in_string, false),
                '\\' if in_string => (true, !is_escaped),
                _ => (in_string, false),
            };
            keep
        })
        .collect();
    let (beginning, end) = SHOWN;
    let Some(left_out) = squeezed.len().checked_sub(beginning + end).filter(|left_out| *left_out > 0) else {
        return squeezed.into_iter().collect();
    };
    let (head, tail) = (&squeezed[..beginning], &squeezed[squeezed.len() - end..]);
    let text = |part: &[char]| part.iter().collect::<String>();
    format!("{} … ({left_out} characters are left out) … {}", text(head), text(tail))
}

/// What an answer means.
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

    #[test]
    fn nothing_is_pushed_out_of_sight() {
        let blanks = " ".repeat(400);
        let hiding = format!(r#"{{"path":"/safe"{blanks},"path":"/etc/shadow","cmd":"rm \" -rf  /"}}"#);
        assert_eq!(shown(&hiding), r#"{"path":"/safe","path":"/etc/shadow","cmd":"rm \" -rf  /"}"#);
        let long = shown(&format!(r#"{{"a":"{}","cmd":"rm"}}"#, "x".repeat(5000)));
        let hidden = shown("{\"cmd\":\"ls \u{202e}\u{e0041}\u{9b}2J\"}");
        assert_eq!(hidden, r#"{"cmd":"ls \u202e\udb40\udc41\u009b2J"}"#, "a person sees what is run");
        assert!(long.ends_with(r#""cmd":"rm"}"#) && long.contains("characters are left out"), "{long}");
    }
}
