//! The sessions and messages that a console keeps in memory: the opening of each session, and the newest messages of all.
//!
//! Everything is masked before it is kept, by the masks of recordings. A live process and a recording are kept in the same
//! form, so the page shows both in the same way.

use std::collections::{HashMap, VecDeque};

use gladhand_core::negotiation::Side;
use gladhand_core::wire::FrameKind;
use gladhand_dialects::{Dialect, REGISTRY};
use gladhand_recording::{EntryKind, PeerName};
use serde_json::{Value, json};

use crate::commands::shared::recordings::{Line, rounded, side};

/// Maximum number of sessions. When it is exceeded, the session that ended first is forgotten.
const MAX_SESSIONS: usize = 2000;

/// Number of messages from its beginning that each session keeps.
const OPENING_LINES: usize = 24;

/// Maximum size of these messages, in bytes.
const OPENING_BYTES: usize = 32 * 1024;

/// Maximum size of a message that is kept with its text, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 256 * 1024;

/// Maximum number of requests of one session whose answers are awaited.
const MAX_PENDING: usize = 256;

/// Maximum length of a label, a name or a tool's name, in bytes. The rest is in the text of the message.
const MAX_NAME_BYTES: usize = 256;

/// Maximum length of an id, in bytes. The answer to a request with a longer id is not assigned to it.
const MAX_ID_BYTES: usize = 128;

/// What a message takes in memory in addition to its texts, in bytes.
const FIXED_BYTES: usize = 256;

/// Number of durations that a session keeps.
const LATENCIES: usize = 40;

/// Limits for the newest messages of all sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptLimits {
    /// Maximum number.
    pub(super) lines: usize,
    /// Maximum size in bytes.
    pub(super) bytes: usize,
}

impl KeptLimits {
    /// The limits for a live process.
    pub(super) const LIVE: Self = Self { lines: 50_000, bytes: 32 * 1024 * 1024 };
    /// The limits for a recording: it is a file of limited size.
    pub(super) const RECORDING: Self = Self { lines: usize::MAX, bytes: usize::MAX };
}

/// Sessions and messages.
#[derive(Debug)]
pub(super) struct KeptMessages {
    limits: KeptLimits,
    sessions: HashMap<String, KeptSession>,
    /// The sessions of the newest messages, one entry for each message, the oldest first.
    recent: VecDeque<String>,
    recent_bytes: usize,
    next_line: u64,
    next_session: u64,
    /// Messages that did not reach the console.
    pub(super) dropped: u64,
}

/// A session.
#[derive(Debug, Default)]
pub(super) struct KeptSession {
    /// In the order of the first entries.
    number: u64,
    pub(super) id: String,
    pub(super) dialect: Option<String>,
    pub(super) version: Option<String>,
    pub(super) peer: Option<PeerName>,
    first_ms: f64,
    last_ms: f64,
    is_closed: bool,
    reason: Option<String>,
    messages: u64,
    calls: u64,
    errors: u64,
    latencies: VecDeque<f64>,
    /// The first messages.
    opening: Vec<KeptLine>,
    opening_bytes: usize,
    /// The newest messages.
    recent: VecDeque<KeptLine>,
    /// Messages between these two that are not kept any more.
    forgotten: u64,
    /// Requests without an answer so far.
    pending: HashMap<(Side, String), UnansweredRequest>,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct UnansweredRequest {
    n: u64,
    ms: f64,
    name: Option<String>,
    is_call: bool,
}

/// A message that is kept.
#[derive(Debug)]
pub(super) struct KeptLine {
    /// Its number in the order of arrival.
    pub(super) n: u64,
    pub(super) line: Line,
    /// The number of the request that it answers.
    pub(super) answers: Option<u64>,
    /// Milliseconds since that request.
    took: Option<f64>,
}

impl KeptSession {
    /// The dialect, if this program knows it.
    pub(super) fn known_dialect(&self) -> Option<&'static Dialect> {
        let name = self.dialect.as_deref()?;
        REGISTRY.iter().copied().find(|dialect| dialect.name == name)
    }

