//! Bounds that many peers have in common, where one of us serves them all.
//!
//! [`Bound`] keeps some of a bound free for the next party. [`giving_way`] is for bounds that a party may use up while no
//! other party wants its share: it names the holders that lose their places when another party does.

use std::cmp::Reverse;
use std::collections::HashMap;

use gladhand_core::operations::Party;

/// A bound, and how much of it is taken by everybody together.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// How much there is.
    pub most: usize,
    /// How much of it is taken.
    pub taken: usize,
}

impl Bound {
    /// Whether somebody who has `own` of it may have `more`.
    ///
    /// Who is alone may have everything. Of what is shared nobody gets more than half of what the others leave, so that
    /// there is always some left for the next one who comes.
    pub fn admits(self, more: usize, party: Option<Party>, own: impl FnOnce(Party) -> usize) -> bool {
        let left = self.most.saturating_sub(self.taken);
        // At half of it stops who would then have more than is left.
        let is_fair = |own| own + 2 * more <= left + 1;
        match party {
            _ if more == 0 => true,
            None => more <= left,
            // Counted only where it matters: nobody has more than what is taken.
            Some(party) => is_fair(self.taken) || is_fair(own(party)),
        }
    }
}

/// One place of a bound, such as a session or a connection.
#[derive(Debug, Clone, Copy)]
pub struct Holder<I, T> {
    /// Names the place.
    pub id: I,
    /// The party that holds it.
    pub party: Party,
    /// When it was last used.
    pub used: T,
    /// Whether nothing is under way in it.
    pub is_idle: bool,
}

/// The holders that give way to a newcomer when all `most` places are taken. None: the newcomer is refused.
///
/// The share of a party is an equal part of all places. A party below its share always gets a place:
///
/// 1. Idle holders give way first: those of parties above their share, the largest party first, then the others. Within
///    that order the least recently used is first. Up to a hundredth of all places becomes free at once, because to find
///    them takes a look at all holders.
/// 2. Without an idle holder, a busy one of the party that has the most gives way, if that party is above its share.
///
/// A party that has its share or more gets a place only from its own idle holders.
pub fn giving_way<I: Copy, T: Copy + Ord>(most: usize, holders: &[Holder<I, T>], newcomer: Party) -> Vec<I> {
    let mut counts = HashMap::from([(newcomer, 0)]);
    holders.iter().for_each(|holder| *counts.entry(holder.party).or_default() += 1);
    let share = (most / counts.len()).max(1);
    let is_entitled = counts[&newcomer] < share;
    let is_above = |holder: &Holder<I, T>| counts[&holder.party] > share;
    let may_take = |holder: &&Holder<I, T>| is_entitled || holder.party == newcomer;
    let mut idle: Vec<_> = holders.iter().filter(|holder| holder.is_idle).filter(may_take).collect();
    if idle.is_empty() {
        let busy = holders.iter().filter(|holder| is_entitled && is_above(holder));
        let first = busy.max_by_key(|holder| (counts[&holder.party], Reverse(holder.used)));
        return first.map(|holder| holder.id).into_iter().collect();
    }
    let above = |holder: &Holder<I, T>| if is_above(holder) { counts[&holder.party] } else { 0 };
    idle.sort_unstable_by_key(|holder| (Reverse(above(holder)), holder.used));
    idle.iter().take((most / 100).max(1)).map(|holder| holder.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places by party, the number of idle and of busy ones; ids and times count up in this order.
    fn holders(parties: &[(u64, usize, usize)]) -> Vec<Holder<usize, usize>> {
        let each = |(party, idle, busy): &(u64, usize, usize)| {
            [(Party(*party), true); 1].repeat(*idle).into_iter().chain([(Party(*party), false)].repeat(*busy))
        };
        let all = parties.iter().flat_map(each).enumerate();
        all.map(|(at, (party, is_idle))| Holder { id: at, party, used: at, is_idle }).collect()
    }

    #[test]
    fn idle_holders_of_large_parties_give_way_first() {
        assert_eq!(giving_way(4, &holders(&[(1, 1, 0), (2, 2, 1)]), Party(3)), [1], "the oldest of the larger party");
        assert_eq!(giving_way(3, &holders(&[(1, 1, 0), (2, 1, 0), (3, 0, 1)]), Party(4)), [0], "the oldest of all");
        assert_eq!(giving_way(9, &holders(&[(1, 4, 0), (2, 5, 0)]), Party(3)), [4], "the oldest of the largest party");
        assert_eq!(giving_way(300, &holders(&[(1, 300, 0)]), Party(1)), [0, 1, 2], "a few at once");
    }

    #[test]
    fn a_party_with_its_share_takes_only_its_own() {
        assert_eq!(giving_way(4, &holders(&[(1, 2, 0), (2, 1, 1)]), Party(2)), [2]);
        assert!(giving_way(4, &holders(&[(1, 2, 0), (2, 0, 2)]), Party(2)).is_empty());
        assert!(giving_way(2, &holders(&[(1, 0, 2)]), Party(1)).is_empty(), "who is alone has all, and no more");
    }

    #[test]
    fn a_busy_holder_gives_way_only_above_the_share_of_its_party() {
        assert_eq!(giving_way(8, &holders(&[(1, 0, 2), (2, 0, 6)]), Party(3)), [2], "the oldest of the largest party");
        assert!(giving_way(4, &holders(&[(1, 0, 2), (2, 0, 2)]), Party(1)).is_empty());
        assert_eq!(giving_way(4, &holders(&[(1, 0, 1), (2, 0, 3)]), Party(1)), [1]);
    }

    #[test]
    fn whatever_others_hold_a_party_below_its_share_gets_a_place() {
        for most in 1..12 {
            for (first, idle) in (0..=most).flat_map(|first| [0, 1, first].map(|idle| (first, idle.min(first)))) {
                let all = holders(&[(1, idle, first - idle), (2, 0, most - first)]);
                for newcomer in [1, 2, 3].map(Party) {
                    let (gone, own) =
                        (giving_way(most, &all, newcomer), all.iter().filter(|held| held.party == newcomer));
                    let parties = [first, most - first].iter().filter(|count| **count > 0).count();
                    let parties = parties + usize::from(own.clone().count() == 0);
                    let share = (most / parties).max(1);
                    if own.count() < share && parties <= most {
                        assert!(!gone.is_empty(), "{most} {first} {idle} {newcomer:?}");
                    }
                    // A party at or below its share never loses a busy place.
                    for lost in gone.iter().map(|id| &all[*id]).filter(|lost| !lost.is_idle) {
                        assert!(all.iter().filter(|held| held.party == lost.party).count() > share);
                    }
                }
            }
        }
    }

    #[test]
    fn nobody_takes_what_others_may_want() {
        let (mut taken, mut shares) = (0, Vec::new());
        for party in 0..6 {
            let mut own = 0;
            while (Bound { most: 256, taken }).admits(1, Some(Party(party)), |_| own) {
                (taken, own) = (taken + 1, own + 1);
            }
            shares.push(own);
        }
        assert_eq!(shares[..4], [128, 64, 32, 16]);
        assert!(taken < 256, "something is left for whoever comes next");
        assert!((Bound { most: 1, taken: 0 }).admits(1, Some(Party(0)), |_| 0), "one is for whoever comes first");
        assert!(!(Bound { most: 256, taken: 0 }).admits(129, Some(Party(0)), |_| 0), "not even all at once");
        assert!((Bound { most: 256, taken: 255 }).admits(1, None, |_| 255), "who is alone may have all of it");
        assert!(!(Bound { most: 256, taken: 256 }).admits(1, None, |_| 0));
    }
}
