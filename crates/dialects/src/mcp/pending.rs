//! Calls that were delivered and have no answer yet: a small slab, so that finding one costs an
//! index and not a hash.
//!
//! A [`CallId`] holds the slot and a running number; a slot that was used again does not answer to
//! an old id.

use std::sync::Arc;

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

/// The way back to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// The exchange that it came by.
    pub(super) lane: Lane,
    /// The batch that it came in, if it did.
    pub(super) batch: Option<BatchId>,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) struct ReplyTo {
    /// The peer's id.
    pub(super) id: Id,
    /// The way back.
    pub(super) way: Way,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// A tool's result.
    Tool,
    /// A page of a list.
    Page(Page),
    /// What is in a resource.
    Contents {
        /// Which one.
        uri: Box<str>,
    },
    /// A prompt, filled in.
    Prompt,
    /// What an argument could be.
    Completion,
    /// To hear of changes of a resource.
    Watch {
        /// Which one.
        uri: Box<str>,
        /// Who wants to hear of them.
        by: Watcher,
    },
}

/// Who wants to hear of changes of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watcher {
    /// The session.
    Session,
    /// A subscription that is not acknowledged yet.
    Listener(ListenerId),
}

impl Asked {
    /// The resource that it is about.
    pub(super) fn uri(&self) -> Option<&str> {
        match self {
            Self::Contents { uri } | Self::Watch { uri, .. } => Some(uri),
            _ => None,
        }
    }

    /// Whether it can be given up. A watch cannot: what was begun must be taken back.
    fn is_cancellable(&self) -> bool {
        !matches!(self, Self::Watch { .. })
    }
}

/// Who waits for a call's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The request that it came with.
    ByRequest,
    /// Nobody until the caller comes back with answers: its request was answered with questions.
    Parked,
    /// Whoever asks for the task that it goes on as.
    AsTask,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) to: ReplyTo,
    pub(super) asked: Asked,
    pub(super) awaited: Awaited,
    /// What was agreed with its caller.
    pub(super) in_force: Arc<InForce>,
    /// How it came, where that matters later.
    pub(super) origin: Option<Box<Origin>>,
    /// How many bytes its arguments have, which whoever answers it may have to keep.
    pub(super) arguments: usize,
    /// Whose share it takes.
    pub(super) party: Option<Party>,
    /// The revision that the answer is written in.
    pub(super) revision: Revision,
    /// The token under which the caller wants to hear of progress, as it was written.
    pub(super) progress_token: Option<Box<RawValue>>,
    /// The last progress that was told.
    pub(super) progress: Option<f64>,
    /// From which level on the caller wants log messages of this call (2026-07-28).
    pub(super) log_level: Option<Level>,
}

