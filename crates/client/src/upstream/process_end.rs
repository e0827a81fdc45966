//! How the process of an upstream ended: the one wording for a failed opening and for failed calls.
//!
//! The text quotes stderr of the process: bounded, without known secrets, and without characters that control a terminal.

use std::process::ExitStatus;

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::invisible::{Layout, escape};
use gladhand_redaction::redact;

use super::transport::Transport;

/// How many lines of stderr are quoted.
const LINES: usize = 5;

/// How many characters of each line are quoted.
const LINE_CHARACTERS: usize = 300;

/// The end of a process that closed its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessEnd {
    /// The exit status or signal. `None`: the process closed its output, and was still running.
    pub status: Option<String>,
    /// The last lines that it wrote to stderr.
    pub stderr_tail: Vec<String>,
}

impl ProcessEnd {
    /// The end of a process with this status.
    pub fn new(status: Option<ExitStatus>, stderr_tail: Vec<String>) -> Self {
        Self { status: status.map(|status| status.to_string()), stderr_tail }
    }

    /// The end of the process behind a transport. Returns `None` over HTTP.
    pub(super) async fn of(transport: &mut Transport) -> Option<Self> {
        let Transport::Child(child) = transport else { return None };
        let (status, stderr_tail) = child.ending(LINES).await;
        Some(Self::new(status, stderr_tail))
    }

    /// Describes the end in one line: `{who} ended {when} ({status}); its stderr ends with: {lines}`.
    pub fn describe(&self, who: &str, when: &str) -> String {
        let ended = self.describe_status(who, when);
        // A secret may span several lines, so all lines are redacted together.
        let tail = self.stderr_tail.join("\n");
        let lines: Vec<_> = redact(&tail).lines().map(quoted).collect();
        match &lines[lines.len().saturating_sub(LINES)..] {
            [] => format!("{ended} and wrote nothing to stderr"),
            lines => format!("{ended}; its stderr ends with: {}", lines.join(" | ")),
        }
    }

    /// The same without stderr, where stderr is shown separately.
    pub fn describe_status(&self, who: &str, when: &str) -> String {
        match &self.status {
            Some(status) => format!("{who} ended {when} ({status})"),
            None => format!("{who} closed its output {when}"),
        }
    }
}

/// The failure of a call that was not sent in time.
pub(super) fn unsent(name: Option<&str>) -> Failure {
    let message = format!("{} did not read its input in time, and the call was not sent", named(name));
    Failure::new(FailureKind::TimedOut, message)
}

/// An upstream in a message. `name` is its name in the configuration, if it has one.
pub(super) fn named(name: Option<&str>) -> String {
    name.map_or_else(|| "the server".to_owned(), |name| format!("upstream {name}"))
}

fn quoted(line: &str) -> String {
    let line = escape(line.trim(), Layout::Line);
    match line.char_indices().nth(LINE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    const WHEN: &str = "during the call";

    fn described(who: &str, status: Option<ExitStatus>, stderr_tail: &[String]) -> String {
        ProcessEnd::new(status, stderr_tail.to_vec()).describe(who, WHEN)
    }

    #[test]
    fn status_signal_and_stderr_are_described() {
        let exited = |code: i32| Some(ExitStatus::from_raw(code << 8));
        let words = ["Traceback:".to_owned(), "  KeyError: 'x'".to_owned()];
        assert_eq!(
            described("upstream notes", exited(3), &words),
            "upstream notes ended during the call (exit status: 3); its stderr ends with: Traceback: | KeyError: 'x'"
        );
        assert_eq!(
            described("the server", Some(ExitStatus::from_raw(9)), &[]),
            "the server ended during the call (signal: 9 (SIGKILL)) and wrote nothing to stderr"
        );
        assert_eq!(
            described("the server", None, &["bye".to_owned()]),
            "the server closed its output during the call; its stderr ends with: bye"
        );
    }

    #[test]
    fn secrets_are_not_quoted() {
        gladhand_redaction::learn("sesame-open-sesame", gladhand_redaction::Life::Process);
        let text = described("the server", None, &["token sesame-open-sesame refused".to_owned()]);
        assert!(text.ends_with("token *** refused"), "{text}");
    }

    #[test]
    fn quoted_stderr_lines_are_short_and_escaped() {
        let text = described("the server", None, &["\u{1b}[2J".to_owned(), "x".repeat(10_000)]);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.chars().count() < 2 * LINE_CHARACTERS, "{}", text.len());
    }
}
