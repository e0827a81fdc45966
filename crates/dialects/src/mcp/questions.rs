//! Questions to a caller during its call.
//!
//! In the handshake era, each question is a request of ours on the lane of its call. Without a session, questions are
//! sent in the answer to the call's request (see `parked`), or are part of a task (see `tasks`). All are kept here
//! until they are answered or their call ends.

use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Question, QuestionId, QuestionKind};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::{Id, Members, rpc};

use super::capabilities::InForce;
use super::incoming_requests::OutcomeRecipient;
use super::phrasing;
use super::server::{McpServer, Phase};
use crate::ambient::{Ambient, Party};
use crate::shares::Bound;
use crate::side::{Action, Lane, Output};

/// Maximum number of open questions.
pub(super) const MAX_QUESTIONS: usize = 1024;

/// All open questions, oldest first.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Vec<Open>,
    last: u64,
    /// The session is ending: no more questions are possible.
    is_closed: bool,
}

#[derive(Debug)]
struct Open {
    /// The id of our request, which is unique.
    number: u64,
    question: QuestionId,
    /// The call of the question. `None`: it belongs to the session.
    call: Option<CallId>,
    /// Its key among the questions of the call.
    key: String,
    kind: QuestionKind,
    params: Box<RawValue>,
    /// The lane on which it was sent as a request, if it was.
    sent: Option<Lane>,
}

impl Questions {
    /// Whether a call has open questions.
    pub(super) fn has_any(&self, call: CallId) -> bool {
        self.open.iter().any(|open| open.call == Some(call))
    }

    /// Writes the open questions of a call as an `inputRequests` object.
    pub(super) fn write_requests(&self, call: CallId, wire: &mut Vec<u8>) {
        wire.push(b'{');
        for (at, open) in self.open.iter().filter(|open| open.call == Some(call)).enumerate() {
            if at > 0 {
                wire.push(b',');
            }
            json::write(wire, &open.key);
            wire.extend_from_slice(br#":{"method":"#);
            json::write(wire, phrasing::method(open.kind));
            wire.extend_from_slice(br#","params":"#);
            wire.extend_from_slice(open.params.get().as_bytes());
            wire.push(b'}');
        }
        wire.push(b'}');
    }

    /// Takes the answers to open questions of a call from an `inputResponses` object. Questions without a valid answer
    /// stay open, and answers without a question are ignored.
    pub(super) fn answer(&mut self, call: CallId, answers: &Members<'_>) -> Vec<Action<'static>> {
        self.settle(|open| {
            let answer = answers.raw(&open.key).filter(|_| open.call == Some(call))?;
            phrasing::is_answer(answer).then(|| Ok(answer.to_owned()))
        })
    }

    /// Ends the questions of a call that are not allowed under the current agreement.
    pub(super) fn drop_unaskable(&mut self, call: CallId, in_force: &InForce) -> Vec<Action<'static>> {
        self.settle(|open| {
            let params = Members::of(&open.params).filter(|_| open.call == Some(call))?;
            let missing = phrasing::missing_capability(open.kind, &params, &in_force.agreement)?;
            Some(Err(Failure::missing_capability(missing)))
        })
    }

    /// Removes the questions of a call that has ended.
    pub(super) fn forget(&mut self, call: CallId) {
        self.open.retain(|open| open.call != Some(call));
    }

    /// Ends the questions for which `answer` returns a value.
    fn settle(&mut self, answer: impl Fn(&Open) -> Option<Answered>) -> Vec<Action<'static>> {
        let mut settled = Vec::new();
        self.open.retain(|open| match answer(open) {
            Some(answered) => {
                settled.push(Action::Answered(open.question, answered));
                false
            }
            None => true,
        });
        settled
    }

    fn add(&mut self, question: QuestionId, call: Option<CallId>, asked: Question, params: Box<RawValue>) {
        self.last += 1;
        let number = self.last;
        let is_free = |key: &String| self.open.iter().all(|open| open.call != call || open.key != *key);
        let key = asked.key.filter(is_free).unwrap_or_else(|| {
            // Other keys may already have this form, so look for a free one.
            let mut names = (number..).map(|number| format!("q{number}"));
            names.find(|name| is_free(name)).unwrap_or_default()
        });
        self.open.push(Open { number, question, call, key, kind: asked.kind, params, sent: None });
    }
}

impl McpServer {
    /// Sends the questions of a provider to the caller of a call.
    pub(super) fn ask_caller(
        &mut self,
        call: CallId,
        questions: Vec<(QuestionId, Question)>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        let before = self.questions.open.len();
        let mut given: Option<Box<RawValue>> = None;
        self.incoming.change(call, |call| {
            if let Some(origin) = &mut call.origin {
                origin.has_asked = true;
                given = origin.answers.take();
            }
        });
        let given = given.as_deref().and_then(Members::of).unwrap_or_default();
        for (id, question) in questions {
            let answered = match self.phrase(call, &question, ambient) {
                Err(failure) => Err(failure),
                Ok(params) => {
                    let answer = question.key.as_deref().and_then(|key| given.raw(key));
                    match answer.filter(|answer| phrasing::is_answer(answer)) {
                        Some(answer) => Ok(answer.to_owned()),
                        None => {
                            self.questions.add(id, Some(call), question, params);
                            continue;
                        }
                    }
                }
            };
            out.actions.push(Action::Answered(id, answered));
        }
        let Some(asker) = self.incoming.get(call).filter(|_| self.questions.open.len() > before) else { return };
        match asker.recipient {
            OutcomeRecipient::Request if asker.revision.is_stateless() => self.park(call, ambient, out),
            OutcomeRecipient::Request => self.send_questions(Some(call), asker.to.route.lane, None, out),
            // New questions of a parked call are sent with the remaining ones when the caller returns.
            OutcomeRecipient::Parked => {}
            OutcomeRecipient::Task => self.task_asks(call, ambient, out),
        }
    }

