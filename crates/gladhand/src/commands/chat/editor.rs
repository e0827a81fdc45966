//! Reads lines from a terminal: with line editing at the prompt, and line by line otherwise.
//!
//! The editor puts the terminal into raw mode and redraws its line with each key, so no other output may come meanwhile.
//! It therefore runs only while the prompt is shown. While the model answers, the terminal edits lines itself, and
//! complete lines are taken in as they come. A thread does both, because reading a terminal blocks.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::Config;
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use tokio::sync::mpsc::Sender;

use super::typed::read_line;
use crate::terminal::line_history::{ENTRIES, History};

/// Ends the mode in which the terminal marks pasted text.
const PLAIN_PASTE: &[u8] = b"\x1b[?2004l";

/// A wish to have a line edited.
#[derive(Debug)]
pub(super) struct Wish {
    /// The prompt without colours, and with them where there are some.
    pub(super) prompt: (String, String),
    /// Messages that were typed without the editor since the last wish.
    pub(super) said: Vec<String>,
    /// How many lines were received before. If the thread has sent more, the next of them is taken in place of a line that
    /// is edited, and the wish is dropped.
    pub(super) received: u64,
}

/// The way to the thread that reads.
#[derive(Debug)]
pub(super) struct Editor {
    wishes: std::sync::mpsc::Sender<Wish>,
    wake: UnixStream,
    /// The mode of the terminal before the editor changed it.
    mode: Termios,
    /// Whether a line was wished for and has not come.
    pub(super) is_editing: bool,
    /// Whether the editor has left the line, with or without a result.
    has_ended: Arc<AtomicBool>,
}

impl Editor {
    /// Begins to read. Lines go to the sender, which is dropped at the end of input.
    pub(super) fn start(lines: Sender<String>, history: History) -> io::Result<Self> {
        let mode = tcgetattr(io::stdin())?;
        let (wake, woken) = UnixStream::pair()?;
        let (wishes, wished) = std::sync::mpsc::channel();
        let config = Config::builder().max_history_size(ENTRIES).map_err(io::Error::other)?.build();
        let kept = MemHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, kept).map_err(io::Error::other)?;
        // Without a helper the prompt has no colours.
        editor.set_helper(Some(()));
        let has_ended = Arc::new(AtomicBool::new(false));
        let mut reader = Reader { editor, history, lines, sent: 0, wished, woken, has_ended: Arc::clone(&has_ended) };
        // Reading a terminal cannot be cancelled, so the thread is not joined: it ends with the process.
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || reader.run())?;
        Ok(Self { wishes, wake, mode, is_editing: false, has_ended })
    }

    /// Has a line edited. It comes among the lines.
    pub(super) fn edit(&mut self, wish: Wish) {
        self.is_editing = true;
        self.has_ended.store(false, Ordering::Relaxed);
        // If the thread has ended, so have the lines.
        if self.wishes.send(wish).is_ok() {
            let _ = (&self.wake).write_all(b"e");
        }
    }

    /// Whether the line was left without a result, so that the cursor is below it.
    pub(super) fn has_left(&self) -> bool {
        self.is_editing && self.has_ended.load(Ordering::Relaxed)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if self.is_editing && !self.has_left() {
            // The thread still waits for keys, and ends with the process. The terminal may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.mode);
            let _ = io::stdout().write_all(PLAIN_PASTE).and_then(|()| io::stdout().flush());
        }
    }
}

struct Reader {
    editor: rustyline::Editor<(), MemHistory>,
    history: History,
    lines: Sender<String>,
    sent: u64,
    wished: std::sync::mpsc::Receiver<Wish>,
    woken: UnixStream,
    has_ended: Arc<AtomicBool>,
}

impl Reader {
    fn run(&mut self) {
        for entry in self.history.load() {
            let _ = self.editor.add_history_entry(entry);
        }
        while let Some(line) = self.next() {
            self.sent += 1;
            if self.lines.blocking_send(line).is_err() {
                return;
            }
        }
    }

    /// The next line; none at the end of input.
    fn next(&mut self) -> Option<String> {
        loop {
            let stdin = io::stdin();
            let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled.ok()?,
            };
            // A line that is complete, or the end of input, came before the prompt. Of a line that is not, the editor reads
            // what the terminal has so far.
            if !ready[0].revents().is_empty() {
                return read_line();
            }
            self.woken.read_exact(&mut [0]).ok()?;
            let wish = self.wished.recv().ok()?;
            if wish.received != self.sent {
                continue;
            }
            match self.edited(&wish) {
                Ok(line) => return Some(line),
                Err(ReadlineError::Interrupted) => {
                    // The same as Ctrl-C while the terminal is in its usual mode.
                    let _ = kill_process(getpid(), Signal::INT);
                }
                Err(error) => {
                    if !matches!(error, ReadlineError::Eof) {
                        tracing::warn!(%error, "the terminal could not be read");
                    }
                    return None;
                }
            }
        }
    }

    fn edited(&mut self, wish: &Wish) -> Result<String, ReadlineError> {
        wish.said.iter().for_each(|line| self.keep(line));
        let line = self.editor.readline(&wish.prompt);
        self.has_ended.store(true, Ordering::Relaxed);
        line.inspect(|line| self.keep(line))
    }

    fn keep(&mut self, line: &str) {
        if self.history.keep(line) {
            let _ = self.editor.add_history_entry(line);
        }
    }
}
