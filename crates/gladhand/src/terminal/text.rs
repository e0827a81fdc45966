//! Text of a peer, made harmless for a terminal.
//!
//! Messages, names and descriptions are always escaped. The data of a command (what a tool returned, JSON) is escaped on
//! a terminal only: a pipe gets it byte for byte.

use std::borrow::Cow;
use std::io::IsTerminal as _;

use gladhand_core::wire::invisible::{Layout, escape, escape_exactly, escape_json};
use gladhand_redaction::redact;

/// One line of text, in which characters that cannot be seen, or that steer the terminal, are written as `\u{200b}`.
pub(crate) fn plain(text: &str) -> String {
    escape(text, Layout::Line).into_owned()
}

/// The same for text of several lines: line breaks and tabs stay.
pub(crate) fn plain_lines(text: &str) -> String {
    escape(text, Layout::Lines).into_owned()
}

/// One line of text for a decision of the user: what cannot be seen, or may be part of a letter, is shown as an escape.
pub(crate) fn exact(text: &str) -> String {
    escape_exactly(text, Layout::Line)
}

/// The same for text of several lines: line breaks and tabs stay.
pub(crate) fn exact_lines(text: &str) -> String {
    escape_exactly(text, Layout::Lines)
}

/// Text of a peer inside of something that we say: known secrets are masked, and its lines after the first are indented, so that
/// none looks like one of ours.
pub(crate) fn quoted(text: &str) -> String {
    plain_lines(&redact(text)).replace('\n', "\n    ")
}

/// A number of things, in words.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Who reads what a command writes to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A person at a terminal.
    Terminal,
    /// A program, or a file.
    Pipe,
}

impl Reader {
    /// The reader of our stdout.
    pub(crate) fn of_stdout() -> Self {
        if std::io::stdout().is_terminal() { Self::Terminal } else { Self::Pipe }
    }

    /// Data of several lines.
    pub(crate) fn text(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Terminal => escape(text, Layout::Lines),
            Self::Pipe => text.into(),
        }
    }

    /// JSON: the same for both, written in another way where a terminal could take it for more than text.
    pub(crate) fn json(self, json: &str) -> Cow<'_, str> {
        match self {
            Self::Terminal => escape_json(json),
            Self::Pipe => json.into(),
        }
    }
}
