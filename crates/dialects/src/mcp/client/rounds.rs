//! Calls that are answered with questions (2026-07-28): collects the answers, then repeats the call.
//!
//! The repeated request is identical, except for a new id, the answers, and the upstream's `requestState` if it sent
//! one.

use gladhand_core::operations::{Answered, CallId, Failure, FailureKind, Party, Question, QuestionKind};
use gladhand_core::wire::Members;
use gladhand_core::wire::json::{self, Kind, RawValue};

use super::call_kind::CallKind;
use super::questions::{Asker, kind_of};
use super::results::upstream_error;
use super::work::{OutgoingRequest, Params, Work};
use super::{McpClient, done};
use crate::shares::Bound;
use crate::side::Heard;

/// Maximum number of times that one call may be answered with questions.
pub(super) const MAX_ROUNDS: usize = 16;

/// Maximum number of bytes of `requestState` and answers that all waiting calls keep. Parties share it.
const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;

/// The answer if the user was not available, or the answer failed.
const CANCELLED_ELICITATION: &str = r#"{"action":"cancel"}"#;

/// A call that waits for answers.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) work: Box<Work>,
    /// The upstream's `requestState`.
    state: Option<Box<RawValue>>,
    /// The keys of the questions, with the answers so far.
    answers: Vec<(String, Option<Box<RawValue>>)>,
    /// The task of the call, if the questions belong to a task.
    pub(super) task: Option<String>,
}

impl Round {
    /// How many bytes of the upstream and of the caller it keeps.
    fn kept(&self) -> usize {
        let answers = self.answers.iter().filter_map(|(_, answer)| answer.as_ref());
        let raw = |raw: &RawValue| raw.get().len();
        self.state.as_deref().map_or(0, raw) + answers.map(|answer| raw(answer)).sum::<usize>()
    }
}

impl McpClient {
    /// Handles a call that was answered with questions, or with a request to repeat it.
    pub(super) fn input_required(&mut self, mut work: Box<Work>, members: &Members<'_>, heard: &mut Heard) {
        work.rounds += 1;
        let entries = members.object("inputRequests").unwrap_or_default();
        let state = members.raw("requestState").filter(|state| Kind::of(state) != Kind::Null);
        let may_ask = matches!(work.kind, CallKind::Tool { .. } | CallKind::Contents { .. } | CallKind::Prompt { .. });
        let questions = if !may_ask || (entries.is_empty() && state.is_none()) {
            Err(upstream_error("the upstream asks for input without a question"))
        } else if work.rounds > MAX_ROUNDS {
            Err(upstream_error("the upstream asks questions too many times"))
        } else if !self.may_keep(state.map_or(0, |state| state.get().len()), work.party) {
            Err(upstream_error("the `requestState` of the upstream is too large to be kept"))
        } else {
            self.questions_of(&work, &entries)
        };
        match questions {
            Ok(questions) => self.begin_round(work, questions, state.map(ToOwned::to_owned), None, heard),
            Err(failure) => done(work.call, Err(failure), heard),
        }
    }

    /// Whether the waiting calls of a party may keep so many bytes more.
    fn may_keep(&self, more: usize, party: Option<Party>) -> bool {
        let rounds = || self.rounds.values();
        let bound = Bound { limit: MAX_KEPT_BYTES, used: rounds().map(Round::kept).sum() };
        bound.admits(more, party, |party| {
            rounds().filter(|round| round.work.party == Some(party)).map(Round::kept).sum()
        })
    }

