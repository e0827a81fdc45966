//! How the process of an upstream ended while calls were under way, as the callers are told.
//!
//! The text quotes stderr of a process: it is bounded, without secrets and without characters that steer a terminal.

use std::process::ExitStatus;

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::invisible::{Layout, escape};
use gladhand_redaction::redact;

use super::transport::Transport;

/// How many lines of stderr are quoted.
const LINES: usize = 5;

/// How many characters of each line are quoted.
const LINE_CHARACTERS: usize = 300;

/// Says how a process that closed its output ended. `name` is the upstream in the configuration, if it is there.
pub(super) async fn of(transport: &mut Transport, name: Option<&str>) -> Option<String> {
    let Transport::Child(child) = transport else { return None };
    let (status, last_words) = child.ending(LINES).await;
    Some(told(name, status, &last_words))
}

/// The failure of a call that was not sent in time.
pub(super) fn unsent(name: Option<&str>) -> Failure {
    let message = format!("{} did not read its input in time, and the call was not sent", named(name));
    Failure::new(FailureKind::TimedOut, message)
}

/// An upstream in a message.
pub(super) fn named(name: Option<&str>) -> String {
    name.map_or_else(|| "the server".to_owned(), |name| format!("upstream {name}"))
}

fn told(name: Option<&str>, status: Option<ExitStatus>, last_words: &[String]) -> String {
    let name = named(name);
    let ended = match status {
        Some(status) => format!("{name} ended during the call ({status})"),
        None => format!("{name} closed its output during the call"),
    };
    // A secret may go over several lines, so that lines are redacted together.
    let last_words = last_words.join("\n");
    let lines: Vec<_> = redact(&last_words).lines().map(quoted).collect();
    match lines.as_slice() {
        [] => format!("{ended} and wrote nothing to stderr"),
        lines => format!("{ended}; its stderr ends with: {}", lines.join(" | ")),
    }
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

    #[test]
    fn status_signal_and_last_words_are_told() {
        let exited = |code: i32| Some(ExitStatus::from_raw(code << 8));
        let words = ["Traceback:".to_owned(), "  KeyError: 'x'".to_owned()];
        assert_eq!(
            told(Some("notes"), exited(3), &words),
            "upstream notes ended during the call (exit status: 3); its stderr ends with: Traceback: | KeyError: 'x'"
        );
        assert_eq!(
            told(None, Some(ExitStatus::from_raw(9)), &[]),
            "the server ended during the call (signal: 9 (SIGKILL)) and wrote nothing to stderr"
        );
        assert_eq!(
            told(None, None, &["bye".to_owned()]),
            "the server closed its output during the call; its stderr ends with: bye"
        );
    }

    #[test]
    fn secrets_are_not_quoted() {
        gladhand_redaction::learn("sesame-open-sesame", gladhand_redaction::Life::Process);
        let text = told(None, None, &["token sesame-open-sesame refused".to_owned()]);
        assert!(text.ends_with("token *** refused"), "{text}");
    }

    #[test]
    fn what_is_quoted_is_short_and_cannot_steer_a_terminal() {
        let text = told(None, None, &["\u{1b}[2J".to_owned(), "x".repeat(10_000)]);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.chars().count() < 2 * LINE_CHARACTERS, "{}", text.len());
    }
}
