//! MCP over HTTP as the transport of a session: each line goes to the stream of its exchange.

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Call, CallId, Failure, Outcome, ScopeRecord, outcome_weight};
use gladhand_core::wire::{Frame, Frames};
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::mcp::{DIALECT, McpServer};
use gladhand_dialects::{Ambient, Dialect, Lane};
use gladhand_hub::{Portion, Work};
use tokio::task::AbortHandle;

use super::lanes::{Lanes, OutgoingFrame};
use super::request_origin::RequestOrigin;
use super::session::{Manner, Session};
use super::shared::{SMALL, Shared};
use crate::driver::Transport;

/// The streams to one peer, and what its calls need to know about it.
#[derive(Debug)]
pub(super) struct HttpTransport {
    pub(super) lanes: Lanes,
    pub(super) manner: Manner,
    /// The caller that opened the session.
    pub(super) who: RequestOrigin,
    pub(super) record: Arc<ScopeRecord>,
    pub(super) shared: Arc<Shared>,
    /// The session, to which the outcomes of calls return.
    pub(super) session: Weak<Session>,
}

/// The origin of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender<'w> {
    /// The exchange in which it came.
    pub(super) lane: Lane,
    /// The caller, if it is a message of a client.
    pub(super) who: Option<&'w RequestOrigin>,
    /// The share of the global byte limit that a large request message occupies.
    pub(super) under_way: Option<&'w Arc<Portion>>,
}

impl Sender<'_> {
    /// No message of a client.
    pub(super) const NONE: Self = Self { lane: Lane::MAIN, who: None, under_way: None };
}

/// A delivered call.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    pub(super) lane: Lane,
    /// The caller, if callers share this session (stateless MCP).
    pub(super) who: Option<RequestOrigin>,
    /// The share of the global byte limit that a large request message occupies.
    _under_way: Option<Arc<Portion>>,
}

impl HttpTransport {
    /// The sender of a message, if several callers share the session.
    fn among_many<'w>(&self, who: Option<&'w RequestOrigin>) -> Option<&'w RequestOrigin> {
        who.filter(|_| self.manner == Manner::Stateless)
    }

    /// Whether the reader of a call's stream keeps up.
    pub(super) fn keeps_up(&mut self, lane: Option<Lane>) -> bool {
        !lane.and_then(|lane| self.lanes.get(lane)).is_some_and(|stream| stream.is_behind())
    }
}

impl Transport for HttpTransport {
    type Side = McpServer;
    type Sender<'s> = Sender<'s>;
    type Ticket = Ticket;
    type Kept = ();
    type AbortHandle = AbortHandle;
    const IS_SHARED: bool = true;

    fn dialect(_: &McpServer) -> Option<&'static Dialect> {
        Some(&DIALECT)
    }

    fn sender_of(ticket: Option<&Ticket>) -> Sender<'static> {
        ticket.map_or(Sender::NONE, |ticket| Sender { lane: ticket.lane, ..Sender::NONE })
    }

    /// Hands the lines of a step to their streams.
    fn send(&mut self, wire: Frames) {
        if wire.is_empty() {
            return;
        }
        let (wire, frames) = wire.into_parts();
        let wire = Bytes::from(wire);
        for Frame { span, lane, kind, .. } in frames {
            let lane = if self.manner == Manner::OldTransport { Lane::MAIN } else { lane };
            self.lanes.push(lane, OutgoingFrame { line: line_of(&wire, span), kind });
        }
    }

    fn carries(&self, frame: &Frame) -> bool {
        self.manner == Manner::OldTransport || self.lanes.is_open(frame.lane)
    }

    fn introduce<'a, 's: 'a>(&'a self, sender: Sender<'s>, ambient: &mut Ambient<'a>) {
        ambient.lane = sender.lane;
        ambient.principal = sender.who.unwrap_or(&self.who).principal.as_deref();
        ambient.party = self.among_many(sender.who).map(|who| who.party);
        ambient.scopes = self.among_many(sender.who).and_then(|who| who.scopes.clone());
    }

    fn principal<'a, 's: 'a>(&'a self, sender: Sender<'s>) -> Option<&'a str> {
        sender.who.unwrap_or(&self.who).principal.as_deref()
    }

    fn accept(&mut self, sender: Sender<'_>, call: &mut Call<'_>) -> Ticket {
        let caller = sender.who.unwrap_or(&self.who);
        (call.terms.principal, call.terms.party) = (caller.principal.clone(), Some(caller.party));
        call.terms.scopes.clone_from(&caller.scopes);
        if self.manner != Manner::Stateless && caller.scopes.is_some() {
            call.terms.record = Some(Arc::clone(&self.record));
        }
        Ticket { lane: sender.lane, who: self.among_many(sender.who).cloned(), _under_way: sender.under_way.cloned() }
    }

    /// Replaces a large outcome by a failure if too many responses wait to be read.
    fn weigh(&mut self, ticket: Option<&Ticket>, outcome: &mut Outcome, _is_next: bool) {
        let party = ticket.and_then(|ticket| ticket.who.as_ref()).unwrap_or(&self.who).party;
        if outcome_weight(outcome) > SMALL && !self.shared.has_room_for_large_answer(party) {
            *outcome = Err(Failure::not_kept());
        }
    }

    fn spawn(&mut self, call: CallId, work: Work) -> AbortHandle {
        let session = Weak::clone(&self.session);
        self.shared.spawn(work, move |outcome| {
            if let Some(session) = session.upgrade() {
                session.finished(call, outcome, None);
            }
        })
    }

    /// If the exchange of a cancelled call waits for nothing else, the exchange ends without a response.
    fn cancelled<'t>(&mut self, ticket: Ticket, mut others: impl Iterator<Item = &'t Ticket>) {
        if ticket.lane != Lane::MAIN && !others.any(|other| other.lane == ticket.lane) {
            self.lanes.end(ticket.lane);
        }
    }

    fn opened(&mut self, agreement: &Agreement) -> bool {
        let (dialect, version, client) = (agreement.dialect, agreement.version.as_str(), &agreement.client.name);
        if self.manner == Manner::Stateless {
            tracing::debug!(dialect, version, client, "new terms of requests without a session");
            return false;
        }
        self.lanes.primes = Revision::named(version).is_some_and(Revision::has_polling);
        true
    }

    fn let_go(&mut self, lane: Lane, pause: Duration) {
        if self.manner == Manner::Session
            && let Some(stream) = self.lanes.get(lane)
        {
            stream.let_go(pause);
        }
    }
}

/// A line of the step's output. A short line is copied, so that it does not keep a long buffer in memory.
fn line_of(wire: &Bytes, span: Range<usize>) -> Bytes {
    if span.len() * 2 < wire.len() { Bytes::copy_from_slice(&wire[span]) } else { wire.slice(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_keeps_no_long_one_in_memory() {
        let wire = Bytes::from([&b"short\n"[..], &[b'x'; 1000]].concat());
        let is_part = |line: &Bytes| wire.as_ptr_range().contains(&line.as_ptr());
        let (short, long) = (line_of(&wire, 0..5), line_of(&wire, 6..1006));
        assert_eq!((&short[..], long.len()), (&b"short"[..], 1000));
        assert!(!is_part(&short) && is_part(&long), "the long line is not copied");
    }
}
