//! The current time as text.

use std::time::{SystemTime, UNIX_EPOCH};

use gladhand_core::time::Utc;

/// The current time, as in `2026-07-28T12:34:56.789Z`.
pub(crate) fn now() -> String {
    Utc::since_1970(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).to_string()
}
