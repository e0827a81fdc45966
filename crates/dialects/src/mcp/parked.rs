//! Calls that wait for their caller to return with answers (2026-07-28).
//!
//! If a provider asks a question during a call, the request is answered with `input_required` and the call is parked;
//! the provider keeps running. The caller repeats the request with its answers and the `requestState` from our answer.
//! That is a random handle, valid once and for a limited time, only for the same principal and the same request. It
//! contains no data, so it can be neither read nor forged.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{CallId, Failure, Notice, Outcome, ScopeRecord, TaskWish, outcome_weight};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::{Members, rpc};

use super::capabilities::InForce;
use super::errors;
use super::incoming_requests::OutcomeRecipient;
use super::kept_notices::KeptNotices;
use super::requests::NoticeOptions;
use super::server::{McpServer, Request};
use super::tasks::{self, MAX_KEPT};
use crate::ambient::{Ambient, Party};
use crate::shares::Bound;
use crate::side::{Action, Output, Server, TASKS_EXTENSION};
use crate::storage::Reservation;

/// Maximum number of parked calls.
pub(super) const MAX_PARKED: usize = 256;

/// Outcomes up to this size need no storage: their number is limited.
const SMALL: usize = 4096;

/// How long a call stays parked.
pub(super) const PARKED_TIMEOUT: Duration = Duration::from_secs(600);

/// Whether requests of a method may be answered with questions, or become tasks.
pub(super) fn can_wait(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// The origin of a call, to recognise its caller later.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) principal: Option<Box<str>>,
    /// The scopes that the call needs, in the stateless era with a transport that knows scopes. In the handshake era,
    /// the session has one record for all its calls.
    pub(super) record: Option<Arc<ScopeRecord>>,
    /// The hash of the method and its parameters. It detects mix-ups, not forgery: a parked call continues with its
    /// first parameters, regardless of those in later requests.
    digest: u64,
    /// Answers in the first request, for questions that the caller expected.
    pub(super) answers: Option<Box<RawValue>>,
    /// Whether the caller was asked a question. The result is then specific to this caller and this time.
    pub(super) has_asked: bool,
    /// Whether the caller accepts a task.
    pub(super) task: TaskWish,
    /// How long the task should be kept, if the caller specified it.
    pub(super) ttl: Option<Duration>,
}

impl Origin {
    pub(super) fn held_bytes(&self) -> usize {
        self.answers.as_ref().map_or(0, |answers| answers.get().len())
    }
}

/// All parked calls, in the order of their expiry.
#[derive(Debug, Default)]
pub(super) struct ParkedCalls {
    all: VecDeque<ParkedCall>,
}

#[derive(Debug)]
struct ParkedCall {
    handle: String,
    call: CallId,
    expires: Duration,
    /// A call may end without its answers. The outcome is then kept until the caller returns.
    outcome: Option<Kept>,
    /// Notices about the call since its request was answered.
    notices: KeptNotices,
}

/// A kept outcome.
#[derive(Debug)]
struct Kept {
    outcome: Outcome,
    bytes: usize,
    /// The storage that it uses.
    _reservation: Box<dyn Reservation>,
}

impl ParkedCalls {
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.all.front().map(|parked| parked.expires)
    }

    /// How many bytes of notices are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.all.iter().map(|parked| parked.notices.bytes()).sum()
    }
}

