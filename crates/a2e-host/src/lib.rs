//! The capabilities of A2E other than tools, each a provider behind the hub.
//!
//! A capability reads the messages of its namespace and returns the members of the responses. The dialect has checked
//! the types of the members and writes the envelope. Data of a session is dropped with the session; data that outlives
//! sessions is in the database.

pub mod chains;
pub mod clock;
pub mod env;
pub mod grants;
pub mod learning;
pub mod memory;
pub mod multi_agent;
pub mod owner;
pub mod planning;
pub mod proc;
pub mod roots;
mod session_values;
pub mod skill;
pub mod starting;
pub mod storage;
pub mod toolkits;

use gladhand_core::hex;
use gladhand_core::operations::{Outcome, Reply};
use gladhand_core::wire::json;
use serde::{Deserialize, Deserializer};

/// Makes a reply from its members.
pub(crate) fn reply<T: serde::Serialize + ?Sized>(members: &T) -> Outcome {
    Ok(Reply::Capability(json::to_raw(members)))
}

/// Seconds since 1970, with fractions: the unit of all times in A2E.
pub(crate) fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// A random id of `BYTES` bytes, as hexadecimal digits.
pub(crate) fn hex_id<const BYTES: usize>() -> String {
    hex::encode(&random_bytes::<BYTES>())
}

/// Random bytes. Panics if the system has none, because ids that repeat would mix up the data of sessions. The hub
/// turns the panic into a failure of the call.
pub(crate) fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes once it has booted");
    bytes
}

/// Reads an integer that may be written as `5.0`, for `#[serde(deserialize_with)]`.
pub(crate) fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Whole(i64),
        Fraction(f64),
    }
    Ok(match Written::deserialize(from)? {
        Written::Whole(number) => number,
        Written::Fraction(number) => number as i64,
    })
}
