//! A recording as one JSON object, documented in `docs/stability.md`.

use gladhand_core::wire::json;
use gladhand_recording::{Headers, HttpExchange};
use gladhand_redaction::redact;
use serde_json::{Value, json};

use crate::commands::shared::message_filter::MessageFilter;
use crate::commands::shared::recordings::{Exchange, Line, Recording, Session};

/// The whole report.
pub(super) fn report(recording: &Recording, filter: &MessageFilter) -> Value {
    let header = &recording.header;
    let sessions = recording.sessions.iter().map(|session| session_report(session, filter));
    let bad = recording
        .bad
        .iter()
        .map(|bad| json!({ "file": bad.file.display().to_string(), "line": bad.line, "message": bad.why.to_string() }));
    json!({
        "version": header.version,
        "started_ms": header.started_ms,
        "command": header.command,
        "parts": recording.parts,
        "dropped": recording.dropped,
        "unreadable": recording.bad_count,
        "unreadable_lines": bad.collect::<Vec<_>>(),
        "sessions": sessions.collect::<Vec<_>>(),
    })
}

fn session_report(session: &Session, filter: &MessageFilter) -> Value {
    let lines = filter.shown(session).into_iter().map(|at| line_report(session, &session.lines[at]));
    let exchanges = filter.shown_exchanges(session).into_iter().map(exchange_report);
    json!({
        "session": session.id,
        "dialect": session.dialect,
        "version": session.version,
        "peer": session.peer,
        "started_ms": session.first_ms,
        "duration_ms": session.duration_ms(),
        "closed": session.is_closed,
        "reason": session.reason,
        "messages": lines.collect::<Vec<_>>(),
        "exchanges": exchanges.collect::<Vec<_>>(),
    })
}

fn exchange_report(exchange: &Exchange) -> Value {
    let HttpExchange { method, path, status, request, response } = &exchange.http;
    let masked = |headers: &Headers| -> Headers {
        headers.iter().map(|(name, value)| (name.clone(), redact(value).into_owned())).collect()
    };
    json!({
        "ms": exchange.ms,
        "method": method,
        "path": redact(path),
        "status": status,
        "request": masked(request),
        "response": masked(response),
    })
}

fn line_report(session: &Session, line: &Line) -> Value {
    let text = redact(&line.text);
    // Deeper JSON than a reader of JSON accepts stays text, and numbers that do not fit.
    let message = line.is_json.then(|| serde_json::from_str::<Value>(&text).ok()).flatten();
    let id = line.id.as_ref().and_then(|id| serde_json::from_str::<Value>(id).ok());
    let mut report = json!({
        "from": json::to_raw(&line.from),
        "ms": line.ms,
        "kind": line.kind_word(),
        "method": session.method(line),
        "id": id,
    });
    let members = report.as_object_mut().expect("it was made as an object");
    match message {
        Some(message) => members.insert("message".to_owned(), message),
        None => members.insert("text".to_owned(), text.into_owned().into()),
    };
    if line.is_stderr {
        members.insert("stream".to_owned(), "stderr".into());
    }
    report
}
