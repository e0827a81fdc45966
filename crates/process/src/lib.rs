//! Child processes: how they are started, how their lines are read and written, and how they end.
//!
//! - [`child`] is a child process with its channels; [`child_lines`] reads and writes its lines.
//! - [`child_log`] forwards the stderr of a child to our log.
//! - [`leash`] is the supervisor process between us and a child; [`leashed`] is our end of it.
//! - [`open_files`] divides the open files of this process.
//! - `signals` gives each started program the default action for every signal.
//! - [`starting`] starts the programs of providers, on a leash or without one.
//! - [`surroundings`] is the folder and the environment of a child.
//!
//! This crate knows no dialect and no provider.

pub mod child;
pub mod child_lines;
pub mod child_log;
#[cfg(unix)]
pub mod leash;
#[cfg(unix)]
pub mod leashed;
pub mod open_files;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
pub mod starting;
pub mod surroundings;
