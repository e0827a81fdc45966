//! Lines of a person at a terminal, or of a program through a pipe. Line editing at the prompt is in `editor`.

use std::collections::VecDeque;
use std::io::{BufRead as _, IsTerminal as _, Read as _};

use tokio::sync::mpsc;

#[cfg(unix)]
use super::editor::{Editor, Wish};
#[cfg(unix)]
use crate::terminal::line_history::History;

/// A longer line is taken for several.
const LONGEST: u64 = 1024 * 1024;
/// Lines that are read ahead.
const AHEAD: usize = 16;

/// The result of an entered line.
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
    /// How many lines were received.
    received: u64,
    /// Edits lines at the prompt.
    #[cfg(unix)]
    editor: Option<Editor>,
    /// Messages that were typed ahead, for the history.
    #[cfg(unix)]
    said: Vec<String>,
    /// Whether a person can be asked.
    pub(super) is_person: bool,
}

impl Typed {
    /// Begins to read line by line.
    pub(super) fn start() -> std::io::Result<Self> {
        let (sender, lines) = mpsc::channel(AHEAD);
        // Reading a terminal cannot be cancelled, so the thread is not joined: it ends with the process.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            while let Some(line) = read_line() {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self::of(lines))
    }

    /// Begins to read a terminal, with line editing at the prompt.
    #[cfg(unix)]
    pub(super) fn with_editor(history: History) -> std::io::Result<Self> {
        let (sender, lines) = mpsc::channel(AHEAD);
        Ok(Self { editor: Some(Editor::start(sender, history)?), ..Self::of(lines) })
    }

    fn of(lines: mpsc::Receiver<String>) -> Self {
        Self {
            lines,
            early: VecDeque::new(),
            begun: String::new(),
            received: 0,
            #[cfg(unix)]
            editor: None,
            #[cfg(unix)]
            said: Vec::new(),
            is_person: std::io::stdin().is_terminal(),
        }
    }

    /// Has the next message edited behind a prompt (without and with colours), where lines can be edited.
    #[cfg(unix)]
    pub(super) fn edit(&mut self, prompt: (String, String)) {
        if let Some(editor) = self.editor.as_mut().filter(|editor| !editor.is_editing) {
            editor.edit(Wish { prompt, said: std::mem::take(&mut self.said), received: self.received });
        }
    }

    #[cfg(not(unix))]
    pub(super) fn edit(&mut self, _: (String, String)) {}

    /// Whether a line is being edited, so that nothing else may be written.
    pub(super) fn is_editing(&self) -> bool {
        #[cfg(unix)]
        return self.editor.as_ref().is_some_and(|editor| editor.is_editing);
        #[cfg(not(unix))]
        false
    }

    /// Whether the editor was left without a line, by Ctrl-C or Ctrl-D, so that the cursor is below the prompt.
    pub(super) fn has_left_prompt(&self) -> bool {
        #[cfg(unix)]
        return self.editor.as_ref().is_some_and(Editor::has_left);
        #[cfg(not(unix))]
        false
    }

    /// Whether a line ended in a backslash, so that the next one continues it.
    pub(super) fn is_continued(&self) -> bool {
        !self.begun.is_empty()
    }

    async fn next(&mut self) -> Option<String> {
        let line = self.lines.recv().await?;
        self.received();
        Some(line)
    }

    fn next_at_once(&mut self) -> Option<String> {
        let line = self.lines.try_recv().ok()?;
        self.received();
        Some(line)
    }

    fn received(&mut self) {
        self.received += 1;
        #[cfg(unix)]
        if let Some(editor) = &mut self.editor {
            editor.is_editing = false;
        }
    }

    /// The next message; none at the end of input.
    pub(super) async fn message(&mut self) -> Option<Typing> {
        let line = match self.early.pop_front() {
            Some(line) => Some(line),
            None => self.next().await,
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
        let line = match self.early.pop_front() {
            Some(line) => line,
            None => self.next_at_once()?,
        };
        #[cfg(unix)]
        self.said.extend(self.editor.as_ref().map(|_| line.clone()));
        let typing = self.continued(&line);
        Some((line, typing))
    }

    /// Reads a line that the user types ahead of their turn. Never returns if there is no input.
    pub(super) async fn ahead(&mut self) -> String {
        let line = match self.is_person && self.early.len() < AHEAD {
            true => self.next().await,
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

    /// Lines that were typed before a question do not answer it.
    pub(super) fn set_aside(&mut self) {
        while let Some(line) = self.next_at_once() {
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
        self.next().await
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

/// The next line as it stands; none at the end of input.
pub(in crate::commands) fn read_line() -> Option<String> {
    read_part().map(|part| part.text)
}

/// A line of the input, or a part of one that has more than a mebibyte.
pub(in crate::commands) struct LinePart {
    pub(in crate::commands) text: String,
    /// Whether the line ends here.
    pub(in crate::commands) is_last: bool,
}

/// The next line, or the next part of a long one; none at the end of input.
pub(in crate::commands) fn read_part() -> Option<LinePart> {
    let mut line = Vec::new();
    let read = std::io::stdin().lock().take(LONGEST).read_until(b'\n', &mut line);
    if read.is_err() || line.is_empty() {
        return None;
    }
    let is_last = line.ends_with(b"\n") || (line.len() as u64) < LONGEST;
    let line = String::from_utf8_lossy(&line);
    let text = line.strip_suffix('\n').unwrap_or(&line).trim_end_matches('\r').to_owned();
    Some(LinePart { text, is_last })
}
