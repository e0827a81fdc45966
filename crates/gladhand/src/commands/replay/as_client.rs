//! Plays the recorded client to a live server.

use std::process::ExitCode;
use std::time::Duration;

use gladhand_client::upstream::OpenError;
use gladhand_core::negotiation::Side;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_process::child::{ChildPeer, Manner};
use gladhand_process::child_lines::{ChildEvent, ChildLines};
use gladhand_process::surroundings::Surroundings;
use gladhand_recording::is_masked;
use gladhand_server::signals::{self, Signals};
use tokio::time::Instant;

use super::expected::{Expected, Finding};
use super::{ReplayArgs, Timing, dialect, pause, report};
use crate::commands::CommandError;
use crate::commands::shared::recordings::Session;
use crate::config::env;
use crate::exit::Exit;

/// How long messages are awaited after the last recorded one, which were not recorded.
const AFTERTHOUGHT: Duration = Duration::from_millis(200);

/// How many lines of the server's stderr are shown if it failed.
const STDERR_LINES: usize = 20;

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

pub(super) fn run(args: &ReplayArgs, session: &Session, command: &[String]) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let hidden = env::never_passed_on();
        let hidden: Vec<_> = hidden.iter().map(String::as_str).collect();
        let child = ChildPeer::start(command, &Surroundings::default(), &hidden, |_| {}).await;
        let child = child.map_err(|source| {
            let program = command.first().cloned().unwrap_or_default();
            let error = OpenError::NotStarted { program, source };
            let code = error.word();
            CommandError::new(Exit::PeerFailed, error).code(code)
        })?;
        let lines = ChildLines::new(child, dialect(session).text.terminator, MAX_LINE);
        let expected = Expected::new(session, dialect(session));
        let mut player = Player { args, session, server: lines, expected, has_ended: false, sent: 0, masked: 0 };
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
    server: ChildLines,
    expected: Expected<'p>,
    /// Whether the server closed its output.
    has_ended: bool,
    sent: usize,
    masked: usize,
}

impl Player<'_> {
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
            text.push('\n');
            self.masked += usize::from(is_masked(&text));
            self.server.send(text.as_bytes());
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
        let (failure, stderr) = if is_cut {
            let (status, stderr) = self.server.ending(STDERR_LINES).await;
            let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
            let sent = self.sent;
            (Some(format!("the server ended{how} after {sent} of {total} messages of the client")), stderr)
        } else if is_silent {
            let seconds = self.args.timeout;
            self.server.end(Manner::Hurried).await;
            let (_, stderr) = self.server.ending(STDERR_LINES).await;
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

    fn note(&mut self, event: ChildEvent) {
        match event {
            ChildEvent::Line(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                if !text.trim().is_empty() {
                    self.expected.receive(text.trim());
                }
            }
            ChildEvent::TooLong(limit, _) => {
                let text = format!("a line of more than {limit} bytes");
                self.expected.receive(&text);
            }
            ChildEvent::Room => {}
            ChildEvent::End => self.has_ended = true,
        }
    }
}
