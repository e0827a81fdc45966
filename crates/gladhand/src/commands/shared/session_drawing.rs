//! Draws the messages of sessions: of a recording, and of sessions that are still open.

use std::collections::HashMap;

use gladhand_core::negotiation::Side;
use gladhand_recording::{Entry, EntryKind, NotARecording};

use crate::commands::shared::drawing::{Drawing, DrawnLine, FAINT, STRONG, headline};
use crate::commands::shared::message_filter::MessageFilter;
use crate::commands::shared::recordings::{Exchange, Line, Session};
use crate::commands::{CommandError, note, written};
use crate::terminal::layout::{fitted, write_labelled};
use crate::terminal::text::plain;

/// How many messages of a session are kept, to name the requests of later answers.
const KEPT: usize = 10_000;

/// How many open sessions are kept. Later ones replace the one that has been silent for longest.
const SESSIONS: usize = 1000;

/// A drawing, with whole messages or with the beginnings of long ones.
pub(in crate::commands) fn drawing(is_full: bool) -> Drawing {
    let drawing = Drawing::new();
    if is_full { drawing.full() } else { drawing }
}

/// The lines above the messages of a session.
pub(in crate::commands) fn session_head(session: &Session, width: usize) -> String {
    let mut text = String::new();
    for row in fitted(&plain(&session.title()), width) {
        text.push_str(&format!("{STRONG}{row}{STRONG:#}\n"));
    }
    write_labelled(&mut text, &format!("  {FAINT}with{FAINT:#} "), &plain(&session.facts()), width);
    text.push('\n');
    text
}

/// Draws a message of a session that began at a time.
pub(in crate::commands) fn draw_line(drawing: &mut Drawing, line: &Line, begin_ms: f64) {
    drawing.message(&DrawnLine {
        from: line.from,
        // Lines of the standard error output are expected, and not counted as mistakes.
        is_message: line.kind.is_some() || line.is_stderr,
        label: &line.label,
        text: &line.text,
        ms: (line.ms - begin_ms).max(0.0),
    });
}

/// Maximum size of the messages that are kept, in bytes.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Draws an HTTP exchange of a session that began at a time, as an answer of the server.
pub(in crate::commands) fn draw_exchange(drawing: &mut Drawing, exchange: &Exchange, begin_ms: f64) {
    drawing.message(&DrawnLine {
        from: Side::Server,
        is_message: true,
        label: &exchange.label(),
        text: &exchange.headers(),
        ms: (exchange.ms - begin_ms).max(0.0),
    });
}

/// The sessions of a recording that grows, in bounded memory.
#[derive(Debug, Default)]
pub(in crate::commands) struct LiveSessions {
    sessions: HashMap<String, Session>,
    /// The size of the messages that were added since all were forgotten.
    bytes: usize,
}

/// What an entry means for its session.
#[derive(Debug)]
pub(in crate::commands) struct Added<'s> {
    pub(in crate::commands) session: &'s Session,
    /// The message, if it is one.
    pub(in crate::commands) line: Option<&'s Line>,
    /// The HTTP exchange, if it is one.
    pub(in crate::commands) exchange: Option<&'s Exchange>,
    is_end: bool,
}

impl Added<'_> {
    /// Whether the entry is shown.
    pub(in crate::commands) fn passes(&self, filter: &MessageFilter) -> bool {
        let passes = match (self.line, self.exchange) {
            (Some(line), _) => filter.passes(self.session, line),
            (None, Some(exchange)) => filter.passes_exchange(exchange),
            (None, None) => self.is_end && !filter.is_partial(),
        };
        passes && filter.has_session(self.session)
    }
}

