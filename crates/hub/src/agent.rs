//! The agent: the one provider that is not found by a name.

use std::fmt;

use gladhand_core::operations::AgentCall;

use crate::provider::{Answer, Context};

/// Holds conversations with models.
///
/// Calls arrive in the order in which their caller sent them, and what one changes is seen by all later ones: an
/// implementation does that part before it returns, and leaves the rest to the answer's work. What happens goes to
/// whoever follows through [`Caller::event`](crate::Caller::event); what is told before `ask` returns, or before the work
/// ends, is written before the answer.
pub trait Agent: fmt::Debug + Send + Sync {
    /// Answers with [`Reply::Agent`](gladhand_core::operations::Reply::Agent).
    fn ask(&self, call: AgentCall<'_>, context: &Context<'_>) -> Answer;

    /// If it is not ready yet: ends when it is. What it is asked before takes longer, and keeps no order.
    fn settling(&self) -> Option<crate::Settling> {
        None
    }

    /// A session with a downstream has ended.
    fn left(&self, session: crate::SessionId);

    /// Everything ends: ends when what is worth keeping is kept and nothing that it started is left.
    fn closing(&self) -> crate::Settling;
}
