//! An exchange of lines with a server that no client side of a dialect drives: what is sent is exactly what the caller
//! wrote, also if it is wrong. `probe` and `check` use it for what a correct client never does.
//!
//! Memory is bounded: after [`MOST_LINES`] lines or [`MOST_BYTES`] bytes of the server, further lines are only counted.

use std::time::{Duration, Instant};

use gladhand_core::negotiation::Side;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_core::wire::{FrameKind, Frames};
use gladhand_dialects::{Ambient, ClientSetup, Dialect, Heard, Lane, Loss, Posting};
use gladhand_process::child::Manner;
use gladhand_process::surroundings::Surroundings;
use gladhand_redaction::redact;
use gladhand_session::clock::Clock;

use crate::commands::shared::opened_server::Access;
use crate::config::env;
use gladhand_client::http_client::{HttpClient, Style};
use gladhand_client::upstream::transport::{Inbound, Transport};
use gladhand_client::upstream::{OpenError, Target, start_process};

/// How many lines of the server are kept.
const MOST_LINES: usize = 2000;

/// How many bytes of lines are kept.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A line of a raw exchange.
#[derive(Debug, Clone)]
pub(in crate::commands) struct RawLine {
    /// Who sent it.
    pub(in crate::commands) from: Side,
    /// Its text; bad UTF-8 is replaced.
    pub(in crate::commands) text: String,
    /// Since the start.
    pub(in crate::commands) at: Duration,
    /// The HTTP status under which it came.
    pub(in crate::commands) status: Option<u16>,
}

/// Why an exchange goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Waited {
    /// The line that was waited for came.
    Came,
    /// The time is over.
    Silence,
    /// The server closed its side, or the HTTP exchange ended without a message.
    Ended,
}

/// A server that is started or reached, and the lines that passed.
#[derive(Debug)]
pub(in crate::commands) struct RawExchange {
    transport: Transport,
    started: Instant,
    bytes: usize,
    /// Every line, in order.
    pub(in crate::commands) lines: Vec<RawLine>,
    /// Lines of the server that were not kept.
    pub(in crate::commands) unrecorded: usize,
    /// How an HTTP exchange was lost last.
    pub(in crate::commands) loss: Option<Loss>,
    /// The HTTP exchanges that ended without a further message.
    pub(in crate::commands) lost: Vec<Lane>,
    /// Whether the server closed its side.
    pub(in crate::commands) is_gone: bool,
}

impl RawExchange {
    /// Starts or reaches a server, and sends nothing.
    pub(in crate::commands) async fn start(
        dialect: &'static Dialect,
        version: &str,
        target: &Target,
        access: &Access,
    ) -> Result<Self, OpenError> {
        let started = Instant::now();
        let transport = match target {
            Target::Command(command) => {
                let (surroundings, hidden) = (Surroundings::default(), env::never_passed_on());
                start_process(command, &surroundings, &hidden, dialect, MAX_LINE, None).await?
            }
            Target::Url(url) => {
                let connected = HttpClient::connect(access.endpoint(url.clone()), Style::first(dialect, version)).await;
                connected.map_or(Transport::Ended, |http| Transport::Http(Box::new(http)))
            }
        };
        let is_gone = matches!(transport, Transport::Ended);
        Ok(Self {
            transport,
            started,
            bytes: 0,
            lines: Vec::new(),
            unrecorded: 0,
            loss: None,
            lost: Vec::new(),
            is_gone,
        })
    }

    /// Sends a line.
    pub(in crate::commands) fn send(&mut self, line: &str, posting: &Posting) {
        let mut frames = Frames::default();
        frames.line(FrameKind::Request, line.as_bytes());
        self.transport.send(&frames, None, |_| posting.clone());
        self.note(Side::Client, line.as_bytes(), None);
    }

    /// Waits for a line of the server that is the last one to wait for.
    pub(in crate::commands) async fn wait(
        &mut self,
        limit: Duration,
        mut is_last: impl FnMut(&RawLine) -> bool,
    ) -> Waited {
        let until = tokio::time::Instant::now() + limit;
        while !self.is_gone {
            let Ok(inbound) = tokio::time::timeout_at(until, self.transport.next()).await else {
                return Waited::Silence;
            };
            match inbound {
                Inbound::Message(_, bytes, status) => {
                    if self.note(Side::Server, &bytes, status) && self.lines.last().is_some_and(&mut is_last) {
                        return Waited::Came;
                    }
                }
                Inbound::Garbled(..) => self.unrecorded += 1,
                Inbound::Lost(lane, loss) => {
                    self.lost.push(lane);
                    self.loss = Some(loss);
                    return Waited::Ended;
                }
                Inbound::Room => {}
                Inbound::Gone => self.is_gone = true,
            }
            // A server that floods must not delay timeouts and signals.
            tokio::task::yield_now().await;
        }
        Waited::Ended
    }

    /// Ends the server.
    pub(in crate::commands) async fn close(&mut self) {
        self.transport.close(Manner::Hurried).await;
    }

    /// Keeps a line. Returns whether there was one, and room for it.
    fn note(&mut self, from: Side, bytes: &[u8], status: Option<u16>) -> bool {
        let text = redact(String::from_utf8_lossy(bytes).trim()).into_owned();
        if text.is_empty() {
            return false;
        }
        if self.lines.len() >= MOST_LINES || self.bytes + text.len() > MOST_BYTES {
            self.unrecorded += 1;
            return false;
        }
        self.bytes += text.len();
        self.lines.push(RawLine { from, text, at: self.started.elapsed(), status });
        true
    }
}

/// The first line that a client of a dialect sends, and how it is posted over HTTP.
pub(in crate::commands) fn first_line(dialect: &'static Dialect, setup: ClientSetup) -> Option<(String, Posting)> {
    let (mut client, mut heard) = ((dialect.client)(setup), Heard::default());
    let mut clock = Clock::start();
    let mut ambient: Ambient<'_> = clock.ambient();
    client.open(&mut ambient, &mut heard);
    let frame = heard.wire.frames().first()?.span.clone();
    let line = String::from_utf8(heard.wire[frame].to_vec()).ok()?;
    let posting = client.posting(&line);
    Some((line, posting))
}
