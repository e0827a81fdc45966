//! An opening as a drawing for people.
//!
//! A message is named by what every dialect has in some form (`method`, `type`, `tool`, `result`,
//! `error`), so no dialect is named here. Secrets never reach the screen, and nothing that a server
//! wrote moves the cursor.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use gladhand_core::negotiation::{Agreement, Side, Term, Verdict as Became, Why};
use gladhand_core::wire::Members;
use gladhand_dialects::{Dialect, absent};
use gladhand_redaction::{redact, redact_words};

use super::exchange::{Record, RecordedLine, Verdict};
use super::report::{Reason, hints, hints_for_all};
use crate::commands::{CommandError, written};
use crate::terminal::layout::{columns, fitted, pieces, width, write_labelled};
use crate::terminal::text::plain;
use gladhand_client::upstream::Target;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// The width of drawings if the width of the terminal is unknown.
const USUAL_WIDTH: usize = 80;

/// How many rows of a message are shown; `--json` has all of it.
const ROWS: usize = 6;

/// How many lines in a row that are no messages are shown; the rest is counted.
const GARBAGE: usize = 3;

/// How many columns the time beside an arrow takes.
const TIME: usize = 10;

/// A drawing that grows while the opening goes on.
#[derive(Debug)]
pub(super) struct Page {
    /// How wide the whole drawing may be.
    width: usize,
    /// How wide the space between the two sides is.
    lane: usize,
    /// Whether anything was drawn between them.
    has_messages: bool,
    /// Lines in a row that are no messages.
    garbage: usize,
    /// The first failure to write, told at the end.
    written: std::io::Result<()>,
}

impl Page {
    /// Begins with a headline.
    pub(super) fn new(dialect: &Dialect, version: &str, target: &Target) -> Self {
        let mut page = Self::blank();
        page.print(&headline(&format!("opening as {}@{version}", dialect.name), target, page.width));
        page
    }

    fn blank() -> Self {
        let width = width().unwrap_or(USUAL_WIDTH);
        let lane = width.saturating_sub(6 + TIME).clamp(40, 84);
        Self { width, lane, has_messages: false, garbage: 0, written: Ok(()) }
    }

    /// Prints a page with one table: the openings as several clients.
    pub(super) fn summary(records: &[Record]) -> Result<(), CommandError> {
        let mut page = Self::blank();
        let mut text = String::new();
        if let Some(record) = records.first() {
            text.push_str(&headline("opening as every client", &record.target, page.width));
        }
        attempts(records, page.width, &mut text);
        let (hints, stderr) = hints_for_all(records);
        if !hints.is_empty() {
            remarks(&hints, stderr, page.width, &mut text);
            text.push('\n');
        }
        page.print(&text);
        written(page.written)
    }

    /// Draws one message: an arrow, and its text under it.
    pub(super) fn message(&mut self, message: &RecordedLine) {
        let mut text = String::new();
        if !self.has_messages {
            self.has_messages = true;
            let _ = writeln!(text, "  client{:>1$}", "server", self.lane - 2);
        }
        if message.is_message {
            self.end_garbage(&mut text);
        } else {
            self.garbage += 1;
            if self.garbage > GARBAGE {
                return;
            }
        }
        self.arrow(message, &mut text);
        self.print(&text);
    }

    /// Ends with the table and the verdict.
    pub(super) fn finish(mut self, record: &Record) -> Result<(), CommandError> {
        let mut text = String::new();
        self.end_garbage(&mut text);
        if self.has_messages {
            text.push('\n');
        }
        if let Verdict::Opened(agreement) = &record.verdict {
            table(agreement, self.width, &mut text);
            menu(record.dialect, agreement, self.width, &mut text);
        }
        verdict(record, self.width, &mut text);
        self.print(&text);
        written(self.written)
    }

