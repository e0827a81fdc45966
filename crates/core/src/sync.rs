//! Locks without poisoning.

use std::sync::{LockResult, PoisonError};

/// Uses a lock also after a thread panicked while it held this lock.
///
/// Locks are held for short updates that leave valid data at every point, and a panic in one call must not fail all
/// later calls.
pub trait Unpoisoned<T> {
    /// The guard or the value, whether the lock is poisoned or not.
    fn unpoisoned(self) -> T;
}

impl<T> Unpoisoned<T> for LockResult<T> {
    fn unpoisoned(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_lock_outlives_a_panic() {
        let number = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                *number.lock().unwrap() = 2;
                let _guard = number.lock();
                panic!("poisons the lock");
            });
            thread.join()
        });
        assert!(panicked.is_err() && number.is_poisoned());
        assert_eq!(*number.lock().unpoisoned(), 2);
    }
}
