//! Time, randomness and identity as inputs: the pure layers never obtain them on their own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::hex;
pub use gladhand_core::operations::Party;
use gladhand_core::time::Utc;

use crate::side::Lane;

/// A point in time, on a monotonic clock and on the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment {
    /// Time since this side of the session was created. It never decreases. Deadlines use this clock.
    pub elapsed: Duration,
    /// Time since 1970, for timestamps on the wire.
    pub unix: Duration,
}

impl Moment {
    /// Seconds since 1970 with a fraction, in A2E's format.
    pub fn unix_seconds(&self) -> f64 {
        self.unix.as_micros() as f64 / 1e6
    }

    /// `2026-01-01T00:00:00.000Z`, in loaf's format.
    pub fn iso_millis(&self) -> String {
        Utc::since_1970(self.unix).to_string()
    }
}

/// A source of random bits.
pub trait Entropy {
    /// Returns 128 new random bits.
    fn bits(&mut self) -> u128;
}

/// The external values that a state machine needs for one step.
pub struct Ambient<'e> {
    /// The current time.
    pub now: Moment,
    /// Randomness for identifiers.
    pub entropy: &'e mut dyn Entropy,
    /// The lane on which the input arrived.
    pub lane: Lane,
    /// The authenticated principal of the peer, if the transport knows it.
    pub principal: Option<&'e str>,
    /// The scopes of the input, separated by spaces, if the transport knows them.
    pub scopes: Option<Arc<str>>,
    /// The party whose share the input uses, if the side serves more than one peer.
    pub party: Option<Party>,
}

impl<'e> Ambient<'e> {
    /// For a step on the main lane, without an authenticated peer.
    pub fn new(now: Moment, entropy: &'e mut dyn Entropy) -> Self {
        Self { now, entropy, lane: Lane::MAIN, principal: None, scopes: None, party: None }
    }
}

impl Ambient<'_> {
    /// 32 lowercase hex digits, like the ids of the A2E reference.
    pub fn hex_id(&mut self) -> String {
        hex::encode(&self.entropy.bits().to_be_bytes())
    }

    /// A version-4 UUID in lowercase.
    pub fn uuid(&mut self) -> String {
        hex::uuid(self.entropy.bits().to_be_bytes())
    }
}

impl fmt::Debug for Ambient<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ambient").field("now", &self.now).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u128);
    impl Entropy for Fixed {
        fn bits(&mut self) -> u128 {
            self.0
        }
    }

    #[test]
    fn ids_and_times_have_the_shapes_that_peers_expect() {
        let now = Moment { unix: Duration::from_millis(1_767_225_600_007), ..Moment::default() };
        assert_eq!(now.iso_millis(), "2026-01-01T00:00:00.007Z");
        assert_eq!(now.unix_seconds(), 1_767_225_600.007);
        let (mut ones, mut zeros) = (Fixed(u128::MAX), Fixed(0));
        let mut ambient = Ambient::new(now, &mut ones);
        assert_eq!(ambient.hex_id(), "f".repeat(32));
        assert_eq!(ambient.uuid(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let mut ambient = Ambient::new(now, &mut zeros);
        assert_eq!(ambient.uuid(), "00000000-0000-4000-8000-000000000000");
    }
}
