//! Messages between a client and a server as a drawing for people: two lines, and an arrow for each message.
//!
//! `open` draws messages as they pass, and `show` those of a recording. Secrets never reach the screen, and nothing that
//! a peer wrote moves the cursor.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use gladhand_core::negotiation::Side;
use gladhand_core::wire::{FrameKind, FrameSummary};
use gladhand_dialects::{Dialect, REGISTRY};
use gladhand_redaction::redact;

use crate::terminal::layout::{columns, fitted, pieces, width};
use crate::terminal::text::{counted, plain};

pub(in crate::commands) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(in crate::commands) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(in crate::commands) const FAINT: Style = Style::new().dimmed();
pub(in crate::commands) const STRONG: Style = Style::new().bold();

/// The width of drawings if the width of the terminal is unknown.
const USUAL_WIDTH: usize = 80;

/// How many rows of a message are shown, unless the whole message is asked for.
const ROWS: usize = 6;

/// How many lines in a row that are no messages are shown; the rest is counted.
const GARBAGE: usize = 3;

/// How many columns the time beside an arrow takes.
const TIME: usize = 10;

/// A line to draw.
#[derive(Debug)]
pub(in crate::commands) struct DrawnLine<'a> {
    /// Its sender.
    pub(in crate::commands) from: Side,
    /// Whether it is a message of a dialect.
    pub(in crate::commands) is_message: bool,
    /// The text on the arrow, see [`label`].
    pub(in crate::commands) label: &'a str,
    /// The line.
    pub(in crate::commands) text: &'a str,
    /// Milliseconds since the beginning.
    pub(in crate::commands) ms: f64,
}

/// A drawing on stdout that grows message by message.
#[derive(Debug)]
pub(in crate::commands) struct Drawing {
    /// How wide the whole drawing may be.
    pub(in crate::commands) width: usize,
    /// How wide the space between the two sides is.
    lane: usize,
    /// How many rows of a message are shown.
    rows: usize,
    /// Whether anything was drawn between the sides.
    pub(in crate::commands) has_messages: bool,
    /// Lines in a row that are no messages.
    garbage: usize,
    /// The first failure to write, told at the end.
    pub(in crate::commands) written: std::io::Result<()>,
}

impl Drawing {
    /// A drawing as wide as the terminal. Long messages are cut.
    pub(in crate::commands) fn new() -> Self {
        let width = width().unwrap_or(USUAL_WIDTH);
        let lane = width.saturating_sub(6 + TIME).clamp(40, 84);
        Self { width, lane, rows: ROWS, has_messages: false, garbage: 0, written: Ok(()) }
    }

    /// The same with whole messages.
    pub(in crate::commands) fn full(self) -> Self {
        Self { rows: usize::MAX, ..self }
    }

    /// Draws one message: an arrow, and its text under it.
    pub(in crate::commands) fn message(&mut self, line: &DrawnLine<'_>) {
        let mut text = String::new();
        if !self.has_messages {
            self.has_messages = true;
            let _ = writeln!(text, "  client{:>1$}", "server", self.lane - 2);
        }
        if line.is_message {
            self.end_garbage(&mut text);
        } else {
            self.garbage += 1;
            if self.garbage > GARBAGE {
                return;
            }
        }
        self.arrow(line, &mut text);
        self.print(&text);
    }

    fn arrow(&self, line: &DrawnLine<'_>, text: &mut String) {
        let lane = self.lane;
        let label = pieces(&plain(line.label), lane - 8).swap_remove(0);
        let dashes = "─".repeat(lane - 4 - columns(&label));
        let at = match line.ms {
            ms @ ..1e5 => format!("{ms:>0$.1} ms", TIME - 3),
            ms => format!("{:>1$.1} s", ms / 1e3, TIME - 2),
        };
        // Writing to a String cannot fail.
        let _ = match line.from {
            Side::Client => writeln!(text, "    │─ {STRONG}{label}{STRONG:#} {dashes}▶│{FAINT}{at}{FAINT:#}"),
            Side::Server => writeln!(text, "    │◀{dashes} {STRONG}{label}{STRONG:#} ─│{FAINT}{at}{FAINT:#}"),
        };
        for row in wrap(&plain(line.text), lane - 2, self.rows) {
            let blanks = " ".repeat((lane - 1).saturating_sub(columns(&row)));
            let _ = writeln!(text, "    │ {FAINT}{row}{FAINT:#}{blanks}│");
        }
    }

    /// Counts the lines that are no messages and were not shown.
    pub(in crate::commands) fn end_garbage(&mut self, text: &mut String) {
        let hidden = std::mem::take(&mut self.garbage).saturating_sub(GARBAGE);
        if hidden > 0 {
            let are = if hidden == 1 { "is no message" } else { "are no messages" };
            let _ = writeln!(text, "    │ … and {} that {are}", counted(hidden, "more line"));
        }
    }

    /// Writes text as it is, except for secrets.
    pub(in crate::commands) fn print(&mut self, text: &str) {
        if self.written.is_ok() {
            let mut stdout = anstream::stdout();
            let text = redact(text);
            self.written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        }
    }
}

/// The first lines of a page: a title and the server.
pub(in crate::commands) fn headline(title: &str, server: &str, width: usize) -> String {
    let server = plain(server);
    let mut text = format!("\n{STRONG}{title}{STRONG:#}");
    if columns(title) + 2 + columns(&server) <= width {
        let _ = write!(text, "  {FAINT}{server}{FAINT:#}");
    } else {
        for row in fitted(&server, width - 2) {
            let _ = write!(text, "\n  {FAINT}{row}{FAINT:#}");
        }
    }
    text.push_str("\n\n");
    text
}

/// Describes a line in the words of its dialect. A peer may answer in another dialect, so the others are tried next.
pub(in crate::commands) fn describe<'t>(dialect: Option<&Dialect>, text: &'t str) -> Option<FrameSummary<'t>> {
    let own = dialect.and_then(|dialect| (dialect.describe)(text));
    own.or_else(|| REGISTRY.iter().find_map(|dialect| (dialect.describe)(text)))
}

/// A short label for a message: its method or type, and its id as it was written.
pub(in crate::commands) fn label(summary: Option<&FrameSummary<'_>>) -> String {
    let Some(summary) = summary else { return "not a message".to_owned() };
    let what = match (&summary.name, summary.kind) {
        (Some(name), _) => plain(name),
        (None, FrameKind::Result) => "result".to_owned(),
        (None, FrameKind::Error { .. }) => "error".to_owned(),
        (None, FrameKind::Batch) => "batch".to_owned(),
        (None, FrameKind::Request | FrameKind::Notice) => "message".to_owned(),
    };
    // Random ids carry no meaning for a reader.
    match summary.id.map(|raw| plain(raw.get())).filter(|id| id.chars().count() <= 12) {
        Some(id) => format!("{what} #{id}"),
        None => what,
    }
}

/// Breaks text into at most `rows` rows of `width` columns; the last one says if there was more.
fn wrap(text: &str, width: usize, rows: usize) -> Vec<String> {
    let mut wrapped = pieces(text, width);
    if wrapped.len() > rows {
        wrapped.truncate(rows);
        if let Some(last) = wrapped.last_mut() {
            last.pop();
            last.push('…');
        }
    }
    wrapped
}
