//! Counters that several threads add to at the same time.
//!
//! Threads that add to one number send its cache line back and forth, which costs more than the rest of a small count. Each
//! thread therefore adds to one of a few copies, and a reader sums them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of copies.
const STRIPES: usize = 4;

/// Copies of a value, each on cache lines of its own.
#[derive(Debug, Default)]
pub struct Striped<T>([Stripe<T>; STRIPES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

impl<T> Striped<T> {
    /// The copy of this thread.
    #[inline]
    pub fn own(&self) -> &T {
        &self.0[stripe()].0
    }

    /// All copies.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

/// The number of the copy of this thread. Threads take turns.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    // A thread that is about to end uses the first copy.
    STRIPE.try_with(|stripe| *stripe).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn no_count_of_any_thread_is_lost() {
        let counter = Striped::<AtomicU64>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| {
                    (0..1000).for_each(|_| {
                        let _ = counter.own().fetch_add(1, Ordering::Relaxed);
                    })
                });
            }
        });
        let sum: u64 = counter.all().map(|copy| copy.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 2000 * STRIPES as u64);
    }
}
