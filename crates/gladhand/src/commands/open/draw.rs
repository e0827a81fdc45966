//! An opening as a drawing for people.
//!
//! A message is named by what every dialect has in some form (`method`, `type`, `tool`, `result`,
//! `error`), so no dialect is named here. Secrets never reach the screen, and nothing that a server
//! wrote moves the cursor.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use gladhand_accord::{Agreement, Side, Term, Verdict as Became, Why};
use gladhand_dialects::{Dialect, absent};
use gladhand_redaction::{redact, redact_words};
use gladhand_wire::Members;

use super::exchange::{Message, Record, Verdict};
use super::report::{Reason, hints};
use crate::commands::plain::plain;
use crate::commands::screen::{width, write_line};
use crate::commands::{CommandError, written};
use crate::upstream::Target;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// What fits most pages, where nobody says how wide they are.
const USUAL_WIDTH: usize = 100;

/// How many rows of a message are shown; `--json` has all of it.
const ROWS: usize = 6;

/// How many lines in a row that are no messages are shown; the rest is counted.
const GARBAGE: usize = 3;

/// A drawing that grows while the opening goes on.
#[derive(Debug)]
pub(super) struct Page {
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
        let lane = (width().unwrap_or(USUAL_WIDTH).saturating_sub(16)).clamp(40, 84);
        let mut page = Self { lane, has_messages: false, garbage: 0, written: Ok(()) };
        let target = plain(&shown(target));
        page.print(&format!("\n{STRONG}opening as {}@{version}{STRONG:#}  {FAINT}{target}{FAINT:#}\n\n", dialect.name));
        page
    }

    /// Draws one message: an arrow, and its text under it.
    pub(super) fn message(&mut self, message: &Message) {
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
            table(agreement, &mut text);
            menu(record.dialect, agreement, &mut text);
        }
        verdict(record, &mut text);
        self.print(&text);
        written(self.written)
    }

    fn arrow(&self, message: &Message, text: &mut String) {
        let lane = self.lane;
        let label: String = label(message).chars().take(lane - 8).collect();
        let dashes = "─".repeat(lane - 4 - label.chars().count());
        let at = format!("{:>9.1} ms", millis(message.at));
        // Writing to a String cannot fail.
        let _ = match message.from {
            Side::Client => writeln!(text, "    │─ {STRONG}{label}{STRONG:#} {dashes}▶│{FAINT}{at}{FAINT:#}"),
            Side::Server => writeln!(text, "    │◀{dashes} {STRONG}{label}{STRONG:#} ─│{FAINT}{at}{FAINT:#}"),
        };
        for row in wrap(&plain(&message.text), lane - 2, ROWS) {
            let blanks = " ".repeat((lane - 1).saturating_sub(row.chars().count()));
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

/// Every capability with what both sides said of it and what survived.
fn table(agreement: &Agreement, text: &mut String) {
    let names: Vec<_> = agreement.terms.iter().map(|term| plain(&term.capability.0)).collect();
    let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("capability".len());
    let _ = writeln!(text, "  {STRONG}{:<widest$}  {:<9}  {:<9}  in force{STRONG:#}", "capability", "client", "server");
    if names.is_empty() {
        let _ = writeln!(text, "  {FAINT}neither side declared any{FAINT:#}");
    }
    for (name, term) in names.iter().zip(&agreement.terms) {
        let (client, server) = (term.client.word(), term.server.word());
        let _ = write!(text, "  {name:<widest$}  {client:<9}  {server:<9}  ");
        let _ = match term.verdict {
            Became::Agreed => writeln!(text, "{GOOD}yes{GOOD:#}"),
            Became::Refused(why) => writeln!(text, "{BAD}no{BAD:#}, {}", because(term, why)),
        };
    }
    text.push('\n');
}

/// What cannot be had here, reason by reason.
fn menu(dialect: &Dialect, agreement: &Agreement, text: &mut String) {
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
        let line = format!("{}: {reason}", features.join(", "));
        write_line(text, 2, &line, Some(width().unwrap_or(USUAL_WIDTH)));
    }
    text.push('\n');
}

fn because(term: &Term, why: Why) -> String {
    match (why, term.capability.parent()) {
        (Why::PartOfRefused, Some(parent)) => format!("`{}` is not", plain(parent)),
        _ => why.to_string(),
    }
}

fn verdict(record: &Record, text: &mut String) {
    match (&record.verdict, Reason::of(&record.verdict)) {
        (Verdict::Opened(agreement), _) => {
            let server = match (agreement.server.name.as_str(), agreement.server.version.as_str()) {
                ("", _) => "a server that gave no name".to_owned(),
                (name, "") => plain(name),
                (name, version) => plain(&format!("{name} {version}")),
            };
            let took = millis(record.took);
            let (dialect, version) = (agreement.dialect, plain(&agreement.version));
            let since = if matches!(record.target, Target::Url(_)) { "the first request" } else { "its start" };
            let _ =
                writeln!(text, "  {GOOD}open{GOOD:#}  {dialect} {version} with {server}, {took:.1} ms after {since}");
            if let Some(asked) = &agreement.asked_version {
                let _ = writeln!(text, "        we asked for {asked}; the server speaks {version} instead");
            }
        }
        (_, Some(Reason { reason, message })) => {
            let _ = writeln!(text, "  {BAD}no session{BAD:#}  {} ({reason})", plain(&message));
        }
        _ => {}
    }
    for hint in hints(record) {
        let _ = writeln!(text, "  hint: {}", plain(&hint));
    }
    for line in &record.last_words {
        let _ = writeln!(text, "  {FAINT}stderr:{FAINT:#} {}", plain(line));
    }
    text.push('\n');
}

/// What a message is, in a few words: its method or type, and the id it goes by as it was written.
fn label(message: &Message) -> String {
    let Ok(members) = Members::parse(&message.text) else { return "not a message".to_owned() };
    let word = ["method", "type", "tool"].iter().find_map(|name| members.str(name));
    let what = match word {
        Some(word) => plain(&word),
        None if members.has("error") => "error".to_owned(),
        None if members.has("result") => "result".to_owned(),
        None => "message".to_owned(),
    };
    // Random ids say nothing to anybody.
    match members.some("id").map(|raw| plain(raw.get())).filter(|id| id.chars().count() <= 12) {
        Some(id) => format!("{what} #{id}"),
        None => what,
    }
}

/// Breaks text into at most `rows` rows of `width` characters; the last one says if there was more.
fn wrap(text: &str, width: usize, rows: usize) -> Vec<String> {
    let mut characters = text.chars();
    let mut wrapped = Vec::new();
    while wrapped.len() < rows {
        let row: String = characters.by_ref().take(width).collect();
        if row.is_empty() {
            return wrapped;
        }
        wrapped.push(row);
    }
    if characters.next().is_some()
        && let Some(last) = wrapped.last_mut()
    {
        last.pop();
        last.push('…');
    }
    wrapped
}
