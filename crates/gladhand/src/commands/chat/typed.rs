//! What a person types, or what comes through a pipe in their place.

use std::collections::VecDeque;
use std::io::{BufRead as _, IsTerminal as _, Read as _};

use tokio::sync::mpsc;

/// A longer line is taken for several.
const LONGEST: u64 = 1024 * 1024;
/// Lines that are read ahead.
const AHEAD: usize = 16;

/// What a line comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// It ends in a backslash, and goes on in the next one.
    More,
    /// This is the message.
    Done(String),
}

/// Lines from standard input.
#[derive(Debug)]
pub(super) struct Typed {
    lines: mpsc::Receiver<String>,
    /// Typed before something was asked, and so no answer to it.
    early: VecDeque<String>,
    /// Lines that end in a backslash, which others continue.
    begun: String,
    /// Whether a person can be asked.
    pub(super) is_person: bool,
}

impl Typed {
    /// Begins to read.
    pub(super) fn start() -> std::io::Result<Self> {
        let (sender, lines) = mpsc::channel(AHEAD);
        // Reading a terminal cannot be cancelled, so nobody waits for this one: it ends with the process.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            while let Some(line) = read_line() {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        let (early, begun, is_person) = (VecDeque::new(), String::new(), std::io::stdin().is_terminal());
        Ok(Self { lines, early, begun, is_person })
    }

    /// What is typed next; none at the end of input.
    pub(super) async fn message(&mut self) -> Option<Typing> {
        let line = match self.early.pop_front() {
            Some(line) => Some(line),
            None => self.lines.recv().await,
        };
        match line {
            None if self.begun.is_empty() => None,
            None => Some(Typing::Done(std::mem::take(&mut self.begun))),
            Some(line) => Some(self.continued(&line)),
        }
    }

    /// A line that a person typed before it was their turn, and what it comes to.
    pub(super) fn early(&mut self) -> Option<(String, Typing)> {
        if !self.is_person {
            return None;
        }
        let line = self.early.pop_front().or_else(|| self.lines.try_recv().ok())?;
        let typing = self.continued(&line);
        Some((line, typing))
    }

    /// Takes in a line that a person types while it is not their turn. Never ends where nobody does.
    pub(super) async fn ahead(&mut self) -> String {
        let line = match self.is_person && self.early.len() < AHEAD {
            true => self.lines.recv().await,
            false => None,
        };
        let Some(line) = line else { return std::future::pending().await };
        self.early.push_back(line.clone());
        line
    }

    /// How many lines were taken in before it was their turn.
    pub(super) fn waiting(&self) -> usize {
        self.early.len()
    }

    /// What was typed up to here answers no question that is asked from here on.
    pub(super) fn set_aside(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.early.push_back(line);
        }
        #[cfg(unix)]
        if self.is_person {
            // Best effort: it protects from keys pressed too early.
            let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        }
    }

    /// The answer to a question; none at the end of input.
    pub(super) async fn answer(&mut self) -> Option<String> {
        self.lines.recv().await
    }

    fn continued(&mut self, line: &str) -> Typing {
        match line.strip_suffix('\\') {
            Some(begun) => {
                self.begun.push_str(begun);
                self.begun.push('\n');
                Typing::More
            }
            None => Typing::Done(std::mem::take(&mut self.begun) + line),
        }
    }
}

fn read_line() -> Option<String> {
    let mut line = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST).read_until(b'\n', &mut line);
    if read.is_err() || line.is_empty() {
        return None;
    }
    let line = String::from_utf8_lossy(&line);
    Some(line.strip_suffix('\n').unwrap_or(&line).trim_end_matches('\r').to_owned())
}
