//! The real clock and the real dice, for state machines that have neither.

use std::time::{Duration, Instant};

use gladhand_dialects::{Ambient, Entropy, Moment};

/// How many draws are fetched from the operating system at once.
const POOL: usize = 16;

/// Measures a session's time and makes its identifiers.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    now: Moment,
    pool: Pool,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let pool = Pool { bytes: [0; 16 * POOL], left: 0 };
        let mut clock = Self { started: Instant::now(), now: Moment::default(), pool };
        clock.tick();
        clock
    }

    /// Looks at the time. Between two ticks it stands still: a batch of lines needs one look.
    pub fn tick(&mut self) {
        self.now = Moment { elapsed: self.started.elapsed(), unix: gladhand_system::since_1970() };
    }

    /// The time at the last tick.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// The inputs of a state machine for one step.
    pub fn ambient(&mut self) -> Ambient<'_> {
        Ambient::new(self.now, &mut self.pool)
    }

    /// A moment of the session's time on the runtime's clock.
    pub fn instant(&self, elapsed: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + elapsed)
    }
}

#[derive(Debug)]
struct Pool {
    bytes: [u8; 16 * POOL],
    left: usize,
}

impl Entropy for Pool {
    fn bits(&mut self) -> u128 {
        if self.left == 0 {
            gladhand_system::fill_random(&mut self.bytes);
            self.left = POOL;
        }
        self.left -= 1;
        let mut draw = [0; 16];
        draw.copy_from_slice(&self.bytes[self.left * 16..][..16]);
        u128::from_ne_bytes(draw)
    }
}
