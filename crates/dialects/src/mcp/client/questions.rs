//! Requests of the upstream to us: their routing to the caller, and the answers.

use std::time::Duration;

use gladhand_core::negotiation::{Closed, Side};
use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Party, Question, QuestionId, QuestionKind};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::rpc::{self, Error, code};
use gladhand_core::wire::{Id, Members, pick};

use super::work::{OutgoingRequest, Work};
use super::{McpClient, our_id};
use crate::mcp::{conversation, errors, ids};
use crate::rule_violation::QUESTION_NOT_AGREED;
use crate::shares::Bound;
use crate::side::{Event, Heard, Lane, Unagreed};

/// Maximum number of pending questions over all callers.
const MAX_QUESTIONS: usize = 256;

/// The error code if a user does not allow a sampling request.
const REJECTED: i32 = -1;

/// A pending question.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    asker: Asker,
    /// The party whose share it uses: that of the caller who is asked.
    party: Option<Party>,
}

/// The recipient of an answer.
#[derive(Debug)]
pub(super) enum Asker {
    /// A request of the upstream, by its id.
    Request(Id, QuestionKind),
    /// One of the questions in the answer to a call, by its key.
    Round(CallId, String, QuestionKind),
    /// A call that requires a visited page, by the page's id.
    Page(CallId, String),
}

impl McpClient {
    /// Handles a request of the upstream.
    pub(super) fn request(
        &mut self,
        id: &RawValue,
        method: Option<&str>,
        params: Option<&RawValue>,
        lane: Lane,
        heard: &mut Heard,
    ) {
        if self.spoken().is_stateless() || !Id::is_string_or_number(id) || !Id::is_keepable(id) {
            heard.events.push(Event::Dropped("a request that a server must not send"));
            return;
        }
        let (id, method) = (Id::of(id), method.unwrap_or_default());
        if method == "ping" {
            rpc::result(&mut heard.wire, &id, &serde_json::Map::new());
            return;
        }
        let closed = self.in_force().and_then(|in_force| in_force.gate.admit(Side::Server, method).err());
        if matches!(closed, Some(Closed::NotAgreed(_))) {
            heard.events.push(match self.unagreed {
                Unagreed::Refused => Event::Dropped(QUESTION_NOT_AGREED),
                Unagreed::Passes => Event::Passed(QUESTION_NOT_AGREED),
            });
        }
        let call = self.call_on(lane);
        match self.question(method, params, call) {
            Ok(question) => {
                self.pass_on(Asker::Request(id, question.kind), call, question, heard);
            }
            Err(error) => rpc::error(&mut heard.wire, Some(&id), &error),
        }
    }

