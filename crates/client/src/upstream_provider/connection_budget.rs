//! The limit on connections besides the main ones, in total and for each party.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use gladhand_core::operations::Party;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::shares::Bound;

use gladhand_process::open_files::OpenFiles;

/// How many connections there may be besides the main ones, if open files allow it. Each may be a process.
const MOST: usize = 256;

/// The connection budget that all upstreams share. Clones share it too.
#[derive(Debug, Clone)]
pub struct ConnectionBudget {
    most: usize,
    taken: Arc<Mutex<HashMap<Option<Party>, usize>>>,
}

/// A place for one connection, as long as this is kept.
#[derive(Debug)]
pub(super) struct Permit {
    budget: ConnectionBudget,
    party: Option<Party>,
}

impl ConnectionBudget {
    /// A budget of `most` connections.
    pub fn of(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Reserves one more connection for a party if the budget allows it: a party gets at most half of the connections
    /// that others leave.
    pub(super) fn take(&self, party: Option<Party>) -> Option<Permit> {
        let mut taken = self.taken.lock().unpoisoned();
        let bound = Bound { limit: self.most, used: taken.values().sum() };
        let own = |party| taken.get(&Some(party)).copied().unwrap_or_default();
        if !bound.admits(1, party, own) {
            return None;
        }
        *taken.entry(party).or_default() += 1;
        Some(Permit { budget: self.clone(), party })
    }
}

impl Default for ConnectionBudget {
    fn default() -> Self {
        Self::of(OpenFiles::now().upstream_connections(MOST))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unpoisoned();
        if let Some(count) = taken.get_mut(&self.party) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.party);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_gets_half_of_the_free_connections_and_returned_ones_are_free_again() {
        let budget = ConnectionBudget::of(8);
        let take = |party: u64| std::iter::from_fn(|| budget.take(Some(Party(party)))).collect::<Vec<_>>();
        let (first, second) = (take(1), take(2));
        assert_eq!((first.len(), second.len()), (4, 2));
        drop(first);
        assert_eq!(take(1).len(), 3, "half of what the other leaves");
        drop(second);
        assert_eq!(take(1).len(), 4);
        let alone = ConnectionBudget::of(2);
        let all: Vec<_> = std::iter::from_fn(|| alone.take(None)).collect();
        assert_eq!(all.len(), 2, "who is alone may have all of it");
    }
}