    /// The questions in `inputRequests`. Fails if the session cannot answer one of them.
    pub(super) fn questions_of(&self, work: &Work, entries: &Members<'_>) -> Result<Vec<(String, Question)>, Failure> {
        if !self.may_ask(entries.len(), work.party) {
            return Err(upstream_error("the upstream asks too many questions at once"));
        }
        let (mut questions, mut unanswerable) = (Vec::new(), Vec::new());
        for (key, entry) in entries.iter() {
            let members = Members::of(entry).unwrap_or_default();
            let method = members.str("method").unwrap_or_default();
            let params = members.raw("params").filter(|params| Kind::of(params) == Kind::Object);
            let params = params.map_or_else(|| json::raw("{}".to_owned()), ToOwned::to_owned);
            let kind = kind_of(&method).filter(|kind| self.may_be_asked(Some(work), kind.capability()));
            match kind.map(|kind| (kind, self.objection(Some(work), kind, &params))) {
                Some((kind, None)) => {
                    questions.push((key.to_owned(), Question { key: Some(key.to_owned()), kind, params }));
                }
                Some((_, Some(objection))) => unanswerable.push(format!("{method} ({objection})")),
                None => unanswerable.push(method.into_owned()),
            }
        }
        if unanswerable.is_empty() {
            return Ok(questions);
        }
        let asked = unanswerable.join(", ");
        Err(upstream_error(format!("the upstream asks for input that this session cannot give: {asked}")))
    }

    /// Passes the questions on. Without questions, the call is repeated immediately.
    pub(super) fn begin_round(
        &mut self,
        work: Box<Work>,
        questions: Vec<(String, Question)>,
        state: Option<Box<RawValue>>,
        task: Option<String>,
        heard: &mut Heard,
    ) {
        let call = work.call;
        let answers = questions.iter().map(|(key, _)| (key.clone(), None)).collect();
        self.rounds.insert(call, Round { work, state, answers, task });
        for (key, question) in questions {
            self.pass_on(Asker::Round(call, key, question.kind), Some(call), question, heard);
        }
        self.end_round_if_answered(call, heard);
    }

    /// Stores the answer to a question. The protocol cannot express a missing answer: an elicitation is answered as
    /// cancelled, and for other kinds the call fails.
    pub(super) fn round_answered(
        &mut self,
        call: CallId,
        key: &str,
        kind: QuestionKind,
        answered: Answered,
        heard: &mut Heard,
    ) {
        let party = self.rounds.get(&call).and_then(|round| round.work.party);
        // Until the last answer has come, the others are kept.
        let answered = match answered {
            Ok(answer) if !self.may_keep(answer.get().len(), party) => {
                Err(Failure::new(FailureKind::Busy, "the answers of this client are too large to be kept"))
            }
            answered => answered,
        };
        let answer = match (answered, kind) {
            (Ok(answer), _) => answer,
            (Err(_), QuestionKind::Elicit) => json::raw(CANCELLED_ELICITATION.to_owned()),
            (Err(failure), _) => {
                let Some(round) = self.abandon_round(call, heard) else { return };
                if let Some(task) = &round.task {
                    self.cancel_task(task, heard);
                }
                return done(call, Err(failure), heard);
            }
        };
        let Some(round) = self.rounds.get_mut(&call) else { return };
        if let Some((_, slot)) = round.answers.iter_mut().find(|(asked, _)| asked == key) {
            *slot = Some(answer);
        }
        self.end_round_if_answered(call, heard);
    }

    /// Removes a call from its round and withdraws its pending questions.
    pub(super) fn abandon_round(&mut self, call: CallId, heard: &mut Heard) -> Option<Round> {
        let round = self.rounds.remove(&call)?;
        self.unask(call, heard);
        Some(round)
    }

    fn end_round_if_answered(&mut self, call: CallId, heard: &mut Heard) {
        let is_answered = |round: &Round| round.answers.iter().all(|(_, answer)| answer.is_some());
        if !self.rounds.get(&call).is_some_and(is_answered) {
            return;
        }
        let Some(Round { work, state, answers, task }) = self.rounds.remove(&call) else { return };
        let mut params = Params::default();
        if !answers.is_empty() {
            let mut members = Params::default();
            for (key, answer) in &answers {
                members.raw(key, answer.as_deref().unwrap_or(RawValue::NULL));
            }
            params.raw("inputResponses", &json::raw(format!("{{{}}}", members.0)));
        }
        match task {
            Some(task) => {
                params.text("taskId", &task);
                self.send_other("tasks/update", &params.0, OutgoingRequest::Update(work, task), heard);
            }
            None => {
                if let Some(state) = &state {
                    params.raw("requestState", state);
                }
                self.send_with(work, &params.0, heard);
            }
        }
    }
}
