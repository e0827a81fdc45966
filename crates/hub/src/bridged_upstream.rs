//! The upstream that a service stands in for.

use gladhand_core::negotiation::Peer;
use gladhand_core::operations::Failure;

/// The single upstream behind a bridge. The service introduces itself with the identity of this upstream.
pub trait Represented: Send + Sync {
    /// The identity and the instructions of the upstream, if known.
    fn introduction(&self) -> Option<(Peer, Option<String>)>;

    /// Why the upstream is unavailable: it could not be opened, and its lists are unknown.
    fn outage(&self) -> Option<Failure>;
}

gladhand_core::debug_as_name!(Represented);
