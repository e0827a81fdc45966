//! Calls that are answered with questions (2026-07-28): gather the answers, then ask again.
//!
//! What is sent again is the same to the byte, under a new id, with the answers and, if one was given, the
//! upstream's own note to itself (`requestState`) as it came.

use gladhand_core::operations::{Answered, CallId, Failure, Question, QuestionKind};
use gladhand_core::wire::Members;
use gladhand_core::wire::json::{self, Kind, RawValue};

use super::asked::Asked;
use super::questions::{Asker, kind_of};
use super::results::upstream_error;
use super::work::{Params, Sent, Work};
use super::{McpClient, done};
use crate::side::Heard;

/// How often one call may be answered with questions.
pub(super) const MAX_ROUNDS: usize = 16;

/// The answer for a person who was not there, or whose answer cannot be had.
const NOBODY_ANSWERED: &str = r#"{"action":"cancel"}"#;

/// A call that waits for answers of ours.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) work: Box<Work>,
    /// The upstream's note to itself.
    state: Option<Box<RawValue>>,
    /// The questions by name, with the answers that there are.
    answers: Vec<(String, Option<Box<RawValue>>)>,
    /// The task that the call has become, if it is its questions that are answered.
    pub(super) task: Option<String>,
}

impl McpClient {
    /// A call was answered with questions, or with the wish to be asked again.
    pub(super) fn input_required(&mut self, mut work: Box<Work>, members: &Members<'_>, heard: &mut Heard) {
        work.rounds += 1;
        let entries = members.object("inputRequests").unwrap_or_default();
        let state = members.raw("requestState").filter(|state| Kind::of(state) != Kind::Null);
        let may_ask = matches!(work.asked, Asked::Tool { .. } | Asked::Contents { .. } | Asked::Prompt { .. });
        let questions = if !may_ask || (entries.is_empty() && state.is_none()) {
            Err(upstream_error("the upstream asks for input, and names none"))
        } else if work.rounds > MAX_ROUNDS {
            Err(upstream_error("the upstream does not stop asking"))
        } else {
            self.questions_of(&work, &entries)
        };
        match questions {
            Ok(questions) => self.begin_round(work, questions, state.map(ToOwned::to_owned), None, heard),
            Err(failure) => done(work.call, Err(failure), heard),
        }
    }

    /// The questions of an `inputRequests`, if all of them are such as we said that we answer.
    pub(super) fn questions_of(&self, work: &Work, entries: &Members<'_>) -> Result<Vec<(String, Question)>, Failure> {
        if !self.may_ask(entries.len(), work.party) {
            return Err(upstream_error("the upstream asks more than can be answered"));
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

    /// Passes on the questions; without any the answer is given at once.
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

    /// One of the questions was answered. The wire has no word for "no answer": a person may still be said to have
    /// walked away; without anything else the call cannot go on.
    pub(super) fn round_answered(
        &mut self,
        call: CallId,
        key: &str,
        kind: QuestionKind,
        answered: Answered,
        heard: &mut Heard,
    ) {
        let answer = match (answered, kind) {
            (Ok(answer), _) => answer,
            (Err(_), QuestionKind::Elicit) => json::raw(NOBODY_ANSWERED.to_owned()),
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

    /// Takes a call out of its round; what is still asked need not be answered.
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
                self.send_other("tasks/update", &params.0, Sent::Update(work, task), heard);
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