impl InFlight {
    /// A call that a request waits for, with nothing unusual about it.
    pub(super) fn new(to: ReplyTo, asked: Asked, in_force: &Arc<InForce>) -> Self {
        Self {
            to,
            asked,
            awaited: Awaited::ByRequest,
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

    fn held(&self) -> usize {
        let token = self.progress_token.as_ref().map_or(0, |token| token.get().len());
        let origin = self.origin.as_ref().map_or(0, |origin| origin.held());
        self.to.id.as_json().len() + token + self.asked.uri().map_or(0, str::len) + origin + self.arguments
    }
}

/// All calls in flight.
#[derive(Debug, Default)]
pub(super) struct Pending {
    slots: Vec<Option<(CallId, InFlight)>>,
    free: Vec<u32>,
    sequence: u32,
    held: usize,
    /// How many have no request that waits for them.
    away: usize,
}

impl Pending {
    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.away
    }

    /// How many requests of somebody wait.
    pub(super) fn len_of(&self, party: Party) -> usize {
        self.waiting().filter(|(_, call)| call.party == Some(party)).count()
    }

    /// How many bytes of ids, tokens and arguments are kept.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn insert(&mut self, call: InFlight) -> CallId {
        self.sequence = self.sequence.wrapping_add(1);
        self.count(&call);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Bounded by `max_in_flight` and by how many may be parked or tasks: far from four thousand million.
            (self.slots.len() - 1) as u32
        });
        let id = CallId(u64::from(self.sequence) << 32 | u64::from(slot));
        self.slots[slot as usize] = Some((id, call));
        id
    }

    pub(super) fn remove(&mut self, id: CallId) -> Option<InFlight> {
        let slot = id.0 as u32;
        let entry = self.slots.get_mut(slot as usize)?.take_if(|(held, _)| *held == id)?;
        self.free.push(slot);
        self.discount(&entry.1);
        Some(entry.1)
    }

    /// Changes who waits for a call, or what is kept for it.
    pub(super) fn change(&mut self, id: CallId, change: impl FnOnce(&mut InFlight)) {
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

    fn count(&mut self, call: &InFlight) {
        self.held += call.held();
        self.away += usize::from(call.awaited != Awaited::ByRequest);
    }

    fn discount(&mut self, call: &InFlight) {
        self.held -= call.held();
        self.away -= usize::from(call.awaited != Awaited::ByRequest);
    }

    pub(super) fn get(&self, id: CallId) -> Option<&InFlight> {
        let entry = self.slots.get(id.0 as u32 as usize)?.as_ref()?;
        (entry.0 == id).then_some(&entry.1)
    }

    /// For what is not counted: [`Self::change`] is for the rest.
    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut InFlight> {
        let entry = self.slots.get_mut(id.0 as u32 as usize)?.as_mut()?;
        (entry.0 == id).then_some(&mut entry.1)
    }

    /// Calls whose request waits.
    fn waiting(&self) -> impl Iterator<Item = &(CallId, InFlight)> {
        self.slots.iter().flatten().filter(|(_, call)| call.awaited == Awaited::ByRequest)
    }

    /// The newest call under a peer's id, of those whose request waits and that can be given up by this lane. Outside a session
    /// another lane may be another peer, whose ids are its own.
    pub(super) fn newest(&self, peers: &RawValue, lane: Lane) -> Option<CallId> {
        let is_meant = |call: &InFlight| {
            let is_reachable = call.to.way.lane == lane || !call.revision.is_stateless();
            is_reachable && call.asked.is_cancellable() && is_same(call.to.id.as_json(), peers.get())
        };
        self.waiting().filter(|(_, call)| is_meant(call)).map(|(id, _)| *id).max()
    }

    /// The calls of an exchange that end with it: those that belong to no session.
    pub(super) fn ending_with(&self, lane: Lane) -> Vec<CallId> {
        let entries = self.waiting().filter(|(_, call)| call.asked.is_cancellable());
        let ending = entries.filter(|(_, call)| call.to.way.lane == lane && call.revision.is_stateless());
        ending.map(|(id, _)| *id).collect()
    }

    /// The ids of all calls whose request waits, oldest first.
    pub(super) fn ids(&self) -> Vec<CallId> {
        let mut ids: Vec<_> = self.waiting().map(|(id, _)| *id).collect();
        ids.sort_unstable();
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
        Arc::new(InForce::between(&HANDSHAKE_RULES, &offer, &offer).expect("two equal offers agree"))
    }

    fn call(id: &str) -> InFlight {
        let to = ReplyTo { id: Id::of(&json::raw(id.to_owned())), way: Way { lane: Lane::MAIN, batch: None } };
        InFlight::new(to, Asked::Tool, &nothing_agreed())
    }

    #[test]
    fn a_slot_that_was_used_again_does_not_answer_to_an_old_id() {
        let mut pending = Pending::default();
        let (first, kept) = (pending.insert(call("1")), pending.insert(call("2")));
        assert!(pending.remove(first).is_some());
        let second = pending.insert(call("3"));
        assert_eq!(pending.slots.len(), 2, "the slot is used again");
        assert!(pending.remove(first).is_none() && pending.get_mut(first).is_none());
        assert_eq!((pending.len(), pending.ids()), (2, vec![kept, second]));
        assert!(pending.remove(second).is_some() && pending.remove(second).is_none());
    }

    #[test]
    fn a_call_that_no_request_waits_for_is_neither_counted_nor_found_by_its_id() {
        let mut pending = Pending::default();
        let (parked, task, open) = (pending.insert(call("1")), pending.insert(call("1")), pending.insert(call("2")));
        pending.change(parked, |call| call.awaited = Awaited::Parked);
        pending.change(task, |call| call.awaited = Awaited::AsTask);
        assert_eq!((pending.len(), pending.ids()), (1, vec![open]));
        assert_eq!(pending.newest(&json::raw("1".to_owned()), Lane::MAIN), None);
        pending.change(parked, |call| (call.to.id, call.awaited) = (Id::number(1000), Awaited::ByRequest));
        assert_eq!((pending.len(), pending.newest(&json::raw("1000".to_owned()), Lane::MAIN)), (2, Some(parked)));
        for call in [parked, task, open] {
            assert!(pending.remove(call).is_some());
        }
        assert_eq!((pending.len(), pending.held()), (0, 0));
    }

    #[test]
    fn the_newest_of_equal_ids_is_found() {
        let mut pending = Pending::default();
        let oldest = pending.insert(call("1"));
        pending.insert(call("\"1\""));
        let newest = pending.insert(call("1.0"));
        pending.remove(oldest);
        let newer = pending.insert(call("1"));
        assert!(newer > newest, "also where it took an old slot");
        assert_eq!(pending.newest(&json::raw("1".to_owned()), Lane::MAIN), Some(newer));
        assert_eq!(pending.newest(&json::raw("2".to_owned()), Lane::MAIN), None);
    }
}
