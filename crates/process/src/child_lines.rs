//! A child's stdin and stdout as lines, both ways at once: a child that does not read cannot keep us from reading.

use std::ops::Range;
use std::process::ExitStatus;
use std::time::Duration;

use gladhand_core::wire::{Line, Lines, Outbox, Skim, Terminator};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::time::Instant;

use crate::child::{ChildPeer, Manner, StderrTail};

/// The number of unsent bytes from which writers have to wait.
const FULL: usize = 4 * 1024 * 1024;

/// The number of unsent bytes from which a child counts as behind. A child that reads is rarely behind for long: its
/// pipe takes as much.
const BEHIND: usize = 64 * 1024;

/// How long a child may take to read the lines that are unsent when it is ended.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// How much is asked for at once.
const CHUNK: usize = 64 * 1024;

/// A child process that exchanges lines with us on its stdin and stdout.
#[derive(Debug)]
pub struct ChildLines {
    child: ChildPeer,
    stdin: Option<ChildStdin>,
    lines: Lines,
    unsent: Outbox,
    /// How many bytes the child's pipe has taken.
    written: u64,
    /// Since when the child has taken no byte of a full buffer.
    full_since: Option<Instant>,
    /// Whether the child closed its output.
    is_over: bool,
}

/// A line from the child, or a change in its state.
#[derive(Debug)]
pub enum ChildEvent {
    /// A line, without its terminator.
    Line(Vec<u8>),
    /// A line longer than the limit: the limit in bytes, and the members that could still be read from the line.
    TooLong(usize, Skim),
    /// The child read its input: the buffer of unsent bytes is no longer full, or the child is no longer behind.
    Room,
    /// The child closed its stdout, and all lines were taken.
    End,
}

impl ChildLines {
    /// Reads and writes lines that end with `terminator`. A longer line than `limit` bytes is [`ChildEvent::TooLong`].
    pub fn new(mut child: ChildPeer, terminator: Terminator, limit: usize) -> Self {
        let mut lines = Lines::with_limit(limit);
        lines.end_lines_at(terminator);
        let (stdin, unsent) = (child.take_stdin(), Outbox::default());
        Self { child, stdin, lines, unsent, written: 0, full_since: None, is_over: false }
    }

    /// The id of the process, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.child.process()
    }

    /// Sends lines, as soon as the child reads.
    pub fn send(&mut self, lines: &[u8]) {
        if self.stdin.is_some() {
            self.unsent.append(lines);
            if self.full_since.is_none() && self.is_full() {
                self.full_since = Some(Instant::now());
            }
        }
    }

    /// Whether something is unsent.
    pub fn has_unsent(&self) -> bool {
        self.unsent() > 0
    }

    /// The number of unsent bytes.
    pub fn unsent(&self) -> usize {
        self.unsent.waiting().len()
    }

    /// How many bytes the child's pipe has taken. The unsent bytes follow.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether the child is behind: so many bytes are unsent that they count against the budget for unsent lines.
    pub fn is_behind(&self) -> bool {
        self.would_be_behind(0)
    }

    /// Whether the child would be behind with this many more unsent bytes.
    pub fn would_be_behind(&self, more: usize) -> bool {
        self.unsent() + more > BEHIND
    }

    /// Since when the child has taken no byte of a full buffer.
    pub fn full_since(&self) -> Option<Instant> {
        self.full_since
    }

    /// Takes back unsent lines. The range counts bytes as [`ChildLines::written`] does, and must cover whole lines.
    /// Returns whether they were all unsent. Otherwise nothing changes.
    pub fn take_back(&mut self, lines: Range<u64>) -> bool {
        let place = |at: u64| at.checked_sub(self.written).and_then(|at| usize::try_from(at).ok());
        let (Some(start), Some(end)) = (place(lines.start), place(lines.end)) else { return false };
        if start > end || end > self.unsent() {
            return false;
        }
        self.unsent.remove(start..end);
        if !self.is_full() {
            self.full_since = None;
        }
        true
    }

    /// Whether so much is unsent that nothing should be added.
    pub fn is_full(&self) -> bool {
        self.unsent() >= FULL
    }

    /// The next line, if a whole line has arrived already.
    pub fn ready(&mut self) -> Option<ChildEvent> {
        match self.lines.next_line()? {
            Line::Bytes(bytes) => Some(ChildEvent::Line(bytes.to_vec())),
            Line::TooLong { limit } => Some(ChildEvent::TooLong(limit, self.lines.skimmed().clone())),
        }
    }

    /// The next line. May be dropped and called again; unsent lines are sent meanwhile.
    pub async fn next(&mut self) -> ChildEvent {
        loop {
            if let Some(line) = self.ready() {
                return line;
            }
            if self.is_over {
                return match self.lines.last_line() {
                    Some(Line::Bytes(bytes)) => ChildEvent::Line(bytes.to_vec()),
                    Some(Line::TooLong { limit }) => ChildEvent::TooLong(limit, self.lines.skimmed().clone()),
                    None => ChildEvent::End,
                };
            }
            let Self { child, stdin, lines, unsent, is_over, .. } = self;
            let written = tokio::select! {
                read = child.read(lines.spare(CHUNK)) => {
                    *is_over = !matches!(read, Ok(1..));
                    continue;
                }
                written = write(stdin, unsent.waiting()), if stdin.is_some() && !unsent.waiting().is_empty() => written,
            };
            if self.note_write(written) {
                return ChildEvent::Room;
            }
        }
    }

    /// Notes the result of a write. Returns whether the write ended a state in which the buffer was full or the child was
    /// behind.
    fn note_write(&mut self, written: std::io::Result<usize>) -> bool {
        let (was_full, was_behind) = (self.is_full(), self.is_behind());
        match written {
            Ok(length) => {
                self.written += length as u64;
                self.unsent.sent(length);
            }
            // The child closed its stdin. It may still write to its stdout.
            Err(_) => {
                self.stdin = None;
                self.unsent.clear();
            }
        }
        if was_full {
            self.full_since = self.is_full().then(Instant::now);
        }
        was_full && !self.is_full() || was_behind && !self.is_behind()
    }

    /// The number of received bytes after the last complete line.
    pub fn unfinished(&self) -> usize {
        self.lines.pending()
    }

    /// Ends the child. With [`Manner::Polite`], unsent lines are written first, within 200 ms.
    pub async fn end(&mut self, manner: Manner) {
        if let (Some(stdin), Manner::Polite) = (&mut self.stdin, manner) {
            // If the child does not read in time, the lines are lost.
            let _ = tokio::time::timeout(FINAL_WRITE_TIMEOUT, stdin.write_all(self.unsent.waiting())).await;
        }
        self.stdin = None;
        self.child.end(manner).await;
    }

    /// Ends the child at once.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// The end of its stderr.
    pub fn stderr(&self) -> &StderrTail {
        self.child.stderr()
    }

    /// How the child ended, if it has or is about to, and the last lines that it wrote to stderr.
    pub async fn ending(&mut self, lines: usize) -> (Option<ExitStatus>, Vec<String>) {
        let status = self.child.ended().await;
        (status, self.child.stderr().lines(lines))
    }
}

async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) -> std::io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await,
        None => Err(std::io::ErrorKind::BrokenPipe.into()),
    }
}
