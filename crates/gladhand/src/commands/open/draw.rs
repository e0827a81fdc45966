//! How an opening looks: a drawing for people, one JSON object for programs.
//!
//! A message is named by what every dialect has in some form (`method`, `type`, `tool`, `result`,
//! `error`), so no dialect is named here. Secrets never reach the screen.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use gladhand_accord::{Agreement, Refusal, Side, Stance, Verdict as Became};
use gladhand_wire::{Members, RawValue, json};
use serde::Serialize;

use crate::commands::CommandError;

use super::exchange::{Message, Record, Verdict};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// How many rows of a message are shown; `--json` has all of it.
const ROWS: usize = 6;

/// Members whose value is never shown.
const SECRETS: [&str; 6] = ["auth_token", "token", "api_key", "password", "secret", "authorization"];

/// Draws the opening on the terminal.
pub(super) fn terminal(record: &Record) -> Result<(), CommandError> {
    let mut page = String::new();
    drawing(record, width(), &mut page);
    finish(anstream::stdout().write_all(page.as_bytes()))
}

/// Prints the opening as one JSON object.
pub(super) fn json(record: &Record) -> Result<(), CommandError> {
    let mut line = Vec::new();
    json::write(&mut line, &Report::of(record));
    line.push(b'\n');
    finish(std::io::stdout().write_all(&line))
}

fn finish(written: std::io::Result<()>) -> Result<(), CommandError> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The shape of `--json`, documented in `docs/stability.md`.
#[derive(Serialize)]
struct Report<'r> {
    opened: bool,
    dialect: &'r str,
    asked_version: &'r str,
    version: Option<&'r str>,
    command: &'r [String],
    took_ms: f64,
    messages: Vec<Shown<'r>>,
    unrecorded: usize,
    agreement: Option<&'r Agreement>,
    refusal: Option<Reason>,
    stderr: &'r [String],
}

#[derive(Serialize)]
struct Shown<'r> {
    from: Side,
    at_ms: f64,
    /// The message, if it was JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
    /// The text, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'r str>,
}

#[derive(Serialize)]
struct Reason {
    reason: &'static str,
    message: String,
}

impl<'r> Report<'r> {
    fn of(record: &'r Record) -> Self {
        let agreement = match &record.verdict {
            Verdict::Opened(agreement) => Some(&**agreement),
            _ => None,
        };
        Self {
            opened: agreement.is_some(),
            dialect: record.dialect,
            asked_version: &record.version,
            version: agreement.map(|agreement| agreement.version.as_str()),
            command: &record.command,
            took_ms: millis(record.took),
            messages: record.messages.iter().map(Shown::of).collect(),
            unrecorded: record.unrecorded,
            agreement,
            refusal: reason(&record.verdict),
            stderr: &record.last_words,
        }
    }
}

impl<'r> Shown<'r> {
    fn of(message: &'r Message) -> Self {
        let raw = serde_json::from_str::<&RawValue>(&message.text).ok();
        Self {
            from: message.from,
            at_ms: millis(message.at),
            message: raw.map(|_| json::raw(without_secrets(&message.text))),
            text: raw.is_none().then_some(&message.text),
        }
    }
}

fn reason(verdict: &Verdict) -> Option<Reason> {
    match verdict {
        Verdict::Opened(_) => None,
        Verdict::Refused(refusal) => Some(Reason { reason: refusal.word(), message: refusal.to_string() }),
        Verdict::NotStarted(why) => Some(Reason { reason: "not_started", message: why.clone() }),
        Verdict::Interrupted => Some(Reason { reason: "interrupted", message: "interrupted".to_owned() }),
    }
}

fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Draws everything for a terminal of `width` columns.
fn drawing(record: &Record, width: usize, page: &mut String) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "\n{STRONG}opening as {}@{}{STRONG:#}  {FAINT}{}{FAINT:#}\n",
        record.dialect,
        record.version,
        shown_command(&record.command)
    );
    sequence(record, width, page);
    if let Verdict::Opened(agreement) = &record.verdict {
        table(agreement, page);
    }
    verdict(record, page);
}

/// The command, with this program under its plain name.
fn shown_command(command: &[String]) -> String {
    let mut words = command.to_vec();
    if let (Some(first), Ok(own)) = (words.first_mut(), std::env::current_exe())
        && *first == own.to_string_lossy()
    {
        "gladhand".clone_into(first);
    }
    words.join(" ")
}

/// The messages, one arrow each, with their text under it.
fn sequence(record: &Record, width: usize, page: &mut String) {
    use std::fmt::Write as _;
    let lane = (width.saturating_sub(16)).clamp(40, 84);
    let _ = writeln!(page, "  client{:>1$}", "server", lane - 2);
    for message in &record.messages {
        let label = label(&message.text);
        let label: String = label.chars().take(lane - 8).collect();
        let dashes = "─".repeat(lane - 4 - label.chars().count());
        let at = format!("{:>9.1} ms", millis(message.at));
        let _ = match message.from {
            Side::Client => writeln!(page, "    │─ {STRONG}{label}{STRONG:#} {dashes}▶│{FAINT}{at}{FAINT:#}"),
            Side::Server => writeln!(page, "    │◀{dashes} {STRONG}{label}{STRONG:#} ─│{FAINT}{at}{FAINT:#}"),
        };
        for row in wrap(&without_secrets(&message.text), lane - 2, ROWS) {
            let blanks = " ".repeat((lane - 1).saturating_sub(row.chars().count()));
            let _ = writeln!(page, "    │ {FAINT}{row}{FAINT:#}{blanks}│");
        }
    }
    if record.unrecorded > 0 {
        let _ = writeln!(page, "    … and {} more lines", record.unrecorded);
    }
    page.push('\n');
}

