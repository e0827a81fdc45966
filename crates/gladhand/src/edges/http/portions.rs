//! A bound that parties share: streams that may be open, bytes that may be on their way.
//!
//! While there is some left, a party takes what it wants. When nothing is left, a party that has less than an equal part
//! still gets more, so one party cannot use up what all have in common. Nothing is taken away, so in all no more than
//! twice the bound is in use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_dialects::Party;

/// A bound, and what of it each party has.
#[derive(Debug)]
pub(super) struct Portions {
    most: usize,
    /// A portion up to this size counts for all, and not for its party: there are many of them, and they are soon gone.
    small: usize,
    taken: AtomicUsize,
    by_party: Mutex<HashMap<Party, usize>>,
}

/// One portion of a party, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Portion {
    all: Arc<Portions>,
    party: Party,
    amount: usize,
    /// The part of it that counts for the party.
    counted: usize,
}

impl Portions {
    pub(super) fn of(most: usize, small: usize) -> Arc<Self> {
        Arc::new(Self { most, small, taken: AtomicUsize::new(0), by_party: Mutex::default() })
    }

    /// Whether a party may have more.
    pub(super) fn admits(&self, party: Party) -> bool {
        self.taken.load(Ordering::Relaxed) < self.most || self.is_below_share(party, 0)
    }

    /// A portion for a party, which has nothing yet.
    pub(super) fn portion(self: &Arc<Self>, party: Party) -> Portion {
        Portion { all: Arc::clone(self), party, amount: 0, counted: 0 }
    }

    /// Whether a party has less than an equal part, its uncounted amount included.
    fn is_below_share(&self, party: Party, uncounted: usize) -> bool {
        let by_party = self.lock();
        let own = by_party.get(&party);
        let parties = by_party.len() + usize::from(own.is_none());
        own.copied().unwrap_or_default() + uncounted < (self.most / parties).max(1)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Party, usize>> {
        self.by_party.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Portion {
    /// Takes more; says whether the party may have it.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        self.amount += more;
        let taken = self.all.taken.fetch_add(more, Ordering::Relaxed) + more;
        if self.amount > self.all.small {
            *self.all.lock().entry(self.party).or_default() += self.amount - self.counted;
            self.counted = self.amount;
        }
        taken <= self.all.most || self.all.is_below_share(self.party, self.amount - self.counted)
    }

    /// The same portion with more.
    pub(super) fn with(mut self, more: usize) -> Self {
        self.grow(more);
        self
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.all.taken.fetch_sub(self.amount, Ordering::Relaxed);
        if self.counted > 0 {
            let mut by_party = self.all.lock();
            if let Some(own) = by_party.get_mut(&self.party) {
                *own -= self.counted;
                if *own == 0 {
                    by_party.remove(&self.party);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_alone_has_all_and_others_still_get_their_part() {
        let all = Portions::of(8, 0);
        let take = |party: u64| {
            let admitted = std::iter::from_fn(|| all.admits(Party(party)).then(|| all.portion(Party(party)).with(1)));
            admitted.take(100).collect::<Vec<_>>()
        };
        let first = take(1);
        assert_eq!(first.len(), 8);
        let second = take(2);
        assert_eq!(second.len(), 4, "an equal part of two");
        assert_eq!(take(3).len(), 2, "an equal part of three");
        assert!(take(1).is_empty());
        drop((first, second));
        assert_eq!(all.taken.load(Ordering::Relaxed), 0);
        assert!(all.lock().is_empty());
    }

    #[test]
    fn small_portions_count_for_all_only() {
        let all = Portions::of(100, 10);
        let small = all.portion(Party(1)).with(10);
        assert!(all.lock().is_empty());
        let mut large = all.portion(Party(2));
        assert!(large.grow(10) && large.grow(70) && !large.grow(20));
        assert_eq!(all.lock()[&Party(2)], 100);
        assert!(all.portion(Party(1)).grow(40), "it has less than its part");
        drop((small, large));
        assert_eq!(all.taken.load(Ordering::Relaxed), 0);
    }
}
