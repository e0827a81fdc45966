//! The gate that all clients pass between two steps, so that all of them can be paused.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::house::patiently;

/// The gate that all clients pass between two steps.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_closed: AtomicBool,
    is_over: AtomicBool,
    /// How many stand before it.
    waiting: AtomicUsize,
}

impl Gate {
    /// Waits while it is closed; whether there is another step.
    pub(crate) fn goes_on(&self) -> bool {
        if self.is_closed.load(Ordering::SeqCst) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while self.is_closed.load(Ordering::SeqCst) && !self.is_over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        !self.is_over.load(Ordering::SeqCst)
    }

    /// The same after a pause, which closing the gate cuts short.
    pub(crate) fn goes_on_after(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until && self.goes_on() {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.goes_on()
    }

    /// Runs a function while all clients are paused.
    pub(crate) fn while_closed<T>(&self, all: usize, look: impl FnOnce() -> T) -> T {
        self.is_closed.store(true, Ordering::SeqCst);
        patiently("everybody stands still", || {
            assert!(!self.is_over.load(Ordering::SeqCst), "somebody gave up");
            (self.waiting.load(Ordering::SeqCst) == all).then_some(())
        });
        let seen = look();
        self.is_closed.store(false, Ordering::SeqCst);
        seen
    }

    /// A guard that ends all clients if its holder panics.
    pub(crate) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    /// There are no more steps.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// Ends all clients when its holder panics.
#[derive(Debug)]
pub(crate) struct Guard<'g>(&'g Gate);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