impl LiveSessions {
    /// Adds an entry of a session.
    pub(in crate::commands) fn add(&mut self, number: u64, ms: f64, id: String, kind: EntryKind) -> Added<'_> {
        if self.sessions.len() >= SESSIONS && !self.sessions.contains_key(&id) {
            let silent = self.sessions.values().min_by(|a, b| a.last_ms.total_cmp(&b.last_ms));
            if let Some(id) = silent.map(|session| session.id.clone()) {
                self.sessions.remove(&id);
            }
        }
        if self.bytes > KEPT_BYTES {
            self.sessions.values_mut().for_each(Session::forget);
            self.bytes = 0;
        }
        let session = self.sessions.entry(id.clone()).or_insert_with(|| Session::beginning(id, ms));
        if session.lines.len() + session.exchanges.len() >= KEPT {
            session.forget();
        }
        let is_end = matches!(kind, EntryKind::Closed(_));
        let is_exchange = matches!(kind, EntryKind::Http(_));
        let at = session.add(number, ms, kind);
        let line = at.and_then(|at| session.lines.get(at));
        self.bytes += line.map_or(0, |line| line.text.len());
        let exchange = session.exchanges.last().filter(|_| is_exchange);
        Added { line, exchange, session, is_end }
    }

    /// Forgets a session that ended.
    pub(in crate::commands) fn forget(&mut self, id: &str) {
        self.sessions.remove(id);
    }
}

/// Draws messages as they happen. Sessions are interleaved: each change of the session begins with a headline.
#[derive(Debug)]
pub(in crate::commands) struct LiveDrawing {
    drawing: Drawing,
    sessions: LiveSessions,
    current: Option<String>,
}

impl LiveDrawing {
    pub(in crate::commands) fn new(is_full: bool) -> Self {
        Self { drawing: drawing(is_full), sessions: LiveSessions::default(), current: None }
    }

    /// Begins with a title and the command of the server.
    pub(in crate::commands) fn headline(&mut self, title: &str, command: &[String]) {
        let text = headline(title, &command.join(" "), self.drawing.width);
        self.drawing.print(&text);
    }

    /// Shows an entry if it passes the filter. Notes on stderr what is missing.
    pub(in crate::commands) fn show(
        &mut self,
        number: u64,
        entry: Result<Entry, NotARecording>,
        filter: &MessageFilter,
    ) {
        let Some((ms, id, kind)) = of_session(number, entry) else { return };
        let added = self.sessions.add(number, ms, id.clone(), kind);
        let is_end = added.is_end;
        if added.passes(filter) {
            if self.current.as_ref() != Some(&id) || is_end {
                let mut text = String::from("\n");
                text.push_str(&session_head(added.session, self.drawing.width));
                self.drawing.print(&text);
                self.drawing.has_messages = false;
                self.current = Some(id.clone());
            }
            if let Some(line) = added.line {
                draw_line(&mut self.drawing, line, added.session.first_ms);
            }
            if let Some(exchange) = added.exchange {
                draw_exchange(&mut self.drawing, exchange, added.session.first_ms);
            }
        }
        if is_end {
            self.sessions.forget(&id);
        }
    }

    /// Whether the reader of the drawing is gone.
    pub(in crate::commands) fn is_unread(&mut self) -> Result<bool, CommandError> {
        if self.drawing.written.is_ok() {
            return Ok(false);
        }
        written(std::mem::replace(&mut self.drawing.written, Ok(()))).map(|()| true)
    }
}

/// The time, session and kind of an entry that belongs to a session. Other ones are noted on stderr.
pub(in crate::commands) fn of_session(
    number: u64,
    entry: Result<Entry, NotARecording>,
) -> Option<(f64, String, EntryKind)> {
    match entry {
        Err(why) => note(&format!("warning: line {number}: {why}")),
        Ok(Entry { kind: EntryKind::Dropped(1), .. }) => note("warning: 1 entry is missing here"),
        Ok(Entry { kind: EntryKind::Dropped(entries), .. }) => {
            note(&format!("warning: {entries} entries are missing here"));
        }
        Ok(Entry { ms, session, kind }) => return Some((ms, session.unwrap_or_default(), kind)),
    }
    None
}
