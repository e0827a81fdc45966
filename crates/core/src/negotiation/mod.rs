//! Offer and offer become an agreement or a refusal, and the gate enforces it.
//!
//! Negotiation is one pure function, [`agree`], for all dialects; what differs between them (how
//! versions are chosen, which capabilities a version defines, whether an empty agreement is worth
//! having) comes in as [`Rules`]. After the opening nobody asks which dialect a peer speaks: the
//! [`Agreement`] is the only authority, and a [`Gate`] is its reading of a dialect's method table.

mod agreement;
mod gate;
mod offer;
mod refusal;

pub use agreement::{Agreement, NAMED, Stance, Term, Verdict, Why, agree};
pub use gate::{Closed, Gate, Kind, Need, Rule};
pub use offer::{Capability, Defined, Minimum, Offer, Peer, Rules, Side, VersionRule, Wants};
pub use refusal::Refusal;
