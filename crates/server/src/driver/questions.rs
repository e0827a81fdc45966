//! Questions to one peer that wait for their answers.

use std::collections::HashMap;

use gladhand_core::operations::{Answered, Question, QuestionId};
use gladhand_hub::Asking;
use tokio::sync::oneshot;

/// Where the answers to questions go.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: HashMap<QuestionId, oneshot::Sender<Answered>>,
    asked: u64,
}

impl Questions {
    /// Numbers questions that are about to be put to the peer, and keeps where their answers go.
    pub(crate) fn number(&mut self, questions: Vec<Asking>) -> Vec<(QuestionId, Question)> {
        // Removes questions whose asker has stopped waiting.
        self.open.retain(|_, answer| !answer.is_closed());
        let mut numbered = Vec::with_capacity(questions.len());
        for Asking { question, answer } in questions {
            self.asked += 1;
            self.open.insert(QuestionId(self.asked), answer);
            numbered.push((QuestionId(self.asked), question));
        }
        numbered
    }

    /// Delivers an answer to the waiting asker, if there still is one.
    pub(crate) fn answered(&mut self, question: QuestionId, answered: Answered) {
        if let Some(answer) = self.open.remove(&question) {
            let _ = answer.send(answered);
        }
    }

    /// Drops all open questions: no answer will come.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }
}
