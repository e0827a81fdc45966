//! Times and random names, as reports and files have them.

use std::io;

/// Now, as reports show it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Milliseconds since 1970.
pub(crate) fn milliseconds() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Some random hexadecimal digits, at most sixteen.
pub(crate) fn random_hex(digits: usize) -> io::Result<String> {
    let mut bits = [0; 8];
    getrandom::fill(&mut bits).map_err(io::Error::other)?;
    let mut hex = format!("{:016x}", u64::from_ne_bytes(bits));
    hex.truncate(digits);
    Ok(hex)
}
