//! A2E over HTTP as the transport of a session: one event stream carries every message to the agent.
//!
//! An outcome is written only while the agent reads its stream. The number of concurrent calls is limited, and so is the
//! number of waiting outcomes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use gladhand_core::operations::{Call, CallId, Failure, Outcome, ScopeRecord, outcome_weight};
use gladhand_core::wire::Frames;
use gladhand_dialects::a2e::{DIALECT, Host};
use gladhand_dialects::{Ambient, Dialect};
use gladhand_hub::{Portion, Work};
use gladhand_session::clock::Clock;
use tokio::task::AbortHandle;

use super::super::request_origin::RequestOrigin;
use super::super::shared::{SMALL, Shared};
use super::outlet::Outlet;
use super::session::AgentSession;
use crate::driver::{Report, Transport};
use crate::event_queue::EventQueue;

/// Outcomes up to this size are not counted while they wait: a session has few of them.
const SMALL_OUTCOME: usize = 4 * 1024;

/// The event stream to one agent, and what its calls need to know about it.
#[derive(Debug)]
pub(in crate::http) struct AgentTransport {
    pub(super) shared: Arc<Shared>,
    /// The caller that opened the session.
    pub(super) who: RequestOrigin,
    pub(super) record: Arc<ScopeRecord>,
    /// Queues events until the stream has room.
    pub(super) event_queue: Arc<EventQueue>,
    pub(super) outlet: Outlet,
    /// The bytes of waiting events, within the global limit.
    pub(super) events: Portion,
    /// Whether the party stays within its share of that limit.
    pub(super) has_room_for_events: bool,
    /// Set while closing: the session accepts nothing new, and calls in flight fail at this time of the session clock.
    pub(super) closing: Option<Duration>,
    /// The session, to which the outcomes of calls return.
    pub(super) session: Weak<AgentSession>,
}

impl AgentTransport {
    /// Whether our side may be given something to answer or to tell: there is room for it on the way to a reader, or in what
    /// the party may keep for a reader that is away. Outcomes and events need not ask: they have counted before.
    pub(super) fn may_speak(&self) -> bool {
        self.outlet.has_room() && (self.outlet.is_read() || self.shared.kept.admits(self.who.party))
    }

    /// A message that counts for the party while it waits: for a reader that is there, or for one that is away.
    fn counted(&self, message: Bytes) -> Bytes {
        if self.outlet.is_read() {
            self.shared.counted(message, self.who.party)
        } else {
            self.shared.kept_answer(message, self.who.party)
        }
    }

    /// Counts the bytes of waiting events. Small amounts are not counted and always fit.
    pub(super) fn count_events(&mut self, bytes: usize) {
        let counted = if bytes > SMALL { bytes } else { 0 };
        self.has_room_for_events =
            counted == self.events.amount() && self.has_room_for_events || self.events.resize(counted) || counted == 0;
    }
}

impl Transport for AgentTransport {
    type Side = Host;
    /// The sender of a message, whose token may have different scopes than the opening token.
    type Sender<'s> = Option<&'s RequestOrigin>;
    type Ticket = ();
    /// The share of the global byte limit that a large outcome occupies.
    type Kept = Option<Portion>;
    type AbortHandle = AbortHandle;
    const IS_SHARED: bool = true;

    fn dialect(_: &Host) -> Option<&'static Dialect> {
        Some(&DIALECT)
    }

    fn sender_of(_ticket: Option<&()>) -> Option<&'static RequestOrigin> {
        None
    }

    fn send(&mut self, wire: Frames) {
        if wire.is_empty() {
            return;
        }
        let (wire, frames) = wire.into_parts();
        let wire = Bytes::from(wire);
        for frame in frames {
            let message = self.counted(wire.slice(frame.span));
            self.outlet.push(message);
        }
    }

    fn introduce<'a, 's: 'a>(&'a self, sender: Option<&'s RequestOrigin>, ambient: &mut Ambient<'a>) {
        ambient.principal = self.who.principal.as_deref();
        ambient.scopes = sender.and_then(|sender| sender.scopes.clone());
    }

    fn principal<'a, 's: 'a>(&'a self, _sender: Option<&'s RequestOrigin>) -> Option<&'a str> {
        self.who.principal.as_deref()
    }

    fn accept(&mut self, _sender: Option<&RequestOrigin>, call: &mut Call<'_>) {
        (call.terms.principal, call.terms.party) = (self.who.principal.clone(), Some(self.who.party));
        if call.terms.scopes.is_some() {
            call.terms.record = Some(Arc::clone(&self.record));
        }
    }

    fn has_room(&self) -> bool {
        self.outlet.has_room()
    }

    /// If an outcome is large, no reader takes it immediately and the party has used up its share, a failure replaces it.
    fn weigh(&mut self, _ticket: Option<&()>, outcome: &mut Outcome, is_next: bool) -> Option<Portion> {
        let (weight, party) = (outcome_weight(outcome), self.who.party);
        let is_taken_at_once = self.outlet.is_read() && self.outlet.has_room() && is_next;
        if weight <= SMALL_OUTCOME || is_taken_at_once && self.shared.has_room_for_large_answer(party) {
            return None;
        }
        let mut portion = self.shared.kept.portion(party);
        if portion.grow(weight) {
            return Some(portion);
        }
        *outcome = Err(Failure::not_kept());
        None
    }

    fn next_report(&mut self) -> Option<Report> {
        let event = self.event_queue.pop()?;
        self.count_events(self.event_queue.bytes());
        Some(Report::Notice(event))
    }

    fn spawn(&mut self, call: CallId, work: Work) -> AbortHandle {
        let session = Weak::clone(&self.session);
        self.shared.spawn(work, move |outcome| {
            if let Some(session) = session.upgrade() {
                session.drive(|driver| driver.settle(call, outcome));
            }
        })
    }

    fn close(&mut self, grace: Duration, clock: &Clock) {
        let fail_at = clock.now().elapsed + grace;
        self.closing = Some(self.closing.map_or(fail_at, |earlier| earlier.min(fail_at)));
    }
}