    /// Sends questions to the session, which requires a handshake.
    pub(super) fn ask_session(
        &mut self,
        questions: Vec<(QuestionId, Question)>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        for (id, question) in questions {
            let phrased = match &self.phase {
                _ if self.questions.is_closed => Err(Failure::new(FailureKind::Stopping, "the session is ending")),
                _ if self.questions.open.len() >= MAX_QUESTIONS => {
                    Err(Failure::new(FailureKind::Busy, "too many questions are waiting for answers"))
                }
                Phase::ExpectInitialized(session) | Phase::Open(session) => {
                    phrasing::phrase(&question, &session.in_force, ambient)
                }
                Phase::ExpectInitialize => Err(Failure::missing_capability(question.kind.capability())),
            };
            match phrased {
                Ok(params) => self.questions.add(id, None, question, params),
                Err(failure) => out.actions.push(Action::Answered(id, Err(failure))),
            }
        }
        self.send_questions(None, Lane::MAIN, None, out);
    }

    /// The parameters of a question for its caller, or why it cannot be asked.
    fn phrase(&self, call: CallId, question: &Question, ambient: &mut Ambient<'_>) -> Result<Box<RawValue>, Failure> {
        let Some(asker) = self.incoming.get(call) else {
            return Err(Failure::new(FailureKind::Unanswered, "the call has ended"));
        };
        if self.questions.is_closed {
            return Err(Failure::new(FailureKind::Stopping, "the session is ending"));
        }
        let params = phrasing::phrase(question, &asker.in_force, ambient)?;
        let is_parking = asker.revision.is_stateless() && asker.recipient == OutcomeRecipient::Request;
        if is_parking && asker.origin.is_none() {
            return Err(Failure::new(FailureKind::Unanswered, "this request cannot be answered with a question"));
        }
        if !self.may_ask(asker.party) || is_parking && !self.may_park(asker.party) {
            return Err(Failure::new(FailureKind::Busy, "too many questions are waiting for answers"));
        }
        Ok(params)
    }