    /// The question in a request, or the error response.
    fn question(
        &self,
        method: &str,
        params: Option<&RawValue>,
        call: Option<CallId>,
    ) -> Result<Question, Error<'static>> {
        let (Some(kind), Some(in_force)) = (kind_of(method), self.in_force()) else {
            return Err(errors::method_not_found(method));
        };
        match in_force.gate.admit(Side::Server, method) {
            Err(Closed::NotAgreed(_)) if self.unagreed == Unagreed::Passes => {}
            gate => drop(gate.map_err(|closed| errors::closed(method, closed, in_force.revision))?),
        }
        let params = params.filter(|params| Kind::of(params) == Kind::Object);
        let params = params.map_or_else(|| json::raw("{}".to_owned()), ToOwned::to_owned);
        if let Some(objection) = self.objection(None, kind, &params) {
            return Err(errors::invalid_params(objection));
        }
        if !self.may_ask(1, self.party_of(call)) {
            return Err(errors::busy("questions at once"));
        }
        Ok(Question { key: None, kind, params })
    }

    /// Why a question of an agreed kind is still refused: it needs a part that was not agreed, or is malformed.
    pub(super) fn objection(&self, work: Option<&Work>, kind: QuestionKind, params: &RawValue) -> Option<&'static str> {
        let agreed = |capability| self.may_be_asked(work, capability);
        let members = Members::of(params).unwrap_or_default();
        match kind {
            QuestionKind::Elicit => match members.str("mode").as_deref() {
                Some("url") if !agreed("elicitation.url") => Some("URL elicitation was not agreed"),
                Some("url") => None,
                // A client that declares no mode supports forms.
                None | Some("form") if agreed("elicitation.form") || !agreed("elicitation.url") => None,
                None | Some("form") => Some("form elicitation was not agreed"),
                Some(_) => Some("unknown mode of elicitation"),
            },
            QuestionKind::Sample if members.some("tools").is_some() && !agreed("sampling.tools") => {
                Some("sampling with tools was not agreed")
            }
            QuestionKind::Sample => conversation::disorder(&members),
            QuestionKind::Roots => None,
        }
    }

    /// Passes a question to the downstream.
    pub(super) fn pass_on(&mut self, asker: Asker, call: Option<CallId>, question: Question, heard: &mut Heard) {
        self.next_question += 1;
        let id = QuestionId(self.next_question);
        self.questions.insert(id, PendingQuestion { asker, party: self.party_of(call) });
        heard.events.push(Event::Asked(id, call, question));
    }

    /// Whether a party may be asked this many more questions. It gets no more than its share.
    pub(super) fn may_ask(&self, more: usize, party: Option<Party>) -> bool {
        let bound = Bound { limit: MAX_QUESTIONS, used: self.questions.len() };
        bound.admits(more, party, |party| self.questions.values().filter(|open| open.party == Some(party)).count())
    }

    /// The party of a running call.
    fn party_of(&self, call: Option<CallId>) -> Option<Party> {
        let call = call?;
        let waiting = self.rounds.get(&call).map(|round| &round.work);
        let waiting = waiting.or_else(|| self.visits.get(&call).map(|visit| &visit.work)).map(|work| &**work);
        let mut sent = self.requests.values().filter_map(OutgoingRequest::work);
        waiting.or_else(|| sent.find(|work| work.call == call))?.party
    }

    /// Sends the answer to a question. A withdrawn question gets none.
    pub(super) fn question_answered(
        &mut self,
        question: QuestionId,
        answered: Answered,
        now: Duration,
        heard: &mut Heard,
    ) {
        match self.questions.remove(&question).map(|open| open.asker) {
            Some(Asker::Request(id, kind)) => respond(&id, kind, answered, heard),
            Some(Asker::Round(call, key, kind)) => self.round_answered(call, &key, kind, answered, heard),
            Some(Asker::Page(call, id)) => self.page_answered(call, &id, answered, now, heard),
            None => {}
        }
    }

    /// Withdraws the questions of a call.
    pub(super) fn unask(&mut self, call: CallId, heard: &mut Heard) {
        self.questions.retain(|question, open| {
            let is_of_call = matches!(&open.asker, Asker::Round(asked, ..) | Asker::Page(asked, _) if *asked == call);
            if is_of_call {
                heard.events.push(Event::Unasked(*question));
            }
            !is_of_call
        });
    }

    /// `notifications/cancelled`: the upstream withdraws a question, or ends a stream.
    pub(super) fn cancelled_by_upstream(&mut self, params: Option<&RawValue>, now: Duration, heard: &mut Heard) {
        let id = params.and_then(|params| pick(params, ["requestId"])).and_then(|[id]| id);
        let asked = id.and_then(|id| {
            let is_it =
                |asker: &Asker| matches!(asker, Asker::Request(asked, _) if ids::is_same(asked.as_json(), id.get()));
            self.questions.iter().find(|(_, open)| is_it(&open.asker)).map(|(question, _)| *question)
        });
        if let Some(question) = asked {
            self.questions.remove(&question);
            heard.events.push(Event::Unasked(question));
        } else if let Some(listen) = id.and_then(|id| our_id(id.get())).filter(|id| self.listening.is_under(*id)) {
            self.requests.remove(&listen);
            self.listen_ended(listen, now);
        } else {
            heard.events.push(Event::Dropped("a cancellation of an unknown request"));
        }
    }
}

/// The kind of question of a method.
pub(super) fn kind_of(method: &str) -> Option<QuestionKind> {
    match method {
        "elicitation/create" => Some(QuestionKind::Elicit),
        "sampling/createMessage" => Some(QuestionKind::Sample),
        "roots/list" => Some(QuestionKind::Roots),
        _ => None,
    }
}

/// Answers a request of the upstream.
fn respond(id: &Id, kind: QuestionKind, answered: Answered, heard: &mut Heard) {
    match answered {
        Ok(result) => {
            let beginning = heard.wire.len();
            rpc::begin_result(&mut heard.wire, id);
            heard.wire.extend_from_slice(result.get().as_bytes());
            json::flatten(&mut heard.wire[beginning..]);
            rpc::finish(&mut heard.wire);
        }
        Err(failure) => rpc::error(&mut heard.wire, Some(id), &error_of(kind, &failure)),
    }
}

fn error_of(kind: QuestionKind, failure: &Failure) -> Error<'static> {
    let code = match (kind, failure.kind) {
        (QuestionKind::Sample, FailureKind::Unanswered | FailureKind::Denied) => REJECTED,
        (_, FailureKind::MissingCapability) => code::METHOD_NOT_FOUND,
        (_, FailureKind::InvalidArguments) => code::INVALID_PARAMS,
        _ => code::INTERNAL_ERROR,
    };
    Error::new(code, failure.message.clone())
}
