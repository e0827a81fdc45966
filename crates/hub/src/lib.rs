//! The hub: finds who answers a call, and reaches them through one trait.
//!
//! It knows providers and tools, not dialects, sockets or processes. Of sessions it knows only who is there: a
//! call comes in with its agreement, an answer goes out, now or later.

mod agent;
mod apart;
mod bell;
mod claims;
mod governed;
mod guests;
mod hub;
mod kit;
mod naming;
pub mod policy;
mod provider;
mod routes;
mod routing;
mod schema;
mod stand_ins;
mod status;
mod watched;
mod weight;

pub use agent::Agent;
pub use bell::Bell;
pub use claims::Conflict;
pub use hub::{Hub, Visit};
pub use kit::Kit;
pub use naming::{BETWEEN, Naming, Pattern};
pub use provider::{
    Answer, Askable, Asking, Bundles, Caller, Context, Features, Listed, Provider, Reporter, SessionId, Settling, Work,
};
pub use routes::{HubError, Mount};
pub use status::{HubStatus, Offence, UpstreamStatus};
