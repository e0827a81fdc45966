//! Random numbers that can be repeated.

/// Pseudo-random numbers: the same seed gives the same numbers (splitmix64). Not for secrets.
#[derive(Debug, Clone)]
pub(super) struct Random {
    seed: i64,
    state: u64,
}

impl Random {
    /// Starts from the seed, or from a random seed that every JSON implementation can represent.
    pub(super) fn of(seed: Option<i64>) -> Self {
        let seed = seed.unwrap_or_else(|| {
            let mut bytes = [0; 4];
            // Without randomness every episode is the same, which does no harm.
            let _ = getrandom::fill(&mut bytes);
            i64::from(u32::from_le_bytes(bytes))
        });
        Self { seed, state: seed.cast_unsigned() }
    }

    /// The seed.
    pub(super) fn seed(&self) -> i64 {
        self.seed
    }

    /// A number below `end`, which is not zero.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}
