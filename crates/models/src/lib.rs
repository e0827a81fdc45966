//! Language models on the wire: the contract between the agent and whoever has models, and the services that do.
//!
//! Each service has a client of its own, because the exact texts, retries and shapes are part of what people see. They
//! share how a request is made ([`Web`]), who pays for it ([`Credential`]), and how a reply is heard piece by piece.
//! Nothing here keeps a conversation: a round comes in whole and goes out whole.

mod anthropic;
mod antigravity;
mod catalogue;
mod chat;
mod contract;
mod credential;
mod events;
mod exchange;
mod local;
mod openai;
mod said;
mod told;
mod values;
mod web;

#[cfg(feature = "scripted")]
pub mod scripted;

pub use anthropic::Anthropic;
pub use antigravity::{Antigravity, Quota};
pub use chat::{Compatible, OpenRouter};
pub use contract::{
    Heard, Listener, ModelError, ModelOption, Models, Piece, Round, Said, Segment, Thinking, ToolOffer, Usage,
    WantedCall,
};
pub use credential::Credential;
pub use local::{Candidate, LOCAL_SERVERS, detect};
pub use openai::{Account, OpenAi};
pub use web::{Clock, Identity, Timeouts, Web};
