//! Delivered calls without an answer, in a small slab: finding a call costs an index and not a hash.
//!
//! A [`CallId`] contains the slot and a sequence number. An old id therefore does not match a reused slot.

use std::sync::Arc;

use gladhand_core::Order as _;
use gladhand_core::operations::{CallId, Level};
use gladhand_core::wire::{Id, RawValue};

use super::batch::BatchId;
use super::capabilities::InForce;
use super::ids::is_same;
use super::listen::ListenerId;
use super::lists::Page;
use super::parked::Origin;
use super::revision::Revision;
use crate::ambient::Party;
use crate::side::Lane;

/// The route back to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReplyRoute {
    /// The exchange of the request.
    pub(super) lane: Lane,
    /// The batch of the request, if it came in one.
    pub(super) batch: Option<BatchId>,
}

/// The destination of an answer.
#[derive(Debug)]
pub(super) struct ReplyTo {
    /// The peer's id.
    pub(super) id: Id,
    /// The route back.
    pub(super) route: ReplyRoute,
}

/// The kind of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A tool call.
    Tool,
    /// A page of a list.
    Page(Page),
    /// The contents of a resource.
    Contents {
        /// The URI of the resource.
        uri: Box<str>,
    },
    /// A prompt.
    Prompt,
    /// The completion of an argument.
    Completion,
    /// A subscription to a resource.
    Watch {
        /// The URI of the resource.
        uri: Box<str>,
        /// The subscriber.
        by: Watcher,
    },
}

/// The subscriber of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watcher {
    /// The session.
    Session,
    /// A listener that is not acknowledged yet.
    Listener(ListenerId),
}

impl RequestKind {
    /// The resource of the request.
    pub(super) fn uri(&self) -> Option<&str> {
        match self {
            Self::Contents { uri } | Self::Watch { uri, .. } => Some(uri),
            _ => None,
        }
    }

    /// Whether the call can be cancelled. A subscription cannot: a started one must be undone.
    fn is_cancellable(&self) -> bool {
        !matches!(self, Self::Watch { .. })
    }
}

/// How the outcome of a call is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutcomeRecipient {
    /// To the request of the call.
    Request,
    /// To the caller when it returns with answers: the request was answered with questions.
    Parked,
    /// To requests for the task that the call became.
    Task,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct IncomingRequest {
    pub(super) to: ReplyTo,
    pub(super) request_kind: RequestKind,
    pub(super) recipient: OutcomeRecipient,
    /// The agreement with its caller.
    pub(super) in_force: Arc<InForce>,
    /// The origin of the call, if it may be needed later.
    pub(super) origin: Option<Box<Origin>>,
    /// The size of its arguments in bytes. The provider may have to keep them.
    pub(super) arguments: usize,
    /// The party whose share it uses.
    pub(super) party: Option<Party>,
    /// The revision of the answer.
    pub(super) revision: Revision,
    /// The caller's progress token, as written.
    pub(super) progress_token: Option<Box<RawValue>>,
    /// The last reported progress.
    pub(super) progress: Option<f64>,
    /// The minimum level of log messages for this call (2026-07-28).
    pub(super) log_level: Option<Level>,
}

impl IncomingRequest {
    /// A call with defaults, whose request waits for the outcome.
    pub(super) fn new(to: ReplyTo, request_kind: RequestKind, in_force: &Arc<InForce>) -> Self {
        Self {
            to,
            request_kind,
            recipient: OutcomeRecipient::Request,
            in_force: Arc::clone(in_force),
            origin: None,
            arguments: 0,
            party: None,
            revision: in_force.revision,
            progress_token: None,
            progress: None,
            log_level: None,
        }
    }

    fn held_bytes(&self) -> usize {
        let token = self.progress_token.as_ref().map_or(0, |token| token.get().len());
        let origin = self.origin.as_ref().map_or(0, |origin| origin.held_bytes());
        self.to.id.as_bytes().len() + token + self.request_kind.uri().map_or(0, str::len) + origin + self.arguments
    }
}

/// All calls in flight.
#[derive(Debug, Default)]
pub(super) struct IncomingRequests {
    slots: Vec<Option<(CallId, IncomingRequest)>>,
    free: Vec<u32>,
    sequence: u32,
    held: usize,
    /// The number of calls without a waiting request.
    away: usize,
}

