//! Agent sessions: turns, queue, steering, history, compaction, skills.
//!
//! A conversation is a state machine without I/O (`session`); a driver does what it asks for, with models, tools and files
//! (`driver`). Nothing here knows a dialect or a socket: the agent is asked through [`gladhand_hub::Agent`].

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

pub use desk::{Changed, Chosen, Desk, Standing, Tell};
pub use driver::{AgentSettings, Conversations, Policy, Rule};
pub use moment::Moment;
