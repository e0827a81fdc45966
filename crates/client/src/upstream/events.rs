//! The receiver of an upstream's notices and requests: the downstream side of a session with an upstream.

use futures_util::future::BoxFuture;
use gladhand_core::operations::{Answered, Failure, Notice, Question};

/// Receives the notices of an upstream, and answers its requests.
///
/// The upstream may send only requests for which a capability is declared in
/// [`Options::provides`](super::Options::provides).
pub trait UpstreamEvents: Send + Sync {
    /// Answers a server request. The future is dropped when the upstream cancels the request.
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        let failure = Failure::missing_capability(question.kind.capability());
        Box::pin(std::future::ready(Err(failure)))
    }

    /// Answers server requests that arrived together. The answers are in the order of the requests.
    fn ask_together(&self, questions: Vec<Question>) -> Vec<BoxFuture<'static, Answered>> {
        questions.into_iter().map(|question| self.ask(question)).collect()
    }

    /// Receives a notice. Must not block: the session processes nothing else meanwhile.
    fn notice(&self, _notice: Notice) {}
}

/// Refuses every server request, and ignores every notice.
#[derive(Debug, Clone, Copy, Default)]
pub struct IgnoreEvents;

impl UpstreamEvents for IgnoreEvents {}
