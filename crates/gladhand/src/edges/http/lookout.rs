//! Keeps a thread awake for requests that follow its answers closely.
//!
//! While there is something that wants to run, the runtime looks for what has come and does not go to sleep. So a task
//! that wants nothing else runs again and again, for a short while after each answer, where experience says that the next
//! request is about to come: see [`alertness`](crate::edges::alertness).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::edges::alertness::{AWAKE, Alertness};

/// Watches how closely requests follow answers on one thread.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    alertness: Mutex<Alertness>,
    /// How many requests came.
    came: AtomicU64,
    /// How many of them are not answered.
    open: AtomicUsize,
    wanted: Notify,
}

impl Lookout {
    /// A request came.
    pub(super) fn came(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
        // While others are being answered it says nothing of how long there would have been nothing to do.
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            self.alertness().woken(Instant::now());
        }
    }

    /// A request was answered at this moment, or nobody waits for its answer any more.
    pub(super) fn answered(&self, now: Instant) {
        if self.open.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        let mut alertness = self.alertness();
        alertness.answered(now);
        if alertness.is_worth_it() {
            self.wanted.notify_one();
        }
    }

    /// Waits until it is worth it to stay awake.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Keeps the thread awake whenever that is worth it, for ever.
    pub(super) async fn keep(&self) {
        loop {
            self.wanted().await;
            while self.next_comes().await {}
            self.alertness().waited(false);
        }
    }

    /// Waits awake for a request, a little; whether one came in time.
    async fn next_comes(&self) -> bool {
        let (before, begun) = (self.came.load(Ordering::Relaxed), Instant::now());
        loop {
            // Others get the processor first, and then everything that runs here.
            std::thread::yield_now();
            tokio::task::yield_now().await;
            if begun.elapsed() >= AWAKE {
                // Where others keep the processor for long, sleepers are served before those who stay awake.
                return false;
            }
            if self.came.load(Ordering::Relaxed) != before {
                return true;
            }
        }
    }

    fn alertness(&self) -> MutexGuard<'_, Alertness> {
        self.alertness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_vain_wait_ends_and_is_remembered() {
        let (lookout, now) = (Lookout::default(), Instant::now());
        lookout.came();
        for _ in 0..4 {
            lookout.alertness().answered(now);
            lookout.alertness().woken(now);
        }
        lookout.answered(now);
        assert!(lookout.alertness().is_worth_it());
        let kept = tokio::time::timeout(AWAKE * 100, lookout.keep()).await;
        assert!(kept.is_err(), "it goes on for ever");
        assert!(!lookout.alertness().is_worth_it());
    }
}
