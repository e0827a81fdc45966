//! Authorization: who may come in over HTTP, and where the tokens are that get us into the servers of others.

mod admission;
mod tokens;

pub use admission::{Admission, FollowedAccess, unnamed_pass};
pub use tokens::KeptTokens;
