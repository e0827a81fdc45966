//! Calls that continue as tasks: the caller gets an immediate answer and fetches the outcome later.
//!
//! This covers both forms, that of 2025-11-25 and the extension of 2026-07-28. Their wire form is in `task_answers`. A
//! task belongs to the principal that created it, and is kept until its time to live is over, ended or not.

use std::sync::Arc;
use std::time::Duration;

use gladhand_core::operations::{CallId, Failure, FailureKind, Outcome, ScopeRecord, TaskWish};
use gladhand_core::wire::Frames;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::rpc::{self, Envelope};
use gladhand_core::wire::{Members, pick};

use super::errors;
use super::ids::is_same;
use super::incoming_requests::{IncomingRequest, OutcomeRecipient, ReplyTo};
use super::revision::Revision;
use super::server::McpServer;
use super::task_answers;
use crate::ambient::{Ambient, Moment, Party};
use crate::shares::Bound;
use crate::side::{Action, Lane, Output, Server};
use crate::storage::Reservation;

/// The capability to call a tool as a task (2025-11-25).
pub(super) const CALLS_AS_TASKS: &str = "tasks.requests.tools.call";

/// Maximum size, in bytes, of the outcomes that one side keeps for one party: in tasks, in parked calls, and in
/// batches.
pub(super) const MAX_KEPT: usize = 32 * 1024 * 1024;

/// Maximum number of tasks.
const MAX_TASKS: usize = 1024;

/// Maximum number of requests that wait for the outcome of one task. Each gets a copy of it.
const MAX_WAITING: usize = 8;

/// The storage that a task reserves without an outcome, in bytes. It is enough for the failure that replaces an
/// outcome.
const TASK_BYTES: usize = 1024;

/// The default time to live of a task.
const DEFAULT_TTL: Duration = Duration::from_secs(30 * 60);

/// The limits of a caller's time to live.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The time to live that a caller of 2025-11-25 requests in `params.task`.
pub(super) fn requested_ttl(task_params: &RawValue) -> Result<Option<Duration>, rpc::Error<'static>> {
    let [ttl] = pick(task_params, ["ttl"]).ok_or_else(|| errors::invalid_params("`task` must be an object"))?;
    let Some(ttl) = ttl.filter(|ttl| Kind::of(ttl) != Kind::Null) else { return Ok(None) };
    let millis = ttl.get().parse::<f64>().ok().filter(|millis| *millis >= 0.0);
    let millis = millis.ok_or_else(|| errors::invalid_params("`task.ttl` must be a number of milliseconds"))?;
    // The cast saturates, and larger values are limited to the maximum.
    Ok(Some(Duration::from_millis(millis as u64).clamp(MIN_TTL, MAX_TTL)))
}

/// All tasks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) all: Vec<Task>,
    last: usize,
    /// The session is ending: no caller can return for a task.
    is_closed: bool,
}

/// A running call or its outcome.
#[derive(Debug)]
pub(super) struct Task {
    /// The sequence number, by which lists are paged.
    pub(super) number: usize,
    pub(super) id: String,
    pub(super) revision: Revision,
    call: CallId,
    /// The lane of the call.
    lane: Lane,
    principal: Option<Box<str>>,
    /// The scopes that its call needs: see [`Origin`](super::parked::Origin).
    record: Option<Arc<ScopeRecord>>,
    /// The party whose share it uses.
    party: Option<Party>,
    pub(super) created: Moment,
    pub(super) updated: Moment,
    pub(super) ttl: Duration,
    pub(super) state: State,
    /// The storage that it uses.
    reservation: Box<dyn Reservation>,
    /// Requests that wait for its outcome (2025-11-25).
    waiting: Vec<ReplyTo>,
}

/// The state of a task.
#[derive(Debug)]
pub(super) enum State {
    Working,
    InputRequired,
    /// The result of the call.
    Completed(Box<RawValue>),
    /// The result of the call, which reports a failure (2025-11-25).
    FailedResult(Box<RawValue>),
    /// The error of the call.
    Failed(Box<RawValue>),
    Cancelled,
}

impl State {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed(_) => "completed",
            Self::FailedResult(_) | Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self, Self::Working | Self::InputRequired)
    }

    fn kept(&self) -> usize {
        match self {
            Self::Completed(kept) | Self::FailedResult(kept) | Self::Failed(kept) => kept.get().len(),
            Self::Working | Self::InputRequired | Self::Cancelled => 0,
        }
    }
}

impl Task {
    /// Whether a principal may access the task.
    pub(super) fn is_known_to(&self, principal: Option<&str>, revision: Revision) -> bool {
        self.principal.as_deref() == principal && self.revision.is_stateless() == revision.is_stateless()
    }

