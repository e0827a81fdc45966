//! Agent sessions: turns, queue, steering, history, compaction, skills.
//!
//! A conversation is a state machine without I/O (`session`). The driver (`driver`) performs its effects with
//! models, tools and files, and `accounts` manages credentials. This crate knows no dialect and no socket: callers
//! use [`gladhand_hub::Agent`].

mod account_service;
pub mod accounts;
mod chats;
mod driver;
mod images;
mod instructions;
mod moment;
mod payloads;
mod session;
mod skills;
mod text;

pub use account_service::{AccountService, AccountSnapshot, Changed};
pub use driver::{AgentSettings, Conversations, LivePolicy, Policy, Rule};
pub use moment::Moment;
pub use skills::{ProjectSkills, TrustedFiles, project_skills};
