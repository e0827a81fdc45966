//! Busy polling: stay awake for a moment when the next request is likely to arrive at once.
//!
//! A thread that goes to sleep and is woken on another core loses about 50 µs on a virtual machine, many times the cost of a
//! call. If requests closely follow our replies, the thread polls for up to [`BUSY_POLL`] before it sleeps. A poll in vain
//! disables busy polling until the peer has proved itself again.
//!
//! [`BusyPollPolicy`] decides. The stdio loop asks it directly; the HTTP worker threads use [`BusyPoller`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use tokio::sync::Notify;

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
    last_reply: Instant,
    score: i32,
    rounds: u32,
}

impl Default for BusyPollPolicy {
    fn default() -> Self {
        Self { last_reply: Instant::now(), score: 0, rounds: 0 }
    }
}

impl BusyPollPolicy {
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
        self.score >= REQUIRED_SCORE && self.rounds < MAX_ROUNDS
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

/// Busy polling for one worker thread that serves many connections.
///
/// While a task is ready to run, the runtime polls for I/O and does not sleep. So the poller is a task that yields again and
/// again, for a moment after each reply.
#[derive(Debug, Default)]
pub(super) struct BusyPoller {
    policy: Mutex<BusyPollPolicy>,
    /// How many requests have arrived.
    arrived: AtomicU64,
    /// How many of them have no reply yet.
    open: AtomicUsize,
    wanted: Notify,
}

impl BusyPoller {
    /// Records that a request arrived.
    pub(super) fn request_arrived(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        // While other requests are open, the gap says nothing about how long the thread would have been idle.
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            self.policy().woken(Instant::now());
        }
    }

    /// Records that a request was answered at this moment, or that its client stopped waiting.
    pub(super) fn request_done(&self, now: Instant) {
        if self.open.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let mut policy = self.policy();
        policy.replied(now);
        if policy.should_poll() {
            self.wanted.notify_one();
        }
    }

    /// Waits until busy polling pays.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Polls whenever that pays. Never returns.
    pub(super) async fn run(&self) {
        loop {
            self.wanted().await;
            while self.poll().await {}
            self.policy().polled(false);
        }
    }

    /// Polls once, and returns whether a request arrived in time.
    async fn poll(&self) -> bool {
        let (before, begun) = (self.arrived.load(Ordering::Relaxed), Instant::now());
        loop {
            // Other threads run first, then the other tasks of this one.
            std::thread::yield_now();
            tokio::task::yield_now().await;
            if begun.elapsed() >= BUSY_POLL {
                // On a busy processor, threads that sleep are scheduled before threads that poll.
                return false;
            }
            if self.arrived.load(Ordering::Relaxed) != before {
                return true;
            }
        }
    }

    fn policy(&self) -> MutexGuard<'_, BusyPollPolicy> {
        self.policy.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_begins_only_for_requests_that_follow_closely() {
        let (begun, mut policy) = (Instant::now(), BusyPollPolicy::default());
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
        let (begun, mut policy) = (Instant::now(), BusyPollPolicy::default());
        for _ in 0..REQUIRED_SCORE {
            policy.replied(begun);
            policy.woken(begun);
        }
        let polls = std::iter::from_fn(|| policy.should_poll().then(|| policy.polled(true))).count();
        assert_eq!(polls, MAX_ROUNDS as usize);
    }

    #[tokio::test]
    async fn an_unsuccessful_poll_ends_and_disables_polling() {
        let (poller, now) = (BusyPoller::default(), Instant::now());
        poller.request_arrived();
        for _ in 0..4 {
            poller.policy().replied(now);
            poller.policy().woken(now);
        }
        poller.request_done(now);
        assert!(poller.policy().should_poll());
        let run = tokio::time::timeout(BUSY_POLL * 100, poller.run()).await;
        assert!(run.is_err(), "the poller never returns");
        assert!(!poller.policy().should_poll());
    }
}
