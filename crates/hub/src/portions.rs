//! A bound that parties share: streams that may be open, bytes that may be on their way or kept.
//!
//! While there is some left, a party takes what it wants. When nothing is left, a party that has less than an equal part
//! still gets more, so one party cannot use up what all have in common. Nothing is taken away. At twice the bound, no
//! party gets more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::Party;
use gladhand_core::sync::Unpoisoned as _;

/// Bytes that large lasting portions gave back, in all bounds of this process.
static RETURNED: AtomicUsize = AtomicUsize::new(0);

/// A bound, and what of it each party has.
#[derive(Debug)]
pub struct Portions {
    most: usize,
    /// When this much is in use, no party gets more.
    ceiling: usize,
    /// While little of the bound is in use, a portion up to this size counts for all, and not for its party: there are
    /// many of them, and they are soon gone.
    small: usize,
    /// Whether portions are memory that is kept for long: see [`Portions::returned`].
    is_lasting: bool,
    taken: AtomicUsize,
    by_party: Mutex<HashMap<Party, usize>>,
}

/// One portion of a party, given back when it is dropped.
#[derive(Debug)]
pub struct Portion {
    all: Arc<Portions>,
    party: Party,
    amount: usize,
    /// The part of it that counts for the party.
    counted: usize,
}

impl Portions {
    /// A bound. Portions up to `small` do not count for their party while less than an eighth is in use.
    pub fn of(most: usize, small: usize) -> Arc<Self> {
        Self::new(most, most.saturating_mul(2), small, false)
    }

    /// A bound on memory that is kept for long.
    pub fn lasting(most: usize, small: usize) -> Arc<Self> {
        Self::new(most, most.saturating_mul(2), small, true)
    }

    /// A bound at which no party gets more only when `ceiling` is in use, because portions also grow without a question.
    pub fn with_ceiling(most: usize, ceiling: usize) -> Arc<Self> {
        Self::new(most, ceiling, 0, false)
    }

    /// How many bytes lasting portions have given back since the process began. The allocator may still have them.
    pub fn returned() -> usize {
        RETURNED.load(Ordering::Relaxed)
    }

    fn new(most: usize, ceiling: usize, small: usize, is_lasting: bool) -> Arc<Self> {
        Arc::new(Self { most, ceiling, small, is_lasting, taken: AtomicUsize::new(0), by_party: Mutex::default() })
    }

    /// Whether a party may have more.
    pub fn admits(&self, party: Party) -> bool {
        self.admits_within(self.most, party)
    }

