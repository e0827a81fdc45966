//! One file per command. Only here are errors flattened into text for people, without secrets.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_client::upstream::OpenError;
use gladhand_core::negotiation::Refusal;
use gladhand_redaction::redact;
use serde_json::{Value, json};
use tracing::Level;

use crate::cli::Misuse;
use crate::exit::Exit;
use crate::logging;
use crate::terminal::layout;
use crate::terminal::text::{Reader, plain_lines};

pub mod bridge;
pub mod call;
pub mod chat;
pub mod check;
pub mod config;
pub mod console;
pub mod doctor;
pub mod list;
pub mod login;
pub mod loss;
pub mod manual;
pub mod open;
pub mod policy;
pub mod probe;
#[cfg(unix)]
pub mod ps;
#[cfg(unix)]
pub mod record;
pub mod replay;
pub mod repo;
pub mod secret;
pub mod serve;
pub(crate) mod shared;
#[cfg(unix)]
pub mod shell;
pub mod show;
#[cfg(unix)]
pub mod tap;
#[cfg(unix)]
pub mod top;

/// A command that could not do its work: what happened, and how the process ends.
#[derive(Debug)]
pub struct CommandError {
    exit: Exit,
    code: &'static str,
    error: anyhow::Error,
    hint: Option<String>,
}

impl CommandError {
    /// Something went wrong that ends the process in this way.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, code: exit.word(), error: error.into(), hint: None }
    }

    /// The command line or the configuration is wrong.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Exit::Usage, error)
    }

    /// The same with a code for programs that is more specific than the exit code.
    pub fn code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// The same with something to do about it.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The member `error` of what a command prints under `--json`, as `docs/stability.md` shows it.
    fn to_json(&self) -> Value {
        let hint = self.hint.as_deref().map(redact);
        error_member(self.code, self.exit as u8, &self.to_string(), hint.as_deref())
    }
}

/// The same from its parts.
fn error_member(code: &str, exit: u8, message: &str, hint: Option<&str>) -> Value {
    json!({ "code": code, "exit": exit, "message": message, "hint": hint })
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::new(Exit::Failure, error)
    }
}

/// Who reads what a command reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person: text, and errors on stderr.
    Person,
    /// A program that asked for `--json`: errors are a report like any other, on stdout.
    Program,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The whole chain, causes last: "could not do this: because of that". A cause that the error already contains
        // is not repeated.
        let mut told = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            match told.as_str() {
                "" => told = cause,
                so_far if so_far.contains(&cause) => {}
                _ => told = format!("{told}: {cause}"),
            }
        }
        f.write_str(&redact(&told))
    }
}

/// Prints an error and returns the exit code of the process.
pub fn complain(error: &CommandError, audience: Audience) -> ExitCode {
    match audience {
        Audience::Person => complain_to_person(error),
        // A reader that has closed stdout still sees the exit code.
        Audience::Program => drop(print_json(&json!({ "error": error.to_json() }).to_string())),
    }
    error.exit.into()
}

fn complain_to_person(error: &CommandError) {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    // An error may quote a peer, or a file of another author.
    let message = plain_lines(&error.to_string());
    let told = layout::message(&format!("error: {message}"), layout::message_width());
    let human = format!("{style}error:{style:#}{}", told.strip_prefix("error:").unwrap_or(&told));
    say_error(&message, &human, error.hint.as_deref());
}

/// Prints an error on stderr: as a log line if log lines are JSON, else as text for users, with the hint below.
fn say_error(message: &str, human: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| plain_lines(&redact(hint)));
    let fields: Vec<_> = hint.iter().map(|hint| ("hint", hint.as_str())).collect();
    let below = hint.iter().map(|hint| layout::message(&format!("hint: {hint}"), layout::message_width()));
    logging::say(Level::ERROR, message, &fields, &(human.to_owned() + &below.collect::<String>()));
}

