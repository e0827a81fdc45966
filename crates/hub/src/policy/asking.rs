//! Asking the person at the other end before a call is made.

use gladhand_accord::{Agreement, Side};
use gladhand_operations::{Answered, Question};
use gladhand_wire::{Members, RawValue};
use serde_json::json;

/// How much of the arguments is shown.
const SHOWN: usize = 300;

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
    let arguments = arguments.get();
    let shown: String = arguments.chars().take(SHOWN).collect();
    let more = if shown.len() < arguments.len() { "…" } else { "" };
    let why = if reason.is_empty() { String::new() } else { format!("\n{reason}") };
    let answers: &[&str] = if offers_always { &["yes", "no", "always"] } else { &["yes", "no"] };
    let hint = if offers_always { "`always`: also the next times, in this session" } else { "Whether it is done" };
    let answer = json!({"type": "string", "title": "Allow it?", "description": hint, "enum": answers});
    let schema = json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]});
    Question::form(&format!("Allow {tool} with {shown}{more}?{why}"), &schema).named("consent")
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
