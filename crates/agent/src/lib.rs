//! Agent sessions: turns, queue, steering, history, compaction, skills.
//!
//! A conversation is a state machine without I/O (`session`); a driver does what it asks for, with models, tools and files
//! (`driver`), and with accounts (`accounts`). Nothing here knows a dialect or a socket: the agent is asked through [`gladhand_hub::Agent`].

pub mod accounts;
mod chats;
mod desk;
mod driver;
mod images;
mod instructions;
mod moment;
mod payloads;
mod session;
mod skills;
mod text;

pub use desk::{Changed, Desk, Standing};
pub use driver::{AgentSettings, Conversations, LivePolicy, Policy, Rule};
pub use moment::Moment;
pub use skills::{TrustedFiles, project_skills};
