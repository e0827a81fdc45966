//! Our side towards a downstream that speaks MCP, both eras in one process.
//!
//! A request that carries its own opening in `_meta` is judged alone, in any state; everything
//! else belongs to the handshake, whose states are named after what is awaited. This file reads
//! envelopes and sends them on their way; what they ask for is served in `requests`.

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_operations::{CallId, Level, Notice, Outcome};
use gladhand_wire::json::{self, Kind, RawValue};
use gladhand_wire::rpc::{self, Envelope};
use gladhand_wire::{Fault, Id, Picked, pick};

use super::batch::Batches;
use super::capabilities::InForce;
use super::errors;
use super::listen::Listeners;
use super::meta::Meta;
use super::pending::{Pending, ReplyTo, Way};
use super::render::Renderer;
use super::stateless::Stateless;
use crate::ambient::Ambient;
use crate::side::{Action, Lane, Output, Server, ServerSetup, Stop};

/// The level from which log messages are sent until the client sets one.
pub(super) const DEFAULT_LEVEL: Level = Level::Warning;

/// Our side towards a downstream.
///
/// One step, then drain: everything that a step put into its output is taken before the next.
#[derive(Debug)]
pub(super) struct McpServer {
    pub(super) setup: ServerSetup,
    pub(super) phase: Phase,
    pub(super) stateless: Stateless,
    pub(super) pending: Pending,
    pub(super) batches: Batches,
    pub(super) listeners: Listeners,
    pub(super) render: Renderer,
    /// The list of tools changed while nobody could be told.
    pub(super) owes_tools_changed: bool,
}

/// Where the handshake stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing but `initialize` and `ping`.
    ExpectInitialize,
    /// Our result is out. Requests are served; nothing but replies leaves.
    ExpectInitialized(Session),
    /// Everything that was agreed.
    Open(Session),
}

/// A session of the handshake era.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) in_force: Arc<InForce>,
    /// From which level on log messages are wanted.
    pub(super) level: Level,
}

/// A request on its way through.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) to: ReplyTo,
    pub(super) method: Cow<'a, str>,
    pub(super) params: Params<'a>,
    /// The message that it came in.
    text: &'a str,
}

impl<'a> Request<'a> {
    /// All parameters. Reads the message again, which only rare requests need.
    pub(super) fn all_params(&self) -> Option<&'a RawValue> {
        all_params(self.text)
    }
}

fn all_params(text: &str) -> Option<&RawValue> {
    Envelope::parse(text).ok()?.params.filter(|params| Kind::of(params) != Kind::Null)
}

/// The parameters that the hot path needs, picked while the envelope was read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Params<'a> {
    pub(super) name: Option<&'a RawValue>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) meta: Option<&'a RawValue>,
    pub(super) cursor: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    const NAMES: [&'static str; 4] = ["name", "arguments", "_meta", "cursor"];

    /// What was picked; absent and `null` are the same. `None` if they are no object.
    fn of(picked: Option<Picked<'a, 4>>) -> Option<Self> {
        match picked {
            None | Some(Picked { kind: Kind::Null, .. }) => Some(Self::default()),
            Some(Picked { kind: Kind::Object, members }) => {
                let [name, arguments, meta, cursor] =
                    members.map(|member| member.filter(|raw| Kind::of(raw) != Kind::Null));
                Some(Self { name, arguments, meta, cursor })
            }
            Some(_) => None,
        }
    }
}

impl McpServer {
    pub(super) fn new(setup: ServerSetup) -> Self {
        Self {
            render: Renderer::new(&setup.identity, &setup.menu),
            phase: Phase::ExpectInitialize,
            stateless: Stateless::default(),
            pending: Pending::default(),
            batches: Batches::default(),
            listeners: Listeners::default(),
            owes_tools_changed: false,
            setup,
        }
    }

