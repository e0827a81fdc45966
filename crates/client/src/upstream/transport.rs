//! The transport to an upstream: a process or HTTP.

use std::ops::Range;
use std::process::ExitStatus;

use gladhand_core::operations::Party;
use gladhand_core::wire::{Fault, Frames, Skim};
use gladhand_dialects::{Lane, Loss, Posting};
use gladhand_session::tap::TappedSession;
use tokio::time::Instant;

use super::target::place_of;
use crate::http_client::{HttpClient, Report};
use gladhand_process::child::{Manner, StderrTail};
use gladhand_process::child_lines::{ChildEvent, ChildLines};

/// A way to an upstream.
#[derive(Debug)]
pub enum Transport {
    /// A process.
    Child(Box<ChildLines>),
    /// An endpoint.
    Http(Box<HttpClient>),
    /// None any more.
    Ended,
}

/// A message or an event from the upstream.
#[derive(Debug)]
pub enum Inbound {
    /// A message, on this way; over HTTP with its status.
    Message(Lane, Vec<u8>, Option<u16>),
    /// An unreadable message, and the members that could still be read from it.
    Garbled(Fault, Skim),
    /// An exchange ended without an answer.
    Lost(Lane, Loss),
    /// Nothing came, and there is room for more to be sent.
    Room,
    /// Nothing will come any more.
    Gone,
}

impl From<ChildEvent> for Inbound {
    fn from(event: ChildEvent) -> Self {
        match event {
            ChildEvent::Line(line) => Self::Message(Lane::MAIN, line, None),
            ChildEvent::TooLong(limit, skim) => Self::Garbled(Fault::TooLong { limit }, skim),
            ChildEvent::Room => Self::Room,
            ChildEvent::End => Self::Gone,
        }
    }
}

impl Transport {
    /// The id of the process, if it is one.
    pub(super) fn process(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.process(),
            Self::Http(_) | Self::Ended => None,
        }
    }

    /// The session at the tap. Over HTTP, exchanges may have passed before its first frame.
    pub(super) fn tapped_session(&self) -> TappedSession {
        match self {
            Self::Http(http) => http.tapped_session(),
            Self::Child(_) | Self::Ended => TappedSession::next_upstream(),
        }
    }

    /// The end of the stderr of the process, if it is one.
    pub(super) fn stderr(&self) -> Option<&StderrTail> {
        match self {
            Self::Child(child) => Some(child.stderr()),
            Self::Http(_) | Self::Ended => None,
        }
    }

    /// The URL without credentials and query, if the upstream is reached over HTTP.
    pub(super) fn url(&self) -> Option<String> {
        match self {
            Self::Http(http) => Some(place_of(http.url())),
            Self::Child(_) | Self::Ended => None,
        }
    }

    /// Sends lines. Over HTTP, `posting` says how to post each. Where answers are not all on one channel, an answer takes
    /// the share of the party to whose call its line belongs, or else of `party`. Returns where the lines begin that are not
    /// sent: too many are on their way, or the transport ended.
    pub fn send(&mut self, lines: &Frames, party: Option<Party>, posting: impl Fn(&str) -> Posting) -> Vec<usize> {
        let mut unsent = Vec::new();
        match self {
            Self::Child(child) => child.send(lines),
            Self::Http(http) => {
                for frame in lines.frames() {
                    // A dialect writes JSON, which is UTF-8.
                    let line = String::from_utf8_lossy(&lines[frame.span.clone()]);
                    if !http.send(&line, frame.party.or(party), posting(&line)) {
                        unsent.push(frame.span.start);
                    }
                }
            }
            Self::Ended => unsent.extend(lines.frames().iter().map(|frame| frame.span.start)),
        }
        unsent
    }

    /// The next thing that comes. May be dropped and called again.
    pub async fn next(&mut self) -> Inbound {
        match self {
            Self::Child(child) => child.next().await.into(),
            Self::Http(http) => match http.next().await {
                Report::Message(lane, arrived, status) => Inbound::Message(lane, arrived.bytes, Some(status)),
                Report::Lost(lane, loss) => Inbound::Lost(lane, loss),
                Report::Room => Inbound::Room,
                Report::Gone => Inbound::Gone,
            },
            Self::Ended => std::future::pending().await,
        }
    }

    /// The next input that has already arrived, without waiting.
    pub fn ready(&mut self) -> Option<Inbound> {
        match self {
            Self::Child(child) => child.ready().map(Inbound::from),
            Self::Http(_) | Self::Ended => None,
        }
    }

    /// Whose share the answer of an exchange takes.
    pub fn party(&self, lane: Lane) -> Option<Party> {
        match self {
            Self::Http(http) => http.party(lane),
            Self::Child(_) | Self::Ended => None,
        }
    }

    pub fn let_go(&mut self, lane: Lane) {
        if let Self::Http(http) = self {
            http.let_go(lane);
        }
    }

    /// Whether something waits to be written.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Self::Child(child) if child.has_unsent())
    }

    /// The unsent bytes of a process that is behind, counted from the first byte that it was ever sent.
    pub fn behind(&self) -> Option<Range<u64>> {
        match self {
            Self::Child(child) if child.is_behind() => {
                let written = child.written();
                Some(written..written + child.unsent() as u64)
            }
            _ => None,
        }
    }

    /// Whether a process would be behind with this many more bytes.
    pub fn would_be_behind(&self, more: usize) -> bool {
        matches!(self, Self::Child(child) if child.would_be_behind(more))
    }

    /// Takes back unsent lines of a process. Returns whether they were all unsent.
    pub fn take_back(&mut self, lines: Range<u64>) -> bool {
        match self {
            Self::Child(child) => child.take_back(lines),
            Self::Http(_) | Self::Ended => false,
        }
    }

    /// Whether nothing more should be sent for now.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Child(child) => child.is_full(),
            Self::Http(http) => http.is_full(),
            Self::Ended => false,
        }
    }

    /// Since when a process has taken no byte of a full buffer.
    pub fn full_since(&self) -> Option<Instant> {
        match self {
            Self::Child(child) => child.full_since(),
            Self::Http(_) | Self::Ended => None,
        }
    }

    /// Bytes that came and are no message yet.
    pub fn unfinished(&self) -> usize {
        match self {
            Self::Child(child) => child.unfinished(),
            Self::Http(_) | Self::Ended => 0,
        }
    }

    /// Ends a process at once, and lets go of anything else.
    pub fn kill(&mut self) {
        if let Self::Child(mut child) = std::mem::replace(self, Self::Ended) {
            child.kill();
        }
    }

    /// How a process ended, if it has or is about to, and the last lines that it wrote to stderr.
    pub async fn ending(&mut self, lines: usize) -> (Option<ExitStatus>, Vec<String>) {
        match self {
            Self::Child(child) => child.ending(lines).await,
            Self::Http(_) | Self::Ended => (None, Vec::new()),
        }
    }

    /// Closes it.
    pub async fn close(&mut self, manner: Manner) {
        match std::mem::replace(self, Self::Ended) {
            Self::Child(mut child) => child.end(manner).await,
            Self::Http(mut http) => http.close().await,
            Self::Ended => {}
        }
    }
}
