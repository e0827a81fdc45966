//! Times and random names in reports and files.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gladhand_core::hex;
use gladhand_core::time::Utc;

/// The current time, as in reports.
pub(crate) fn now() -> String {
    Utc::since_1970(since_1970()).to_string()
}

/// Milliseconds since 1970.
pub(crate) fn milliseconds() -> u128 {
    since_1970().as_millis()
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Random hexadecimal digits, at most sixteen.
pub(crate) fn random_hex(digits: usize) -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let mut hex = hex::encode(&bytes);
    hex.truncate(digits);
    Ok(hex)
}