/// Prints the error of an invalid command line, or the help that it asks for.
pub fn complain_of_usage(misuse: &Misuse) -> ExitCode {
    let Misuse { error, hint, audience } = misuse;
    if *audience == Audience::Person || !error.use_stderr() {
        if !error.use_stderr() {
            // A reader that has closed stdout still sees the exit code.
            let _ = error.print();
        } else {
            let text = error.render();
            let plain = text.to_string();
            say_error(plain.strip_prefix("error: ").unwrap_or(&plain), &text.ansi().to_string(), hint.as_deref());
        }
        return u8::try_from(error.exit_code()).map_or_else(|_| Exit::Usage.into(), ExitCode::from);
    }
    complain(&usage_error(&error.render().to_string(), hint.as_deref()), Audience::Program)
}

/// The message of clap, in parts: the mistake, then tips and the usage.
fn usage_error(text: &str, hint: Option<&str>) -> CommandError {
    let mut parts = text.trim().split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let mistake = parts.next().unwrap_or_default();
    let parts = parts.filter(|part| !part.starts_with("For more information"));
    let rest: Vec<_> = parts.chain(hint.map(str::to_owned)).collect();
    let error = CommandError::usage(anyhow!("{}", mistake.trim_start_matches("error: ")));
    if rest.is_empty() { error } else { error.hint(rest.join("\n")) }
}

/// Notes something on stderr, broken to fit a terminal.
fn note(text: &str) {
    let text = plain_lines(&redact(text));
    logging::say(Level::INFO, &text, &[], &layout::message(&text, layout::message_width()));
}

/// Prints data as it is: colours are not taken out of it, as they are of our own messages.
fn print_data(text: &str) -> Result<(), CommandError> {
    written(std::io::stdout().write_all(text.as_bytes()))
}

/// Prints the report of a command as JSON on one line, and says how the process ends. Bad news has the member `error`, as
/// every failure under `--json`.
fn print_report(mut report: Value, bad_news: Option<&CommandError>) -> Result<ExitCode, CommandError> {
    if let (Some(error), Some(members)) = (bad_news, report.as_object_mut()) {
        members.insert("error".to_owned(), error.to_json());
    }
    print_json(&report.to_string())?;
    Ok(bad_news.map_or(Exit::Success, |error| error.exit).into())
}

/// Prints JSON, and ends the line.
fn print_json(json: &str) -> Result<(), CommandError> {
    print_data(&format!("{}\n", Reader::of_stdout().json(json)))
}

/// A reader that closes its end of the pipe is not a failure.
fn written(written: std::io::Result<()>) -> Result<(), CommandError> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a command failed only because the reader of its output is gone.
fn is_gone(error: &CommandError) -> bool {
    let cause = error.error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The exit code of a command that got no session.
fn exit_of(error: &OpenError) -> Exit {
    match error {
        OpenError::NotStarted { .. } | OpenError::Unreachable(_) => Exit::PeerFailed,
        OpenError::NotOverHttp(_) => Exit::Usage,
        OpenError::Unauthorized { .. } | OpenError::Forbidden { .. } => Exit::Refused,
        OpenError::Refused { refusal, .. } => match refusal {
            Refusal::PeerGone | Refusal::TimedOut { .. } | Refusal::PeerMisbehaved { .. } => Exit::PeerFailed,
            _ => Exit::Refused,
        },
    }
}

/// This very program, to be started as a server.
fn own_program() -> Result<String, CommandError> {
    let path = std::env::current_exe()?;
    path.into_os_string().into_string().map_err(|_| anyhow!("the path of this program is not UTF-8").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clap_error_is_split_into_message_and_hint() {
        let text = "error: invalid value 'x' for '--as <CLIENT>'\n  [possible values: auto, mcp]\n\n  tip: try 'mcp'\n\n\
                    Usage: gladhand open\n\nFor more information, try '--help'.\n";
        let expected = json!({
            "code": "usage",
            "exit": 2,
            "message": "invalid value 'x' for '--as <CLIENT>' [possible values: auto, mcp]",
            "hint": "tip: try 'mcp'\nUsage: gladhand open",
        });
        assert_eq!(usage_error(text, None).to_json(), expected);
    }

    #[test]
    fn an_error_message_contains_each_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("could not start: {0}")]
        struct Outer(#[source] std::io::Error);

        let inner = || std::io::Error::other("no such file");
        assert_eq!(CommandError::usage(Outer(inner())).to_string(), "could not start: no such file");
        let error = anyhow::Error::from(inner()).context("reading x");
        assert_eq!(CommandError::usage(error).to_string(), "reading x: no such file");
    }
}
