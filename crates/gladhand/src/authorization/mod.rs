//! Authorization: who may come in over HTTP, and where the tokens are that get us into the servers of others.

mod tokens;

pub use gladhand_server::access::{Access, Admission, unnamed_pass};
pub use tokens::KeptTokens;
