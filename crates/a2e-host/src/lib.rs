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

use gladhand_core::operations::{Outcome, Reply};
use gladhand_core::wire::json;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer};

/// Makes a reply from its members.
pub(crate) fn reply<T: serde::Serialize + ?Sized>(members: &T) -> Outcome {
    Ok(Reply::Capability(json::to_raw(members)))
}

/// Seconds since 1970, with fractions: the unit of all times in A2E.
pub(crate) fn now() -> f64 {
    gladhand_system::since_1970().as_secs_f64()
}

/// The SHA-256 hash of these parts, one after the other.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Context::new(&SHA256);
    parts.iter().for_each(|part| hash.update(part));
    hash.finish().as_ref().try_into().expect("a SHA-256 hash has 32 bytes")
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
