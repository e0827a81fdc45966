//! Our side towards a loaf client.
//!
//! Requests to the agent or a tool go to the hub and are answered when they complete, in any order (`loaf` §2.5). Other
//! requests are answered in the same step. The events of a request precede its response.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::Order as _;
use gladhand_core::javascript::trim;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::call::no_arguments;
use gladhand_core::operations::{
    AgentCall, Call, CallId, Failure, FailureKind, Notice, Operation, Outcome, Reply, Terms, ToolCall,
};
use gladhand_core::trace_context::propagated;
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::rpc::{self, Envelope};
use gladhand_core::wire::{Fault, Id, RawValue, json};
use serde::Serialize;

use super::agent;
use super::errors::Error;
use super::methods::{self, Plain, Run};
use super::opening::{self, HandshakeResult};
use super::params::Checked;
use super::sessions::{MAX_SESSIONS, Sessions, Snapshot};
use super::text::Text;
use super::tools::{self, LogPayload, ProgressPayload, Returned};
use crate::ambient::Ambient;
use crate::side::{Action, Output, Server, ServerSetup, Stop};

/// Grace period for calls in flight after `system.shutdown`.
const GRACE: Duration = Duration::from_secs(5);

/// The server side. One step, then drain.
#[derive(Debug)]
pub(super) struct LoafServer {
    setup: ServerSetup,
    phase: Phase,
    /// The agreement in force: from the first served request, or from the latest handshake.
    agreement: Option<Arc<Agreement>>,
    sessions: Sessions,
    calls: HashMap<CallId, IncomingRequest>,
    held: usize,
    next_call: u64,
}

/// The phase of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Requests are served.
    Serving,
    /// `system.shutdown` was accepted: lines are discarded, and events of calls in flight are still sent.
    ShutDown,
    /// The input is closed, or a signal arrived: answers are still sent, events are not.
    Stopped,
}

/// A request whose answer comes from the hub.
#[derive(Debug)]
struct IncomingRequest {
    id: Id,
    request_kind: RequestKind,
}

impl IncomingRequest {
    fn held_bytes(&self) -> usize {
        let tool = match &self.request_kind {
            RequestKind::List | RequestKind::Agent | RequestKind::Shutdown | RequestKind::Silent => 0,
            RequestKind::Call { tool } => tool.len(),
        };
        self.id.as_bytes().len() + tool
    }
}

#[derive(Debug)]
enum RequestKind {
    List,
    Call {
        tool: Box<str>,
    },
    /// The agent answers.
    Agent,
    /// The agent answers, and the session ends with that answer.
    Shutdown,
    /// The answer of the agent is discarded.
    Silent,
}

impl LoafServer {
    /// A server before its first request.
    pub(super) fn new(setup: ServerSetup) -> Self {
        Self {
            setup,
            phase: Phase::Serving,
            agreement: None,
            sessions: Sessions::default(),
            calls: HashMap::new(),
            held: 0,
            next_call: 0,
        }
    }

