//! The hub: finds who answers a call, and reaches them through one trait.
//!
//! It knows providers and tools, not dialects, sockets or processes. It holds no session state: a
//! call comes in with its agreement, an answer goes out, now or later.

mod bell;
mod kit;
mod provider;
mod routes;
mod schema;
mod weight;

pub use bell::Bell;
pub use kit::Kit;
pub use provider::{Answer, Asking, Caller, Context, Features, Provider, Reporter, Work};
pub use routes::{Hub, HubError};
