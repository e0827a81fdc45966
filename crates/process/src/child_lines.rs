//! A child's stdin and stdout as lines, both ways at once: a child that does not read cannot keep us from reading.

use std::ops::Range;
use std::process::ExitStatus;
use std::time::Duration;

use gladhand_core::wire::{Line, Lines, Outbox, Skim, Terminator};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::time::Instant;

use crate::child::{ChildPeer, Manner};

/// The number of unsent bytes from which writers have to wait.
const FULL: usize = 4 * 1024 * 1024;

/// The number of unsent bytes from which a child counts as behind. A child that reads is rarely behind for long: its
/// pipe takes as much.
const BEHIND: usize = 64 * 1024;

/// How long a child may take to read the last lines.
const GOODBYE: Duration = Duration::from_millis(200);

/// How much is asked for at once.
const CHUNK: usize = 64 * 1024;

/// A child that is talked to in lines.
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

/// A line or an event from a child.
#[derive(Debug)]
pub enum Wrote {
    /// A line.
    Line(Vec<u8>),
    /// A line beyond the limit, in bytes, and the members that could still be read from it.
    TooLong(usize, Skim),
    /// Nothing, but it read so much that it is not full, or not behind, any more.
    Room,
    /// It closed its output, and all lines were taken.
    End,
}

impl ChildLines {
    /// Talks to a child whose lines end so, and are no longer than this many bytes.
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

    /// Whether so much is unsent that it is worth counting.
    pub fn is_behind(&self) -> bool {
        self.would_be_behind(0)
    }

    /// The same, if this many more bytes were unsent.
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

    /// The next line if it is here already.
    pub fn ready(&mut self) -> Option<Wrote> {
        match self.lines.next_line()? {
            Line::Bytes(bytes) => Some(Wrote::Line(bytes.to_vec())),
            Line::TooLong { limit } => Some(Wrote::TooLong(limit, self.lines.skimmed().clone())),
        }
    }

    /// The next line. May be dropped and called again; unsent lines are sent meanwhile.
    pub async fn next(&mut self) -> Wrote {
        loop {
            if let Some(wrote) = self.ready() {
                return wrote;
            }
            if self.is_over {
                return match self.lines.last_line() {
                    Some(Line::Bytes(bytes)) => Wrote::Line(bytes.to_vec()),
                    Some(Line::TooLong { limit }) => Wrote::TooLong(limit, self.lines.skimmed().clone()),
                    None => Wrote::End,
                };
            }
            let Self { child, stdin, lines, unsent, is_over, .. } = self;
            let wrote = tokio::select! {
                read = child.read(lines.spare(CHUNK)) => {
                    *is_over = !matches!(read, Ok(1..));
                    continue;
                }
                wrote = write(stdin, unsent.waiting()), if stdin.is_some() && !unsent.waiting().is_empty() => wrote,
            };
            if self.wrote(wrote) {
                return Wrote::Room;
            }
        }
    }

    /// Notes the result of a write. Returns whether the child is not full, or not behind, any more.
    fn wrote(&mut self, wrote: std::io::Result<usize>) -> bool {
        let (was_full, was_behind) = (self.is_full(), self.is_behind());
        match wrote {
            Ok(length) => {
                self.written += length as u64;
                self.unsent.sent(length);
            }
            // It does not read any more, and may still have something to say.
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

    /// Bytes that came and are no line yet.
    pub fn unfinished(&self) -> usize {
        self.lines.pending()
    }

    /// Ends the child. One that is treated politely gets to hear what is still unsent.
    pub async fn end(&mut self, manner: Manner) {
        if let (Some(stdin), Manner::Polite) = (&mut self.stdin, manner) {
            // It does not read: then it does not want to know.
            let _ = tokio::time::timeout(GOODBYE, stdin.write_all(self.unsent.waiting())).await;
        }
        self.stdin = None;
        self.child.end(manner).await;
    }

    /// Ends the child at once.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// How it ended, if it has or is about to, and the last lines that it wrote to stderr.
    pub async fn ending(&mut self, lines: usize) -> (Option<ExitStatus>, Vec<String>) {
        let status = self.child.ended().await;
        (status, self.child.last_words(lines))
    }
}

async fn write(stdin: &mut Option<ChildStdin>, bytes: &[u8]) -> std::io::Result<usize> {
    match stdin {
        Some(stdin) => stdin.write(bytes).await,
        None => Err(std::io::ErrorKind::BrokenPipe.into()),
    }
}
