//! Our side towards a downstream that speaks MCP, both eras in one process.
//!
//! A request that carries its own opening in `_meta` is evaluated independently, in any state. All other messages
//! belong to the handshake, whose states are named after the expected input. This file parses envelopes and routes
//! them; `requests` serves the requests.

use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Peer, Side};
use gladhand_core::operations::{CallId, Failure, Level, Notice, Outcome, Question, QuestionId, Reply};
use gladhand_core::wire::Frames;
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::rpc::{self, Envelope};
use gladhand_core::wire::{Fault, Id, pick};

use super::batch::Batches;
use super::capabilities::InForce;
use super::changes::Changes;
use super::errors;
use super::incoming_requests::{IncomingRequests, OutcomeRecipient, ReplyRoute, ReplyTo, RequestKind, Watcher};
use super::listen::Listeners;
use super::message::{Call, Message, Params, Read};
use super::meta::Meta;
use super::parked::{Origin, ParkedCalls};
use super::questions::Questions;
use super::render::Renderer;
use super::stateless::Stateless;
use super::tasks::Tasks;
use super::watches::Watches;
use crate::ambient::{Ambient, Party};
use crate::side::{Action, Lane, Menu, Output, Server, ServerSetup, Stop};
use crate::storage::Reservation;

/// Our side towards a downstream.
///
/// One step, then drain: the driver takes the whole output of a step before the next step.
#[derive(Debug)]
pub struct McpServer {
    pub(super) setup: ServerSetup,
    pub(super) phase: Phase,
    pub(super) stateless: Stateless,
    pub(super) incoming: IncomingRequests,
    pub(super) batches: Batches,
    pub(super) listeners: Listeners,
    pub(super) questions: Questions,
    pub(super) parked: ParkedCalls,
    pub(super) tasks: Tasks,
    pub(super) render: Renderer,
    /// The resources to which the session is subscribed.
    pub(super) watches: Watches,
    /// Lists that changed before the session was open.
    pub(super) unreported: Changes,
}

/// The state of the handshake.
#[derive(Debug)]
pub(super) enum Phase {
    /// Only `initialize` and `ping` are allowed.
    ExpectInitialize,
    /// Our result was sent. Requests are served, but we send nothing except replies.
    ExpectInitialized(Session),
    /// Everything that was agreed is allowed.
    Open(Session),
}

/// A session of the handshake era.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) in_force: Arc<InForce>,
    /// The minimum level of log messages. `None`: the client has not set one, and gets all that are sent.
    pub(super) level: Option<Level>,
    /// The memory that a large agreement reserves. Sessions share this memory.
    pub(super) _reservation: Option<Box<dyn Reservation>>,
}

/// A request being processed.
#[derive(Debug)]
pub(super) struct Request<'m, 'a> {
    pub(super) to: ReplyTo,
    pub(super) method: &'m str,
    pub(super) params: Params<'m, 'a>,
    /// The origin of the request, if it may be needed later.
    pub(super) origin: Option<Box<Origin>>,
    /// The party whose share it uses.
    pub(super) party: Option<Party>,
    /// The text of the message.
    text: &'a str,
}

impl<'a> Request<'_, 'a> {
    /// All parameters. Parses the message again, which only rare requests need.
    pub(super) fn all_params(&self) -> Option<&'a RawValue> {
        all_params(self.text)
    }
}

fn all_params(text: &str) -> Option<&RawValue> {
    Envelope::parse(text).ok()?.params.filter(|params| Kind::of(params) != Kind::Null)
}

impl McpServer {
    /// A server side before its first message.
    pub fn new(setup: ServerSetup) -> Self {
        Self {
            render: Renderer::new(&setup),
            phase: Phase::ExpectInitialize,
            stateless: Stateless::default(),
            incoming: IncomingRequests::default(),
            batches: Batches::default(),
            listeners: Listeners::default(),
            questions: Questions::default(),
            parked: ParkedCalls::default(),
            tasks: Tasks::default(),
            watches: Watches::default(),
            unreported: Changes::default(),
            setup,
        }
    }

    /// Whether a request carries an opening that was agreed before, with the given version. The caller then need not
    /// check it again.
    pub fn knows(&self, message: &Message<'_>, version: &str) -> bool {
        let meta = message.call().and_then(Call::params).and_then(Params::meta);
        meta.is_some_and(|meta| self.stateless.knows(meta, version))
    }

