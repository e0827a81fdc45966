//! The dialects, both sides of each, as state machines that a test can hold in its hand.
//!
//! A dialect knows only itself and the neutral model: no dialect names another, and bridging
//! happens because both sides meet in `operations` and `accord`. Nothing here does I/O, reads a
//! clock, draws a random number or logs a payload; what is needed of those comes in as
//! [`Ambient`]. A new dialect is one folder and one line in [`REGISTRY`].

pub mod a2e;
mod absence;
pub mod ambient;
mod breach;
pub mod door;
pub mod fluxloop;
pub mod loaf;
pub mod mcp;
pub mod shares;
pub mod side;
pub mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use absence::{Absence, absent, versions_with};
pub use ambient::{Ambient, Entropy, Moment, Party};
pub use breach::Breach;
pub use door::Door;
pub use side::{
    Action, CacheHints, Claim, Client, ClientSetup, Declared, Declined, Dialect, Event, FirstLine, Heard, Lane, Loss,
    Menu, Output, Pass, Server, ServerSetup, Stop, TASKS_EXTENSION, Unagreed, askable, carried, carried_name,
    is_askable, is_passed_on, passed_on,
};

/// How many tools the list of an upstream may have, in any dialect.
const MAX_TOOLS: usize = 10_000;

/// All dialects. Order matters only between claims of equal strength.
pub static REGISTRY: &[&Dialect] = &[&mcp::DIALECT, &loaf::DIALECT, &a2e::DIALECT, &fluxloop::DIALECT];
