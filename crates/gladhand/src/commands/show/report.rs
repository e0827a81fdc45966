//! A recording as one JSON object, documented in `docs/stability.md`.
//!
//! Messages stay text: a tree of them could take a hundred times as much memory.

use std::borrow::Cow;

use gladhand_core::wire::text::MAX_DEPTH;
use gladhand_core::wire::tokens::JsonTokens;
use gladhand_core::wire::{RawValue, json};
use gladhand_recording::{Headers, HttpExchange, PeerName};
use gladhand_redaction::{redact, redact_raw};
use serde::Serialize;

use crate::commands::shared::message_filter::MessageFilter;
use crate::commands::shared::recordings::{BadLine, Exchange, Line, Recording, Session};

/// The whole report, on one line.
pub(super) fn report(recording: &Recording, filter: &MessageFilter) -> String {
    let header = &recording.header;
    let report = Report {
        version: &header.version,
        started_ms: header.started_ms,
        command: &header.command,
        parts: recording.parts,
        dropped: recording.dropped,
        unreadable: recording.bad_count,
        unreadable_lines: recording.bad.iter().map(unreadable_line).collect(),
        sessions: recording.sessions.iter().map(|session| session_report(session, filter)).collect(),
    };
    json::to_raw(&report).get().replace(['\n', '\r'], " ")
}

#[derive(Serialize)]
struct Report<'r> {
    version: &'r str,
    started_ms: u64,
    command: &'r [String],
    parts: usize,
    dropped: u64,
    unreadable: usize,
    unreadable_lines: Vec<UnreadableLine>,
    sessions: Vec<SessionReport<'r>>,
}

#[derive(Serialize)]
struct UnreadableLine {
    file: String,
    line: u64,
    message: String,
}

#[derive(Serialize)]
struct SessionReport<'r> {
    session: &'r str,
    dialect: Option<&'r str>,
    version: Option<&'r str>,
    peer: Option<&'r PeerName>,
    started_ms: f64,
    duration_ms: f64,
    closed: bool,
    reason: Option<&'r str>,
    messages: Vec<LineReport<'r>>,
    exchanges: Vec<ExchangeReport<'r>>,
}

#[derive(Serialize)]
struct ExchangeReport<'r> {
    ms: f64,
    method: &'r str,
    path: Cow<'r, str>,
    status: u16,
    request: Headers,
    response: Headers,
}

#[derive(Serialize)]
struct LineReport<'r> {
    from: Box<RawValue>,
    ms: f64,
    kind: Option<&'static str>,
    method: Option<&'r str>,
    id: Option<Cow<'r, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'r, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'static str>,
}

fn unreadable_line(bad: &BadLine) -> UnreadableLine {
    UnreadableLine { file: bad.file.display().to_string(), line: bad.line, message: bad.why.to_string() }
}

fn session_report<'r>(session: &'r Session, filter: &MessageFilter) -> SessionReport<'r> {
    let lines = filter.shown(session).into_iter().map(|at| line_report(session, &session.lines[at]));
    SessionReport {
        session: &session.id,
        dialect: session.dialect.as_deref(),
        version: session.version.as_deref(),
        peer: session.peer.as_ref(),
        started_ms: session.first_ms,
        duration_ms: session.duration_ms(),
        closed: session.is_closed,
        reason: session.reason.as_deref(),
        messages: lines.collect(),
        exchanges: filter.shown_exchanges(session).into_iter().map(exchange_report).collect(),
    }
}

fn exchange_report(exchange: &Exchange) -> ExchangeReport<'_> {
    let HttpExchange { method, path, status, request, response } = &exchange.http;
    let masked = |headers: &Headers| -> Headers {
        headers.iter().map(|(name, value)| (name.clone(), redact(value).into_owned())).collect()
    };
    ExchangeReport {
        ms: exchange.ms,
        method,
        path: redact(path),
        status: *status,
        request: masked(request),
        response: masked(response),
    }
}

fn line_report<'r>(session: &'r Session, line: &'r Line) -> LineReport<'r> {
    let message = Some(line.text.as_str()).filter(|_| line.is_json).and_then(readable);
    let text = message.is_none().then(|| redact(&line.text));
    LineReport {
        from: json::to_raw(&line.from),
        ms: line.ms,
        kind: line.kind_word(),
        method: session.method(line),
        id: line.id.as_deref().and_then(readable),
        message,
        text,
        stream: line.is_stderr.then_some("stderr"),
    }
}

/// JSON without secrets. `None` if some readers of JSON do not accept it: it is nested too deeply, or has a number or a
/// string that they cannot represent.
fn readable(text: &str) -> Option<Cow<'_, RawValue>> {
    // Words that are no numbers are `true`, `false` and `null`.
    let fits = |word: &str| word.starts_with('"') || word.parse().map_or(true, f64::is_finite);
    let is_readable = !json::is_deeper_than(text.as_bytes(), MAX_DEPTH - 8)
        && json::lone_surrogate(text.as_bytes()).is_none()
        && JsonTokens::of(text).all(|(_, range)| fits(&text[range]));
    let raw: &RawValue = serde_json::from_str(text).ok().filter(|_| is_readable)?;
    Some(redact_raw(raw).map_or(Cow::Borrowed(raw), Cow::Owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_text_and_others_become_strings() {
        for text in [r#"{"a":1.50,"a":[2],"b":"\u00e9"}"#, "1e300", "[true,null]"] {
            assert_eq!(readable(text).unwrap().get(), text);
        }
        let deep = format!("{}{}", "[".repeat(125), "]".repeat(125));
        for text in ["1e999", r#"{"a":[-1e999]}"#, r#"["\ud800"]"#, &deep] {
            assert!(readable(text).is_none(), "{text}");
        }
        assert_eq!(readable(r#"{"password":"hush","n":1.0}"#).unwrap().get(), r#"{"password":"***","n":1.0}"#);
    }
}