    /// One message, alone or out of a batch.
    pub(super) fn message<'a>(&mut self, text: &'a str, way: Way, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        let envelope = match Envelope::picking(text, Params::NAMES) {
            Ok(envelope) => envelope,
            Err(error) => {
                let error = match serde_json::from_str::<&RawValue>(text) {
                    Ok(value) if Kind::of(value) != Kind::Object => {
                        errors::invalid_request("the line is JSON but no JSON-RPC object")
                    }
                    // Also an object that is JSON and yet unreadable: half a surrogate pair in a name.
                    _ => errors::unreadable(&error.into()),
                };
                return self.refuse_unread(way, &error, out);
            }
        };
        if envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some()) {
            out.actions.push(Action::Dropped("a response to a request that was never sent"));
            return;
        }
        let id = envelope.id.filter(|id| Id::is_string_or_number(id) && Id::is_keepable(id));
        let method = match (envelope.is_version_two(), envelope.method_name()) {
            (true, Some(method)) => method,
            (is_version_two, _) => {
                let problem = if is_version_two { "`method` must be a string" } else { "`jsonrpc` must be \"2.0\"" };
                let error = errors::invalid_request(problem);
                return match id {
                    Some(id) => self.refuse(&ReplyTo { id: Id::of(id), way }, &error, out),
                    None => self.refuse_unread(way, &error, out),
                };
            }
        };
        match (envelope.id, id) {
            (None, _) => self.notification(&method, text, out),
            (Some(_), None) => {
                let error = errors::invalid_request("`id` must be a string or a number of at most 4096 bytes");
                self.refuse_unread(way, &error, out);
            }
            (Some(_), Some(id)) => {
                let to = ReplyTo { id: Id::of(id), way };
                match Params::of(envelope.params) {
                    Some(params) => self.request(Request { to, method, params, text }, ambient, out),
                    None => self.refuse(&to, &errors::invalid_params("`params` must be an object"), out),
                }
            }
        }
    }

    fn request<'a>(&mut self, request: Request<'a>, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        let Some(raw) = request.params.meta else {
            return self.handshake_request(request, Meta::default(), ambient, out);
        };
        if self.stateless.remembers(raw) {
            return self.stateless_request(request, raw, Meta::default(), ambient, out);
        }
        match Meta::of(raw) {
            None => self.refuse(&request.to, &errors::invalid_params("`_meta` must be an object"), out),
            Some(meta) if meta.is_stateless() => self.stateless_request(request, raw, meta, ambient, out),
            Some(meta) => self.handshake_request(request, meta, ambient, out),
        }
    }

    /// A request of the handshake era.
    fn handshake_request<'a>(
        &mut self,
        request: Request<'a>,
        meta: Meta<'a>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) {
        let in_force = match &self.phase {
            _ if request.method == "initialize" => return self.initialize(request, out),
            Phase::ExpectInitialize if request.method == "ping" => return self.pong(request, out),
            Phase::ExpectInitialize => {
                let error = match request.method.as_ref() {
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

    fn notification(&mut self, method: &str, text: &str, out: &mut Output<'_>) {
        match (method, &self.phase) {
            ("notifications/initialized", _) => self.initialized(out),
            // Requests that carry their own opening are cancelled without one.
            ("notifications/cancelled", _) => self.cancelled(all_params(text), out),
            (_, Phase::ExpectInitialize) => {
                out.actions.push(Action::Dropped("a notification before a session was open"));
            }
            // Progress, changes of roots: open or closed, there is nobody here who asked for them.
            _ => out.actions.push(Action::Dropped("a notification that nobody here waits for")),
        }
    }

    fn cancelled(&mut self, params: Option<&RawValue>, out: &mut Output<'_>) {
        let id = params.and_then(|params| pick(params, ["requestId"])).and_then(|[id]| id);
        let Some(id) = id.filter(|id| Id::is_keepable(id)) else {
            out.actions.push(Action::Dropped("a cancellation that names no request"));
            return;
        };
        if let Some(call) = self.pending.newest(id) {
            let ended = self.pending.remove(call);
            if let Some(batch) = ended.and_then(|call| call.to.way.batch) {
                self.batches.settle(batch, out);
            }
            out.actions.push(Action::Cancel(call));
        } else if !self.listeners.cancel(id) {
            out.actions.push(Action::Dropped("a cancellation of a request that is not in flight"));
        }
    }

    /// Whether the version in force has batches.
    pub(super) fn has_batches(&self) -> bool {
        match &self.phase {
            Phase::ExpectInitialize => false,
            Phase::ExpectInitialized(session) | Phase::Open(session) => session.in_force.revision.has_batches(),
        }
    }

    /// Answers a request with an error, at once.
    pub(super) fn refuse(&mut self, to: &ReplyTo, error: &rpc::Error<'_>, out: &mut Output<'_>) {
        self.answer(to.way, out, |wire| rpc::error(wire, Some(&to.id), error));
    }

    /// Answers what could not be read far enough to know its id.
    pub(super) fn refuse_unread(&mut self, way: Way, error: &rpc::Error<'_>, out: &mut Output<'_>) {
        self.answer(way, out, |wire| rpc::error(wire, None, error));
    }

    /// Writes one answer to where it belongs.
    pub(super) fn answer(&mut self, way: Way, out: &mut Output<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        match way.batch {
            None => {
                out.go(way.lane);
                write(&mut out.wire);
            }
            Some(batch) => self.batches.add(batch, write),
        }
    }
}

impl Server for McpServer {
    fn receive<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        if text.starts_with('[') {
            self.receive_batch(text, ambient, out);
        } else {
            self.message(text, Way { lane: ambient.lane, batch: None }, ambient, out);
        }
    }

    fn garbled(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.refuse_unread(Way { lane: ambient.lane, batch: None }, &errors::unreadable(fault), out);
    }

    fn resolve(&mut self, call: CallId, outcome: Outcome, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(call) = self.pending.remove(call) else { return };
        let (render, page_size) = (&self.render, self.setup.page_size);
        let write = |wire: &mut Vec<u8>| {
            let begin = wire.len();
            render.outcome(wire, &call, outcome, page_size);
            // Schemas and results are carried as others wrote them, who may have used several lines.
            let end = wire.len() - 1;
            json::flatten(&mut wire[begin..end]);
        };
        match call.to.way.batch {
            None => {
                out.go(call.to.way.lane);
                write(&mut out.wire);
            }
            Some(batch) => {
                self.batches.add(batch, write);
                self.batches.settle(batch, out);
            }
        }
    }

    fn notice(&mut self, notice: Notice, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        match notice {
            Notice::Progress(call, progress) => self.tell_progress(call, &progress, out),
            Notice::Log(call, log) => self.tell_log(call, &log, out),
            Notice::ToolsChanged => self.tell_tools_changed(out),
            _ => {}
        }
    }

    fn hung_up(&mut self, lane: Lane, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        // In a session the answer is kept for whoever comes back; without one nobody can.
        for call in self.pending.ending_with(lane) {
            self.pending.remove(call);
            out.actions.push(Action::Cancel(call));
        }
        self.listeners.hung_up(lane);
    }

    fn stop(&mut self, _: Stop, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.listeners.close(&self.render, out);
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.pending.ids()
    }

    fn held(&self) -> usize {
        self.pending.held() + self.batches.held()
    }
}
