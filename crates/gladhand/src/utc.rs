//! The current time as text.

use gladhand_core::time::Utc;

/// The current time, as in `2026-07-28T12:34:56.789Z`.
pub(crate) fn now() -> String {
    Utc::since_1970(gladhand_system::since_1970()).to_string()
}
