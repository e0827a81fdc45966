//! Whether to stay awake for the next line.
//!
//! Going to sleep and being woken on another core costs some 50 µs on a virtual machine, many times
//! what a call costs. A peer whose lines follow our answers closely is worth waiting for awake, a
//! little; one that takes its time is not, and after a vain wait it must prove itself again.

use std::time::{Duration, Instant};

/// How long to stay awake for the next line.
pub(super) const AWAKE: Duration = Duration::from_micros(100);

/// A line that comes this soon after our answer follows closely, the time to wake us included.
const CLOSELY: Duration = Duration::from_micros(250);

/// How many lines in a row must follow closely.
const PROOF: i32 = 4;

/// What a vain wait costs in proof.
const VAIN: i32 = -32;

/// How often in a row to stay awake before signals, timers and other work are looked at again.
const ROUNDS: u32 = 32;

/// Watches how closely lines follow answers.
#[derive(Debug)]
pub(super) struct Alertness {
    answered: Instant,
    proof: i32,
    rounds: u32,
}

impl Default for Alertness {
    fn default() -> Self {
        Self { answered: Instant::now(), proof: 0, rounds: 0 }
    }
}

impl Alertness {
    /// Everything that was asked is answered.
    pub(super) fn answered(&mut self, now: Instant) {
        self.answered = now;
    }

    /// We slept, and a line woke us.
    pub(super) fn woken(&mut self, now: Instant) {
        self.rounds = 0;
        let closely = now.saturating_duration_since(self.answered) < CLOSELY;
        self.proof = if closely { (self.proof + 1).min(PROOF) } else { self.proof.min(0) };
    }

    /// Whether to wait awake now.
    pub(super) fn is_worth_it(&self) -> bool {
        self.proof >= PROOF && self.rounds < ROUNDS
    }

    /// We waited awake, and a line came or did not.
    pub(super) fn waited(&mut self, came: bool) {
        if came {
            self.rounds += 1;
        } else {
            self.proof = VAIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_peer_that_follows_closely_is_waited_for() {
        let (begun, mut alertness) = (Instant::now(), Alertness::default());
        let mut exchange = |gap: u64, times: usize| {
            for _ in 0..times {
                alertness.answered(begun);
                alertness.woken(begun + Duration::from_micros(gap));
            }
            let worth_it = alertness.is_worth_it();
            if worth_it {
                alertness.waited(false);
            }
            worth_it
        };
        assert!(!exchange(10, 3), "not proved yet");
        assert!(exchange(10, 1));
        assert!(!exchange(10, 30), "a vain wait is remembered");
        assert!(exchange(10, 10));
        assert!(!exchange(1000, 100) && !exchange(10, 3));
    }

    #[test]
    fn other_work_is_looked_at_now_and_then() {
        let (begun, mut alertness) = (Instant::now(), Alertness::default());
        for _ in 0..PROOF {
            alertness.answered(begun);
            alertness.woken(begun);
        }
        let waits = std::iter::from_fn(|| alertness.is_worth_it().then(|| alertness.waited(true))).count();
        assert_eq!(waits, ROUNDS as usize);
    }
}
