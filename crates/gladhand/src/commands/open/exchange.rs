//! The exchange itself: a client side of a dialect, a child process, and a record of every line.

use std::sync::Arc;
use std::time::Duration;

use gladhand_accord::{Agreement, Refusal, Side};
use gladhand_dialects::{Client, ClientSetup, Dialect, Event, Heard, Stop};
use gladhand_wire::{Line, Lines, Members, Skim};
use tokio::time::Instant;

use super::redact::Redactor;
use crate::config::env;
use crate::edges::child::{ChildPeer, Manner};
use crate::edges::clock::Clock;
use crate::edges::signals::Signals;
use crate::edges::surroundings::Surroundings;

/// How many lines are recorded; a server that floods is not worth more.
const MOST_LINES: usize = 1000;

/// How many bytes of lines are recorded; one line may be the longest that is read.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// How many lines of the server's stderr are shown when there is no session.
const LAST_WORDS: usize = 8;

/// After the opening the server may still have something to say about it.
const AFTERTHOUGHT: Duration = Duration::from_millis(50);

/// What is to be opened, and how.
#[derive(Debug)]
pub(super) struct Plan {
    /// As which client.
    pub(super) dialect: &'static Dialect,
    /// With which declarations.
    pub(super) setup: ClientSetup,
    /// The server to start.
    pub(super) command: Vec<String>,
    /// When to give up.
    pub(super) timeout: Duration,
    /// Whether the server's stderr goes into our log.
    pub(super) log_stderr: bool,
}

/// What happened.
#[derive(Debug)]
pub(super) struct Record {
    /// The dialect we opened as.
    pub(super) dialect: &'static Dialect,
    /// The version we asked for.
    pub(super) version: String,
    /// The command that was started.
    pub(super) command: Vec<String>,
    /// Every line, in order.
    pub(super) messages: Vec<Message>,
    /// Lines that came after the first thousand and were not kept.
    pub(super) unrecorded: usize,
    /// Lines of the server that are no JSON object: stdout is for messages.
    pub(super) no_messages: usize,
    /// Bytes that the server wrote and did not end with a newline.
    pub(super) unfinished: usize,
    /// How it ended.
    pub(super) verdict: Verdict,
    /// From the start of the process to the verdict.
    pub(super) took: Duration,
    /// How the server ended, if it did so before there was a session.
    pub(super) exit: Option<String>,
    /// The last lines of the server's stderr, if there is no session.
    pub(super) last_words: Vec<String>,
}

/// One line that crossed the channel.
#[derive(Debug)]
pub(super) struct Message {
    /// Who sent it.
    pub(super) from: Side,
    /// Whether it is a JSON object at all.
    pub(super) is_message: bool,
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
    /// Somebody pressed Ctrl-C, or told us to stop.
    Interrupted(Stop),
}

