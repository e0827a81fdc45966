//! The agent: the only provider that is not found by a name.

use gladhand_core::operations::AgentCall;

use crate::provider::{Answer, Context};

/// Holds conversations with models.
///
/// Calls arrive in the order in which their caller sent them, and the effect of one is visible to all later ones. To
/// guarantee that, an implementation changes its state before it returns, and leaves the rest to the answer's work.
/// Events go through [`Caller::event`](crate::Caller::event) to the sessions that follow the conversation. An event
/// that is sent before `ask` returns, or before the work ends, is written before the response.
pub trait Agent: Send + Sync {
    /// Answers with [`Reply::Agent`](gladhand_core::operations::Reply::Agent).
    fn ask(&self, call: AgentCall<'_>, context: &Context<'_>) -> Answer;

    /// If the agent is not ready yet: a future that ends when it is. Calls before that take longer, and are not
    /// ordered.
    fn settling(&self) -> Option<crate::Settling> {
        None
    }

    /// A session with a downstream has ended.
    fn left(&self, session: crate::SessionId);

    /// Shutdown: a future that ends when the agent has saved its state and everything that it started has ended.
    fn closing(&self) -> crate::Settling;
}

gladhand_core::debug_as_name!(Agent);
