//! Times and random names in reports and files.

use std::io;

/// The current time, as in reports.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Milliseconds since 1970.
pub(crate) fn milliseconds() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Random hexadecimal digits, at most sixteen.
pub(crate) fn random_hex(digits: usize) -> io::Result<String> {
    let mut bits = [0; 8];
    getrandom::fill(&mut bits).map_err(io::Error::other)?;
    let mut hex = format!("{:016x}", u64::from_ne_bytes(bits));
    hex.truncate(digits);
    Ok(hex)
}
