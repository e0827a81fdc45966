//! A call in a session that no handle serves, for a caller that only looks at a server.

use gladhand_core::operations::{Call, CallId, Failure, FailureKind, Operation, Outcome};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{Command, Driver};

impl Driver {
    /// Makes a call while there are no handles. No other call may be under way. A caller that drops the future must end the
    /// session.
    pub(in crate::upstream) async fn call_alone(&mut self, operation: Operation<'static>) -> Outcome {
        let (reply, mut outcome) = oneshot::channel();
        let call = Call::new(CallId(1), operation);
        self.call(Command { call, caller: None, events: None, expires: None, reply });
        loop {
            match outcome.try_recv() {
                Ok(outcome) => return outcome,
                Err(TryRecvError::Empty) if !self.is_gone => self.handle_next().await,
                Err(_) => return Err(Failure::new(FailureKind::UpstreamLost, "the server ended the session")),
            }
        }
    }
}