/// Starts the command and opens a session. Each line is shown as it crosses the channel. The server is
/// handed back still running.
pub(super) async fn open<'s>(
    plan: Plan,
    redactor: &'s Redactor,
    signals: &mut Signals,
    show: &'s mut dyn FnMut(&Message),
) -> (Record, Option<Running>) {
    let Plan { dialect, setup, command, timeout, log_stderr } = plan;
    let mut record = Record {
        dialect,
        version: setup.version.clone(),
        command,
        messages: Vec::new(),
        unrecorded: 0,
        no_messages: 0,
        unfinished: 0,
        verdict: Verdict::NotStarted(String::new()),
        took: Duration::ZERO,
        exit: None,
        last_words: Vec::new(),
    };
    let started = Instant::now();
    // The token is ours to present; a server that gets it from us would accept whatever we present.
    let hiding = redactor.clone();
    // Through the log: it is bounded, never blocks, and lets no control character pass.
    let on_stderr = move |text: &str| {
        if log_stderr {
            hiding.hide(text).lines().for_each(|line| tracing::info!("server: {line}"));
        }
    };
    let hidden = [env::A2E_TOKEN, env::MCP_TOKEN, env::PASSPHRASE];
    let child = match ChildPeer::start(&record.command, &Surroundings::default(), &hidden, on_stderr) {
        Ok(child) => child,
        Err(error) => {
            let program = record.command.first().map_or("", String::as_str);
            record.verdict = Verdict::NotStarted(format!("could not start `{program}`: {error}"));
            return (record, None);
        }
    };
    let client = (dialect.client)(setup);
    let lines = Lines::default();
    let mut opening =
        Opening { client, clock: Clock::start(), child, lines, record, started, redactor, recorded: 0, show };
    let verdict = tokio::select! {
        verdict = opening.negotiate() => verdict,
        () = tokio::time::sleep(timeout) => Verdict::Refused(Refusal::TimedOut { seconds: timeout.as_secs() }),
        stop = signals.next() => Verdict::Interrupted(stop),
    };
    opening.record.took = started.elapsed();
    opening.record.unfinished = opening.lines.pending();
    match &verdict {
        Verdict::Refused(Refusal::PeerGone) => {
            opening.record.exit = opening.child.ended().await.map(|status| status.to_string());
        }
        Verdict::Opened(_) | Verdict::Refused(_) => {
            // Also for what it has to say on stderr.
            let _ = tokio::time::timeout(AFTERTHOUGHT, opening.listen()).await;
        }
        Verdict::NotStarted(_) | Verdict::Interrupted(_) => {}
    }
    if matches!(verdict, Verdict::Opened(_)) {
        opening.say_goodbye().await;
    }
    if !matches!(verdict, Verdict::Opened(_)) {
        opening.record.last_words = opening.child.last_words(LAST_WORDS);
    }
    opening.record.verdict = verdict;
    (opening.record, Some(Running(opening.child)))
}

/// A server that was started and has not ended yet.
#[derive(Debug)]
pub(super) struct Running(ChildPeer);

impl Running {
    /// Ends it: politely if there was a session, and at once if somebody asks again.
    pub(super) async fn end(mut self, record: &Record, signals: &mut Signals) {
        let manner = match record.verdict {
            Verdict::Opened(_) => Manner::Polite,
            _ => Manner::Hurried,
        };
        tokio::select! {
            () = self.0.end(manner) => return,
            _ = signals.next() => {}
        }
        self.0.kill();
    }
}

struct Opening<'s> {
    client: Box<dyn Client>,
    clock: Clock,
    child: ChildPeer,
    lines: Lines,
    record: Record,
    started: Instant,
    redactor: &'s Redactor,
    /// Bytes of messages that are in the record.
    recorded: usize,
    show: &'s mut dyn FnMut(&Message),
}

impl Opening<'_> {
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
                    Event::Answered(..)
                    | Event::Notice(_)
                    | Event::Dropped(_)
                    | Event::Asked(..)
                    | Event::Unasked(_)
                    | Event::LetGo(_) => {}
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
        std::future::pending().await
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
            let bytes = if let Line::Bytes(bytes) = line { bytes } else { &[] };
            match self.record.dialect.text.read(line) {
                Ok(Some(text)) => self.client.receive(&text, &mut self.clock.ambient(), heard),
                Ok(None) => {}
                Err(fault) => self.client.garbled(&fault, &Skim::of(bytes), &mut self.clock.ambient(), heard),
            }
            messages.push(bytes.to_vec());
        }
        for bytes in messages {
            self.note(Side::Server, &bytes);
        }
        // A server that floods must not keep the clock and the signals from being looked at.
        tokio::task::yield_now().await;
        open
    }

    fn note(&mut self, from: Side, line: &[u8]) {
        let text = self.redactor.hide_in_message(String::from_utf8_lossy(line).trim());
        if text.is_empty() {
            return;
        }
        let message = Message { from, is_message: Members::parse(&text).is_ok(), text, at: self.started.elapsed() };
        if !message.is_message {
            self.record.no_messages += 1;
        }
        (self.show)(&message);
        if self.record.messages.len() < MOST_LINES && self.recorded + message.text.len() <= MOST_BYTES {
            self.recorded += message.text.len();
            self.record.messages.push(message);
        } else {
            self.record.unrecorded += 1;
        }
    }
}
