//! Time and identity, handed in: nothing below the effects line fetches them itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use gladhand_core::operations::Party;

use crate::side::Lane;

/// A moment, on both clocks that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment {
    /// Since this side of the session began; never goes backwards. Deadlines are on this clock.
    pub elapsed: Duration,
    /// Since 1970, for timestamps on the wire.
    pub unix: Duration,
}

impl Moment {
    /// Seconds since 1970 with a fraction, as A2E writes them.
    pub fn unix_seconds(&self) -> f64 {
        self.unix.as_micros() as f64 / 1e6
    }

    /// `2026-01-01T00:00:00.000Z`, as loaf writes it.
    pub fn iso_millis(&self) -> String {
        let millis = i64::try_from(self.unix.as_millis()).unwrap_or(i64::MAX);
        let timestamp = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
        timestamp.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
    }
}

/// Where random bits come from.
pub trait Entropy {
    /// 128 fresh bits.
    fn bits(&mut self) -> u128;
}

/// What a state machine needs of the outside world while it takes one step.
pub struct Ambient<'e> {
    /// Now.
    pub now: Moment,
    /// For identifiers.
    pub entropy: &'e mut dyn Entropy,
    /// The way on which what is handed in came.
    pub lane: Lane,
    /// Who the peer has proved to be, where the transport knows.
    pub principal: Option<&'e str>,
    /// The scopes of what is handed in, separated by spaces, where the transport knows.
    pub scopes: Option<Arc<str>>,
    /// Whose share it takes, where the side serves more than one peer.
    pub party: Option<Party>,
}

impl<'e> Ambient<'e> {
    /// For a step on the only way there is, by nobody in particular.
    pub fn new(now: Moment, entropy: &'e mut dyn Entropy) -> Self {
        Self { now, entropy, lane: Lane::MAIN, principal: None, scopes: None, party: None }
    }
}

impl Ambient<'_> {
    /// 32 lowercase hex digits, as A2E's reference makes its ids.
    pub fn hex_id(&mut self) -> String {
        format!("{:032x}", self.entropy.bits())
    }

    /// A version-4 UUID in lower case.
    pub fn uuid(&mut self) -> String {
        let bits = self.entropy.bits() & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
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
