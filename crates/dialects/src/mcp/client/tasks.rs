//! Calls that become tasks, whose results are fetched later.
//!
//! In 2026-07-28, the upstream decides (the extension must be declared), and we poll the task. In 2025-11-25, we
//! decide, and do so only for tools that require it. The result is then awaited in one request.

use std::time::Duration;

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Failure, FailureKind, Notice};
use gladhand_core::wire::{Members, RawValue};

use super::call_kind::CallKind;
use super::pages::{PageResult, Pages};
use super::results::upstream_error;
use super::rounds::MAX_ROUNDS;
use super::work::{OutgoingRequest, Params, Work};
use super::{Answer, McpClient, done};
use crate::side::TASKS_EXTENSION;
use crate::side::{Event, Heard};

/// The polling interval if the upstream specifies none.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);

/// The limits of the polling interval. The minimum is also the pause after we sent answers.
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// A task to poll.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) due: Duration,
    pub(super) work: Box<Work>,
    pub(super) task: String,
}

impl McpClient {
    /// Whether an answer may be a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.spoken().is_stateless() && self.is_agreed(Side::Client, TASKS_EXTENSION)
    }

    /// Handles a call that was answered with a task.
    pub(super) fn became_task(&mut self, work: Box<Work>, members: &Members<'_>, now: Duration, heard: &mut Heard) {
        heard.events.push(Event::Notice(Notice::GoesOnAsTask(work.call)));
        match members.str("taskId") {
            // This answer has no result; `tasks/get` returns it.
            Some(task) if members.str("status").as_deref() == Some("completed") => {
                self.poll(work, task.into_owned(), heard);
            }
            Some(task) => self.task_stands(work, task.into_owned(), members, now, heard),
            None => done(work.call, Err(upstream_error("the upstream's task has no `taskId`")), heard),
        }
    }

    fn task_stands(
        &mut self,
        mut work: Box<Work>,
        task: String,
        members: &Members<'_>,
        now: Duration,
        heard: &mut Heard,
    ) {
        let failure = match members.str("status").as_deref() {
            Some("completed") => match members.raw("result") {
                Some(result) => return self.finished(work, Ok(Some(result)), now, heard),
                None => upstream_error("the upstream's task is complete but has no result"),
            },
            Some("failed") => match members.some("error") {
                Some(error) => work.kind.failure(error),
                None => upstream_error("the upstream's task failed"),
            },
            Some("cancelled") => Failure::new(FailureKind::Cancelled, "the upstream cancelled the task"),
            Some("input_required") => {
                let entries = members.object("inputRequests").unwrap_or_default();
                match self.questions_of(&work, &entries) {
                    Ok(mut questions) => {
                        // A task may repeat its questions until it has processed our answers. Ask each only once.
                        questions.retain(|(key, _)| work.asked_keys.insert(key.clone()));
                        if questions.is_empty() {
                            return self.poll_later(work, task, pause(members), now);
                        }
                        work.rounds += 1;
                        if work.rounds <= MAX_ROUNDS {
                            return self.begin_round(work, questions, None, Some(task), heard);
                        }
                        self.cancel_task(&task, heard);
                        upstream_error("the upstream asks questions too many times")
                    }
                    Err(failure) => {
                        self.cancel_task(&task, heard);
                        failure
                    }
                }
            }
            _ => return self.poll_later(work, task, pause(members), now),
        };
        done(work.call, Err(failure), heard);
    }

    pub(super) fn poll(&mut self, work: Box<Work>, task: String, heard: &mut Heard) {
        self.send_other("tasks/get", &params_of(&task), OutgoingRequest::PollTask(work, task), heard);
    }

    pub(super) fn poll_later(&mut self, work: Box<Work>, task: String, pause: Duration, now: Duration) {
        self.polls.push(Poll { due: now + pause, work, task });
    }

    /// Polls the tasks that are due.
    pub(super) fn poll_due_tasks(&mut self, now: Duration, heard: &mut Heard) {
        let (due, rest) = std::mem::take(&mut self.polls).into_iter().partition(|poll| poll.due <= now);
        self.polls = rest;
        let due: Vec<Poll> = due;
        for Poll { work, task, .. } in due {
            self.poll(work, task, heard);
        }
    }

    pub(super) fn polled(
        &mut self,
        work: Box<Work>,
        task: String,
        answer: Answer<'_>,
        now: Duration,
        heard: &mut Heard,
    ) {
        let failure = match answer.map(|result| result.and_then(Members::of)) {
            Ok(Some(members)) => return self.task_stands(work, task, &members, now, heard),
            Ok(None) => upstream_error("the upstream's result is not an object"),
            Err(error) => work.kind.failure(error),
        };
        done(work.call, Err(failure), heard);
    }

    pub(super) fn updated(
        &mut self,
        work: Box<Work>,
        task: String,
        answer: Answer<'_>,
        now: Duration,
        heard: &mut Heard,
    ) {
        match answer {
            Ok(_) => self.poll_later(work, task, MIN_PAUSE, now),
            Err(error) => done(work.call, Err(work.kind.failure(error)), heard),
        }
    }

    /// Cancels a task at the upstream.
    pub(super) fn cancel_task(&mut self, task: &str, heard: &mut Heard) {
        if self.may_send("tasks/cancel") {
            self.send_quietly("tasks/cancel", &params_of(task), heard);
        }
    }

    /// Requests a task for a tool that requires one (2025-11-25).
    pub(super) fn ask_for_task(&mut self, work: &mut Work) {
        let CallKind::Tool { name } = &work.kind else { return };
        let is_needed = self.requirements.get(name).is_some_and(|requirements| requirements.only_as_task);
        if is_needed && !work.is_task && self.is_agreed(Side::Server, "tasks.requests.tools.call") {
            work.is_task = true;
            work.params.push_str(r#","task":{}"#);
        }
    }

    /// The task in the answer to a call for which we requested one.
    pub(super) fn created_task(&self, work: &Work, members: &Members<'_>) -> Option<String> {
        let task = members.object("task").filter(|_| work.is_task && !members.has("content"))?;
        task.str("taskId").map(Into::into)
    }

    /// Requests the result of a task (2025-11-25).
    pub(super) fn await_task(&mut self, work: Box<Work>, task: String, heard: &mut Heard) {
        self.send_other("tasks/result", &params_of(&task), OutgoingRequest::Result(work, task), heard);
    }

    /// Whether a new list of tools may explain why a call was refused: its headers do not match the tool, or the tool
    /// only runs as a task.
    pub(super) fn wants_to_relist(&self, work: &Work, error: &RawValue) -> bool {
        let CallKind::Tool { name } = &work.kind else { return false };
        if work.has_relisted || !self.may_send("tools/list") {
            return false;
        }
        match Members::of(error).and_then(|error| error.raw("code")).map(RawValue::get) {
            Some("-32020") => self.exchanges && self.spoken().is_stateless(),
            Some("-32600" | "-32601") => {
                self.is_agreed(Side::Server, "tasks.requests.tools.call") && !self.requirements.contains_key(name)
            }
            _ => false,
        }
    }

    pub(super) fn relist(&mut self, mut work: Box<Work>, heard: &mut Heard) {
        work.has_relisted = true;
        self.send_other("tools/list", "", OutgoingRequest::Relist(work, Pages::of_tools()), heard);
    }

    pub(super) fn relisted(&mut self, mut work: Box<Work>, pages: Pages, answer: Answer<'_>, heard: &mut Heard) {
        let add_page = match answer.map(|result| result.and_then(Members::of)) {
            Ok(Some(members)) => pages.add_page(&members),
            Ok(None) => Err(upstream_error("the upstream's result is not an object")),
            Err(error) => Err(work.kind.failure(error)),
        };
        match add_page {
            Ok(PageResult::Next(pages, params)) => {
                self.send_other("tools/list", &params, OutgoingRequest::Relist(work, pages), heard);
            }
            Ok(PageResult::Whole(tools)) => {
                self.store_requirements(tools);
                self.ask_for_task(&mut work);
                self.send(work, heard);
            }
            Err(failure) => done(work.call, Err(failure), heard),
        }
    }
}

fn params_of(task: &str) -> String {
    let mut params = Params::default();
    params.text("taskId", task);
    params.0
}

fn pause(members: &Members<'_>) -> Duration {
    let millis = members.raw("pollIntervalMs").and_then(|raw| raw.get().parse::<u64>().ok());
    millis.map_or(DEFAULT_PAUSE, Duration::from_millis).clamp(MIN_PAUSE, MAX_PAUSE)
}
