//! One timer for all tasks that wait for the same short time.
//!
//! Setting a timer that is earlier than all others wakes the runtime, which is already awake. For every call, this
//! would cost as much as reading the call. One shared timer therefore ticks while any task waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The length of one tick.
const TURN: Duration = Duration::from_millis(25);

/// How many ticks a wait takes. The first tick has already begun when a task starts to wait.
const TURNS: u64 = 3;

/// A timer that ticks while any task waits.
#[derive(Debug, Default)]
pub(super) struct CoarseTimer {
    turns: AtomicU64,
    turned: Notify,
    is_turning: AtomicBool,
    /// Whether a task has waited since the last tick.
    is_watched: AtomicBool,
}

impl CoarseTimer {
    /// Completes after 50 to 75 ms.
    pub(super) async fn run_out(self: &Arc<Self>) {
        let begun = self.turns.load(Ordering::Relaxed);
        loop {
            let turned = self.turned.notified();
            if self.turns.load(Ordering::Relaxed) - begun >= TURNS {
                return;
            }
            self.keep_turning();
            turned.await;
        }
    }

    fn keep_turning(self: &Arc<Self>) {
        self.is_watched.store(true, Ordering::SeqCst);
        if !self.is_turning.swap(true, Ordering::SeqCst) {
            let this = Arc::clone(self);
            tokio::spawn(async move { while this.turn().await {} });
        }
    }

    /// Ticks once. Returns whether to continue.
    async fn turn(&self) -> bool {
        tokio::time::sleep(TURN).await;
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.turned.notify_waiters();
        if self.is_watched.swap(false, Ordering::SeqCst) {
            return true;
        }
        self.is_turning.store(false, Ordering::SeqCst);
        // A task that arrived just now assumed that the timer still ticks.
        self.is_watched.load(Ordering::SeqCst) && !self.is_turning.swap(true, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn a_coarse_timer_wakes_every_waiter_and_none_too_early() {
        let glass = Arc::new(CoarseTimer::default());
        let waiters: Vec<_> = (0..200u64)
            .map(|index| {
                let glass = Arc::clone(&glass);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(index * 7 % 311)).await;
                    let begun = Instant::now();
                    glass.run_out().await;
                    begun.elapsed()
                })
            })
            .collect();
        for waiter in waiters {
            let took = waiter.await.expect("the waiter does not panic");
            // A tick may be noticed late, and the next one then comes that much sooner.
            assert!(took >= TURN, "{took:?}");
        }
    }

    #[tokio::test]
    async fn a_coarse_timer_stops_without_waiters_and_starts_again() {
        let glass = Arc::new(CoarseTimer::default());
        for _ in 0..3 {
            glass.run_out().await;
            while glass.is_turning.load(Ordering::SeqCst) {
                tokio::time::sleep(TURN).await;
            }
        }
    }
}
