//! Calls that were delivered and have no answer yet: a small slab, so that finding one costs an
//! index and not a hash.
//!
//! A [`CallId`] holds the slot and a running number; a slot that was used again does not answer to
//! an old id.

use gladhand_operations::{CallId, Level};
use gladhand_wire::{Id, RawValue};

use super::batch::BatchId;
use super::ids::is_same;
use super::revision::Revision;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A tool's result.
    Tool,
    /// The page of the list that begins here.
    Tools {
        /// Offset of its first tool.
        from: usize,
    },
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) to: ReplyTo,
    pub(super) asked: Asked,
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
    fn held(&self) -> usize {
        self.to.id.as_json().len() + self.progress_token.as_ref().map_or(0, |token| token.get().len())
    }
}

/// All calls in flight.
#[derive(Debug, Default)]
pub(super) struct Pending {
    slots: Vec<Option<(CallId, InFlight)>>,
    free: Vec<u32>,
    sequence: u32,
    held: usize,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many bytes of ids and tokens are kept.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn insert(&mut self, call: InFlight) -> CallId {
        self.sequence = self.sequence.wrapping_add(1);
        self.held += call.held();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Bounded by `max_in_flight`, which nobody sets beyond four thousand million.
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
        self.held -= entry.1.held();
        Some(entry.1)
    }

    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut InFlight> {
        let entry = self.slots.get_mut(id.0 as u32 as usize)?.as_mut()?;
        (entry.0 == id).then_some(&mut entry.1)
    }

    /// The newest call under a peer's id.
    pub(super) fn newest(&self, peers: &RawValue) -> Option<CallId> {
        let entries = self.slots.iter().flatten();
        entries.filter(|(_, call)| is_same(call.to.id.as_json(), peers.get())).map(|(id, _)| *id).max()
    }

    /// The calls of an exchange that end with it: those that belong to no session.
    pub(super) fn ending_with(&self, lane: Lane) -> Vec<CallId> {
        let entries = self.slots.iter().flatten();
        let ending = entries.filter(|(_, call)| call.to.way.lane == lane && call.revision.is_stateless());
        ending.map(|(id, _)| *id).collect()
    }

    /// All ids, oldest first.
    pub(super) fn ids(&self) -> Vec<CallId> {
        let mut ids: Vec<_> = self.slots.iter().flatten().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use gladhand_wire::json;

    use super::*;

    fn call(id: &str) -> InFlight {
        InFlight {
            to: ReplyTo { id: Id::of(&json::raw(id.to_owned())), way: Way { lane: Lane::MAIN, batch: None } },
            asked: Asked::Tool,
            revision: Revision::V2025_11_25,
            progress_token: None,
            progress: None,
            log_level: None,
        }
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
    fn the_newest_of_equal_ids_is_found() {
        let mut pending = Pending::default();
        let oldest = pending.insert(call("1"));
        pending.insert(call("\"1\""));
        let newest = pending.insert(call("1.0"));
        pending.remove(oldest);
        let newer = pending.insert(call("1"));
        assert!(newer > newest, "also where it took an old slot");
        assert_eq!(pending.newest(&json::raw("1".to_owned())), Some(newer));
        assert_eq!(pending.newest(&json::raw("2".to_owned())), None);
    }
}