    /// Processes a message that is already parsed.
    pub fn take<'a>(&mut self, message: &Message<'a>, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        match &message.read {
            Read::One(call) => {
                self.message(call, ReplyRoute { lane: ambient.lane, batch: None }, ambient, out);
            }
            Read::Batch(parts) => self.receive_batch(parts, ambient, out),
            Read::Garbled(fault) => self.handle_unreadable_line(fault, ambient, out),
        }
    }

    /// Processes one message, alone or from a batch.
    pub(super) fn message<'a>(
        &mut self,
        call: &Call<'a>,
        route: ReplyRoute,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        let Call { text, ref error, ref envelope, .. } = *call;
        if let Some(error) = error {
            let error = match serde_json::from_str::<&RawValue>(text) {
                Ok(value) if Kind::of(value) != Kind::Object => {
                    errors::invalid_request("the line is JSON but no JSON-RPC object")
                }
                // This includes an object that is valid JSON but cannot be read: a name with an unpaired surrogate.
                _ => errors::unreadable(&error.into()),
            };
            return self.refuse_unread(route, &error, out);
        }
        if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
            return self.response(envelope.id, envelope.result, envelope.error, ambient, out);
        }
        let id = envelope.id.filter(|id| Id::is_string_or_number(id) && Id::is_keepable(id));
        let method = match (envelope.is_version_two(), call.method.as_deref()) {
            (true, Some(method)) => method,
            (is_version_two, _) => {
                let problem = if is_version_two { "`method` must be a string" } else { "`jsonrpc` must be \"2.0\"" };
                let error = errors::invalid_request(problem);
                return match id {
                    Some(id) => self.refuse(&ReplyTo { id: Id::of(id), route }, &error, out),
                    None => self.refuse_unread(route, &error, out),
                };
            }
        };
        match (envelope.id, id) {
            (None, _) => self.notification(method, text, route.lane, out),
            (Some(_), None) => {
                let error = errors::invalid_request("`id` must be a string or a number of at most 4096 bytes");
                self.refuse_unread(route, &error, out);
            }
            (Some(_), Some(id)) => {
                let to = ReplyTo { id: Id::of(id), route };
                match call.params() {
                    Some(params) => {
                        let party = ambient.party;
                        self.request(Request { to, method, params, origin: None, party, text }, ambient, out);
                    }
                    None => self.refuse(&to, &errors::invalid_params("`params` must be an object"), out),
                }
            }
        }
    }

    fn request<'a>(&mut self, request: Request<'_, 'a>, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        let Some(raw) = request.params.meta() else {
            return self.handshake_request(request, Meta::default(), ambient, out);
        };
        if self.stateless.contains(raw) {
            return self.stateless_request(request, raw, Meta::default(), ambient, out);
        }
        match Meta::of(raw) {
            None => self.refuse(&request.to, &errors::invalid_params("`_meta` must be an object"), out),
            Some(meta) if meta.is_stateless() => self.stateless_request(request, raw, meta, ambient, out),
            Some(meta) => self.handshake_request(request, meta, ambient, out),
        }
    }

    /// Handles a request of the handshake era.
    fn handshake_request<'a>(
        &mut self,
        request: Request<'_, 'a>,
        meta: Meta<'a>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        let in_force = match &self.phase {
            _ if request.method == "initialize" => return self.initialize(request, out),
            Phase::ExpectInitialize if request.method == "ping" => return self.pong(request, out),
            Phase::ExpectInitialize => {
                let error = match request.method {
                    "server/discover" => errors::bad_meta(
                        super::meta::PROTOCOL_VERSION,
                        "server/discover needs the version and the client's capabilities",
                    ),
                    method => errors::not_open(method),
                };
                return self.refuse(&request.to, &error, out);
            }
            Phase::ExpectInitialized(session) | Phase::Open(session) => Arc::clone(&session.in_force),
        };
        self.serve(request, meta.progress_token, None, &in_force, ambient, out);
    }

    fn notification(&mut self, method: &str, text: &str, lane: Lane, out: &mut Output<'_>) {
        match (method, &self.phase) {
            ("notifications/initialized", _) => self.initialized(out),
            // Cancellations of stateless requests carry no opening themselves.
            ("notifications/cancelled", _) => self.cancelled(all_params(text), lane, out),
            (_, Phase::ExpectInitialize) => {
                out.actions.push(Action::Dropped("a notification before a session was open"));
            }
            ("notifications/roots/list_changed", Phase::ExpectInitialized(session) | Phase::Open(session))
                if session.in_force.gate.admit(Side::Client, method).is_ok() =>
            {
                out.actions.push(Action::RootsChanged);
            }
            // This includes progress: this side never requests it.
            _ => out.actions.push(Action::Dropped("a notification without a recipient")),
        }
    }

    fn cancelled(&mut self, params: Option<&RawValue>, lane: Lane, out: &mut Output<'_>) {
        let id = params.and_then(|params| pick(params, ["requestId"])).and_then(|[id]| id);
        let Some(id) = id.filter(|id| Id::is_keepable(id)) else {
            out.actions.push(Action::Dropped("a cancellation that names no request"));
            return;
        };
        if let Some(call) = self.incoming.newest(id, lane) {
            self.cancel_call(call, out);
        } else if !self.listeners.cancel(id, lane, out) && !self.tasks.stop_waiting(id) {
            out.actions.push(Action::Dropped("a cancellation of a request that is not in flight"));
        }
    }

    /// Ends a cancelled call without an answer.
    pub(super) fn cancel_call(&mut self, call: CallId, out: &mut Output<'_>) {
        let ended = self.incoming.remove(call);
        self.withdraw_questions(call, out);
        if let Some(batch) = ended.and_then(|call| call.to.route.batch) {
            self.batches.settle(batch, out);
        }
        out.actions.push(Action::Cancel(call));
    }

    /// Whether the version in force has batches.
    pub(super) fn has_batches(&self) -> bool {
        match &self.phase {
            Phase::ExpectInitialize => false,
            Phase::ExpectInitialized(session) | Phase::Open(session) => session.in_force.revision.has_batches(),
        }
    }

    /// Answers a request with an error, immediately.
    pub(super) fn refuse(&mut self, to: &ReplyTo, error: &rpc::Error<'_>, out: &mut Output<'_>) {
        self.answer(to.route, out, |wire| rpc::error(wire, Some(&to.id), error));
    }

    /// Answers a message whose id could not be read.
    pub(super) fn refuse_unread(&mut self, route: ReplyRoute, error: &rpc::Error<'_>, out: &mut Output<'_>) {
        out.actions.push(Action::Dropped("a line that cannot be read"));
        self.answer(route, out, |wire| rpc::error(wire, None, error));
    }

    /// Writes an answer to its lane or its batch.
    pub(super) fn answer(&mut self, route: ReplyRoute, out: &mut Output<'_>, write: impl FnOnce(&mut Frames)) {
        self.batches.answer(route, out, write);
    }
}

