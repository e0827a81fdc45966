//! The downstream side of a session with an upstream.

use futures_util::future::BoxFuture;
use gladhand_core::operations::{Answered, Failure, Notice, Question};

/// Hears what an upstream says, and answers what it asks.
///
/// Only what was declared in [`Options::provides`](super::Options::provides) is ever asked.
pub trait Host: Send + Sync {
    /// Answers a question. It is dropped when the upstream does not want to know any more.
    fn ask(&self, question: Question) -> BoxFuture<'static, Answered> {
        let failure = Failure::missing_capability(question.kind.capability());
        Box::pin(std::future::ready(Err(failure)))
    }

    /// Answers questions that were asked together, in their order.
    fn ask_together(&self, questions: Vec<Question>) -> Vec<BoxFuture<'static, Answered>> {
        questions.into_iter().map(|question| self.ask(question)).collect()
    }

    /// Hears a notice. Must not block: nothing else is heard meanwhile.
    fn notice(&self, _notice: Notice) {}
}

/// A host that answers nothing and listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Host for Alone {}