    /// The messages that are kept, in order.
    pub(super) fn lines(&self) -> impl Iterator<Item = &KeptLine> {
        self.opening.iter().chain(&self.recent)
    }

    /// The session without its messages.
    pub(super) fn summary(&self) -> Value {
        let peer = self.peer.clone().unwrap_or_default();
        json!({
            "id": self.id,
            "number": self.number,
            "dialect": self.dialect,
            "version": self.version,
            "name": peer.name,
            "peer_version": peer.version,
            "principal": peer.principal,
            "upstream": peer.upstream,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "closed": self.is_closed,
            "reason": self.reason,
            "messages": self.messages,
            "calls": self.calls,
            "errors": self.errors,
            "latencies": self.latencies,
            "forgotten": self.forgotten,
        })
    }

    fn add(&mut self, n: u64, mut line: Line) -> KeptLine {
        self.last_ms = self.last_ms.max(line.ms);
        self.messages += 1;
        self.errors += u64::from(line.is_error);
        let (mut answers, mut took) = (None, None);
        match (line.kind, &line.id) {
            (Some(FrameKind::Request), Some(id)) => {
                let is_call = line.tool.is_some();
                self.calls += u64::from(is_call);
                if self.pending.len() < MAX_PENDING {
                    let asked = UnansweredRequest { n, ms: line.ms, name: line.name.clone(), is_call };
                    self.pending.insert((line.from, id.clone()), asked);
                }
            }
            (Some(kind), Some(id)) if kind.is_answer() => {
                if let Some(asked) = self.pending.remove(&(line.from.other(), id.clone())) {
                    let duration = rounded(line.ms - asked.ms);
                    (answers, took) = (Some(asked.n), Some(duration));
                    if asked.is_call {
                        self.latencies.push_back(duration);
                        self.latencies.drain(..self.latencies.len().saturating_sub(LATENCIES));
                    }
                    if let (Some(name), None) = (asked.name, &line.name) {
                        line.label = format!("{} of {name}", line.label);
                    }
                }
            }
            _ => {}
        }
        KeptLine { n, line, answers, took }
    }
}

impl KeptLine {
    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let Line { text, label, name, tool, id, .. } = &self.line;
        let optional = [name, tool, id].into_iter().flatten().map(String::len).sum::<usize>();
        FIXED_BYTES + text.len() + label.len() + optional
    }

    /// The message without its text.
    fn summary(&self) -> Value {
        let Self { n, line, answers, took } = self;
        json!({
            "n": n,
            "ms": line.ms,
            "from": line.from.word(),
            "kind": line.kind_word(),
            "label": line.label,
            "name": line.name,
            "tool": line.tool,
            "error": line.is_error,
            "bytes": line.text.len(),
            "answers": answers,
            "took": took,
        })
    }

    /// The message with its text.
    pub(super) fn whole(&self) -> Value {
        let mut whole = self.summary();
        whole["text"] = self.line.text.clone().into();
        whole
    }
}

impl KeptMessages {
    /// Keeps nothing so far.
    pub(super) fn new(limits: KeptLimits) -> Self {
        Self {
            limits,
            sessions: HashMap::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            next_line: 0,
            next_session: 0,
            dropped: 0,
        }
    }

