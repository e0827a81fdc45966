//! One file per command. Only here are errors flattened into text for people, without secrets.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;
use gladhand_accord::Refusal;
use gladhand_redaction::redact;

use crate::exit::Exit;
use plain::{Reader, plain_lines};

pub mod bridge;
pub mod call;
mod changes;
pub mod chat;
pub mod config;
mod difference;
pub mod doctor;
pub mod list;
pub mod login;
mod lookup;
pub mod manual;
pub mod open;
mod outside;
mod plain;
pub mod policy;
#[cfg(unix)]
pub mod ps;
pub mod repo;
mod screen;
pub mod secret;
mod secret_prompt;
pub mod serve;
mod session;
mod settings;
mod show;
mod sign_in;

/// A command that could not do its work: what happened, and how the process ends.
#[derive(Debug)]
pub struct CommandError {
    exit: Exit,
    error: anyhow::Error,
    hint: Option<String>,
}

impl CommandError {
    /// Something went wrong that ends the process in this way.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hint: None }
    }

    /// The command line or the configuration is wrong.
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, error: error.into(), hint: None }
    }

    /// The same with something to do about it.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failure, error: error.into(), hint: None }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The whole chain, causes last: "could not do this: because of that". What an error has told of its cause is not
        // told again.
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

/// Prints an error for people and says how the process ends.
pub fn complain(error: &CommandError) -> ExitCode {
    let style = anstyle::AnsiColor::Red.on_default().bold();
    // Nobody reads stderr: then there is nobody to tell.
    let mut stderr = anstream::stderr();
    // An error may quote a peer, or a file that somebody else wrote.
    let _ = writeln!(stderr, "{style}error:{style:#} {}", plain_lines(&error.to_string()));
    if let Some(hint) = &error.hint {
        let _ = writeln!(stderr, "hint: {}", plain_lines(&redact(hint)));
    }
    error.exit.into()
}

/// Prints data as it is: colours are not taken out of it, as they are of our own messages.
fn print_data(text: &str) -> Result<(), CommandError> {
    written(std::io::stdout().write_all(text.as_bytes()))
}

/// Prints JSON, and ends the line.
fn print_json(json: &str) -> Result<(), CommandError> {
    print_data(&format!("{}\n", Reader::of_stdout().json(json)))
}

/// Writing to somebody who stopped reading is no failure of ours.
fn written(written: std::io::Result<()>) -> Result<(), CommandError> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether a command failed only because nobody reads what it writes.
fn is_gone(error: &CommandError) -> bool {
    let cause = error.error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// How a command ends that got no session.
fn exit_of(refusal: &Refusal) -> Exit {
    match refusal {
        Refusal::PeerGone | Refusal::TimedOut { .. } | Refusal::PeerMisbehaved { .. } => Exit::PeerFailed,
        _ => Exit::Refused,
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
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("could not start: {0}")]
        struct Outer(#[source] std::io::Error);

        let inner = || std::io::Error::other("no such file");
        assert_eq!(CommandError::usage(Outer(inner())).to_string(), "could not start: no such file");
        let error = anyhow::Error::from(inner()).context("reading x");
        assert_eq!(CommandError::usage(error).to_string(), "reading x: no such file");
    }
}