    fn arrow(&self, message: &RecordedLine, text: &mut String) {
        let lane = self.lane;
        let label = pieces(&label(message), lane - 8).swap_remove(0);
        let dashes = "─".repeat(lane - 4 - columns(&label));
        let at = match millis(message.at) {
            ms @ ..1e5 => format!("{ms:>0$.1} ms", TIME - 3),
            ms => format!("{:>1$.1} s", ms / 1e3, TIME - 2),
        };
        // Writing to a String cannot fail.
        let _ = match message.from {
            Side::Client => writeln!(text, "    │─ {STRONG}{label}{STRONG:#} {dashes}▶│{FAINT}{at}{FAINT:#}"),
            Side::Server => writeln!(text, "    │◀{dashes} {STRONG}{label}{STRONG:#} ─│{FAINT}{at}{FAINT:#}"),
        };
        for row in wrap(&plain(&message.text), lane - 2, ROWS) {
            let blanks = " ".repeat((lane - 1).saturating_sub(columns(&row)));
            let _ = writeln!(text, "    │ {FAINT}{row}{FAINT:#}{blanks}│");
        }
    }

    fn end_garbage(&mut self, text: &mut String) {
        let hidden = std::mem::take(&mut self.garbage).saturating_sub(GARBAGE);
        if hidden > 0 {
            let _ = writeln!(text, "    │ … and {hidden} more lines that are no messages");
        }
    }

    fn print(&mut self, text: &str) {
        if self.written.is_ok() {
            let mut stdout = anstream::stdout();
            let text = redact(text);
            self.written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        }
    }
}

/// Milliseconds with three decimals.
pub(super) fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// The server, with this program under its plain name.
fn shown(target: &Target) -> String {
    let Target::Command(words) = target else { return target.to_string() };
    let mut words = words.clone();
    if let (Some(first), Ok(own)) = (words.first_mut(), std::env::current_exe())
        && *first == own.to_string_lossy()
    {
        "gladhand".clone_into(first);
    }
    redact_words(&words).join(" ")
}

/// The first lines of a page: a title and the server.
fn headline(title: &str, target: &Target, width: usize) -> String {
    let target = plain(&shown(target));
    let mut text = format!("\n{STRONG}{title}{STRONG:#}");
    if columns(title) + 2 + columns(&target) <= width {
        let _ = write!(text, "  {FAINT}{target}{FAINT:#}");
    } else {
        for row in fitted(&target, width - 2) {
            let _ = write!(text, "\n  {FAINT}{row}{FAINT:#}");
        }
    }
    text.push_str("\n\n");
    text
}

/// Every capability with what both sides said of it and what survived.
fn table(agreement: &Agreement, width: usize, text: &mut String) {
    // The width between a name and the last column: two columns of 9, with two blanks before and after them.
    const BETWEEN: usize = 2 * (2 + 9) + 2;
    let room = width.saturating_sub(2 + BETWEEN + "in force".len()).max("capability".len());
    let names: Vec<_> = agreement.terms.iter().map(|term| plain(&term.capability.0)).collect();
    let fitting = names.iter().map(|name| columns(name)).filter(|columns| *columns <= room);
    let widest = fitting.max().unwrap_or(0).max("capability".len());
    let _ = writeln!(text, "  {STRONG}{:<widest$}  {:<9}  {:<9}  in force{STRONG:#}", "capability", "client", "server");
    if names.is_empty() {
        let _ = writeln!(text, "  {FAINT}neither side declared any{FAINT:#}");
    }
    for (name, term) in names.iter().zip(&agreement.terms) {
        let mut name = name.as_str();
        if columns(name) > widest {
            write_labelled(text, "  ", name, width);
            name = "";
        }
        let (client, server) = (term.client.word(), term.server.word());
        let blanks = " ".repeat(widest - columns(name));
        let _ = write!(text, "  {name}{blanks}  {client:<9}  {server:<9}  ");
        let Became::Refused(why) = term.verdict else {
            let _ = writeln!(text, "{GOOD}yes{GOOD:#}");
            continue;
        };
        let reason = because(term, why);
        if 2 + widest + BETWEEN + "no, ".len() + columns(&reason) <= width {
            let _ = writeln!(text, "{BAD}no{BAD:#}, {reason}");
        } else {
            let _ = writeln!(text, "{BAD}no{BAD:#}");
            write_labelled(text, "      ", &reason, width);
        }
    }
    text.push('\n');
}

