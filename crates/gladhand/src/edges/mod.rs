//! Where bytes, clocks, signals and processes are. Edges turn bytes into lines and actions into
//! bytes; a decision that appears here belongs further down.

mod busy_poll;
#[cfg(unix)]
pub mod control;
pub mod downstream;
pub(crate) mod excuse;
pub(crate) mod following;
pub mod http;
pub(crate) mod memory;
mod outbox;
pub(crate) mod questions;
pub(crate) mod session_log;
pub mod signals;
#[cfg(unix)]
pub(crate) mod starter;
pub mod stdio;
#[cfg(unix)]
pub(crate) mod tools;
