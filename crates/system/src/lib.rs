//! The clock and the random bytes of the operating system.
//!
//! Pure crates read neither: their callers read them here and pass the values. `gladhand_core::time` shows times as
//! text, and `gladhand_core::hex` shows bytes as digits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gladhand_core::{Secret, hex};

/// The time since the start of 1970. A clock before 1970 counts as 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Fills `bytes` with random ones that cannot be guessed.
///
/// # Panics
///
/// If the operating system has no random bytes, because ids and tokens that repeat would mix up sessions.
pub fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has random bytes once it has booted");
}

/// Random bytes. Panics like [`fill_random`].
pub fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    fill_random(&mut bytes);
    bytes
}

/// `BYTES` random bytes as hexadecimal digits. Panics like [`fill_random`].
pub fn random_hex<const BYTES: usize>() -> String {
    hex::encode(&random_bytes::<BYTES>())
}

/// A token of 32 random bytes, which no client has. Panics like [`fill_random`].
pub fn random_token() -> Secret {
    Secret::new(random_hex::<32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_and_tokens_differ_and_have_their_length() {
        assert_eq!((random_hex::<4>().len(), random_token().expose().len()), (8, 64));
        assert_ne!(random_bytes::<16>(), random_bytes::<16>());
    }

    #[test]
    fn the_clock_shows_a_time_after_this_test_was_written() {
        assert!(since_1970() > Duration::from_secs(1_767_225_600), "the first second of 2026");
    }
}