    /// Adds an entry that is masked. Returns the event that tells the pages about it.
    pub(super) fn add(&mut self, id: &str, ms: f64, kind: EntryKind) -> Option<Value> {
        let ms = rounded(ms);
        if matches!(kind, EntryKind::Http(_) | EntryKind::Dropped(_)) {
            // The page shows messages, also of sessions over HTTP.
            return None;
        }
        if !self.sessions.contains_key(id) {
            self.forget_one_session();
            let session =
                KeptSession { number: self.next_session, id: id.to_owned(), first_ms: ms, ..KeptSession::default() };
            self.next_session += 1;
            self.sessions.insert(id.to_owned(), session);
        }
        let session = self.sessions.get_mut(id)?;
        session.last_ms = session.last_ms.max(ms);
        let line = match kind {
            EntryKind::Message { from, dialect, message, .. } => {
                session.dialect = session.dialect.take().or(dialect);
                Line::message(side(from), 0, ms, &message, session.known_dialect())
            }
            EntryKind::Text { from, is_stderr, text } => Line::text(side(from), 0, ms, is_stderr, text),
            EntryKind::Opened { dialect, version, peer } => {
                (session.dialect, session.version, session.peer) = (Some(dialect), Some(version), Some(peer));
                return Some(json!({"t": "session", "session": session.summary()}));
            }
            EntryKind::Closed(end) => {
                (session.is_closed, session.reason) = (true, end.reason);
                session.pending = HashMap::new();
                return Some(json!({"t": "session", "session": session.summary()}));
            }
            EntryKind::Http(_) | EntryKind::Dropped(_) => return None,
        };
        let line = session.add(self.next_line, bounded(line));
        self.next_line += 1;
        let event = json!({"t": "line", "session": id, "line": line.summary()});
        let bytes = line.bytes();
        let is_opening = session.recent.is_empty()
            && session.forgotten == 0
            && session.opening.len() < OPENING_LINES
            && session.opening_bytes + bytes <= OPENING_BYTES;
        if is_opening {
            session.opening_bytes += bytes;
            session.opening.push(line);
        } else {
            session.recent.push_back(line);
            self.recent.push_back(id.to_owned());
            self.recent_bytes += bytes;
        }
        while self.recent.len() > self.limits.lines || self.recent_bytes > self.limits.bytes {
            let Some(oldest) = self.recent.pop_front() else { break };
            // A session that was forgotten has left its entries behind.
            let Some(session) = self.sessions.get_mut(&oldest) else { continue };
            if let Some(line) = session.recent.pop_front() {
                self.recent_bytes -= line.bytes();
                session.forgotten += 1;
            }
        }
        Some(event)
    }

    /// Makes room for a session: forgets the one that ended first, or else the oldest.
    fn forget_one_session(&mut self) {
        if self.sessions.len() < MAX_SESSIONS {
            return;
        }
        let oldest = self.sessions.values().min_by_key(|session| (!session.is_closed, session.number));
        let Some(id) = oldest.map(|session| session.id.clone()) else { return };
        if let Some(session) = self.sessions.remove(&id) {
            self.recent_bytes -= session.recent.iter().map(KeptLine::bytes).sum::<usize>();
            self.recent.retain(|other| *other != id);
        }
    }

    /// A session.
    pub(super) fn session(&self, id: &str) -> Option<&KeptSession> {
        self.sessions.get(id)
    }

    /// All sessions, in the order of their first entries.
    pub(super) fn sessions(&self) -> Vec<&KeptSession> {
        let mut sessions: Vec<_> = self.sessions.values().collect();
        sessions.sort_by_key(|session| session.number);
        sessions
    }
}