impl Server for McpServer {
    fn handle_line<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        self.take(&Message::read(text), ambient, out);
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.refuse_unread(ReplyRoute { lane: ambient.lane, batch: None }, &errors::unreadable(fault), out);
    }

    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.withdraw_questions(call, out);
        match self.incoming.get(call).map(|call| call.recipient) {
            Some(OutcomeRecipient::Parked) => return self.end_parked(call, outcome),
            Some(OutcomeRecipient::Task) => return self.end_task(call, outcome, ambient, out),
            Some(OutcomeRecipient::Request) | None => {}
        }
        let Some(call) = self.incoming.remove(call) else { return };
        match &call.request_kind {
            &RequestKind::Watch { ref uri, by: Watcher::Listener(listener) } => {
                let granted = if let Ok(Reply::Watching(id)) = outcome { Some(id) } else { None };
                return self.listeners.watched(listener, uri, granted, out);
            }
            RequestKind::Watch { uri, by: Watcher::Session } => {
                if let Ok(Reply::Watching(id)) = outcome {
                    self.watches.add(uri, id, out);
                }
            }
            _ => {}
        }
        let render = &self.render;
        let write = |wire: &mut Frames| {
            let begin = wire.len();
            render.outcome(wire, &call, outcome);
            // Schemas and results are raw JSON of other peers, possibly on several lines.
            let end = wire.len() - 1;
            json::flatten(&mut wire[begin..end]);
        };
        if !self.batches.try_answer(call.to.route, out, write) {
            self.refuse(&call.to, &errors::of(Failure::not_kept()), out);
        }
        if let Some(batch) = call.to.route.batch {
            self.batches.settle(batch, out);
        }
    }

    fn notify(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        match notice {
            Notice::GoesOnAsTask(call) => self.begin_task(call, ambient, out),
            notice => self.send_notice(notice, out),
        }
    }

    fn handle_lane_closed(&mut self, lane: Lane, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        // In a session, the answer is kept until the client returns. Without a session, the client cannot return.
        for call in self.incoming.ending_with(lane) {
            self.cancel_call(call, out);
        }
        self.listeners.handle_lane_closed(lane, out);
    }

    fn ask(
        &mut self,
        call: Option<CallId>,
        questions: Vec<(QuestionId, Question)>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        match call {
            Some(call) => self.ask_caller(call, questions, ambient, out),
            None => self.ask_session(questions, ambient, out),
        }
    }

    fn set_offer(&mut self, identity: Peer, menu: Menu) {
        (self.setup.identity, self.setup.menu) = (identity, menu);
        self.render = Renderer::new(&self.setup);
        self.stateless = Stateless::default();
    }

    fn continue_as_task(&mut self, call: CallId, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.begin_task(call, ambient, out);
    }

    fn stop(&mut self, _: Stop, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        // From now on, no client can answer a question or return for a call.
        self.close_questions(out);
        self.close_parked(out);
        self.close_tasks(out);
        self.listeners.close(&self.render, out);
        self.watches.close(out);
    }

    fn handle_timeout(&mut self, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.expire_parked(ambient, out);
        self.expire_tasks(ambient, out);
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.parked.deadline().into_iter().chain(self.tasks.deadline()).min()
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.incoming.ids()
    }

    fn held_bytes(&self) -> usize {
        self.incoming.held_bytes() + self.batches.held_bytes() + self.parked.held_bytes()
    }
}
