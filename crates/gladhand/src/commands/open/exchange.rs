//! The exchange itself: a client side of a dialect, the way to a server, and a record of every line.

use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Refusal, Side};
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_core::wire::{Fault, Line, Members, Skim};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Ambient, Client, ClientSetup, Dialect, Event, Heard, Lane, Stop, a2e};
use gladhand_redaction::redact;
use tokio::time::Instant;

use crate::commands::session::Access;
use crate::config::env;
use gladhand_client::http_client::{Endpoint, HttpClient, Style};
use gladhand_client::upstream::transport::{Evidence, Inbound, Transport};
use gladhand_client::upstream::{Target, redacted};
use gladhand_process::child::{ChildPeer, Manner};
use gladhand_process::child_lines::ChildLines;
use gladhand_process::child_log::ChildLog;
use gladhand_process::surroundings::Surroundings;
use gladhand_session::clock::Clock;

/// How many lines are recorded; a server that floods is not worth more.
const MOST_LINES: usize = 1000;

/// How many bytes of lines are recorded; one line may be the longest that is read.
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// How many lines of the server's stderr are shown when there is no session.
const LAST_WORDS: usize = 20;

/// After the opening the server may still have something to say about it.
const AFTERTHOUGHT: Duration = Duration::from_millis(50);

/// The target of the opening, and its options.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// As which client.
    pub(super) dialect: &'static Dialect,
    /// With which declarations.
    pub(super) setup: ClientSetup,
    /// The server.
    pub(super) target: Target,
    /// How to get into one that is reached over HTTP.
    pub(super) access: &'a Access,
    /// Whether the server's stderr goes into our log.
    pub(super) log_stderr: bool,
}

/// The record of an opening.
#[derive(Debug)]
pub(super) struct Record {
    /// The dialect we opened as.
    pub(super) dialect: &'static Dialect,
    /// The version we asked for.
    pub(super) version: String,
    /// The server.
    pub(super) target: Target,
    /// Every line, in order.
    pub(super) messages: Vec<RecordedLine>,
    /// Lines that came after the first thousand and were not kept.
    pub(super) unrecorded: usize,
    /// Lines of the server that are no JSON object: stdout is for messages.
    pub(super) no_messages: usize,
    /// Bytes that the server wrote and did not end with a newline.
    pub(super) unfinished: usize,
    /// How it ended.
    pub(super) verdict: Verdict,
    /// From the start of the process, or the first request, to the verdict.
    pub(super) took: Duration,
    /// How the server ended, if it did so before there was a session.
    pub(super) exit: Option<String>,
    /// The last lines of the server's stderr, if there is no session.
    pub(super) last_words: Vec<String>,
}

impl Record {
    /// An opening in which nothing was said.
    fn empty(dialect: &'static Dialect, version: &str, target: Target, verdict: Verdict) -> Self {
        Self {
            dialect,
            version: version.to_owned(),
            target,
            messages: Vec::new(),
            unrecorded: 0,
            no_messages: 0,
            unfinished: 0,
            verdict,
            took: Duration::ZERO,
            exit: None,
            last_words: Vec::new(),
        }
    }

    /// Whether the server sent a message of ours back.
    pub(super) fn repeats_us(&self) -> bool {
        let of = |side| self.messages.iter().filter(move |message| message.from == side).map(|message| &message.text);
        of(Side::Client).any(|ours| of(Side::Server).any(|theirs| theirs == ours))
    }

    /// An opening that was interrupted before its first message.
    pub(super) fn interrupted(dialect: &'static Dialect, version: &str, target: Target, stop: Stop) -> Self {
        Self::empty(dialect, version, target, Verdict::Interrupted(stop))
    }
}

/// One line that crossed the channel.
#[derive(Debug)]
pub(super) struct RecordedLine {
    /// Who sent it.
    pub(super) from: Side,
    /// Whether it is a JSON object at all.
    pub(super) is_message: bool,
    /// Its text; bad UTF-8 replaced.
    pub(super) text: String,
    /// Since the beginning.
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
    /// The URL cannot be reached, or the server there is out of order.
    Unreachable(String),
    /// The user pressed Ctrl-C, or a signal stopped the process.
    Interrupted(Stop),
}

