//! Data that Gladhand keeps on this machine between runs: secrets, and a database for data that outlives sessions.
//!
//! Other crates also replace their own files with it.
//!
//! All functions block, but only for a small file or a few rows. This crate knows nothing of dialects, sessions or
//! commands: callers pass in the folders and the passphrase.

mod database;
pub mod files;
mod guards;
mod regular;
mod secrets;

pub use database::{Database, DatabaseError, DatabaseProblem};
pub use files::{NewFile, make_folder, replace_content, replace_private, replace_private_synced};
pub use regular::{MAX_STATE_BYTES, open_regular, read_regular, read_state};
pub use secrets::{KeyLocation, SecretError, SecretLocations, Secrets};
