//! What came of a replay, as text or as the JSON object in `docs/stability.md`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_recording::Difference;
use gladhand_redaction::redact;
use serde_json::{Value, json};

use super::ReplayArgs;
use super::as_client::Outcome;
use super::expected::{Finding, What};
use crate::commands::shared::drawing::{BAD, FAINT, GOOD, STRONG};
use crate::commands::shared::recordings::Session;
use crate::commands::{CommandError, print_report, written};
use crate::exit::Exit;
use crate::terminal::layout::{width, write_labelled};
use crate::terminal::text::{counted, plain};

/// The width of reports if the width of the terminal is unknown.
const USUAL_WIDTH: usize = 80;

/// How many characters of a value are shown; `--json` has all of it.
const VALUE: usize = 400;

/// Prints the outcome, and says how the process ends.
pub(super) fn print(args: &ReplayArgs, session: &Session, outcome: &Outcome) -> Result<ExitCode, CommandError> {
    let error = error(outcome);
    if args.json {
        return print_report(report(session, outcome), error.as_ref());
    }
    let text = drawn(args, session, outcome);
    let mut stdout = anstream::stdout();
    written(stdout.write_all(redact(&text).as_bytes()).and_then(|()| stdout.flush()))?;
    match error {
        Some(error) if outcome.failure.is_some() => Err(error),
        Some(error) => Ok(error.exit.into()),
        None => Ok(Exit::Success.into()),
    }
}

fn error(outcome: &Outcome) -> Option<CommandError> {
    if let Some(failure) = &outcome.failure {
        let error = CommandError::new(Exit::PeerFailed, anyhow!("{failure}"));
        return Some(match outcome.stderr.as_slice() {
            [] => error,
            lines => error.hint(format!("its stderr: {}", lines.join("\n"))),
        });
    }
    let count = outcome.findings.len();
    let differ = if count == 1 { "1 message differs".to_owned() } else { format!("{count} messages differ") };
    let error = || CommandError::new(Exit::CallFailed, anyhow!("{differ} from the recording")).code("different");
    (count > 0).then(error)
}

fn drawn(args: &ReplayArgs, session: &Session, outcome: &Outcome) -> String {
    let width = width().unwrap_or(USUAL_WIDTH);
    let mut text = String::new();
    let title = plain(&session.title());
    let Outcome { sent, compared, masked, findings, .. } = outcome;
    write_labelled(&mut text, &format!("{STRONG}replayed{STRONG:#} "), &title, width);
    let (sent, compared) = (counted(*sent, "message"), counted(*compared, "message"));
    let counts = format!("{sent} of the client sent, {compared} of the server compared");
    write_labelled(&mut text, "  ", &counts, width);
    if *masked > 0 {
        let contain = if *masked == 1 { "contains" } else { "contain" };
        let sent = counted(*masked, "sent message");
        let line = format!("{sent} {contain} masked values, which the server got as `***`");
        write_labelled(&mut text, "  ", &line, width);
    }
    for Finding { message, line, what } in findings {
        let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        text.push('\n');
        let _ = writeln!(text, "  {STRONG}{}{STRONG:#}{FAINT}{place}{FAINT:#}", plain(message));
        match what {
            What::Missing => {
                let line = format!("missing: it was recorded, and did not come within {} s", args.timeout);
                write_labelled(&mut text, "    ", &line, width);
            }
            What::Unexpected(live) => {
                write_labelled(&mut text, "    unexpected: ", &cut(live), width);
            }
            What::Changed(differences) => {
                for Difference { path, recorded, live } in differences {
                    let path = if path.is_empty() { "the whole message" } else { path };
                    write_labelled(&mut text, "    ", &plain(path), width);
                    write_labelled(&mut text, &format!("      {FAINT}recorded{FAINT:#}  "), &value(recorded), width);
                    write_labelled(&mut text, &format!("      {FAINT}live{FAINT:#}      "), &value(live), width);
                }
            }
        }
    }
    text.push('\n');
    let _ = match (&outcome.failure, findings.len()) {
        (Some(_), _) => writeln!(text, "  {BAD}the server failed{BAD:#}"),
        (None, 0) => writeln!(text, "  {GOOD}no differences{GOOD:#}"),
        (None, 1) => writeln!(text, "  {BAD}1 message differs{BAD:#}"),
        (None, count) => writeln!(text, "  {BAD}{count} messages differ{BAD:#}"),
    };
    text
}

fn value(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "(absent)".to_owned(), |value| cut(&value.to_string()))
}

fn cut(text: &str) -> String {
    let mut shown = plain(text);
    if let Some((at, _)) = shown.char_indices().nth(VALUE) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}

fn report(session: &Session, outcome: &Outcome) -> Value {
    // The live values are of a peer, and may be secrets.
    let masked = |value: &Option<Value>| {
        value.as_ref().map(|value| {
            let text = redact(&value.to_string()).into_owned();
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        })
    };
    let findings = outcome.findings.iter().map(|Finding { message, line, what }| {
        let (kind, members, live) = match what {
            What::Changed(differences) => ("changed", differences.as_slice(), None),
            What::Missing => ("missing", [].as_slice(), None),
            What::Unexpected(live) => ("unexpected", [].as_slice(), Some(redact(live))),
        };
        let members = members.iter().map(|Difference { path, recorded, live }| {
            let mut member = serde_json::Map::from_iter([("path".to_owned(), Value::from(path.as_str()))]);
            member.extend(masked(recorded).map(|value| ("recorded".to_owned(), value)));
            member.extend(masked(live).map(|value| ("live".to_owned(), value)));
            Value::from(member)
        });
        let members: Vec<_> = members.collect();
        json!({ "kind": kind, "message": message, "line": line, "members": members, "live": live })
    });
    json!({
        "session": session.id,
        "dialect": session.dialect,
        "version": session.version,
        "sent": outcome.sent,
        "compared": outcome.compared,
        "masked": outcome.masked,
        "differences": findings.collect::<Vec<_>>(),
        "stderr": outcome.stderr,
    })
}