    /// The same with another bound for all: a party that has less than an equal part of its own still gets more.
    pub fn admits_within(&self, most: usize, party: Party) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        taken < most || (taken < self.ceiling && self.is_below_share(party))
    }

    /// A portion for a party, which has nothing yet.
    pub fn portion(self: &Arc<Self>, party: Party) -> Portion {
        Portion { all: Arc::clone(self), party, amount: 0, counted: 0 }
    }

    /// Whether a party has less than an equal part.
    fn is_below_share(&self, party: Party) -> bool {
        let by_party = self.lock();
        let own = by_party.get(&party);
        let parties = by_party.len() + usize::from(own.is_none());
        own.copied().unwrap_or_default() < (self.most / parties).max(1)
    }

    /// Updates the count of a party after one of its portions changed.
    fn count(&self, party: Party, before: usize, after: usize) {
        let mut by_party = self.lock();
        let own = by_party.entry(party).or_default();
        *own = *own - before + after;
        if *own == 0 {
            by_party.remove(&party);
        }
        drop(by_party);
        if self.is_lasting && after < before {
            RETURNED.fetch_add(before - after, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Party, usize>> {
        self.by_party.lock().unpoisoned()
    }
}

impl Portion {
    /// Takes more. Returns whether the party may have it.
    pub fn grow(&mut self, more: usize) -> bool {
        self.resize(self.amount + more)
    }

    /// Changes the size. Returns whether the party may have it.
    pub fn resize(&mut self, amount: usize) -> bool {
        // Wraps around as the difference does.
        let more = amount.wrapping_sub(self.amount);
        let taken = self.all.taken.fetch_add(more, Ordering::Relaxed).wrapping_add(more);
        self.amount = amount;
        // So a party has uncounted portions of at most an eighth of the bound.
        let counted = if amount > self.all.small || taken > self.all.most / 8 { amount } else { 0 };
        if counted != self.counted {
            self.all.count(self.party, self.counted, counted);
            self.counted = counted;
        }
        taken <= self.all.most || (taken <= self.all.ceiling && self.all.is_below_share(self.party))
    }

    /// How much it is.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes all of it out, for a holder of its own; an empty one stays.
    pub fn take(&mut self) -> Self {
        let empty = self.another();
        std::mem::replace(self, empty)
    }

    /// An empty portion of the same party.
    pub fn another(&self) -> Self {
        self.all.portion(self.party)
    }

    /// The same portion with more.
    pub fn with(mut self, more: usize) -> Self {
        self.grow(more);
        self
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.all.taken.fetch_sub(self.amount, Ordering::Relaxed);
        if self.counted > 0 {
            self.all.count(self.party, self.counted, 0);
        }
    }
}

/// How many places of a limit parties hold, for limits whose holders are counted when one more place is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Of all parties together.
    total: usize,
    /// Of the party that wants one more.
    own: usize,
    /// The number of parties that hold places, that party included.
    parties: usize,
}

impl Usage {
    /// Counts the places of all holders, for a party that wants one more.
    pub fn of(party: Option<Party>, holders: impl IntoIterator<Item = (Option<Party>, usize)>) -> Self {
        let mut by_party = HashMap::from([(party, 0)]);
        for (holder, places) in holders.into_iter().filter(|(_, places)| *places > 0) {
            *by_party.entry(holder).or_default() += places;
        }
        Self { total: by_party.values().sum(), own: by_party[&party], parties: by_party.len() }
    }

    /// Whether the party may have one more of `max` places. When all are taken, a party below an equal share still gets
    /// one, so that one party cannot keep the others from theirs. There are never more than twice as many.
    pub fn admits(self, max: usize) -> bool {
        self.total < max || (self.own < (max / self.parties).max(1) && self.total < max.saturating_mul(2))
    }
}

/// A number of places that parties share, for holders that give their place back when they have ended.
#[derive(Debug)]
pub struct PartyPermits {
    most: usize,
    taken: Mutex<HashMap<Option<Party>, usize>>,
}

/// One unit of a party, given back when it is dropped.
#[derive(Debug)]
pub struct PartyPermit {
    places: Arc<PartyPermits>,
    party: Option<Party>,
}

impl PartyPermits {
    /// This many units in all.
    pub fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A permit for a party, if it may have one more. `None`: the only client.
    pub fn take(self: &Arc<Self>, party: Option<Party>) -> Option<PartyPermit> {
        let mut taken = self.taken.lock().unpoisoned();
        let usage = Usage::of(party, taken.iter().map(|(party, places)| (*party, *places)));
        usage.admits(self.most).then(|| {
            *taken.entry(party).or_default() += 1;
            PartyPermit { places: Arc::clone(self), party }
        })
    }
}

impl Drop for PartyPermit {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unpoisoned();
        if let Some(places) = taken.get_mut(&self.party) {
            *places -= 1;
            if *places == 0 {
                taken.remove(&self.party);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_with_all_places_keeps_no_other_from_its_share() {
        let places = PartyPermits::of(8);
        let fill = |party| std::iter::from_fn(|| places.take(Some(Party(party)))).take(100).collect::<Vec<_>>();
        let (first, second) = (fill(1), fill(2));
        assert_eq!((first.len(), second.len()), (8, 4), "all while no other party wants any, then an equal share");
        let others: Vec<_> = (3..100).flat_map(fill).collect();
        assert_eq!(12 + others.len(), 16, "however many parties there are");
        drop((first, second, others));
        assert!(places.taken.lock().unpoisoned().is_empty());
    }

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
    fn small_portions_count_for_all_only_while_little_is_in_use() {
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

    #[test]
    fn a_party_with_many_small_portions_gets_no_more_than_its_share() {
        let all = Portions::of(1000, 10);
        let take = |party: u64| {
            let grown = std::iter::repeat_with(|| {
                let mut portion = all.portion(Party(party));
                portion.grow(10).then_some(portion)
            });
            grown.map_while(|portion| portion).take(1000).collect::<Vec<_>>()
        };
        let first = take(1);
        assert!((100..=113).contains(&first.len()), "one bound, and an eighth that is not counted: {}", first.len());
        let others: Vec<_> = (2..100).map(take).collect();
        assert!((45..=50).contains(&others[0].len()), "an equal part of two: {}", others[0].len());
        let total = first.len() + others.iter().map(Vec::len).sum::<usize>();
        assert_eq!(total, 200, "twice the bound, however many parties there are");
        drop((first, others));
        assert_eq!(all.taken.load(Ordering::Relaxed), 0);
        assert!(all.lock().is_empty());
    }

    #[test]
    fn a_resized_portion_returns_its_difference() {
        let (all, before) = (Portions::lasting(100, 10), Portions::returned());
        let mut portion = all.portion(Party(1));
        assert!(portion.resize(90) && !portion.resize(120) && portion.resize(30));
        assert_eq!((all.taken.load(Ordering::Relaxed), all.lock()[&Party(1)], portion.amount()), (30, 30, 30));
        assert!(portion.resize(5) && all.lock().is_empty(), "it is small now");
        drop(portion);
        assert_eq!(all.taken.load(Ordering::Relaxed), 0);
        assert_eq!(Portions::returned() - before, 120);
    }
}
