//! An opening as a drawing for people.
//!
//! The messages are drawn by `shared::drawing`. The table and the verdict are drawn here.

use std::fmt::Write as _;

use gladhand_core::negotiation::{Agreement, Term, Verdict as Became, Why};
use gladhand_dialects::{Dialect, absent};
use gladhand_redaction::redact_words;

use super::exchange::{Record, RecordedLine, Verdict};
use super::report::{Reason, hints, hints_for_all};
use crate::commands::shared::drawing::{BAD, Drawing, DrawnLine, FAINT, GOOD, STRONG, headline};
use crate::commands::{CommandError, written};
use crate::terminal::layout::{columns, write_labelled};
use crate::terminal::text::plain;
use gladhand_client::upstream::Target;

/// An opening that is drawn while it goes on.
#[derive(Debug)]
pub(super) struct Page(Drawing);

impl Page {
    /// Begins with a headline.
    pub(super) fn new(dialect: &Dialect, version: &str, target: &Target) -> Self {
        let mut drawing = Drawing::new();
        let title = format!("opening as {}@{version}", dialect.name);
        drawing.print(&headline(&title, &shown(target), drawing.width));
        Self(drawing)
    }

    /// Prints a page with one table: the openings as several clients.
    pub(super) fn summary(records: &[Record]) -> Result<(), CommandError> {
        let mut drawing = Drawing::new();
        let mut text = String::new();
        if let Some(record) = records.first() {
            text.push_str(&headline("opening as every client", &shown(&record.target), drawing.width));
        }
        attempts(records, drawing.width, &mut text);
        let (hints, stderr) = hints_for_all(records);
        if !hints.is_empty() {
            remarks(&hints, stderr, drawing.width, &mut text);
            text.push('\n');
        }
        drawing.print(&text);
        written(drawing.written)
    }

    /// Draws one message.
    pub(super) fn message(&mut self, line: &RecordedLine) {
        let RecordedLine { from, is_message, label, text, at } = line;
        let (from, is_message) = (*from, *is_message);
        self.0.message(&DrawnLine { from, is_message, label, text, ms: millis(*at) });
    }

    /// Ends with the table and the verdict.
    pub(super) fn finish(self, record: &Record) -> Result<(), CommandError> {
        let Self(mut drawing) = self;
        let mut text = String::new();
        drawing.end_garbage(&mut text);
        if drawing.has_messages {
            text.push('\n');
        }
        if let Verdict::Opened(agreement) = &record.verdict {
            table(agreement, drawing.width, &mut text);
            menu(record.dialect, agreement, drawing.width, &mut text);
        }
        verdict(record, drawing.width, &mut text);
        drawing.print(&text);
        written(drawing.written)
    }
}

/// Milliseconds with three decimals.
pub(in crate::commands) fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// The server, with this program under its plain name.
pub(in crate::commands) fn shown(target: &Target) -> String {
    let Target::Command(words) = target else { return target.to_string() };
    let mut words = words.clone();
    if let (Some(first), Ok(own)) = (words.first_mut(), std::env::current_exe())
        && *first == own.to_string_lossy()
    {
        "gladhand".clone_into(first);
    }
    redact_words(&words).join(" ")
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
pub(in crate::commands) fn server(agreement: &Agreement) -> String {
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