/// Opens a session, unless `given_up` ends first and says how. Each line is shown as it crosses the channel. The server
/// is handed back still running.
pub(super) async fn open(
    plan: Plan<'_>,
    given_up: impl Future<Output = Verdict>,
    show: &mut dyn FnMut(&RecordedLine),
) -> (Record, Running) {
    let Plan { dialect, setup, target, access, log_stderr } = plan;
    let record = Record::empty(dialect, &setup.version, target, Verdict::NotStarted(String::new()));
    let mut opening = Opening {
        client: (dialect.client)(setup.clone()),
        clock: Clock::start(),
        transport: Transport::Ended,
        evidence: Evidence::default(),
        record,
        started: Instant::now(),
        recorded: 0,
        show,
    };
    let verdict = tokio::select! {
        verdict = opening.run(&setup, access, log_stderr) => verdict,
        verdict = given_up => verdict,
    };
    opening.conclude(&verdict).await;
    opening.record.verdict = verdict;
    (opening.record, Running(opening.transport))
}

/// A server that was started, or is being talked to, and has not ended yet.
#[derive(Debug)]
pub(super) struct Running(Transport);

impl Running {
    /// Ends it: politely if there was a session, and at once after Ctrl-C. A future that is dropped ends it at once, too.
    pub(super) async fn end(mut self, record: &Record) {
        match record.verdict {
            Verdict::Opened(_) => self.0.close(Manner::Polite).await,
            Verdict::Interrupted(_) => self.0.kill(),
            _ => self.0.close(Manner::Hurried).await,
        }
    }
}

struct Opening<'s> {
    client: Box<dyn Client>,
    clock: Clock,
    transport: Transport,
    /// What HTTP says about it.
    evidence: Evidence,
    record: Record,
    started: Instant,
    /// Bytes of messages that are in the record.
    recorded: usize,
    show: &'s mut dyn FnMut(&RecordedLine),
}

