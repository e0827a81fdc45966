//! The path of one call: the client's request, the decision of the policy, the request to the upstream, and the way back.
//!
//! The messages of a call are found by its name and time among those that are kept. If several calls with the same name
//! run at the same time, their arguments decide.

use gladhand_core::negotiation::Side;
use gladhand_core::wire::FrameKind;
use serde_json::{Value, json};

use super::calls::KeptCall;
use super::kept::{KeptLine, KeptMessages, KeptSession};

/// Times are rounded to microseconds.
const ROUNDING_MS: f64 = 0.001;

/// The messages of a call that are kept.
pub(super) fn trace(kept: &KeptMessages, call: &KeptCall) -> Value {
    let client = kept.session(&call.session);
    let request = client.and_then(|session| {
        let requests = session.lines().filter(|line| is_request(line) && names(line, &call.name));
        requests.filter(|line| line.line.ms <= call.begun_ms + ROUNDING_MS).last()
    });
    let asked = request.map(arguments);
    let forwarded = call.target.as_ref().and_then(|(upstream, own)| {
        let ended = call.ended_ms.unwrap_or(f64::MAX) + ROUNDING_MS;
        let is_meanwhile = |line: &KeptLine| (call.begun_ms - ROUNDING_MS..=ended).contains(&line.line.ms);
        let sessions = kept.sessions().into_iter().filter(|session| is_of(session, upstream));
        let requests = sessions.flat_map(|session| session.lines().map(move |line| (session, line)));
        let mut requests = requests.filter(|(_, line)| is_request(line) && names(line, own) && is_meanwhile(line));
        let first = requests.next()?;
        let is_same = |line: &KeptLine| asked.as_ref().is_none_or(|asked| arguments(line) == *asked);
        if is_same(first.1) { Some(first) } else { requests.find(|(_, line)| is_same(line)).or(Some(first)) }
    });
    json!({
        "call": call.to_json(),
        "client_request": step(client, request),
        "client_answer": step(client, client.and_then(|session| answer(session, request))),
        "upstream_request": step(forwarded.map(|(session, _)| session), forwarded.map(|(_, line)| line)),
        "upstream_answer": step(
            forwarded.map(|(session, _)| session),
            forwarded.and_then(|(session, line)| answer(session, Some(line))),
        ),
    })
}

fn step(session: Option<&KeptSession>, line: Option<&KeptLine>) -> Value {
    match (session, line) {
        (Some(session), Some(line)) => json!({"session": session.id, "line": line.whole()}),
        _ => Value::Null,
    }
}

/// Whether a session is with this upstream. The name of an upstream that the command line names is not configured.
fn is_of(session: &KeptSession, upstream: &str) -> bool {
    session.id.starts_with("server-")
        && session.peer.as_ref().is_some_and(|peer| peer.upstream.as_deref().is_none_or(|name| name == upstream))
}

fn is_request(line: &KeptLine) -> bool {
    line.line.from == Side::Client && line.line.kind == Some(FrameKind::Request)
}

/// Whether a request is for a target: the tool, or the name or URI in its parameters.
fn names(line: &KeptLine, target: &str) -> bool {
    match &line.line.tool {
        Some(tool) => tool == target,
        None => line.line.text.contains(&Value::from(target).to_string()),
    }
}

fn arguments(line: &KeptLine) -> Value {
    let message: Value = serde_json::from_str(&line.line.text).unwrap_or_default();
    message.pointer("/params/arguments").or_else(|| message.get("arguments")).cloned().unwrap_or_default()
}

fn answer<'k>(session: &'k KeptSession, request: Option<&KeptLine>) -> Option<&'k KeptLine> {
    let n = request?.n;
    session.lines().find(|line| line.answers == Some(n))
}
