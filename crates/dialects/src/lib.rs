//! The dialects, both sides of each, as state machines that can be tested in memory.
//!
//! A dialect knows only itself and the neutral model. No dialect names another: bridging works because all dialects use
//! `operations` and `negotiation`. This crate does no I/O, reads no clock, draws no random number and logs no payload.
//! Time and randomness come in as [`Ambient`]. A new dialect is one folder and one line in [`REGISTRY`].

pub mod a2e;
mod absence;
pub mod ambient;
pub mod door;
pub mod fluxloop;
pub mod loaf;
pub mod mcp;
mod outgoing_requests;
mod rule_violation;
pub mod shares;
pub mod side;
mod speak;
pub mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use absence::{Absence, absent, versions_with};
pub use ambient::{Ambient, Entropy, Moment, Party};
pub use door::{Door, Opening, dialect_of_line};
pub use rule_violation::RuleViolation;
pub use side::{
    Action, CacheHints, Claim, Client, ClientSetup, Declared, Declined, Dialect, Event, FirstLine, Heard, Lane, Loss,
    Menu, Output, Pass, Posting, PostingEffect, Server, ServerSetup, Stop, TASKS_EXTENSION, Unagreed, askable, carried,
    carried_name, is_askable, is_passed_on, passed_on,
};
pub use speak::Speak;

/// Maximum number of tools in the list of an upstream, in any dialect.
const MAX_TOOLS: usize = 10_000;

/// All dialects. The order matters only between claims of equal strength.
pub static REGISTRY: &[&Dialect] = &[&mcp::DIALECT, &loaf::DIALECT, &a2e::DIALECT, &fluxloop::DIALECT];