    /// Classifies a line (`loaf` §2.3): a request, `None` for a notification, or an error response.
    fn classify<'a>(text: &'a str) -> Result<Option<Request<'a>>, Error> {
        if !text.starts_with('{') {
            let value: &RawValue = serde_json::from_str(text).map_err(|error| Error::parse_error(&error.into()))?;
            return Err(if Kind::of(value) == Kind::Array { Error::batch() } else { Error::invalid_request() });
        }
        let envelope = Envelope::parse(text).map_err(|error| Error::parse_error(&error.into()))?;
        let is_version_two = envelope.jsonrpc.and_then(json::string).as_deref() == Some("2.0");
        let method = envelope.method.and_then(Text::of);
        let is_blank = method.as_ref().is_some_and(|method| method.clone().trimmed().is_empty());
        let method = method.filter(|method| !is_blank || method.is_empty());
        match (is_version_two, method, envelope.id) {
            (true, Some(_), None) if !is_blank => Ok(None),
            (true, Some(method), Some(id))
                if (Id::is_string_or_number(id) || Kind::of(id) == Kind::Null) && Id::is_keepable(id) =>
            {
                Ok(Some(Request { id: Id::of(id), method, params: envelope.params }))
            }
            _ => Err(Error::invalid_request()),
        }
    }

    /// Serves a request, or returns the error.
    fn serve<'a>(
        &mut self,
        request: &Request<'a>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) -> Result<(), Error> {
        // The reference answers with the id `null` here, so its client waits forever. We echo the id.
        if request.method.is_empty() {
            return Err(Error::invalid_request());
        }
        let not_found = || Error::method_not_found(&request.method);
        let method = request.method.plain().and_then(methods::find).ok_or_else(not_found)?;
        if method.run != Run::Handshake && !opening::is_open(method, &*self.in_force(out)?) {
            return Err(not_found());
        }
        let params = Checked::check(method.name, method.params, request.params)?;
        match method.run {
            Run::Handshake => self.handshake(request, &params, out)?,
            Run::Ping => {
                let time = ambient.now.iso_millis();
                rpc::result(&mut out.wire, &request.id, &Pong { ok: true, time });
            }
            Run::CallTool => {
                let name = params.text("name").map(Text::lossy).unwrap_or_default();
                let arguments = params.object("arguments").map_or_else(no_arguments, Cow::Borrowed);
                let request_kind = RequestKind::Call { tool: name.as_ref().into() };
                let operation = Operation::CallTool(ToolCall { name, arguments });
                let trace = params.raw("_meta").and_then(propagated);
                self.deliver(&request.id, request_kind, operation, trace, out)?;
            }
            Run::AgentOr(plain) if !self.has_agent() => {
                self.answer_without_agent(plain, &request.id, &params, ambient, out)?
            }
            Run::Agent | Run::AgentOr(_) => {
                let call = agent::read_call(method.name, &params)?.ok_or_else(not_found)?;
                let request_kind = if agent::ends_session(&call) { RequestKind::Shutdown } else { RequestKind::Agent };
                self.deliver(&request.id, request_kind, Operation::Agent(call), None, out)?;
            }
        }
        Ok(())
    }

    /// Answers a method without an agent.
    fn answer_without_agent<'a>(
        &mut self,
        plain: Plain,
        id: &Id,
        params: &Checked<'a>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'a>,
    ) -> Result<(), Error> {
        match plain {
            Plain::State => rpc::result(&mut out.wire, id, &self.sessions.snapshot()),
            Plain::Debug => {
                let super_debug = params.is_true("super_debug");
                rpc::result(&mut out.wire, id, &DebugSet { super_debug });
            }
            Plain::Shutdown => {
                let reason = params.text("reason").map(|text| text.to_raw());
                let value = reason.clone().unwrap_or_else(|| json::to_raw("shutdown"));
                self.state_changed(&value, None, ambient, out);
                rpc::result(&mut out.wire, id, &Accepted { accepted: true, reason });
                self.close_session(out);
            }
            Plain::CreateSession => self.create_session(id, ambient, out)?,
            Plain::ReadSession => {
                let session = params.text("session_id").unwrap_or(Text::Plain(Cow::Borrowed("")));
                let state = session.plain().and_then(|id| self.sessions.state(id));
                rpc::result(&mut out.wire, id, state.ok_or_else(|| Error::unknown_session(&session))?);
            }
            Plain::ListTools => self.deliver(id, RequestKind::List, Operation::ListTools, None, out)?,
        }
        Ok(())
    }

    /// Stops reading; running calls may complete.
    fn close_session(&mut self, out: &mut Output<'_>) {
        self.phase = Phase::ShutDown;
        out.actions.push(Action::Close(GRACE));
    }

    fn has_agent(&self) -> bool {
        self.agreement.as_deref().is_some_and(opening::has_agent)
    }

    /// Sends a call to the agent and discards the answer.
    fn notify_agent(&mut self, call: AgentCall<'static>, out: &mut Output<'_>) {
        // If too many calls are in flight, the call is skipped. The agent also learns of the end of the session by
        // itself.
        let _ = self.deliver(&Id::of(RawValue::NULL), RequestKind::Silent, Operation::Agent(call), None, out);
    }

    fn handshake(&mut self, request: &Request<'_>, params: &Checked<'_>, out: &mut Output<'_>) -> Result<(), Error> {
        match opening::answer_handshake(&self.setup, params) {
            Ok(agreement) => {
                let agreement = Arc::new(agreement);
                let result = HandshakeResult::new(&agreement, &self.setup.identity);
                rpc::result(&mut out.wire, &request.id, &result);
                self.agreement = Some(Arc::clone(&agreement));
                out.actions.push(Action::Opened(agreement));
                if params.is_true("approvals") && self.has_agent() {
                    self.notify_agent(AgentCall::CanApprove, out);
                }
                Ok(())
            }
            Err(refusal) => {
                out.actions.push(Action::Refused(refusal));
                let asked = params.text("protocol_version").unwrap_or(Text::Plain(Cow::Borrowed("")));
                Err(Error::unsupported_version(&asked, opening::VERSION))
            }
        }
    }

    /// The agreement in force. The first request without a handshake opens the session.
    fn in_force(&mut self, out: &mut Output<'_>) -> Result<Arc<Agreement>, Error> {
        if let Some(agreement) = &self.agreement {
            return Ok(Arc::clone(agreement));
        }
        match opening::without_handshake(&self.setup) {
            Ok(agreement) => {
                let agreement = Arc::new(agreement);
                self.agreement = Some(Arc::clone(&agreement));
                out.actions.push(Action::Opened(Arc::clone(&agreement)));
                Ok(agreement)
            }
            Err(refusal) => {
                // A client that named no version cannot disagree about it. Refuse anyway instead of panicking.
                let error = Error::overloaded(&refusal.to_string());
                out.actions.push(Action::Refused(refusal));
                Err(error)
            }
        }
    }

    fn create_session(&mut self, id: &Id, ambient: &mut Ambient<'_>, out: &mut Output<'_>) -> Result<(), Error> {
        let session_id = ambient.uuid();
        if self.sessions.create(session_id.clone(), ambient.now.iso_millis()).is_none() {
            return Err(Error::overloaded(&format!("too many sessions: at most {MAX_SESSIONS}")));
        }
        self.state_changed(&json::to_raw("session_created"), Some(&session_id), ambient, out);
        let state = self.sessions.state(&session_id);
        rpc::result(&mut out.wire, id, &CreatedSession { session_id: &session_id, state });
        Ok(())
    }

    fn deliver<'a>(
        &mut self,
        id: &Id,
        request_kind: RequestKind,
        operation: Operation<'a>,
        trace: Option<Box<RawValue>>,
        out: &mut Output<'a>,
    ) -> Result<(), Error> {
        let agreement = self.in_force(out)?;
        if self.calls.len() >= self.setup.max_in_flight {
            return Err(Error::overloaded("too many requests in flight"));
        }
        self.next_call += 1;
        let call = CallId(self.next_call);
        let wants_progress = matches!(request_kind, RequestKind::Call { .. });
        let incoming = IncomingRequest { id: id.clone(), request_kind };
        self.held += incoming.held_bytes();
        self.calls.insert(call, incoming);
        let terms = Terms { wants_progress, meta: trace.map(Cow::Owned), ..Terms::default() };
        let call = Call { id: call, operation, terms };
        out.actions.push(Action::Deliver(call, agreement));
        Ok(())
    }

    fn state_changed(&self, reason: &RawValue, session_id: Option<&str>, ambient: &Ambient<'_>, out: &mut Output<'_>) {
        let payload = StateChanged { reason, session_id, snapshot: self.sessions.snapshot() };
        emit("state.changed", &payload, ambient, out);
    }
}

