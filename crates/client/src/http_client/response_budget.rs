//! Open files and memory for calls to HTTP upstreams: bounds over all calls, shared by parties.

use std::sync::Arc;

use gladhand_core::operations::Party;
use gladhand_hub::{Portion, Portions};

use gladhand_process::open_files::OpenFiles;

/// How many bytes of answers may have arrived that the session has not read.
const MOST: usize = 256 * 1024 * 1024;

/// While little of the total is in use, shorter answers do not count against the share of their party.
const SMALL: usize = 64 * 1024;

/// Whose share an answer takes that belongs to no party: of our own requests, or of the only client.
const WITHOUT_PARTY: Party = Party(0);

/// Bounds on requests to HTTP upstreams and on answers that arrive. Clones share them.
#[derive(Debug, Clone)]
pub struct ResponseBudget {
    bytes: Arc<Portions>,
    /// Requests on their way. Each may be a connection, and so an open file.
    exchanges: Arc<Portions>,
}

/// A message that arrived. It takes its part of the bound until it is dropped.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Its text.
    pub bytes: Vec<u8>,
    _portion: Portion,
}

impl ResponseBudget {
    /// Limits the bytes to `most`, and the requests to the number that open files allow.
    pub fn of(most: usize) -> Self {
        Self::with_exchanges(most, OpenFiles::now().exchanges)
    }

    fn with_exchanges(most: usize, exchanges: usize) -> Self {
        Self { bytes: Portions::of(most, SMALL), exchanges: Portions::of(exchanges, 0) }
    }

    /// A place for one request; `None` if the party has its share and all are taken. A request of our own always has one.
    pub(super) fn exchange(&self, party: Option<Party>) -> Option<Portion> {
        let is_admitted = party.is_none_or(|party| self.exchanges.admits(party));
        is_admitted.then(|| self.exchanges.portion(party.unwrap_or(WITHOUT_PARTY)).with(1))
    }

    /// A portion for a message of a party.
    pub(super) fn portion(&self, party: Option<Party>) -> Portion {
        self.bytes.portion(party.unwrap_or(WITHOUT_PARTY))
    }
}

impl Default for ResponseBudget {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl ReceivedMessage {
    pub(super) fn new(bytes: Vec<u8>, portion: Portion) -> Self {
        Self { bytes, _portion: portion }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_with_all_requests_to_upstreams_keeps_no_other_from_its_share() {
        // Every client of every upstream has a clone.
        let (response_budget, other) =
            (ResponseBudget::with_exchanges(MOST, 8), ResponseBudget::with_exchanges(MOST, 8));
        let clone = response_budget.clone();
        let fill = |party: u64| std::iter::from_fn(|| clone.exchange(Some(Party(party)))).take(100).collect::<Vec<_>>();
        let (first, second) = (fill(1), fill(2));
        assert_eq!((first.len(), second.len()), (8, 4));
        assert!(response_budget.exchange(Some(Party(1))).is_none() && other.exchange(Some(Party(1))).is_some());
        assert!(response_budget.exchange(None).is_some(), "our own requests do not wait for clients");
        drop(first);
        assert!(response_budget.exchange(Some(Party(1))).is_some());
    }
}