    /// Whether a party may be asked one more question. It gets no more than its share.
    fn may_ask(&self, party: Option<Party>) -> bool {
        let bound = Bound { limit: MAX_QUESTIONS, used: self.questions.open.len() };
        bound.admits(1, party, |party| {
            let calls = self.questions.open.iter().filter_map(|open| self.incoming.get(open.call?));
            calls.filter(|call| call.party == Some(party)).count()
        })
    }

    /// Sends the unsent questions of a call, if the session is open.
    pub(super) fn send_questions(
        &mut self,
        call: Option<CallId>,
        lane: Lane,
        task: Option<&str>,
        out: &mut Output<'_>,
    ) {
        if !matches!(self.phase, Phase::Open(_)) {
            return;
        }
        for open in self.questions.open.iter_mut().filter(|open| open.call == call && open.sent.is_none()) {
            open.sent = Some(lane);
            if let Some(task) = task {
                open.params = super::task_answers::related(&open.params, task);
            }
            out.go(lane);
            let (id, method) = (Id::number(open.number), phrasing::method(open.kind));
            rpc::request(&mut out.wire, &id, method, Some(&open.params));
        }
    }

    /// Sends the questions that were asked before the session was open.
    pub(super) fn send_waiting_questions(&mut self, out: &mut Output<'_>) {
        let unsent = self.questions.open.iter().filter(|open| open.sent.is_none());
        let calls: Vec<_> = unsent.map(|open| open.call).collect();
        for call in calls {
            let Some(call) = call else {
                self.send_questions(None, Lane::MAIN, None, out);
                continue;
            };
            match self.incoming.get(call) {
                Some(asker) if asker.revision.is_stateless() => {}
                Some(asker) if asker.recipient == OutcomeRecipient::Task => self.send_task_questions(call, out),
                Some(asker) => self.send_questions(Some(call), asker.to.route.lane, None, out),
                None => {}
            }
        }
    }

    /// Handles a response, if its id belongs to a question of ours.
    pub(super) fn response(
        &mut self,
        id: Option<&RawValue>,
        result: Option<&RawValue>,
        error: Option<&RawValue>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        // Our numbers are small, so a float represents them exactly.
        let number = id.and_then(|id| id.get().parse::<f64>().ok());
        let is_meant = |open: &Open| open.sent.is_some() && Some(open.number as f64) == number;
        let Some(at) = self.questions.open.iter().position(is_meant) else {
            out.actions.push(Action::Dropped("a response to a request that was never sent"));
            return;
        };
        let open = self.questions.open.remove(at);
        let answered = match (result, error) {
            (_, Some(error)) if json::Kind::of(error) != json::Kind::Null => Err(refused(error)),
            (Some(result), _) if phrasing::is_answer(result) => Ok(result.to_owned()),
            _ => Err(Failure::new(FailureKind::Unanswered, "the client's answer is not an object")),
        };
        out.actions.push(Action::Answered(open.question, answered));
        if let Some(call) = open.call {
            self.continue_task_if_answered(call, ambient, out);
        }
    }

    /// Withdraws the questions of a call that has ended.
    pub(super) fn withdraw_questions(&mut self, call: CallId, out: &mut Output<'_>) {
        for open in self.questions.open.iter().filter(|open| open.call == Some(call)) {
            let Some(lane) = open.sent else { continue };
            out.go(lane);
            let params = serde_json::json!({"requestId": open.number, "reason": "the call has ended"});
            rpc::notification(&mut out.wire, "notifications/cancelled", Some(&params));
        }
        self.questions.forget(call);
    }

    /// Ends all questions and refuses new ones.
    pub(super) fn close_questions(&mut self, out: &mut Output<'_>) {
        self.questions.is_closed = true;
        let ending = || Failure::new(FailureKind::Stopping, "the session ended before the caller answered");
        out.actions.extend(self.questions.settle(|_| Some(Err(ending()))));
    }
}

/// The failure for a client's error response.
fn refused(error: &RawValue) -> Failure {
    let message = Members::of(error).and_then(|error| error.str("message").map(String::from));
    let message = message.unwrap_or_else(|| "the client answered with an error".to_owned());
    Failure { data: Some(error.to_owned()), ..Failure::new(FailureKind::Unanswered, message) }
}