impl Server for LoafServer {
    fn handle_line<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        let text = trim(text);
        if text.is_empty() {
            return;
        }
        if self.phase != Phase::Serving {
            out.actions.push(Action::Dropped("a line after the end"));
            return;
        }
        match Self::classify(text) {
            Ok(Some(request)) => {
                if let Err(error) = self.serve(&request, ambient, out) {
                    error.answer(&mut out.wire, Some(&request.id));
                }
            }
            Ok(None) => out.actions.push(Action::Dropped("a client's notification")),
            Err(error) => error.answer(&mut out.wire, None),
        }
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if self.phase == Phase::Serving {
            out.actions.push(Action::Dropped("a line that cannot be read"));
            Error::parse_error(fault).answer(&mut out.wire, None);
        } else {
            out.actions.push(Action::Dropped("a line after the end"));
        }
    }

    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, _ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(incoming) = self.calls.remove(&call) else { return };
        self.held -= incoming.held_bytes();
        let IncomingRequest { id, request_kind } = incoming;
        let begin = out.wire.len();
        match (outcome, request_kind) {
            // The agent sends its last events before this answer.
            (_, RequestKind::Silent) if self.phase == Phase::ShutDown => self.phase = Phase::Stopped,
            (_, RequestKind::Silent) => {}
            (Ok(Reply::Agent(value)), request_kind) => {
                rpc::result(&mut out.wire, &id, &value);
                if matches!(request_kind, RequestKind::Shutdown) {
                    self.close_session(out);
                }
            }
            (Err(failure), RequestKind::Agent | RequestKind::Shutdown) => {
                Error::of_agent(&failure).answer(&mut out.wire, Some(&id))
            }
            (Ok(Reply::Tools(tools)), _) => rpc::result(&mut out.wire, &id, &tools::list(&tools)),
            (Ok(Reply::Tool(result)), _) => rpc::result(&mut out.wire, &id, &Returned::of(&result)),
            (Err(failure), RequestKind::Call { tool }) if failure.kind == FailureKind::ToolFailed => {
                rpc::result(&mut out.wire, &id, &Returned::threw(&tool, &failure));
            }
            (Err(failure), _) => Error::of_failure(&failure).answer(&mut out.wire, Some(&id)),
            (Ok(_), _) => {
                let mismatch = Failure::new(FailureKind::Internal, "the reply does not belong to the request");
                Error::of_failure(&mismatch).answer(&mut out.wire, Some(&id));
            }
        }
        keep_on_one_line(&mut out.wire, begin);
    }

    fn notify(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if self.phase == Phase::Stopped {
            return;
        }
        let request_id = |call: CallId| match self.calls.get(&call) {
            Some(IncomingRequest { id, request_kind: RequestKind::Call { .. } }) => {
                Some(json::raw(id.as_json().to_owned()))
            }
            _ => None,
        };
        match notice {
            Notice::Progress(call, progress) => {
                if let Some(id) = request_id(call) {
                    emit("tool.progress", &ProgressPayload::new(&id, &progress), ambient, out);
                }
            }
            Notice::Log(Some(call), log) => {
                if let Some(id) = request_id(call) {
                    emit("tool.log", &LogPayload::new(&id, &log), ambient, out);
                }
            }
            Notice::Agent(event) => emit(event.kind, &event.payload, ambient, out),
            // loaf has no message for the other notices.
            _ => {}
        }
    }

    fn stop(&mut self, stop: Stop, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let reason = match stop {
            Stop::InputClosed => None,
            Stop::Interrupted => Some("sigint"),
            // loaf has no separate reason for SIGHUP.
            Stop::Terminated | Stop::HungUp => Some("sigterm"),
        };
        let was_serving = self.phase == Phase::Serving;
        self.phase = Phase::Stopped;
        match reason {
            _ if !was_serving => {}
            Some(reason) if self.has_agent() => {
                // The agent's last event must still be sent. After its answer, no events follow.
                self.phase = Phase::ShutDown;
                self.notify_agent(AgentCall::Shutdown { reason: Some(reason.into()) }, out);
            }
            None if self.has_agent() => {
                self.notify_agent(AgentCall::Shutdown { reason: Some("stdin_closed".into()) }, out);
            }
            Some(reason) => self.state_changed(&json::to_raw(reason), None, ambient, out),
            None => {}
        }
    }

    fn in_flight(&self) -> Vec<CallId> {
        let mut calls: Vec<_> = self.calls.keys().copied().collect();
        calls.order();
        calls
    }

    fn held_bytes(&self) -> usize {
        self.held
    }
}