impl IncomingRequests {
    /// The number of waiting requests.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.away
    }

    /// The number of waiting requests of a party.
    pub(super) fn len_of(&self, party: Party) -> usize {
        self.waiting().filter(|(_, call)| call.party == Some(party)).count()
    }

    /// The number of bytes kept for ids, tokens and arguments.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    pub(super) fn insert(&mut self, call: IncomingRequest) -> CallId {
        self.sequence = self.sequence.wrapping_add(1);
        self.count(&call);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Limited by `max_in_flight` and by the number of parked calls and tasks, so it fits into 32 bits.
            (self.slots.len() - 1) as u32
        });
        let id = CallId(u64::from(self.sequence) << 32 | u64::from(slot));
        self.slots[slot as usize] = Some((id, call));
        id
    }

    pub(super) fn remove(&mut self, id: CallId) -> Option<IncomingRequest> {
        let slot = id.0 as u32;
        let entry = self.slots.get_mut(slot as usize)?.take_if(|(held, _)| *held == id)?;
        self.free.push(slot);
        self.discount(&entry.1);
        Some(entry.1)
    }

    /// Changes the counted fields of a call.
    pub(super) fn change(&mut self, id: CallId, change: impl FnOnce(&mut IncomingRequest)) {
        let slot = id.0 as u32 as usize;
        let Some((_, mut call)) = self.slots.get_mut(slot).and_then(|slot| slot.take_if(|(held, _)| *held == id))
        else {
            return;
        };
        self.discount(&call);
        change(&mut call);
        self.count(&call);
        self.slots[slot] = Some((id, call));
    }

    fn count(&mut self, call: &IncomingRequest) {
        self.held += call.held_bytes();
        self.away += usize::from(call.recipient != OutcomeRecipient::Request);
    }

    fn discount(&mut self, call: &IncomingRequest) {
        self.held -= call.held_bytes();
        self.away -= usize::from(call.recipient != OutcomeRecipient::Request);
    }

    pub(super) fn get(&self, id: CallId) -> Option<&IncomingRequest> {
        let entry = self.slots.get(id.0 as u32 as usize)?.as_ref()?;
        (entry.0 == id).then_some(&entry.1)
    }

    /// For fields that are not counted. Use [`Self::change`] for the others.
    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut IncomingRequest> {
        let entry = self.slots.get_mut(id.0 as u32 as usize)?.as_mut()?;
        (entry.0 == id).then_some(&mut entry.1)
    }

    /// Calls whose request waits.
    fn waiting(&self) -> impl Iterator<Item = &(CallId, IncomingRequest)> {
        self.slots.iter().flatten().filter(|(_, call)| call.recipient == OutcomeRecipient::Request)
    }

    /// The newest call with a peer's id whose request waits and that this lane may cancel. Without a session, another
    /// lane may belong to another peer with its own ids.
    pub(super) fn newest(&self, peers: &RawValue, lane: Lane) -> Option<CallId> {
        let is_meant = |call: &IncomingRequest| {
            let is_reachable = call.to.route.lane == lane || !call.revision.is_stateless();
            is_reachable && call.request_kind.is_cancellable() && is_same(call.to.id.as_json(), peers.get())
        };
        self.waiting().filter(|(_, call)| is_meant(call)).map(|(id, _)| *id).max()
    }

    /// The calls that end with their exchange: those without a session.
    pub(super) fn ending_with(&self, lane: Lane) -> Vec<CallId> {
        let entries = self.waiting().filter(|(_, call)| call.request_kind.is_cancellable());
        let ending = entries.filter(|(_, call)| call.to.route.lane == lane && call.revision.is_stateless());
        ending.map(|(id, _)| *id).collect()
    }

    /// The ids of all calls whose request waits, oldest first.
    pub(super) fn ids(&self) -> Vec<CallId> {
        let mut ids: Vec<_> = self.waiting().map(|(id, _)| *id).collect();
        ids.order();
        ids
    }
}

#[cfg(test)]
mod tests {
    use gladhand_core::negotiation::{Offer, Peer};
    use gladhand_core::wire::json;

    use super::*;
    use crate::mcp::capabilities::HANDSHAKE_RULES;

    fn nothing_agreed() -> Arc<InForce> {
        let offer = Offer::new(Peer::default(), ["2025-11-25"]);
        Arc::new(InForce::between(&HANDSHAKE_RULES, &offer, &offer).expect("two equal offers must agree"))
    }

    fn call(id: &str) -> IncomingRequest {
        let to = ReplyTo { id: Id::of(&json::raw(id.to_owned())), route: ReplyRoute { lane: Lane::MAIN, batch: None } };
        IncomingRequest::new(to, RequestKind::Tool, &nothing_agreed())
    }

    #[test]
    fn a_reused_slot_does_not_match_an_old_id() {
        let mut pending = IncomingRequests::default();
        let (first, kept) = (pending.insert(call("1")), pending.insert(call("2")));
        assert!(pending.remove(first).is_some());
        let second = pending.insert(call("3"));
        assert_eq!(pending.slots.len(), 2, "the slot must be reused");
        assert!(pending.remove(first).is_none() && pending.get_mut(first).is_none());
        assert_eq!((pending.len(), pending.ids()), (2, vec![kept, second]));
        assert!(pending.remove(second).is_some() && pending.remove(second).is_none());
    }

    #[test]
    fn a_call_without_a_waiting_request_is_not_counted_or_found() {
        let mut pending = IncomingRequests::default();
        let (parked, task, open) = (pending.insert(call("1")), pending.insert(call("1")), pending.insert(call("2")));
        pending.change(parked, |call| call.recipient = OutcomeRecipient::Parked);
        pending.change(task, |call| call.recipient = OutcomeRecipient::Task);
        assert_eq!((pending.len(), pending.ids()), (1, vec![open]));
        assert_eq!(pending.newest(&json::raw("1".to_owned()), Lane::MAIN), None);
        pending.change(parked, |call| (call.to.id, call.recipient) = (Id::number(1000), OutcomeRecipient::Request));
        assert_eq!((pending.len(), pending.newest(&json::raw("1000".to_owned()), Lane::MAIN)), (2, Some(parked)));
        for call in [parked, task, open] {
            assert!(pending.remove(call).is_some());
        }
        assert_eq!((pending.len(), pending.held_bytes()), (0, 0));
    }

    #[test]
    fn the_newest_of_equal_ids_is_found() {
        let mut pending = IncomingRequests::default();
        let oldest = pending.insert(call("1"));
        pending.insert(call("\"1\""));
        let newest = pending.insert(call("1.0"));
        pending.remove(oldest);
        let newer = pending.insert(call("1"));
        assert!(newer > newest, "the id must be larger in a reused slot too");
        assert_eq!(pending.newest(&json::raw("1".to_owned()), Lane::MAIN), Some(newer));
        assert_eq!(pending.newest(&json::raw("2".to_owned()), Lane::MAIN), None);
    }
}
