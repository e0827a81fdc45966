//! Sends answers in request order, although calls end in any order (`fluxloop` §7).
//!
//! A finished answer is held back while an earlier one is missing. The held bytes are counted, so that the driver can
//! stop reading in time.

use std::collections::{HashMap, VecDeque};

use gladhand_core::operations::CallId;
use gladhand_core::wire::Frames;

/// Number of bytes that a slot uses in addition to its text.
const SLOT_OVERHEAD: usize = 128;

/// Unsent answers, oldest first. `W` is the data of a missing answer.
#[derive(Debug)]
pub(super) struct Queue<W> {
    slots: VecDeque<Slot<W>>,
    /// The number of the oldest slot.
    first: u64,
    /// The number of the slot of each call.
    calls: HashMap<CallId, u64>,
    held: usize,
}

#[derive(Debug)]
enum Slot<W> {
    /// The call, the data of its request, and the number of bytes kept for it.
    Missing(CallId, W, usize),
    Ready(Frames),
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), first: 0, calls: HashMap::new(), held: 0 }
    }
}

impl<W> Queue<W> {
    /// Reserves a slot for the answer of a call. `bytes` are kept for it until then.
    pub(super) fn reserve(&mut self, call: CallId, waiting: W, bytes: usize) {
        self.held += SLOT_OVERHEAD + bytes;
        self.calls.insert(call, self.first + self.slots.len() as u64);
        self.slots.push_back(Slot::Missing(call, waiting, bytes));
    }

    /// Adds a finished answer. It is sent immediately if no other answer is before it.
    pub(super) fn push(&mut self, wire: &mut Frames, answer: impl FnOnce(&mut Frames)) {
        if self.slots.is_empty() {
            answer(wire);
            return;
        }
        let mut line = Frames::default();
        answer(&mut line);
        self.held += SLOT_OVERHEAD + line.len();
        self.slots.push_back(Slot::Ready(line));
    }

    /// Replaces the call of a missing answer by another one.
    pub(super) fn wait_on(&mut self, call: CallId, another: CallId, change: impl FnOnce(&mut W)) {
        let Some(number) = self.calls.remove(&call) else { return };
        if let Some(Slot::Missing(awaited, waiting, _)) = self.slot(number) {
            *awaited = another;
            change(waiting);
            self.calls.insert(another, number);
        }
    }

    /// Fills in the answer of a call, and sends all answers whose turn has come.
    pub(super) fn fill(&mut self, wire: &mut Frames, call: CallId, answer: impl FnOnce(&mut Frames, &W)) {
        let Some(number) = self.calls.remove(&call) else { return };
        let mut line = Frames::default();
        if let Some(slot) = self.slot(number)
            && let Slot::Missing(_, waiting, kept) = slot
        {
            answer(&mut line, waiting);
            let (kept, bytes) = (*kept, line.len());
            *slot = Slot::Ready(line);
            self.held = self.held + bytes - kept;
        }
        while let Some(Slot::Ready(line)) = self.slots.front() {
            wire.append(line);
            self.held -= SLOT_OVERHEAD + line.len();
            self.slots.pop_front();
            self.first += 1;
        }
    }

    /// The data of a missing answer.
    pub(super) fn waiting(&mut self, call: CallId) -> Option<&W> {
        let number = *self.calls.get(&call)?;
        match self.slot(number) {
            Some(Slot::Missing(_, waiting, _)) => Some(waiting),
            _ => None,
        }
    }

    /// The number of bytes kept for unsent answers.
    pub(super) fn held_bytes(&self) -> usize {
        self.held
    }

    /// The calls whose answers are missing, oldest first.
    pub(super) fn missing(&self) -> impl Iterator<Item = CallId> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Missing(call, ..) => Some(*call),
            Slot::Ready(_) => None,
        })
    }

    /// The number of missing answers.
    pub(super) fn missing_count(&self) -> usize {
        self.calls.len()
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot<W>> {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok())?;
        self.slots.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use gladhand_core::wire::FrameKind;

    use super::*;

    fn line(text: &'static str) -> impl FnOnce(&mut Frames) {
        move |out| out.line(FrameKind::Result, text.as_bytes())
    }

    #[test]
    fn answers_leave_in_the_order_of_their_places() {
        let (mut queue, mut wire) = (Queue::<&str>::default(), Frames::default());
        queue.push(&mut wire, line("0"));
        queue.reserve(CallId(1), "1", 1);
        queue.push(&mut wire, line("2"));
        queue.reserve(CallId(3), "3", 1);
        assert_eq!(wire.as_slice(), b"0\n");
        queue.fill(&mut wire, CallId(3), |out, waiting| out.line(FrameKind::Result, waiting.as_bytes()));
        queue.wait_on(CallId(1), CallId(4), |waiting| *waiting = "1b");
        queue.fill(&mut wire, CallId(1), |out, _| out.line(FrameKind::Result, b"!"));
        assert_eq!((wire.as_slice(), queue.missing().collect::<Vec<_>>()), (b"0\n".as_slice(), vec![CallId(4)]));
        queue.fill(&mut wire, CallId(4), |out, waiting| out.line(FrameKind::Result, waiting.as_bytes()));
        assert_eq!(wire.as_slice(), b"0\n1b\n2\n3\n");
        assert_eq!((queue.held_bytes(), queue.missing_count(), queue.slots.len()), (0, 0, 0));
    }
}
