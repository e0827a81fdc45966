//! Language models on the wire: the interface between the agent and model providers, and a client for each service.
//!
//! The table of providers ([`Provider`]) lists all services. Each service has its own client, because users see the exact texts, retries and data. The clients share how a
//! request is sent ([`Web`]), how it is authenticated ([`Credential`]), and how a reply is read piece by piece.
//! This crate stores no conversation: each round contains all of it.

mod anthropic;
mod antigravity;
mod catalogue;
mod chat;
mod contract;
mod credential;
mod debug_fields;
mod embedded;
mod events;
mod exchange;
mod local_server;
mod openai;
mod provider;
mod request_parts;
mod service;
mod web;

#[cfg(feature = "scripted")]
pub mod scripted;

pub use anthropic::Anthropic;
pub use antigravity::{Antigravity, Quota};
pub use chat::{Compatible, OpenRouter};
pub use contract::{
    HistoryItem, Listener, ModelError, ModelOption, Models, Piece, Round, RoundResult, Segment, Thinking, ToolOffer,
    Usage, WantedCall,
};
pub use credential::Credential;
pub use local_server::detect;
pub use openai::{Account, OpenAi};
pub use provider::{ActiveLogin, Connection, KeyInfo, Login, Provider, ProviderInfo, Requirement, alternatives};
pub use web::{Clock, Identity, Timeouts, Web};
