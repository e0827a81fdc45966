//! Busy polling: stay awake for a moment when the next request is likely to arrive at once.
//!
//! A thread that goes to sleep and is woken on another core loses about 50 µs on a virtual machine, many times the cost of a
//! call. If requests closely follow our replies, the stdio loop polls for up to [`BUSY_POLL`] before it sleeps. A poll in
//! vain disables busy polling until the peer has proved itself again. `limits.busy_poll` in the configuration switches it
//! off.
//!
//! Over HTTP, a thread serves many connections, and polling them gained nothing.

use std::time::{Duration, Instant};

/// How long one poll lasts.
pub(super) const BUSY_POLL: Duration = Duration::from_micros(100);

/// A request that arrives this soon after a reply counts as close. The time to wake the thread is included.
const CLOSE: Duration = Duration::from_micros(250);

/// How many requests in a row must be close before polling begins.
const REQUIRED_SCORE: i32 = 4;

/// The score after a poll in vain.
const PENALTY: i32 = -32;

/// How many polls in a row are allowed before the loop looks at signals, timers and other work.
const MAX_ROUNDS: u32 = 32;

/// Decides from the gaps between replies and requests whether busy polling pays.
#[derive(Debug)]
pub(super) struct BusyPollPolicy {
    is_on: bool,
    last_reply: Instant,
    score: i32,
    rounds: u32,
}

impl BusyPollPolicy {
    /// A policy for a peer that has sent no request so far. `is_on`: whether busy polling is allowed at all.
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, last_reply: Instant::now(), score: 0, rounds: 0 }
    }

    /// Whether busy polling is allowed.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Records that no request is left to answer.
    pub(super) fn replied(&mut self, now: Instant) {
        self.last_reply = now;
    }

    /// Records that a request woke the sleeping thread.
    pub(super) fn woken(&mut self, now: Instant) {
        self.rounds = 0;
        let is_close = now.saturating_duration_since(self.last_reply) < CLOSE;
        self.score = if is_close { (self.score + 1).min(REQUIRED_SCORE) } else { self.score.min(0) };
    }

    /// Whether to poll now.
    pub(super) fn should_poll(&self) -> bool {
        self.is_on && self.score >= REQUIRED_SCORE && self.rounds < MAX_ROUNDS
    }

    /// Records whether a poll found a request.
    pub(super) fn polled(&mut self, found: bool) {
        if found {
            self.rounds += 1;
        } else {
            self.score = PENALTY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_begins_only_for_requests_that_follow_closely() {
        let (begun, mut policy) = (Instant::now(), BusyPollPolicy::new(true));
        let mut exchange = |gap: u64, times: usize| {
            for _ in 0..times {
                policy.replied(begun);
                policy.woken(begun + Duration::from_micros(gap));
            }
            let should_poll = policy.should_poll();
            if should_poll {
                policy.polled(false);
            }
            should_poll
        };
        assert!(!exchange(10, 3), "the score is too low");
        assert!(exchange(10, 1));
        assert!(!exchange(10, 30), "a poll in vain is remembered");
        assert!(exchange(10, 10));
        assert!(!exchange(1000, 100) && !exchange(10, 3));
    }

    #[test]
    fn polling_pauses_for_other_work() {
        let (begun, mut policy) = (Instant::now(), BusyPollPolicy::new(true));
        for _ in 0..REQUIRED_SCORE {
            policy.replied(begun);
            policy.woken(begun);
        }
        let polls = std::iter::from_fn(|| policy.should_poll().then(|| policy.polled(true))).count();
        assert_eq!(polls, MAX_ROUNDS as usize);
    }

    #[test]
    fn polling_can_be_switched_off() {
        let (begun, mut policy) = (Instant::now(), BusyPollPolicy::new(false));
        for _ in 0..2 * REQUIRED_SCORE {
            policy.replied(begun);
            policy.woken(begun);
        }
        assert!(!policy.is_on() && !policy.should_poll());
    }
}
