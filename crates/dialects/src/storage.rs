//! Memory for outcomes that wait for their callers: a limit that all sides of a process share.
//!
//! The driver provides a [`Storage`], which only decides whether an outcome fits. If it does not fit, the side decides
//! what happens to the outcome, and answers in its own dialect.

use gladhand_core::operations::Party;

/// A limit on the bytes that sides keep for callers that return later.
pub trait Storage: Send + Sync {
    /// Creates an empty reservation for a party. `None`: for the peer that the side serves.
    fn reserve(&self, party: Option<Party>) -> Box<dyn Reservation>;
}

gladhand_core::debug_as_name!(Storage);

/// The part of a storage that one outcome uses. Dropping it frees the bytes.
pub trait Reservation: Send {
    /// Changes the reserved size to this many bytes. If they do not fit, returns `false` and changes nothing.
    fn resize(&mut self, bytes: usize) -> bool;
}

gladhand_core::debug_as_name!(Reservation);

/// The storage of a side that shares its memory with no other side. The limits of the side itself suffice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unshared;

impl Storage for Unshared {
    fn reserve(&self, _: Option<Party>) -> Box<dyn Reservation> {
        Box::new(Self)
    }
}

impl Reservation for Unshared {
    fn resize(&mut self, _: usize) -> bool {
        true
    }
}
