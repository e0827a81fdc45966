//! Turns two offers into an agreement or a refusal, and enforces the agreement with a gate.
//!
//! Negotiation is one pure function, [`agree`], for all dialects. The differences between dialects come in as
//! [`Rules`]: how a version is chosen, which capabilities a version defines, and whether an agreement without
//! capabilities is accepted. After the opening, the [`Agreement`] is the only authority: no code checks which dialect a
//! peer speaks. A [`Gate`] applies the agreement to a dialect's method table.

mod agreement;
mod gate;
mod offer;
mod refusal;

pub use agreement::{Agreement, NAMED, Stance, Term, Verdict, Why, agree};
pub use gate::{Closed, Gate, Kind, Need, Rule};
pub use offer::{Capability, Defined, Minimum, Offer, Peer, Rules, Side, VersionRule, Wants};
pub use refusal::Refusal;