/// Every capability with what both sides said of it and what survived.
fn table(agreement: &Agreement, page: &mut String) {
    use std::fmt::Write as _;
    let terms = &agreement.terms;
    let widest = terms.iter().map(|term| term.capability.0.chars().count()).max().unwrap_or(0).max("capability".len());
    let _ = writeln!(page, "  {STRONG}{:<widest$}  {:<9}  {:<9}  in force{STRONG:#}", "capability", "client", "server");
    if terms.is_empty() {
        let _ = writeln!(page, "  {FAINT}neither side declared any{FAINT:#}");
    }
    for term in terms {
        let stance = |stance: Stance| stance.word();
        let _ =
            write!(page, "  {:<widest$}  {:<9}  {:<9}  ", term.capability.0, stance(term.client), stance(term.server),);
        let _ = match term.verdict {
            Became::Agreed => writeln!(page, "{GOOD}yes{GOOD:#}"),
            Became::Refused(why) => writeln!(page, "{BAD}no{BAD:#}, {why}"),
        };
    }
    page.push('\n');
}

fn verdict(record: &Record, page: &mut String) {
    use std::fmt::Write as _;
    match (&record.verdict, reason(&record.verdict)) {
        (Verdict::Opened(agreement), _) => {
            let server = match (agreement.server.name.as_str(), agreement.server.version.as_str()) {
                ("", _) => "a server that gave no name".to_owned(),
                (name, "") => name.to_owned(),
                (name, version) => format!("{name} {version}"),
            };
            let _ = writeln!(
                page,
                "  {GOOD}open{GOOD:#}  {} {} with {server}, {:.1} ms after its start",
                agreement.dialect,
                agreement.version,
                millis(record.took)
            );
            if let Some(asked) = &agreement.asked_version {
                let _ = writeln!(page, "        we asked for {asked}; the server speaks {} instead", agreement.version);
            }
        }
        (_, Some(reason)) => {
            let _ = writeln!(page, "  {BAD}no session{BAD:#}  {} ({})", reason.message, reason.reason);
            if let Some(hint) = hint(record) {
                let _ = writeln!(page, "  hint: {hint}");
            }
            for line in &record.last_words {
                let _ = writeln!(page, "  {FAINT}stderr:{FAINT:#} {line}");
            }
        }
        _ => {}
    }
    page.push('\n');
}

/// What may help somebody whose server did not open.
fn hint(record: &Record) -> Option<String> {
    let Verdict::Refused(Refusal::TimedOut { .. } | Refusal::PeerGone) = record.verdict else { return None };
    let said = record.unrecorded + record.messages.iter().filter(|message| message.from == Side::Server).count();
    Some(match said {
        0 => format!("does this server speak {} on stdin and stdout? it wrote nothing", record.dialect),
        1 => "it wrote one line, which is no answer to the opening".to_owned(),
        said => format!("it wrote {said} lines, none of which answers the opening"),
    })
}

/// What a message is, in a few words: its method or type, and the id it goes by.
fn label(text: &str) -> String {
    let Ok(members) = Members::parse(text) else { return "not a message".to_owned() };
    let word = ["method", "type", "tool"].iter().find_map(|name| members.str(name));
    let what = match word {
        Some(word) => word.into_owned(),
        None if members.has("error") => "error".to_owned(),
        None if members.has("result") => "result".to_owned(),
        None => "message".to_owned(),
    };
    let id = members.some("id").map(|raw| raw.get().chars().take(12).collect::<String>());
    match id {
        Some(id) if members.has("method") || word_is_short(&what) => format!("{what} #{}", id.trim_matches('"')),
        _ => what,
    }
}

fn word_is_short(word: &str) -> bool {
    !word.contains('/')
}

/// The text with the values of secret members replaced.
fn without_secrets(text: &str) -> String {
    let Ok(members) = Members::parse(text) else { return text.to_owned() };
    if !members.iter().any(|(name, _)| SECRETS.contains(&name)) {
        return text.to_owned();
    }
    let shown = members.iter().map(|(name, raw)| {
        let value = if SECRETS.contains(&name) && raw.get() != r#""""# { r#""[redacted]""# } else { raw.get() };
        format!("{}:{value}", json::to_raw(name).get())
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

/// Breaks text into at most `rows` rows of `width` characters; the last one says if there was more.
fn wrap(text: &str, width: usize, rows: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let mut wrapped: Vec<String> = characters.chunks(width.max(1)).take(rows).map(|row| row.iter().collect()).collect();
    if characters.len() > width * rows
        && let Some(last) = wrapped.last_mut()
    {
        last.pop();
        last.push('…');
    }
    wrapped
}

/// The terminal's width, or what fits most pages.
fn width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    #[cfg(unix)]
    let named = named.or_else(|| {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    });
    named.unwrap_or(100)
}
