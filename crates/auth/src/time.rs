//! The system clock.

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    gladhand_system::since_1970().as_secs()
}
