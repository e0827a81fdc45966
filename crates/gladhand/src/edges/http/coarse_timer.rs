//! One timer for everybody who waits for the same short time.
//!
//! To set a timer that is nearer than all others wakes the runtime that is awake already, and with every call that
//! would cost as much as reading the call. So there is one for all, which turns while anybody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How long one turn takes.
const TURN: Duration = Duration::from_millis(25);

/// How many turns make the time. The first one has begun already when somebody comes.
const TURNS: u64 = 3;

/// Turns while anybody waits.
#[derive(Debug, Default)]
pub(super) struct CoarseTimer {
    turns: AtomicU64,
    turned: Notify,
    is_turning: AtomicBool,
    /// Whether anybody has waited since the last turn.
    is_watched: AtomicBool,
}

impl CoarseTimer {
    /// Over after 50 to 75 ms.
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

    /// Turns once; whether to go on.
    async fn turn(&self) -> bool {
        tokio::time::sleep(TURN).await;
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.turned.notify_waiters();
        if self.is_watched.swap(false, Ordering::SeqCst) {
            return true;
        }
        self.is_turning.store(false, Ordering::SeqCst);
        // Whoever came just now took it for turning still.
        self.is_watched.load(Ordering::SeqCst) && !self.is_turning.swap(true, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn it_runs_out_for_whoever_comes_whenever_but_not_too_early() {
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
            let took = waiter.await.expect("nobody panics");
            // A turn may be seen a moment late, and then the next one comes that much sooner.
            assert!(took >= TURN, "{took:?}");
        }
    }

    #[tokio::test]
    async fn it_rests_when_nobody_waits_and_turns_again_for_the_next() {
        let glass = Arc::new(CoarseTimer::default());
        for _ in 0..3 {
            glass.run_out().await;
            while glass.is_turning.load(Ordering::SeqCst) {
                tokio::time::sleep(TURN).await;
            }
        }
    }
}
