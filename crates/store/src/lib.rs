//! What Gladhand keeps on this machine between runs. For now that is secrets.
//!
//! Everything here blocks for the time of a small file at most, and knows nothing of dialects, sessions or commands: where
//! things are kept, and with which passphrase, comes in from above.

mod secrets;

pub use secrets::{Keeper, Places, SecretError, Secrets};