/// A line without the text of a very long message, and with short names.
fn bounded(mut line: Line) -> Line {
    if line.text.len() > MAX_LINE_BYTES {
        line.text = format!("(a message of {} bytes is not kept)", line.text.len());
        line.is_json = false;
    }
    for text in [&mut line.label].into_iter().chain(&mut line.name).chain(&mut line.tool) {
        if text.len() > MAX_NAME_BYTES {
            text.truncate(text.floor_char_boundary(MAX_NAME_BYTES));
            text.push('…');
            text.shrink_to_fit();
        }
    }
    line.id.take_if(|id| id.len() > MAX_ID_BYTES);
    line
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::json::raw;
    use gladhand_recording::{Sender, SessionEnd};

    use super::*;

    fn message(from: Sender, text: String) -> EntryKind {
        EntryKind::Message { from, dialect: Some("mcp".to_owned()), kind: None, message: raw(text) }
    }

    fn call(id: usize) -> EntryKind {
        let params = r#"{"name":"echo","arguments":{}}"#;
        message(Sender::Client, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#))
    }

    fn result(id: usize) -> EntryKind {
        message(Sender::Server, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"isError":true}}}}"#))
    }

    #[test]
    fn a_session_counts_its_calls_errors_and_durations() {
        let mut kept = KeptMessages::new(KeptLimits::LIVE);
        kept.add("client-1", 1.0, call(1));
        let event = kept.add("client-1", 3.5, result(1)).unwrap();
        assert_eq!((&event["line"]["took"], &event["line"]["answers"]), (&json!(2.5), &json!(0)));
        assert_eq!(event["line"]["label"], "result #1 of tools/call");
        let summary = kept.session("client-1").unwrap().summary();
        assert_eq!((&summary["calls"], &summary["errors"], &summary["messages"]), (&json!(1), &json!(1), &json!(2)));
        assert_eq!(summary["latencies"], json!([2.5]));
        kept.add("client-1", 4.0, EntryKind::Closed(SessionEnd { reason: Some("gone".to_owned()) }));
        let summary = kept.session("client-1").unwrap().summary();
        assert_eq!((&summary["closed"], &summary["reason"]), (&json!(true), &json!("gone")));
    }

    #[test]
    fn the_opening_stays_when_later_messages_are_forgotten() {
        let mut kept = KeptMessages::new(KeptLimits { lines: 3, bytes: usize::MAX });
        (0..OPENING_LINES + 10).for_each(|id| drop(kept.add("client-1", 0.0, call(id))));
        let numbers: Vec<_> = kept.session("client-1").unwrap().lines().map(|line| line.n).collect();
        let opening = 0..OPENING_LINES as u64;
        assert_eq!(numbers, opening.chain([31, 32, 33]).collect::<Vec<_>>());
        assert_eq!(kept.session("client-1").unwrap().summary()["forgotten"], 7);
    }

    #[test]
    fn sessions_and_bytes_are_bounded() {
        let mut kept = KeptMessages::new(KeptLimits { lines: usize::MAX, bytes: 10_000 });
        for number in 0..MAX_SESSIONS + 50 {
            let id = format!("client-{number}");
            (0..OPENING_LINES + 2).for_each(|id_of_call| drop(kept.add(&id, 0.0, call(id_of_call))));
            if number == 7 {
                kept.add(&id, 0.0, EntryKind::Closed(SessionEnd::default()));
            }
        }
        assert_eq!(kept.sessions.len(), MAX_SESSIONS);
        assert!(kept.session("client-7").is_none() && kept.session("client-60").is_some());
        assert!(kept.recent_bytes <= 10_000);
        let really: usize = kept.sessions.values().flat_map(|session| &session.recent).map(KeptLine::bytes).sum();
        assert_eq!(kept.recent_bytes, really);
        let long = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(MAX_LINE_BYTES));
        kept.add("client-60", 0.0, message(Sender::Client, long));
        assert!(kept.session("client-60").unwrap().lines().all(|line| line.line.text.len() < 200));
    }

    #[test]
    fn long_names_and_ids_are_not_kept() {
        let long = "x".repeat(MAX_LINE_BYTES);
        for text in [
            format!(r#"{{"jsonrpc":"2.0","method":"{long}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{long}"}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "y".repeat(MAX_ID_BYTES + 1)),
        ] {
            let mut kept = KeptMessages::new(KeptLimits::LIVE);
            kept.add("client-1", 0.0, message(Sender::Client, text));
            let session = kept.session("client-1").unwrap();
            let bytes: usize = session.lines().map(KeptLine::bytes).sum();
            assert!(bytes < FIXED_BYTES + 1500, "{bytes}");
            let asked = session.pending.keys().map(|(_, id)| id.len()).sum::<usize>();
            assert!(asked <= MAX_ID_BYTES, "{asked}");
        }
    }
}
