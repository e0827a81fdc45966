//! Where bytes, clocks, signals and processes are. Edges turn bytes into lines and actions into
//! bytes; a decision that appears here belongs further down.

mod busy_poll;
pub mod child;
pub mod child_lines;
pub mod child_log;
pub mod clock;
#[cfg(unix)]
pub mod control;
pub mod downstream;
pub(crate) mod excuse;
pub(crate) mod following;
pub mod http;
pub mod http_client;
#[cfg(unix)]
pub mod leash;
#[cfg(unix)]
mod leashed;
pub(crate) mod memory;
pub(crate) mod open_files;
mod outbox;
pub(crate) mod questions;
pub(crate) mod session_log;
pub mod signals;
#[cfg(unix)]
pub(crate) mod starter;
pub mod stdio;
pub mod surroundings;
#[cfg(unix)]
pub(crate) mod tools;
pub(crate) mod violations;
