//! Memory for outcomes that wait for their callers: a bound that all sides of a process share.
//!
//! The edge hands in a [`Storage`] and only says whether there is room. A side decides what becomes of an outcome that has
//! no room, and answers it in its own dialect.

use std::fmt;

use gladhand_core::operations::Party;

/// A bound on the bytes that sides keep for callers that come back.
pub trait Storage: fmt::Debug + Send + Sync {
    /// A place without any bytes, for a party; `None`: for the peer that the side serves.
    fn place(&self, party: Option<Party>) -> Box<dyn Place>;
}

/// The part of a storage that one outcome takes. Dropping it gives the part back.
pub trait Place: fmt::Debug + Send {
    /// Takes this many bytes instead of those that it has. Without room it changes nothing and returns `false`.
    fn resize(&mut self, bytes: usize) -> bool;
}

/// The storage of a side that shares its memory with no other, where the bounds of the side itself suffice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unshared;

impl Storage for Unshared {
    fn place(&self, _: Option<Party>) -> Box<dyn Place> {
        Box::new(Self)
    }
}

impl Place for Unshared {
    fn resize(&mut self, _: usize) -> bool {
        true
    }
}