/// A parsed request.
struct Request<'a> {
    id: Id,
    method: Text<'a>,
    params: Option<&'a RawValue>,
}

/// Appends an `event` notification (`loaf` §12).
fn emit<T: Serialize>(kind: &'static str, payload: &T, ambient: &Ambient<'_>, out: &mut Output<'_>) {
    #[derive(Serialize)]
    struct Event<'a, T> {
        r#type: &'static str,
        timestamp: String,
        payload: &'a T,
    }
    let event = Event { r#type: kind, timestamp: ambient.now.iso_millis(), payload };
    let begin = out.wire.len();
    rpc::notification(&mut out.wire, "event", Some(&event));
    keep_on_one_line(&mut out.wire, begin);
}

/// Replaces line breaks in the line that begins at `begin`. It can contain raw JSON of other peers, and for a loaf peer
/// even a single CR ends a line.
fn keep_on_one_line(wire: &mut [u8], begin: usize) {
    let end = wire.len().saturating_sub(1);
    if let Some(line) = wire.get_mut(begin..end) {
        json::flatten(line);
    }
}

#[derive(Serialize)]
struct Pong {
    ok: bool,
    time: String,
}

#[derive(Serialize)]
struct DebugSet {
    super_debug: bool,
}

#[derive(Serialize)]
struct Accepted {
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct CreatedSession<'a> {
    session_id: &'a str,
    state: Option<&'a super::sessions::SessionState>,
}

#[derive(Serialize)]
struct StateChanged<'a> {
    reason: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    snapshot: Snapshot<'a>,
}