    fn expires(&self) -> Duration {
        self.created.elapsed + self.ttl
    }

    pub(super) fn call(&self) -> CallId {
        self.call
    }
}

impl Tasks {
    /// Whether a party may create one more task.
    pub(super) fn has_room_for(&self, party: Option<Party>) -> bool {
        let count = Bound { limit: MAX_TASKS, used: self.all.len() };
        count.admits(1, party, |party| self.of_party(Some(party)).count()) && self.kept_for(party) < MAX_KEPT
    }

    /// The number of bytes of outcomes that are kept for a party.
    fn kept_for(&self, party: Option<Party>) -> usize {
        self.of_party(party).map(|task| task.state.kept()).sum()
    }

    fn of_party(&self, party: Option<Party>) -> impl Iterator<Item = &Task> {
        self.all.iter().filter(move |task| task.party == party)
    }

    /// The final state of a task, or a failure if its outcome is too large to be kept.
    fn fitting(&mut self, at: usize, end: State) -> State {
        let bytes = end.kept();
        let has_room = self.kept_for(self.all[at].party) + bytes <= MAX_KEPT;
        if bytes <= TASK_BYTES || has_room && self.all[at].reservation.resize(TASK_BYTES + bytes) {
            return end;
        }
        State::Failed(json::to_raw(&errors::of(Failure::not_kept())))
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.all.iter().map(Task::expires).min()
    }

    /// The index of the task with an id, if the principal may access it and its token has the needed scopes.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        ambient: &Ambient<'_>,
        revision: Revision,
    ) -> Result<usize, rpc::Error<'static>> {
        let is_it = |task: &Task| Some(&*task.id) == id && task.is_known_to(ambient.principal, revision);
        let at =
            self.all.iter().position(is_it).ok_or_else(|| {
                errors::invalid_params("`taskId` names no task of this caller, or one that has expired")
            })?;
        errors::check_scopes(self.all[at].record.as_deref(), ambient)?;
        Ok(at)
    }

    /// The number of requests that wait for outcomes.
    pub(super) fn waiting(&self) -> usize {
        self.all.iter().map(|task| task.waiting.len()).sum()
    }

    /// Whether one more request may wait for the outcome of a task. `most` is the limit for all tasks together.
    pub(super) fn may_wait(&self, at: usize, most: usize) -> bool {
        self.all[at].waiting.len() < MAX_WAITING && self.waiting() < most
    }

    /// Adds a request that waits for an outcome.
    pub(super) fn wait(&mut self, at: usize, request: ReplyTo) {
        self.all[at].waiting.push(request);
    }

    /// Removes the waiting request with a peer's id. `false` if there is none.
    pub(super) fn stop_waiting(&mut self, id: &RawValue) -> bool {
        let before = self.waiting();
        self.all.iter_mut().for_each(|task| task.waiting.retain(|to| !is_same(to.id.as_json(), id.get())));
        self.waiting() < before
    }

    fn of(&self, call: CallId) -> Option<usize> {
        self.all.iter().position(|task| task.call == call)
    }
}

impl McpServer {
    /// Continues a call as a task, and answers its request with the task.
    pub(super) fn begin_task(&mut self, call: CallId, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(IncomingRequest {
            to,
            recipient: OutcomeRecipient::Request,
            origin: Some(origin),
            party,
            revision,
            ..
        }) = self.incoming.get(call)
        else {
            return;
        };
        if self.tasks.is_closed || origin.task == TaskWish::Never {
            return;
        }
        let mut reservation = self.setup.storage.reserve(*party);
        if !self.tasks.has_room_for(*party) || !reservation.resize(TASK_BYTES) {
            let failure = Failure::new(FailureKind::Busy, "too many tasks; try again later");
            out.actions.push(Action::Cancel(call));
            return self.handle_outcome(call, Err(failure), ambient, out);
        }
        self.tasks.last += 1;
        let task = Task {
            number: self.tasks.last,
            id: ambient.hex_id(),
            revision: *revision,
            call,
            lane: to.route.lane,
            principal: origin.principal.clone(),
            record: origin.record.clone(),
            party: *party,
            created: ambient.now,
            updated: ambient.now,
            ttl: origin.ttl.unwrap_or(DEFAULT_TTL),
            state: State::Working,
            reservation,
            waiting: Vec::new(),
        };
        out.go(to.route.lane);
        task_answers::created(&mut out.wire, &to.id, &task, &self.render);
        self.tasks.all.push(task);
        self.incoming.change(call, |call| {
            call.recipient = OutcomeRecipient::Task;
            if call.revision.is_stateless() {
                // Notices about a request end with its answer.
                (call.progress_token, call.log_level) = (None, None);
            }
            // Notices about a task continue, but its exchange ends.
            call.to.route.lane = Lane::MAIN;
        });
    }

