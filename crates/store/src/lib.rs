//! What Gladhand keeps on this machine between runs: secrets, and the database of what outlives sessions.
//!
//! Everything here blocks for the time of a small file or of a few rows, and knows nothing of dialects, sessions or
//! commands: where things are kept, and with which passphrase, comes in from above.

mod database;
mod secrets;

pub use database::{Database, DatabaseError, Trouble};
pub use secrets::{Keeper, Places, SecretError, Secrets, make_folder};
