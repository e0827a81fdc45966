//! A session that is kept, as a file: a recording for `gladhand replay`, or an HTML page.

use gladhand_core::negotiation::Side;
use gladhand_core::wire::json::raw;
use gladhand_recording::{Entry, EntryKind, FORMAT, Header, Sender};

use super::kept::{KeptLine, KeptSession};
use crate::commands::shared::recordings::{Recording, Session};
use crate::commands::show;

/// A recording of one session.
pub(super) fn recording(session: &KeptSession, started_ms: u64) -> String {
    let mut text = header(started_ms).to_line();
    for entry in entries(session) {
        text.push('\n');
        text.push_str(&entry.to_line());
    }
    text.push('\n');
    text
}

/// A page that shows one session.
pub(super) fn page(session: &KeptSession, started_ms: u64) -> String {
    let entries = entries(session);
    let first = entries.first().map_or(0.0, |entry| entry.ms);
    let mut shown = Session::beginning(session.id.clone(), first);
    for (number, entry) in (2..).zip(entries) {
        shown.add(number, entry.ms, entry.kind);
    }
    let sessions = vec![shown];
    let header = header(started_ms);
    show::html_page(&Recording { header, parts: 1, sessions, dropped: 0, bad: Vec::new(), bad_count: 0 })
}

fn header(started_ms: u64) -> Header {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Header { format: FORMAT, version, started_ms, command: Vec::new(), part: 1 }
}

fn entries(session: &KeptSession) -> Vec<Entry> {
    let entry = |ms, kind| Entry { ms, session: Some(session.id.clone()), kind };
    let mut entries: Vec<_> = session.lines().map(|line| entry(line.line.ms, kind(session, line))).collect();
    if let (Some(dialect), Some(version)) = (&session.dialect, &session.version) {
        let peer = session.peer.clone().unwrap_or_default();
        let opened = EntryKind::Opened { dialect: dialect.clone(), version: version.clone(), peer };
        let ms = entries.first().map_or(0.0, |entry| entry.ms);
        entries.insert(0, entry(ms, opened));
    }
    entries
}

fn kind(session: &KeptSession, KeptLine { line, .. }: &KeptLine) -> EntryKind {
    let from = match line.from {
        Side::Client => Sender::Client,
        Side::Server => Sender::Server,
    };
    match line.is_json {
        true => EntryKind::Message {
            from,
            dialect: session.dialect.clone(),
            kind: line.kind_word().filter(|word| *word != "batch").map(str::to_owned),
            message: raw(line.text.clone()),
        },
        false => EntryKind::Text { from, is_stderr: line.is_stderr, text: line.text.clone() },
    }
}
