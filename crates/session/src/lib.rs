//! Code that sessions with downstreams and sessions with upstreams share.
//!
//! - [`clock`] gives the state machines of the dialects their time and their random numbers.
//! - [`tap`] lets listeners observe every frame of every session.
//! - [`violations`] finds the rules that a peer broke in a step, and reports them to the hub's policy.

pub mod clock;
mod exchange;
pub mod tap;
pub mod violations;