/// The unavailable features, grouped by reason.
fn menu(dialect: &Dialect, agreement: &Agreement, width: usize, text: &mut String) {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (feature, absence) in absent(dialect, agreement) {
        let reason = absence.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, features)) => features.push(feature.word()),
            None => reasons.push((reason, vec![feature.word()])),
        }
    }
    if reasons.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {STRONG}absent{STRONG:#}");
    for (reason, features) in reasons {
        write_labelled(text, "  ", &format!("{}: {reason}", features.join(", ")), width);
    }
    text.push('\n');
}

fn because(term: &Term, why: Why) -> String {
    match (why, term.capability.parent()) {
        (Why::PartOfRefused, Some(parent)) => format!("`{}` is not", plain(parent)),
        _ => why.to_string(),
    }
}

fn verdict(record: &Record, width: usize, text: &mut String) {
    match (&record.verdict, Reason::of(&record.verdict)) {
        (Verdict::Opened(agreement), _) => {
            let took = millis(record.took);
            let (dialect, version) = (agreement.dialect, plain(&agreement.version));
            let since = if matches!(record.target, Target::Url(_)) { "the first request" } else { "its start" };
            let line = format!("{dialect} {version} with {}, {took:.1} ms after {since}", server(agreement));
            write_labelled(text, &format!("  {GOOD}open{GOOD:#}  "), &line, width);
            if let Some(asked) = &agreement.asked_version {
                write_labelled(
                    text,
                    "        ",
                    &format!("we asked for {asked}; the server speaks {version} instead"),
                    width,
                );
            }
        }
        (_, Some(Reason { reason, message })) => {
            let line = format!("{} ({reason})", plain(&message));
            write_labelled(text, &format!("  {BAD}no session{BAD:#}  "), &line, width);
        }
        _ => {}
    }
    remarks(&hints(record), &record.stderr_tail, width, text);
    text.push('\n');
}

/// Hints, and what the server wrote to stderr.
fn remarks(hints: &[String], stderr: &[String], width: usize, text: &mut String) {
    for hint in hints {
        write_labelled(text, "  hint: ", &plain(hint), width);
    }
    for line in stderr {
        write_labelled(text, &format!("  {FAINT}stderr:{FAINT:#} "), &plain(line), width);
    }
}

/// A server by its own name.
fn server(agreement: &Agreement) -> String {
    match (agreement.server.name.as_str(), agreement.server.version.as_str()) {
        ("", _) => "a server that gave no name".to_owned(),
        (name, "") => plain(name),
        (name, version) => plain(&format!("{name} {version}")),
    }
}

/// One row for each client: whether it got a session, and which or why not.
fn attempts(records: &[Record], width: usize, text: &mut String) {
    let name = |record: &Record| format!("{}@{}", record.dialect.name, record.version);
    let widest = records.iter().map(|record| columns(&name(record))).max().unwrap_or(0);
    let _ = writeln!(text, "  {STRONG}{:<widest$}  session{STRONG:#}", "client");
    for record in records {
        let (style, word, line) = match (&record.verdict, Reason::of(&record.verdict)) {
            (Verdict::Opened(agreement), _) => {
                let instead = agreement.asked_version.as_ref();
                let instead = instead.map(|_| format!("as {}, ", plain(&agreement.version))).unwrap_or_default();
                let count = agreement.terms.iter().filter(|term| term.verdict == Became::Agreed).count();
                let took = millis(record.took);
                (GOOD, "yes", format!("{instead}{}, {count} capabilities, {took:.1} ms", server(agreement)))
            }
            (_, reason) => (BAD, "no", plain(&reason.map(|reason| reason.message).unwrap_or_default())),
        };
        write_labelled(text, &format!("  {:<widest$}  {style}{word:<3}{style:#}  ", name(record)), &line, width);
    }
    text.push('\n');
}

/// A short label for a message: its method or type, and its id as it was written.
fn label(message: &RecordedLine) -> String {
    let Ok(members) = Members::parse(&message.text) else { return "not a message".to_owned() };
    let word = ["method", "type", "tool"].iter().find_map(|name| members.str(name));
    let what = match word {
        Some(word) => plain(&word),
        None if members.has("error") => "error".to_owned(),
        None if members.has("result") => "result".to_owned(),
        None => "message".to_owned(),
    };
    // Random ids carry no meaning for a reader.
    match members.some("id").map(|raw| plain(raw.get())).filter(|id| id.chars().count() <= 12) {
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
