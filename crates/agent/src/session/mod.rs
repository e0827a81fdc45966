//! One conversation as a state machine.
//!
//! It receives one input at a time (a client request, the result of a job) and returns effects: send this event,
//! write this file, run this job. It never waits, reads no clock, draws no random number and touches no file. The
//! [`StepContext`] supplies what it needs of those.
//!
//! A busy session always waits for exactly one thing: the result of the last job, or a decision about a tool call.
//! The driver delivers that result exactly once, even if the turn is stopped meanwhile.

pub(crate) mod approval;
mod bounds;
mod calls;
mod compaction;
mod ending;
mod history;
#[cfg(test)]
mod properties;
mod requests;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod turn;
mod window;

pub(crate) use calls::{ToolIdentity, Verdict, Wanted};
pub(crate) use history::{RequestSizes, ToolTotals, text_tokens};
pub(crate) use requests::Prompt;
pub(crate) use state::Session;
pub(crate) use step::{Chat, ChatFile, Effect, Entry, Job, NotReady, Prepared, StepContext, Target};
pub(crate) use window::window_of;
