//! One conversation as a state machine.
//!
//! It is fed one thing at a time (what a client asks, what a job brought) and answers with effects: tell this, write this
//! down, do this job. It never waits, reads no clock, draws no random number and touches no file: what it needs of those
//! comes in with the [`Scene`].
//!
//! A session that is busy always waits for exactly one thing: the outcome of the one job that it asked for last, or a
//! decision about a tool. The driver brings that outcome back exactly once, whatever happens meanwhile.

pub(crate) mod approval;
mod asked;
mod bounds;
mod calls;
mod compaction;
mod ending;
mod history;
#[cfg(test)]
mod properties;
mod scene;
mod state;
#[cfg(test)]
mod tests;
mod turn;
mod window;

pub(crate) use asked::Prompt;
pub(crate) use calls::{ToolIdentity, Verdict, Wanted};
pub(crate) use history::{Scales, ToolTotals, text_tokens};
pub(crate) use scene::{Chat, ChatFile, Effect, Entry, Job, NotReady, Prepared, Scene, Target};
pub(crate) use state::Session;
pub(crate) use window::window_of;
