//! The exchange itself: a client side of a dialect, a child process, and a record of every line.

use std::sync::Arc;
use std::time::Duration;

use gladhand_accord::{Agreement, Refusal, Side};
use gladhand_dialects::{Client, ClientSetup, Dialect, Event, Heard};
use gladhand_wire::{Line, Lines};
use tokio::time::Instant;

use crate::edges::child::ChildPeer;
use crate::edges::clock::Clock;
use crate::edges::signals::Signals;

/// How many lines are recorded; a server that floods is not worth more.
const MOST_LINES: usize = 1000;

/// How many lines of the server's stderr are shown when there is no session.
const LAST_WORDS: usize = 8;

/// After the opening the server may still have something to say about it.
const AFTERTHOUGHT: Duration = Duration::from_millis(50);

/// What happened.
#[derive(Debug)]
pub(super) struct Record {
    /// The dialect we opened as.
    pub(super) dialect: &'static str,
    /// The version we asked for.
    pub(super) version: String,
    /// The command that was started.
    pub(super) command: Vec<String>,
    /// Every line, in order.
    pub(super) messages: Vec<Message>,
    /// Lines that came after the first thousand and were not kept.
    pub(super) unrecorded: usize,
    /// How it ended.
    pub(super) verdict: Verdict,
    /// From the start of the process to the verdict.
    pub(super) took: Duration,
    /// The last lines of the server's stderr, if there is no session.
    pub(super) last_words: Vec<String>,
}

/// One line that crossed the channel.
#[derive(Debug)]
pub(super) struct Message {
    /// Who sent it.
    pub(super) from: Side,
    /// Its text; bad UTF-8 replaced.
    pub(super) text: String,
    /// Since the process was started.
    pub(super) at: Duration,
}

/// How the opening ended.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A session is open.
    Opened(Arc<Agreement>),
    /// There is none.
    Refused(Refusal),
    /// The server could not be started.
    NotStarted(String),
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// Starts the command, opens a session, and ends both again.
pub(super) async fn open(
    dialect: &'static Dialect,
    setup: ClientSetup,
    command: Vec<String>,
    timeout: Duration,
    show_stderr: bool,
) -> std::io::Result<Record> {
    let mut signals = Signals::listen()?;
    let mut record = Record {
        dialect: dialect.name,
        version: setup.version.clone(),
        command,
        messages: Vec::new(),
        unrecorded: 0,
        verdict: Verdict::Interrupted,
        took: Duration::ZERO,
        last_words: Vec::new(),
    };
    let started = Instant::now();
    let child = match ChildPeer::start(&record.command, show_stderr) {
        Ok(child) => child,
        Err(error) => {
            record.verdict = Verdict::NotStarted(format!("could not start `{}`: {error}", record.command[0]));
            return Ok(record);
        }
    };
    let mut opening = Opening {
        dialect,
        client: (dialect.client)(setup),
        clock: Clock::start(),
        child,
        lines: Lines::default(),
        record,
        started,
    };
    let verdict = tokio::select! {
        verdict = opening.negotiate() => Some(verdict),
        () = tokio::time::sleep(timeout) => Some(Verdict::Refused(Refusal::TimedOut { seconds: timeout.as_secs() })),
        _ = signals.next() => None,
    };
    opening.record.took = started.elapsed();
    if let Some(verdict) = verdict {
        opening.record.verdict = verdict;
        if matches!(opening.record.verdict, Verdict::Opened(_)) {
            let _ = tokio::time::timeout(AFTERTHOUGHT, opening.listen()).await;
        }
        opening.say_goodbye().await;
    }
    opening.child.end().await;
    if !matches!(opening.record.verdict, Verdict::Opened(_)) {
        opening.record.last_words = opening.child.last_words(LAST_WORDS);
    }
    Ok(opening.record)
}

struct Opening {
    dialect: &'static Dialect,
    client: Box<dyn Client>,
    clock: Clock,
    child: ChildPeer,
    lines: Lines,
    record: Record,
    started: Instant,
}

impl Opening {
    /// Speaks and listens until there is a session or none.
    async fn negotiate(&mut self) -> Verdict {
        let mut heard = Heard::default();
        self.client.open(&mut self.clock.ambient(), &mut heard);
        loop {
            for event in std::mem::take(&mut heard.events) {
                match event {
                    Event::Opened(agreement) => {
                        self.send(&mut heard).await;
                        return Verdict::Opened(agreement);
                    }
                    Event::Refused(refusal) => {
                        self.send(&mut heard).await;
                        return Verdict::Refused(refusal);
                    }
                    Event::Answered(..) | Event::Notice(_) | Event::Dropped(_) => {}
                }
            }
            self.send(&mut heard).await;
            if !self.hear(&mut heard).await {
                self.client.gone(&mut self.clock.ambient(), &mut heard);
                let refusal = heard.events.into_iter().find_map(|event| match event {
                    Event::Refused(refusal) => Some(refusal),
                    _ => None,
                });
                return Verdict::Refused(refusal.unwrap_or(Refusal::PeerGone));
            }
        }
    }

    /// Records what the server says on its own, for as long as the caller polls this.
    async fn listen(&mut self) {
        let mut heard = Heard::default();
        while self.hear(&mut heard).await {
            self.send(&mut heard).await;
        }
    }

    async fn say_goodbye(&mut self) {
        let mut heard = Heard::default();
        self.client.close(&mut self.clock.ambient(), &mut heard);
        // Not part of the opening, and so not recorded.
        let _ = tokio::time::timeout(AFTERTHOUGHT, self.child.write(&heard.wire)).await;
    }

    /// Writes what the client side wants sent. A server that is gone is noticed by reading.
    async fn send(&mut self, heard: &mut Heard) {
        let wire = std::mem::take(&mut heard.wire);
        for line in wire.split_inclusive(|byte| *byte == b'\n') {
            self.note(Side::Client, line);
        }
        if let Err(error) = self.child.write(&wire).await {
            tracing::debug!(%error, "the server does not read");
        }
    }

    /// Feeds the client side with the next lines; false when the server has closed its output.
    async fn hear(&mut self, heard: &mut Heard) -> bool {
        let read = self.child.read(self.lines.spare(8192)).await;
        let open = matches!(read, Ok(1..));
        self.clock.tick();
        let mut messages = Vec::new();
        loop {
            let line = match self.lines.next_line() {
                Some(line) => line,
                None if open => break,
                None => match self.lines.last_line() {
                    Some(line) => line,
                    None => break,
                },
            };
            if let Line::Bytes(bytes) = line {
                messages.push(bytes.to_vec());
            }
            match self.dialect.text.read(line) {
                Ok(Some(text)) => self.client.receive(&text, &mut self.clock.ambient(), heard),
                Ok(None) => {}
                Err(fault) => self.client.garbled(&fault, &mut self.clock.ambient(), heard),
            }
        }
        for bytes in messages {
            self.note(Side::Server, &bytes);
        }
        open
    }

    fn note(&mut self, from: Side, line: &[u8]) {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        if text.is_empty() {
            return;
        }
        if self.record.messages.len() < MOST_LINES {
            self.record.messages.push(Message { from, text, at: self.started.elapsed() });
        } else {
            self.record.unrecorded += 1;
        }
    }
}
