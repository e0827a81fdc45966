//! Authorization: who may come in over HTTP, and where the tokens are that get us into the servers of others.

mod access;
mod tokens;

pub use access::{Access, Admission, unnamed_pass};
pub use tokens::KeptTokens;
