//! An opening as one JSON object, documented in `docs/stability.md`.

use gladhand_core::negotiation::{Agreement, Refusal, Side};
use gladhand_core::operations::Feature;
use gladhand_core::wire::{RawValue, json};
use gladhand_dialects::{Absence, Dialect, absent};
use gladhand_redaction::{redact, redact_words};
use serde::Serialize;
use serde_json::Value;

use super::draw::millis;
use super::exchange::{Record, RecordedLine, Verdict};
use super::exit_code;
use crate::commands::shared::opened_server::{credentials, hint_for, typed};
use crate::commands::{CommandError, error_member, print_json};
use gladhand_client::upstream::open_error::{may_open_for_another, unauthorized_hint};
use gladhand_client::upstream::{OpenError, Target};

/// The hint for a server that may open for another client.
const TRY_ALL: &str = "`--as all` shows whether it speaks another version or dialect";

/// Prints the opening.
pub(super) fn print(record: &Record) -> Result<(), CommandError> {
    let line = json::to_raw(&Report::of(record));
    print_json(&redact(line.get()))
}

/// Prints the openings as several clients.
pub(super) fn print_all(records: &[Record]) -> Result<(), CommandError> {
    #[derive(Serialize)]
    struct All<'r> {
        opened: bool,
        attempts: Vec<Report<'r>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
    }
    let opened = records.iter().any(|record| matches!(record.verdict, Verdict::Opened(_)));
    let attempts = records.iter().map(|record| {
        let mut report = Report::of(record);
        report.hints.retain(|hint| hint != TRY_ALL);
        report
    });
    let attempts: Vec<_> = attempts.collect();
    // Without a session, the first client tells why.
    let error = attempts.first().filter(|_| !opened).and_then(|first| first.error.clone());
    let line = json::to_raw(&All { opened, attempts, error });
    print_json(&redact(line.get()))
}

#[derive(Serialize)]
struct Report<'r> {
    opened: bool,
    dialect: &'r str,
    asked_version: &'r str,
    version: Option<&'r str>,
    command: Vec<String>,
    url: Option<String>,
    took_ms: f64,
    messages: Vec<Shown<'r>>,
    unrecorded: usize,
    agreement: Option<&'r Agreement>,
    absent: Vec<Absent>,
    refusal: Option<Reason>,
    hints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    exit: Option<&'r str>,
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

/// An unavailable feature: a code for programs, a sentence for users.
#[derive(Serialize)]
struct Absent {
    feature: &'static str,
    reason: &'static str,
    message: String,
}

impl Absent {
    fn all(dialect: &Dialect, agreement: &Agreement) -> Vec<Self> {
        let shown = |(feature, absence): (Feature, Absence)| Self {
            feature: feature.word(),
            reason: absence.word(),
            message: absence.to_string(),
        };
        absent(dialect, agreement).into_iter().map(shown).collect()
    }
}

/// Why there is no session: a code for programs, a sentence for users.
#[derive(Serialize)]
pub(in crate::commands) struct Reason {
    pub(in crate::commands) reason: &'static str,
    pub(in crate::commands) message: String,
}

impl<'r> Report<'r> {
    fn of(record: &'r Record) -> Self {
        let agreement = match &record.verdict {
            Verdict::Opened(agreement) => Some(&**agreement),
            _ => None,
        };
        let (command, url) = match &record.target {
            Target::Command(words) => (redact_words(words), None),
            Target::Url(_) => (Vec::new(), Some(record.target.to_string())),
        };
        let (refusal, hints) = (Reason::of(&record.verdict), hints(record));
        let error = refusal.as_ref().map(|refusal| refusal.error(exit_code(record), &hints));
        Self {
            opened: agreement.is_some(),
            dialect: record.dialect.name,
            asked_version: &record.version,
            version: agreement.map(|agreement| agreement.version.as_str()),
            command,
            url,
            took_ms: millis(record.took),
            messages: record.messages.iter().map(Shown::of).collect(),
            unrecorded: record.unrecorded,
            agreement,
            absent: agreement.map(|agreement| Absent::all(record.dialect, agreement)).unwrap_or_default(),
            refusal,
            hints,
            error,
            exit: record.exit(),
            stderr: &record.stderr_tail,
        }
    }
}

impl<'r> Shown<'r> {
    fn of(message: &'r RecordedLine) -> Self {
        let raw = serde_json::from_str::<&RawValue>(&message.text).ok();
        Self {
            from: message.from,
            at_ms: millis(message.at),
            message: raw.map(|_| json::raw(message.text.clone())),
            text: raw.is_none().then_some(&message.text),
        }
    }
}

impl Reason {
    /// The error in the form that every command prints under `--json`.
    fn error(&self, exit: u8, hints: &[String]) -> Value {
        let hint = (!hints.is_empty()).then(|| hints.join("\n"));
        error_member(self.reason, exit, &self.message, hint.as_deref())
    }

