//! Memory for answers that arrive from HTTP upstreams: a bound over all calls, shared by parties.

use std::sync::Arc;

use gladhand_core::operations::Party;
use gladhand_hub::{Portion, Portions};

/// How many bytes of answers may have arrived that the session has not read.
const MOST: usize = 256 * 1024 * 1024;

/// What is shorter counts for all, and not for its party.
const SMALL: usize = 64 * 1024;

/// Whose share an answer takes that belongs to no party: of our own requests, or of the only client.
const WITHOUT_PARTY: Party = Party(0);

/// A bound on answers that arrive. Clones share it.
#[derive(Debug, Clone)]
pub struct Arriving(Arc<Portions>);

/// A message that arrived. It takes its part of the bound until it is dropped.
#[derive(Debug)]
pub struct Arrived {
    /// Its text.
    pub bytes: Vec<u8>,
    _portion: Portion,
}

impl Arriving {
    /// A bound of so many bytes.
    pub fn of(most: usize) -> Self {
        Self(Portions::of(most, SMALL))
    }

    /// A portion for a message of a party.
    pub(super) fn portion(&self, party: Option<Party>) -> Portion {
        self.0.portion(party.unwrap_or(WITHOUT_PARTY))
    }
}

impl Default for Arriving {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl Arrived {
    pub(super) fn new(bytes: Vec<u8>, portion: Portion) -> Self {
        Self { bytes, _portion: portion }
    }
}
