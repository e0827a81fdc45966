//! Times in reports and file names.

use gladhand_core::time::Utc;
use gladhand_system::since_1970;

/// The current time, as in reports.
pub(crate) fn now() -> String {
    Utc::since_1970(since_1970()).to_string()
}

/// Milliseconds since 1970.
pub(crate) fn milliseconds() -> u128 {
    since_1970().as_millis()
}