    pub(in crate::commands) fn of(verdict: &Verdict) -> Option<Self> {
        let (reason, message) = match verdict {
            Verdict::Opened(_) => return None,
            Verdict::Failed(error) => (error.word(), error.without_stderr()),
            Verdict::Interrupted(_) => ("interrupted", "you interrupted it".to_owned()),
        };
        Some(Self { reason, message })
    }
}

/// Hints for a server that was opened as every client, and the lines of its stderr that say more.
pub(in crate::commands) fn hints_for_all(records: &[Record]) -> (Vec<String>, &[String]) {
    let is_open = |record: &Record| matches!(record.verdict, Verdict::Opened(_));
    let Some(first) = records.first() else { return (Vec::new(), &[]) };
    match records.iter().filter(|record| is_open(record)).count() {
        // A process that ends by itself does so for every client, and the first one tells why.
        0 if records.iter().all(|record| record.exit().is_some()) => {
            let hints = hints(first).into_iter().filter(|hint| hint != TRY_ALL);
            (hints.collect(), &first.stderr_tail)
        }
        opened if 0 < opened && opened < records.len() => {
            (vec![format!("`gladhand bridge {}` makes the server open with every client", typed(&first.target))], &[])
        }
        _ => (Vec::new(), &[]),
    }
}

/// Hints for a server that did not open, or that writes too much.
pub(super) fn hints(record: &Record) -> Vec<String> {
    let mut hints = Vec::new();
    let is_url = matches!(record.target, Target::Url(_));
    let Record { dialect, no_messages, .. } = record;
    let said = record.unrecorded + record.messages.iter().filter(|message| message.from == Side::Server).count();
    match &record.verdict {
        Verdict::Failed(OpenError::Refused { refusal, .. }) => match refusal {
            Refusal::PeerRefused { code, message } if matches!(code.as_str(), "401" | "denied") => {
                hints.push(unauthorized_hint(message, credentials()));
            }
            // Its message says why.
            Refusal::PeerRefused { code, .. } if code == "403" => {}
            Refusal::TimedOut { .. }
            | Refusal::PeerGone
            | Refusal::PeerRefused { .. }
            | Refusal::PeerMisbehaved { .. }
                if is_url && said == *no_messages =>
            {
                hints.push(match dialect.name {
                    "a2e" => "is this the URL of a host of A2E? Its /session must be there".to_owned(),
                    _ => "is this the URL of an MCP endpoint (its path is often /mcp)?".to_owned(),
                });
            }
            Refusal::TimedOut { .. } | Refusal::PeerGone => match (said, record.unfinished) {
                (0, 0) => {
                    // A server that ends at once is not tried in other dialects.
                    let names = match (refusal, record.possible.split_last()) {
                        (Refusal::TimedOut { .. }, Some((last, rest))) if !rest.is_empty() => {
                            format!("{} or {last}", rest.join(", "))
                        }
                        _ => dialect.name.to_owned(),
                    };
                    hints.push(format!("it wrote nothing to stdout: does it speak {names} on stdin and stdout?"));
                }
                (0, bytes) => hints.push(format!("it wrote {bytes} bytes and no newline; a message is one line")),
                (lines, _) if lines == *no_messages => {}
                // It answered an earlier request, or the session ended after the answer.
                _ if record.has_answer() => {}
                (1, _) => hints.push("it wrote one line, which is no answer to the opening".to_owned()),
                (said, _) => hints.push(format!("it wrote {said} lines, none of which answers the opening")),
            },
            refusal if may_open_for_another(refusal) && !record.repeats_us() => hints.push(TRY_ALL.to_owned()),
            _ => {}
        },
        Verdict::Failed(error) => {
            hints.push(error.hint(&record.target, hint_for(&typed(&record.target))));
        }
        Verdict::Opened(_) | Verdict::Interrupted(_) => {}
    }
    if record.repeats_us() {
        hints.push("it sends back what it is sent, as `cat` does: it is no server".to_owned());
    }
    match no_messages {
        // Over HTTP the server has no stdout.
        _ if is_url => {}
        0 => {}
        1 => hints.push("one line on the server's stdout is no message; logs belong on stderr".to_owned()),
        lines => hints.push(format!("{lines} lines on the server's stdout are no messages; logs belong on stderr")),
    }
    hints
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gladhand_dialects::Stop;

    use super::*;

    #[test]
    fn a_line_that_answers_a_request_is_not_called_none() {
        let hints_after = |line: &str| {
            let target = Target::Command(vec!["my-server".to_owned()]);
            let mut record =
                Record::interrupted(&gladhand_dialects::mcp::DIALECT, "2025-11-25", target, Stop::Terminated);
            record.verdict = Verdict::refused(Refusal::TimedOut { seconds: 1 });
            let request = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#;
            record.messages = [(Side::Client, request), (Side::Server, line)]
                .map(|(from, text)| RecordedLine {
                    from,
                    is_message: true,
                    label: String::new(),
                    text: text.to_owned(),
                    at: Duration::ZERO,
                })
                .into();
            hints(&record)
        };
        assert!(hints_after(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_empty());
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/message"}"#;
        assert_eq!(hints_after(notice), ["it wrote one line, which is no answer to the opening"]);
    }
}
