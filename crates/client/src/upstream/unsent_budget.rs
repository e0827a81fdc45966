//! Lines that wait because an upstream process does not read its input: a bound over all upstreams that parties share.
//!
//! Only lines to a process that is behind are counted, so that a call to a process that reads costs nothing. A line
//! counts until the process has taken it, even if its call ended before.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use gladhand_core::operations::{CallId, Party};
use gladhand_hub::{Portion, Portions};

/// How many bytes may wait for all upstream processes together.
const MOST_UNSENT: usize = 64 * 1024 * 1024;

/// How many bytes of automatic answers may wait for one process: answers to pings, and errors for unknown requests.
const MOST_ANSWERS: usize = 1024 * 1024;

/// Whose share a line takes that belongs to no party: of our own requests, or of the only client.
const WITHOUT_PARTY: Party = Party(0);

/// The bound on bytes that wait for upstream processes. Clones share it.
#[derive(Debug, Clone)]
pub struct UnsentBudget {
    bytes: Arc<Portions>,
}

impl UnsentBudget {
    /// Limits the bytes to `most`.
    pub fn of(most: usize) -> Self {
        Self { bytes: Portions::of(most, 0) }
    }
}

impl Default for UnsentBudget {
    fn default() -> Self {
        Self::of(MOST_UNSENT)
    }
}

/// The origin of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The only line of a call so far.
    Call(CallId),
    /// A message of the upstream that was answered at once.
    Answer,
    Other,
}

/// The lines that wait for one process.
#[derive(Debug)]
pub(super) struct UnsentLines {
    budget: UnsentBudget,
    /// The oldest first. Places count all bytes that were ever sent to the process.
    waiting: VecDeque<Waiting>,
    /// How many bytes of automatic answers are among them.
    answers: u64,
}

#[derive(Debug)]
struct Waiting {
    bytes: Range<u64>,
    origin: Origin,
    /// Whether the process has taken some of the bytes.
    is_begun: bool,
    portion: Portion,
}

impl UnsentLines {
    pub(super) fn new(budget: UnsentBudget) -> Self {
        Self { budget, waiting: VecDeque::new(), answers: 0 }
    }

    /// Whether more bytes of a party may wait.
    pub(super) fn admits(&self, party: Option<Party>) -> bool {
        self.budget.bytes.admits(party.unwrap_or(WITHOUT_PARTY))
    }

    /// Whether the process leaves too many automatic answers unread.
    pub(super) fn has_too_many_answers(&self) -> bool {
        self.answers > MOST_ANSWERS as u64
    }

    /// Counts lines that were appended.
    pub(super) fn add(&mut self, bytes: Range<u64>, origin: Origin, party: Option<Party>) {
        let length = bytes.end - bytes.start;
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if origin == Origin::Answer {
            self.answers += length;
        }
        match self.waiting.back_mut() {
            // A flood of answers is one entry.
            Some(last) if origin == Origin::Answer && last.origin == origin && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
                last.portion.grow(size);
            }
            _ => {
                let portion = self.budget.bytes.portion(party.unwrap_or(WITHOUT_PARTY)).with(size);
                self.waiting.push_back(Waiting { bytes, origin, is_begun: false, portion });
            }
        }
    }

    /// The process has taken this many bytes in all. `is_behind` says whether what is left is worth counting.
    pub(super) fn taken(&mut self, written: u64, is_behind: bool) {
        if !is_behind {
            self.waiting.clear();
            self.answers = 0;
            return;
        }
        while let Some(first) = self.waiting.front_mut().filter(|first| first.bytes.start < written) {
            let end = first.bytes.end.min(written);
            if first.origin == Origin::Answer {
                self.answers -= end - first.bytes.start;
            }
            first.bytes.start = end;
            first.is_begun = true;
            if first.bytes.end > written {
                return;
            }
            self.waiting.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The bytes of the only line of a call, if the process has taken none of them. The caller removes them from the
    /// buffer.
    pub(super) fn take_back(&mut self, call: CallId) -> Option<Range<u64>> {
        let is_it = |waiting: &Waiting| waiting.origin == Origin::Call(call) && !waiting.is_begun;
        let at = self.waiting.iter().position(is_it)?;
        let Waiting { bytes, .. } = self.waiting.remove(at)?;
        let length = bytes.end - bytes.start;
        for later in self.waiting.range_mut(at..) {
            later.bytes = later.bytes.start - length..later.bytes.end - length;
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Option<Party> = Some(Party(1));
    const BOB: Option<Party> = Some(Party(2));

    #[test]
    fn bytes_that_wait_have_a_bound_over_all_upstreams_that_parties_share() {
        let budget = UnsentBudget::of(1000);
        let (mut one, mut other) = (UnsentLines::new(budget.clone()), UnsentLines::new(budget));
        one.add(0..600, Origin::Call(CallId(1)), ANN);
        assert!(other.admits(ANN));
        other.add(0..600, Origin::Call(CallId(2)), ANN);
        assert!(!one.admits(ANN) && !other.admits(ANN));
        assert!(one.admits(BOB), "it has less than an equal part");
        // The process read a part of the line, and the line counts until all of it is read.
        one.taken(599, true);
        assert!(!other.admits(ANN));
        one.taken(600, true);
        assert!(other.admits(ANN) && one.is_empty());
    }

    #[test]
    fn only_a_line_that_is_wholly_unsent_is_taken_back() {
        let mut lines = UnsentLines::new(UnsentBudget::default());
        for call in 0..4 {
            lines.add(call * 100..(call + 1) * 100, Origin::Call(CallId(call)), ANN);
        }
        lines.taken(1, true);
        assert_eq!(lines.take_back(CallId(0)), None, "a part is sent");
        assert_eq!(lines.take_back(CallId(2)), Some(200..300));
        assert_eq!(lines.take_back(CallId(2)), None);
        assert_eq!(lines.take_back(CallId(3)), Some(200..300), "it moved up");
        lines.taken(200, true);
        assert!(lines.is_empty());
    }

    #[test]
    fn answers_that_are_read_do_not_add_up() {
        let mut lines = UnsentLines::new(UnsentBudget::default());
        let step = MOST_ANSWERS as u64 / 4;
        for round in 0..100 {
            lines.add(round * step..(round + 1) * step, Origin::Answer, None);
            lines.taken(round * step, true);
            assert!(!lines.has_too_many_answers());
        }
        for round in 100..105 {
            lines.add(round * step..(round + 1) * step, Origin::Answer, None);
        }
        assert!(lines.has_too_many_answers());
        lines.taken(105 * step, false);
        assert!(!lines.has_too_many_answers() && lines.is_empty());
    }
}
