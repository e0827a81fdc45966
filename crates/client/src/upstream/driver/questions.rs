//! Requests of the upstream: they go to the receiver of its events, and the answers come back from tasks.

use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Question, QuestionId};
use tokio::task::JoinError;

use super::Driver;

impl Driver {
    pub(super) fn answered(&mut self, question: QuestionId, answered: Answered) {
        let call = self.asked.remove(&question).and_then(|(_, call)| call);
        self.resume_timeout(call);
        self.party = call.and_then(|call| self.calls.get(&call)).and_then(|pending| pending.party);
        let busy = || Failure::new(FailureKind::Busy, "too many bytes wait for upstreams to read them");
        let answered = if self.unsent.admits(self.party) { answered } else { Err(busy()) };
        self.step(|client, clock, heard| client.answer(question, answered, &mut clock.ambient(), heard));
        self.party = None;
    }

    /// A server request is settled, so the upstream can continue the call that caused it. The call timeout starts
    /// again.
    pub(super) fn resume_timeout(&mut self, call: Option<CallId>) {
        let expires = self.expiry();
        if let Some(pending) = call.and_then(|call| self.calls.get_mut(&call)) {
            pending.expires = expires;
        }
    }

    /// The task of a server request was aborted or panicked. Only a panic leaves the request open.
    pub(super) fn answer_task_failed(&mut self, error: &JoinError) {
        let open = self.asked.iter().find(|(_, (answer_task, _))| answer_task.id() == error.id()).map(|(id, _)| *id);
        if let Some(question) = open {
            self.answered(
                question,
                Err(Failure::new(FailureKind::Unanswered, "an internal error kept the request from being answered")),
            );
        }
    }

    pub(super) fn ask(&mut self, call: Option<CallId>, asked: Vec<(QuestionId, Question)>) {
        if asked.is_empty() {
            return;
        }
        let pending = call.and_then(|call| self.calls.get_mut(&call));
        let events = match pending {
            Some(pending) => {
                pending.expires = None;
                pending.events.as_ref()
            }
            None => None,
        };
        let (ids, questions): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let answers = events.unwrap_or(&self.events).ask_together(questions);
        for (id, answer) in ids.into_iter().zip(answers) {
            let answer_task = self.answer_tasks.spawn(async move { (id, answer.await) });
            self.asked.insert(id, (answer_task, call));
        }
    }
}
