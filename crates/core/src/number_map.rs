//! Maps with numbers as keys that this program counts itself.
//!
//! The hasher of the standard library resists keys that a peer chooses so that they collide, and costs more than the rest
//! of the lookup. A number that this program counts needs no such protection. A key that a peer chooses may be looked up
//! here, and must never be inserted.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers that this program counts.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Spreads a number over all bits of the hash.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumberHasher(u64);

/// An odd number without a pattern in its bits: 2⁶⁴ divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(SPREAD);
        // The low half of a product depends only on the low bits of the number.
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, Hash};

    use super::*;

    /// How many of 128 groups the hashes reach, by their lowest and by their highest bits.
    fn groups(keys: impl Iterator<Item = impl Hash>) -> (usize, usize) {
        let hashes: Vec<_> = keys.map(|key| BuildHasherDefault::<NumberHasher>::default().hash_one(key)).collect();
        let groups = |of: fn(&u64) -> u64| hashes.iter().map(of).collect::<HashSet<_>>().len();
        (groups(|hash| hash & 127), groups(|hash| hash >> 57))
    }

    #[test]
    fn numbers_in_a_row_and_numbers_with_equal_low_bits_are_spread() {
        for (low, high) in [groups(0..1024_u64), groups((0..1024_u64).map(|number| number << 32))] {
            assert!(low > 64 && high > 64, "{low} {high}");
        }
    }
}