impl McpServer {
    /// Records the origin of a request, if it may be needed later. Fails if the request contains invalid values.
    pub(super) fn origin(
        &self,
        request: &Request<'_, '_>,
        in_force: &InForce,
        ambient: &Ambient<'_>,
    ) -> Result<Option<Box<Origin>>, rpc::Error<'static>> {
        let (mut task, mut ttl) = (TaskWish::Never, None);
        let is_tool = request.method == "tools/call";
        if in_force.revision.is_stateless() {
            // Who declared nothing cannot be asked anything.
            if in_force.agreement.agreed(Side::Client).next().is_none() {
                return Ok(None);
            }
            let takes_tasks = self.setup.menu.tasks && in_force.agreement.allows(Side::Client, TASKS_EXTENSION);
            if is_tool && takes_tasks && self.tasks.has_room_for(request.party) {
                task = TaskWish::Able;
            }
        } else {
            let has_tasks = || in_force.agreement.allows(Side::Server, tasks::CALLS_AS_TASKS);
            let Some(task_params) = request.params.task().filter(|_| is_tool && has_tasks()) else { return Ok(None) };
            ttl = tasks::requested_ttl(task_params)?;
            if !self.tasks.has_room_for(request.party) {
                return Err(errors::busy("tasks"));
            }
            task = TaskWish::Only;
        }
        let given = request.params.input_responses().filter(|_| in_force.revision.is_stateless());
        Ok(Some(Box::new(Origin {
            principal: ambient.principal.map(Into::into),
            record: ambient.scopes.as_ref().filter(|_| in_force.revision.is_stateless()).map(|_| Arc::default()),
            digest: digest(request),
            answers: given.map(ToOwned::to_owned),
            has_asked: false,
            task,
            ttl,
        })))
    }

    /// Whether a party may park one more call.
    pub(super) fn may_park(&self, party: Option<Party>) -> bool {
        let bound = Bound { limit: MAX_PARKED, used: self.parked.all.len() };
        bound.admits(1, party, |party| {
            let parties = self.parked.all.iter().filter_map(|parked| self.incoming.get(parked.call)?.party);
            parties.filter(|other| *other == party).count()
        })
    }

    /// Ends a parked call. An outcome that is too large to be kept becomes a failure.
    pub(super) fn end_parked(&mut self, call: CallId, mut outcome: Outcome) {
        let party_of = |call| self.incoming.get(call).and_then(|call| call.party);
        let (party, mut bytes) = (party_of(call), outcome_weight(&outcome));
        let mut reservation = self.setup.storage.reserve(party);
        let kept = self.parked.all.iter().filter(|parked| party_of(parked.call) == party);
        let kept: usize = kept.filter_map(|parked| Some(parked.outcome.as_ref()?.bytes)).sum();
        if bytes > SMALL && (kept + bytes > MAX_KEPT || !reservation.resize(bytes)) {
            outcome = Err(Failure::not_kept());
            bytes = outcome_weight(&outcome);
        }
        if let Some(parked) = self.parked.all.iter_mut().find(|parked| parked.call == call) {
            parked.outcome = Some(Kept { outcome, bytes, _reservation: reservation });
        }
    }

    /// Answers a call's request with its open questions. The call continues when the caller returns.
    pub(super) fn park(&mut self, call: CallId, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(parked) = self.incoming.get(call) else { return };
        let handle = ambient.hex_id();
        out.go(parked.to.route.lane);
        rpc::begin_result(&mut out.wire, &parked.to.id);
        out.wire.extend_from_slice(br#"{"resultType":"input_required","inputRequests":"#);
        self.questions.write_requests(call, &mut out.wire);
        out.wire.extend_from_slice(br#","requestState":"#);
        json::write(&mut out.wire, &handle);
        self.render.about_server(&mut out.wire);
        out.wire.push(b'}');
        rpc::finish(&mut out.wire);
        let notices = KeptNotices::new(parked.progress_token.is_some(), parked.log_level);
        self.incoming.change(call, |call| {
            call.recipient = OutcomeRecipient::Parked;
            // The caller names a token and a level for each request. Until the next one, notices are kept.
            (call.progress_token, call.log_level) = (None, None);
        });
        let expires = ambient.now.elapsed + PARKED_TIMEOUT;
        self.parked.all.push_back(ParkedCall { handle, call, expires, outcome: None, notices });
    }

    /// Whether a call waits for its caller to come back.
    pub(super) fn is_parked(&self, call: CallId) -> bool {
        self.incoming.get(call).is_some_and(|call| call.recipient == OutcomeRecipient::Parked)
    }

    /// Keeps a notice about a parked call for the caller's next request.
    pub(super) fn keep_notice(&mut self, call: CallId, notice: Notice) {
        let party = self.incoming.get(call).and_then(|call| call.party);
        if let Some(parked) = self.parked.all.iter_mut().find(|parked| parked.call == call) {
            parked.notices.push(notice, &*self.setup.storage, party);
        }
    }

    /// Handles a caller that returns with answers.
    pub(super) fn resume_parked(
        &mut self,
        request: Request<'_, '_>,
        notice_options: NoticeOptions<'_>,
        in_force: &Arc<InForce>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        let (at, answers) = match self.find_parked(&request, ambient) {
            Ok(found) => found,
            Err(error) => return self.refuse(&request.to, &error, out),
        };
        if !self.has_room_for(request.party) {
            return self.refuse(&request.to, &errors::busy("calls in flight"), out);
        }
        let Some(ParkedCall { call, outcome, notices, .. }) = self.parked.all.remove(at) else { return };
        self.incoming.change(call, |call| {
            call.recipient = OutcomeRecipient::Request;
            call.to = request.to;
            call.party = request.party;
            call.in_force = Arc::clone(in_force);
            call.progress_token = notice_options.progress_token.map(ToOwned::to_owned);
            call.progress = None;
            call.log_level = notice_options.log_level;
        });
        // Before the response, whether that is the outcome or further questions.
        notices.into_notices().for_each(|notice| self.send_notice(notice, out));
        if let Some(outcome) = outcome {
            return self.handle_outcome(call, outcome.outcome, ambient, out);
        }
        out.actions.extend(self.questions.answer(call, &answers));
        // The returning caller may have declared fewer capabilities than before.
        out.actions.extend(self.questions.drop_unaskable(call, in_force));
        if self.questions.has_any(call) {
            self.park(call, ambient, out);
        }
    }

    /// Finds the parked call of a request, and parses the answers.
    fn find_parked<'a>(
        &self,
        request: &Request<'_, 'a>,
        ambient: &Ambient<'_>,
    ) -> Result<(usize, Members<'a>), rpc::Error<'static>> {
        let state = request.params.request_state().and_then(json::string);
        let is_good = |parked: &ParkedCall| {
            ambient.now.elapsed < parked.expires && state.as_deref() == Some(parked.handle.as_str())
        };
        let at = self.parked.all.iter().position(is_good);
        let call = at.and_then(|at| self.incoming.get(self.parked.all[at].call));
        let origin = call.and_then(|call| call.origin.as_deref());
        let is_theirs = |origin: &&Origin| origin.principal.as_deref() == ambient.principal;
        // The handle of another principal is answered like an unknown one.
        let (Some(at), Some(origin)) = (at, origin.filter(is_theirs)) else {
            return Err(errors::invalid_params(
                "`requestState` was not issued by this server, has expired, or was used before",
            ));
        };
        errors::check_scopes(origin.record.as_deref(), ambient)?;
        if origin.digest != digest(request) {
            return Err(errors::invalid_params(
                "`requestState` belongs to another request: send the same method and parameters again",
            ));
        }
        let answers = match request.params.input_responses() {
            None => Some(Members::default()),
            Some(raw) => Members::of(raw),
        };
        let answers = answers.ok_or_else(|| errors::invalid_params("`inputResponses` must be an object"))?;
        Ok((at, answers))
    }

    /// Ends calls whose callers did not return in time.
    pub(super) fn expire_parked(&mut self, ambient: &Ambient<'_>, out: &mut Output<'_>) {
        while self.parked.deadline().is_some_and(|deadline| deadline <= ambient.now.elapsed) {
            self.abandon_first(out);
        }
    }

    /// Ends all parked calls.
    pub(super) fn close_parked(&mut self, out: &mut Output<'_>) {
        while !self.parked.all.is_empty() {
            self.abandon_first(out);
        }
    }

    fn abandon_first(&mut self, out: &mut Output<'_>) {
        let Some(parked) = self.parked.all.pop_front() else { return };
        self.incoming.remove(parked.call);
        self.questions.forget(parked.call);
        if parked.outcome.is_none() {
            out.actions.push(Action::Cancel(parked.call));
        }
    }
}

/// The hash of the parts of a request that stay equal when it is repeated.
fn digest(request: &Request<'_, '_>) -> u64 {
    fn text<'a>(raw: Option<&'a RawValue>, absent: &'a str) -> &'a str {
        raw.map_or(absent, RawValue::get)
    }
    let mut hasher = DefaultHasher::new();
    let params = &request.params;
    (request.method, text(params.name(), ""), text(params.uri(), ""), text(params.arguments(), "{}")).hash(&mut hasher);
    hasher.finish()
}
