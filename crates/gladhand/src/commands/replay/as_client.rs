//! Plays the recorded client to a live server.

use std::process::ExitCode;
use std::time::Duration;

use gladhand_client::upstream::Target;
use gladhand_core::negotiation::Side;
use gladhand_process::child::Manner;
use gladhand_recording::is_masked;
use gladhand_server::signals::{self, Signals};
use tokio::time::Instant;

use super::expected::{Expected, Finding};
use super::live_server::{LiveEvent, LiveServer};
use super::{ReplayArgs, Timing, dialect, pause, report};
use crate::commands::shared::recordings::Session;
use crate::commands::shared::runtime::wait_for;
use crate::commands::{CommandError, note};
use crate::terminal::text::{counted, plain};

/// How long messages are awaited after the last recorded one, which were not recorded.
const AFTERTHOUGHT: Duration = Duration::from_millis(200);

/// What came of a replay.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Messages sent.
    pub(super) sent: usize,
    /// Messages of the server that were compared.
    pub(super) compared: usize,
    /// Sent messages in which a masked value stands.
    pub(super) masked: usize,
    pub(super) findings: Vec<Finding>,
    /// How the server failed.
    pub(super) failure: Option<String>,
    /// The last lines of its stderr, if it failed.
    pub(super) stderr: Vec<String>,
}

pub(super) fn run(args: &ReplayArgs, session: &Session, target: &Target) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, async {
        let mut signals = Signals::listen()?;
        let opening = async {
            match target {
                Target::Command(command) => LiveServer::start(command, session).await,
                Target::Url(url) => LiveServer::connect(args, url, session).await,
            }
        };
        let server = tokio::select! {
            server = opening => server?,
            stop = signals.next() => return Ok(signals::exit_status(stop).into()),
        };
        let expected = Expected::new(session, dialect(session));
        let mut player = Player::new(args, session, server, expected);
        let outcome = tokio::select! {
            outcome = player.play() => outcome,
            stop = signals.next() => {
                player.server.kill();
                return Ok(signals::exit_status(stop).into());
            }
        };
        report::print(args, session, &outcome)
    })
}

struct Player<'p> {
    args: &'p ReplayArgs,
    session: &'p Session,
    server: LiveServer,
    expected: Expected<'p>,
    /// Whether the server sends nothing any more.
    has_ended: bool,
    /// Why it lets nothing pass.
    closed: Option<String>,
    sent: usize,
    masked: usize,
}

impl<'p> Player<'p> {
    fn new(args: &'p ReplayArgs, session: &'p Session, server: LiveServer, expected: Expected<'p>) -> Self {
        Self { args, session, server, expected, has_ended: false, closed: None, sent: 0, masked: 0 }
    }

    async fn play(&mut self) -> Outcome {
        let mut previous = self.session.first_ms;
        let mut is_all_sent = true;
        for (at, line) in self.session.lines.iter().enumerate() {
            if line.from != Side::Client {
                continue;
            }
            let not_before = Instant::now() + pause(self.args.timing, line.ms - previous);
            previous = line.ms;
            self.await_before(at).await;
            if self.args.timing == Timing::Original {
                self.listen_until(not_before).await;
            }
            if self.has_ended {
                is_all_sent = false;
                break;
            }
            let mut text = self.expected.outgoing(at);
            // Line breaks in JSON are blanks.
            text = text.replace(['\n', '\r'], " ");
            self.masked += usize::from(is_masked(&text));
            self.server.send(&text);
            self.sent += 1;
        }
        self.await_before(usize::MAX).await;
        if !self.has_ended {
            self.listen_until(Instant::now() + AFTERTHOUGHT).await;
        }
        let expected = &self.expected;
        let total = self.session.lines.iter().filter(|line| line.from == Side::Client).count();
        let is_silent = expected.received == 0 && expected.is_incomplete();
        let is_cut = self.has_ended && (!is_all_sent || expected.is_incomplete());
        let (failure, stderr) = if let Some(why) = self.closed.take() {
            (Some(why), Vec::new())
        } else if is_cut {
            let (status, stderr) = self.server.ending().await;
            let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
            let (sent, total) = (self.sent, counted(total, "message"));
            (Some(format!("the server ended{how} after {sent} of {total} of the client")), stderr)
        } else if is_silent {
            let seconds = self.args.timeout;
            self.server.end(Manner::Hurried).await;
            let (_, stderr) = self.server.ending().await;
            (Some(format!("the server wrote no message within {seconds} s")), stderr)
        } else {
            self.server.end(Manner::Polite).await;
            (None, Vec::new())
        };
        if is_cut {
            self.server.end(Manner::Hurried).await;
        }
        let (sent, masked, compared) = (self.sent, self.masked, self.expected.compared);
        Outcome { sent, compared, masked, findings: self.expected.findings(), failure, stderr }
    }

    /// Waits until the recorded messages before a place have arrived. Each new message starts the timeout again.
    async fn await_before(&mut self, at: usize) {
        while !self.has_ended && self.expected.lacks_before(at) {
            let limit = Duration::from_secs(self.args.timeout);
            match tokio::time::timeout(limit, self.server.next()).await {
                Ok(event) => self.note(event),
                Err(_) => {
                    self.expected.give_up_before(at);
                    return;
                }
            }
        }
    }

    /// Takes messages until a time. Unsent lines are written meanwhile.
    async fn listen_until(&mut self, time: Instant) {
        while !self.has_ended {
            match tokio::time::timeout_at(time, self.server.next()).await {
                Ok(event) => self.note(event),
                Err(_) => return,
            }
        }
    }

    fn note(&mut self, event: LiveEvent) {
        match event {
            LiveEvent::Message(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if !text.trim().is_empty() {
                    self.expected.receive(text.trim());
                }
            }
            LiveEvent::TooLong(limit) => {
                let text = format!("a line of more than {limit} bytes");
                self.expected.receive(&text);
            }
            LiveEvent::Lost(id, why) => {
                note(&format!("warning: no answer to the request with the id {}: {}", plain(&id), plain(&why)));
                self.expected.lose(&id);
            }
            LiveEvent::Closed(why) => {
                self.closed = Some(why);
                self.has_ended = true;
            }
            LiveEvent::Nothing => {}
            LiveEvent::End => self.has_ended = true,
        }
    }
}