    /// The call of a task has ended: keeps its answer.
    pub(super) fn end_task(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let (Some(ended), Some(at)) = (self.incoming.remove(call), self.tasks.of(call)) else { return };
        let mut line = Frames::default();
        self.render.outcome(&mut line, &ended, outcome);
        json::flatten(&mut line);
        let line = String::from_utf8_lossy(&line);
        let envelope = Envelope::parse(line.trim_end()).ok();
        let result = envelope.as_ref().and_then(|envelope| envelope.result);
        let error = envelope.as_ref().and_then(|envelope| envelope.error);
        let state = match (result, error) {
            (Some(result), _) if ended.revision.is_stateless() => State::Completed(result.to_owned()),
            (Some(result), _) => {
                let related = task_answers::related(result, &self.tasks.all[at].id);
                let failed = Members::of(result).and_then(|result| result.raw("isError"));
                let has_failed = failed.is_some_and(|failed| failed.get() == "true");
                if has_failed { State::FailedResult(related) } else { State::Completed(related) }
            }
            (None, Some(error)) => State::Failed(error.to_owned()),
            (None, None) => State::Cancelled,
        };
        let state = self.tasks.fitting(at, state);
        self.set_task(at, state, ambient, out);
    }

    /// The provider asks the caller of a task a question.
    pub(super) fn task_asks(&mut self, call: CallId, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some(at) = self.tasks.of(call) {
            self.set_task(at, State::InputRequired, ambient, out);
            if !self.tasks.all[at].revision.is_stateless() {
                self.send_task_questions(call, out);
            }
        }
    }

    /// Sends the questions of a task on a lane that reaches its caller.
    ///
    /// With separate exchanges, only a request that waits for the outcome is sure to be read. Until there is one, the
    /// state of the task tells the caller to send such a request.
    pub(super) fn send_task_questions(&mut self, call: CallId, out: &mut Output<'_>) {
        let Some(task) = self.tasks.of(call).map(|at| &self.tasks.all[at]) else { return };
        let waiting = task.waiting.last().map(|to| to.route.lane);
        let only_way = (task.lane == Lane::MAIN).then_some(Lane::MAIN);
        let id = task.id.clone();
        if let Some(lane) = waiting.or(only_way) {
            self.send_questions(Some(call), lane, Some(&id), out);
        }
    }

    /// After the last question of a task is answered, the task continues.
    pub(super) fn continue_task_if_answered(&mut self, call: CallId, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Some(at) = self.tasks.of(call)
            && matches!(self.tasks.all[at].state, State::InputRequired)
            && !self.questions.has_any(call)
        {
            self.set_task(at, State::Working, ambient, out);
        }
    }

    /// Cancels a task for its caller.
    pub(super) fn cancel_task(&mut self, at: usize, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.cancel_call(self.tasks.all[at].call, out);
        self.set_task(at, State::Cancelled, ambient, out);
    }

    /// Sets the state of a task, and notifies the clients.
    fn set_task(&mut self, at: usize, state: State, ambient: &Ambient<'_>, out: &mut Output<'_>) {
        let task = &mut self.tasks.all[at];
        (task.state, task.updated) = (state, ambient.now);
        self.report_task(at, out);
        let task = &mut self.tasks.all[at];
        if task.state.has_ended() {
            for to in std::mem::take(&mut task.waiting) {
                out.go(to.route.lane);
                task_answers::outcome(&mut out.wire, &to.id, task);
            }
        }
    }

    /// Removes expired tasks.
    pub(super) fn expire_tasks(&mut self, ambient: &Ambient<'_>, out: &mut Output<'_>) {
        let mut at = 0;
        while at < self.tasks.all.len() {
            if self.tasks.all[at].expires() <= ambient.now.elapsed {
                self.end_now(at, &errors::invalid_params("the task has expired"), out);
            } else {
                at += 1;
            }
        }
    }

    /// Ends all tasks.
    pub(super) fn close_tasks(&mut self, out: &mut Output<'_>) {
        self.tasks.is_closed = true;
        let stopping = "the session ended before the task did".to_owned();
        let stopping = errors::internal(FailureKind::Stopping.word(), stopping, None);
        while !self.tasks.all.is_empty() {
            self.end_now(self.tasks.all.len() - 1, &stopping, out);
        }
    }

    fn end_now(&mut self, at: usize, why: &rpc::Error<'_>, out: &mut Output<'_>) {
        let task = self.tasks.all.remove(at);
        if !task.state.has_ended() {
            self.cancel_call(task.call, out);
        }
        for to in task.waiting {
            self.refuse(&to, why, out);
        }
    }
}
