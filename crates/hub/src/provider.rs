//! Who answers calls, and what they are given to do it with.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use gladhand_accord::Agreement;
use gladhand_operations::{CallId, Log, Notice, Outcome, Progress, Tool, ToolCall};
use tokio::sync::mpsc::Sender;

/// Somebody who answers tool calls: the toolbox, an upstream, a capability with state.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Its tools, in the order in which they are to be shown.
    fn tools(&self) -> Vec<Tool>;

    /// Answers a call of one of its tools.
    ///
    /// What can be answered without waiting is answered at once ([`Answer::Now`]): it costs no task
    /// and no allocation. The future of [`Answer::Later`] is dropped when the call is cancelled.
    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer;
}

/// Work that goes on after [`Provider::call`] returned. Dropping it cancels it.
pub type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The answer to a call.
pub enum Answer {
    /// Here it is.
    Now(Outcome),
    /// It takes a while.
    Later(Work),
}

impl Answer {
    /// Work that takes a while.
    pub fn later(work: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Later(Box::pin(work))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(outcome) => f.debug_tuple("Now").field(outcome).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// What a provider may know of a call besides its arguments.
#[derive(Debug)]
pub struct Context<'c> {
    /// The call's name on this side.
    pub call: CallId,
    /// What was agreed with the caller.
    pub agreement: &'c Arc<Agreement>,
    /// Where notices go.
    pub notices: &'c Sender<Notice>,
}

impl Context<'_> {
    /// Something to report with while the work goes on.
    pub fn reporter(&self) -> Reporter {
        Reporter { call: self.call, notices: self.notices.clone() }
    }
}

/// Tells the caller how its call is going.
///
/// Reports are best effort: when the downstream does not read, they are dropped rather than queued.
#[derive(Debug, Clone)]
pub struct Reporter {
    call: CallId,
    notices: Sender<Notice>,
}

impl Reporter {
    /// Reports progress.
    pub fn progress(&self, progress: Progress) {
        let _ = self.notices.try_send(Notice::Progress(self.call, progress));
    }

    /// Writes a log line.
    pub fn log(&self, log: Log) {
        let _ = self.notices.try_send(Notice::Log(Some(self.call), log));
    }
}
