//! Fair shares of limits that many peers have in common, where one side serves all of them.
//!
//! [`Bound`] keeps part of a limit free for the next party. [`giving_way`] is for limits that a party may use up while
//! no other party wants its share. It names the holders that lose their places when another party arrives.

use std::cmp::Reverse;
use std::collections::HashMap;

use gladhand_core::Order as _;
use gladhand_core::operations::Party;

/// A limit, and the amount that all parties together use.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The limit.
    pub limit: usize,
    /// The amount in use.
    pub used: usize,
}

impl Bound {
    /// Whether a party that uses `own` of the limit may use `more`.
    ///
    /// A single party may use the whole limit. With several parties, each gets at most half of the amount that the
    /// others leave free. Some of the limit therefore always stays free for the next party.
    pub fn admits(self, more: usize, party: Option<Party>, own: impl FnOnce(Party) -> usize) -> bool {
        let left = self.limit.saturating_sub(self.used);
        // Refuse when the party would then use more than the amount that is left.
        let is_fair = |own| own + 2 * more <= left + 1;
        match party {
            _ if more == 0 => true,
            None => more <= left,
            // Try first with the total: a party cannot use more than that. Count the party's own use only if needed.
            Some(party) => is_fair(self.used) || is_fair(own(party)),
        }
    }
}

/// One place within a limit, such as a session or a connection.
#[derive(Debug, Clone, Copy)]
pub struct Holder<I, T> {
    /// Identifies the place.
    pub id: I,
    /// The party that holds the place.
    pub party: Party,
    /// The time of the last use.
    pub used: T,
    /// Whether no work is in progress in it.
    pub is_idle: bool,
}

/// The holders that lose their places to a newcomer when all `limit` places are taken. An empty list refuses the
/// newcomer.
///
/// Every party has an equal share of all places. A party below its share always gets a place:
///
/// 1. Idle holders lose their places first: those of parties above their share, the largest party first, then the
///    others. Within that order, the least recently used is first. Up to one percent of all places is freed in one
///    step, because finding them requires a scan of all holders.
/// 2. If no holder is idle, the largest party loses a busy place, provided that it is above its share.
///
/// A party at or above its share gets a place only from its own idle holders.
pub fn giving_way<I: Copy, T: Copy + Ord>(limit: usize, holders: &[Holder<I, T>], newcomer: Party) -> Vec<I> {
    let mut counts = HashMap::from([(newcomer, 0)]);
    holders.iter().for_each(|holder| *counts.entry(holder.party).or_default() += 1);
    let share = (limit / counts.len()).max(1);
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
    idle.order_by_key(|holder| (Reverse(above(holder)), holder.used));
    idle.iter().take((limit / 100).max(1)).map(|holder| holder.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holders by party, with the number of idle and of busy places. Ids and times count up in this order.
    fn holders(parties: &[(u64, usize, usize)]) -> Vec<Holder<usize, usize>> {
        let each = |(party, idle, busy): &(u64, usize, usize)| {
            [(Party(*party), true); 1].repeat(*idle).into_iter().chain([(Party(*party), false)].repeat(*busy))
        };
        let all = parties.iter().flat_map(each).enumerate();
        all.map(|(at, (party, is_idle))| Holder { id: at, party, used: at, is_idle }).collect()
    }

    #[test]
    fn idle_holders_of_large_parties_give_way_first() {
        assert_eq!(
            giving_way(4, &holders(&[(1, 1, 0), (2, 2, 1)]), Party(3)),
            [1],
            "the least recently used of the larger party"
        );
        assert_eq!(
            giving_way(3, &holders(&[(1, 1, 0), (2, 1, 0), (3, 0, 1)]), Party(4)),
            [0],
            "the least recently used of all"
        );
        assert_eq!(
            giving_way(9, &holders(&[(1, 4, 0), (2, 5, 0)]), Party(3)),
            [4],
            "the least recently used of the largest party"
        );
        assert_eq!(giving_way(300, &holders(&[(1, 300, 0)]), Party(1)), [0, 1, 2], "one percent of the places");
    }

    #[test]
    fn a_party_with_its_share_takes_only_its_own() {
        assert_eq!(giving_way(4, &holders(&[(1, 2, 0), (2, 1, 1)]), Party(2)), [2]);
        assert!(giving_way(4, &holders(&[(1, 2, 0), (2, 0, 2)]), Party(2)).is_empty());
        assert!(
            giving_way(2, &holders(&[(1, 0, 2)]), Party(1)).is_empty(),
            "a single party gets the whole limit and no more"
        );
    }

    #[test]
    fn a_busy_holder_gives_way_only_above_the_share_of_its_party() {
        assert_eq!(
            giving_way(8, &holders(&[(1, 0, 2), (2, 0, 6)]), Party(3)),
            [2],
            "the least recently used of the largest party"
        );
        assert!(giving_way(4, &holders(&[(1, 0, 2), (2, 0, 2)]), Party(1)).is_empty());
        assert_eq!(giving_way(4, &holders(&[(1, 0, 1), (2, 0, 3)]), Party(1)), [1]);
    }

    #[test]
    fn a_party_below_its_share_always_gets_a_place() {
        for limit in 1..12 {
            for (first, idle) in (0..=limit).flat_map(|first| [0, 1, first].map(|idle| (first, idle.min(first)))) {
                let all = holders(&[(1, idle, first - idle), (2, 0, limit - first)]);
                for newcomer in [1, 2, 3].map(Party) {
                    let (gone, own) =
                        (giving_way(limit, &all, newcomer), all.iter().filter(|held| held.party == newcomer));
                    let parties = [first, limit - first].iter().filter(|count| **count > 0).count();
                    let parties = parties + usize::from(own.clone().count() == 0);
                    let share = (limit / parties).max(1);
                    if own.count() < share && parties <= limit {
                        assert!(!gone.is_empty(), "{limit} {first} {idle} {newcomer:?}");
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
    fn a_party_leaves_places_for_others() {
        let (mut taken, mut shares) = (0, Vec::new());
        for party in 0..6 {
            let mut own = 0;
            while (Bound { limit: 256, used: taken }).admits(1, Some(Party(party)), |_| own) {
                (taken, own) = (taken + 1, own + 1);
            }
            shares.push(own);
        }
        assert_eq!(shares[..4], [128, 64, 32, 16]);
        assert!(taken < 256, "some places must stay free for the next party");
        assert!((Bound { limit: 1, used: 0 }).admits(1, Some(Party(0)), |_| 0), "the first party gets the only place");
        assert!(
            !(Bound { limit: 256, used: 0 }).admits(129, Some(Party(0)), |_| 0),
            "a party must not take more than half in one request"
        );
        assert!((Bound { limit: 256, used: 255 }).admits(1, None, |_| 255), "a single peer may use the whole limit");
        assert!(!(Bound { limit: 256, used: 256 }).admits(1, None, |_| 0));
    }
}