impl Opening<'_> {
    /// Finds a way to the server and opens a session on it.
    async fn run(&mut self, setup: &ClientSetup, access: &Access, log_stderr: bool) -> Verdict {
        match self.record.target.clone() {
            Target::Command(command) => match self.start(&command, log_stderr).await {
                Ok(()) => self.negotiate().await,
                Err(why) => Verdict::NotStarted(why),
            },
            Target::Url(url) => {
                let endpoint = access.endpoint(url);
                if self.record.dialect.name == a2e::DIALECT.name {
                    return self.reach(endpoint, Style::Agent, setup).await;
                }
                let is_stateless = Revision::named(&setup.version).is_some_and(Revision::is_stateless);
                let style = if is_stateless { Style::Stateless } else { Style::Sessions };
                let first = self.reach(endpoint.clone(), style, setup).await;
                if matches!(first, Verdict::Opened(_)) || is_stateless || !self.evidence.suggests_one_stream() {
                    return first;
                }
                // As the first revision does it; if that is nothing either, the first answer says more.
                let second = self.reach(endpoint, Style::OneStream, setup).await;
                if matches!(second, Verdict::Opened(_)) { second } else { first }
            }
        }
    }

    async fn start(&mut self, command: &[String], log_stderr: bool) -> Result<(), String> {
        // Through the log: it is bounded, never blocks, and lets no secret and no control character pass.
        let mut log = log_stderr.then(|| ChildLog::new("server"));
        let on_stderr = move |text: &str| log.iter_mut().for_each(|log| log.write(text));
        // The server must not inherit our tokens: a server that takes its token from our environment would accept the
        // one that we present.
        let hidden = env::never_passed_on();
        let hidden: Vec<_> = hidden.iter().map(String::as_str).collect();
        let child = ChildPeer::start(command, &Surroundings::default(), &hidden, on_stderr).await.map_err(|error| {
            let program = command.first().map_or("", String::as_str);
            format!("could not start `{program}`: {error}")
        })?;
        self.transport =
            Transport::Child(Box::new(ChildLines::new(child, self.record.dialect.text.terminator, MAX_LINE)));
        Ok(())
    }

    /// Opens a session over HTTP in one style.
    async fn reach(&mut self, endpoint: Endpoint, style: Style, setup: &ClientSetup) -> Verdict {
        self.transport.close(Manner::Hurried).await;
        self.evidence = Evidence::default();
        self.client = (self.record.dialect.client)(ClientSetup { exchanges: style.has_exchanges(), ..setup.clone() });
        let verdict = match HttpClient::connect(endpoint, style).await {
            Ok(http) => {
                self.transport = Transport::Http(Box::new(http));
                self.negotiate().await
            }
            Err(loss) => {
                self.evidence.note_loss(loss);
                Verdict::Refused(self.evidence.refusal())
            }
        };
        match self.evidence.outage() {
            Some(outage) if !matches!(verdict, Verdict::Opened(_)) => Verdict::Unreachable(outage),
            _ => verdict,
        }
    }

    /// Speaks and listens until there is a session or none.
    async fn negotiate(&mut self) -> Verdict {
        let mut heard = Heard::default();
        self.client.open(&mut self.clock.ambient(), &mut heard);
        loop {
            let settled = std::mem::take(&mut heard.events).into_iter().find_map(|event| match event {
                Event::Opened(agreement) => Some(Verdict::Opened(agreement)),
                Event::Refused(refusal) => Some(Verdict::Refused(redacted::refusal(refusal))),
                _ => None,
            });
            self.send(&mut heard);
            if let Some(verdict) = settled {
                return verdict;
            }
            self.hear(&mut heard).await;
        }
    }

    /// Collects the results once the opening has ended, with or without success.
    async fn conclude(&mut self, verdict: &Verdict) {
        self.record.took = self.started.elapsed();
        self.record.unfinished = self.transport.unfinished();
        let is_gone = matches!(verdict, Verdict::Refused(Refusal::PeerGone));
        if !is_gone && matches!(verdict, Verdict::Opened(_) | Verdict::Refused(_)) {
            // Also for what it has to say on stderr.
            let _ = tokio::time::timeout(AFTERTHOUGHT, self.listen()).await;
        }
        match verdict {
            Verdict::Opened(_) => {
                let mut heard = Heard::default();
                self.client.close(&mut self.clock.ambient(), &mut heard);
                // Not part of the opening, and so not recorded.
                self.transport.send(&heard.wire, None, |line| self.client.posting(line));
            }
            // Ctrl-C does not wait for anything.
            Verdict::Interrupted(_) => {}
            _ => {
                let (status, last_words) = self.transport.ending(LAST_WORDS).await;
                self.record.exit = status.filter(|_| is_gone).map(|status| status.to_string());
                self.record.last_words = last_words;
            }
        }
    }

    /// Records what the server says on its own, for as long as the caller polls this.
    async fn listen(&mut self) {
        let mut heard = Heard::default();
        while self.hear(&mut heard).await {
            self.send(&mut heard);
        }
        std::future::pending().await
    }

    /// Sends what the client side wants sent. A server that is gone is noticed by listening.
    fn send(&mut self, heard: &mut Heard) {
        let wire = std::mem::take(&mut heard.wire);
        for line in wire.split_inclusive(|byte| *byte == b'\n') {
            self.note(Side::Client, line);
        }
        self.transport.send(&wire, None, |line| self.client.posting(line));
    }

    /// Feeds the client side with the next thing that comes; false when nothing more will.
    async fn hear(&mut self, heard: &mut Heard) -> bool {
        let inbound = self.transport.next().await;
        self.clock.tick();
        self.evidence.note(&inbound);
        match inbound {
            Inbound::Message(lane, bytes, _) => {
                self.note(Side::Server, &bytes);
                match self.record.dialect.text.read(Line::Bytes(&bytes)) {
                    Ok(Some(text)) => self.step(lane, heard, |client, ambient, heard| {
                        client.receive(&text, ambient, heard);
                    }),
                    Ok(None) => {}
                    Err(fault) => self.garbled(lane, &fault, &Skim::of(&bytes), heard),
                }
            }
            Inbound::Garbled(fault, skim) => self.garbled(Lane::MAIN, &fault, &skim, heard),
            Inbound::Lost(lane, loss) => {
                self.step(lane, heard, |client, ambient, heard| client.lost(lane, loss, ambient, heard));
            }
            Inbound::Room => {}
            Inbound::Gone => {
                self.step(Lane::MAIN, heard, |client, ambient, heard| client.gone(ambient, heard));
                return false;
            }
        }
        // A server that floods must not keep the clock and the signals from being looked at.
        tokio::task::yield_now().await;
        true
    }

    fn garbled(&mut self, lane: Lane, fault: &Fault, skim: &Skim, heard: &mut Heard) {
        self.step(lane, heard, |client, ambient, heard| client.garbled(fault, skim, ambient, heard));
    }

    fn step(
        &mut self,
        lane: Lane,
        heard: &mut Heard,
        step: impl FnOnce(&mut dyn Client, &mut Ambient<'_>, &mut Heard),
    ) {
        let mut ambient = self.clock.ambient();
        ambient.lane = lane;
        step(&mut *self.client, &mut ambient, heard);
    }

    fn note(&mut self, from: Side, line: &[u8]) {
        let text = redact(String::from_utf8_lossy(line).trim()).into_owned();
        if text.is_empty() {
            return;
        }
        let message = RecordedLine { from, is_message: Members::parse(&text).is_ok(), text, at: self.started.elapsed() };
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
