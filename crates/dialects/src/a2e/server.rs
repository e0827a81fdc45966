//! The host: our side towards an agent that speaks A2E.
//!
//! A line is decoded, then checked by direction, session state and gate. Only then are its fields read. A malformed
//! message never ends the session (a2e §7.3).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Closed, Gate, Side, Stance};
use gladhand_core::operations::{
    CallId, CapabilityEvent, Failure, FailureKind, Notice, Outcome, Question, QuestionId, Reply,
};
use gladhand_core::wire::Fault;
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{FrameKind, Frames};

use super::capabilities::{self, MCP, TOOLS};
use super::errors::ErrorBody;
use super::fields::Fields;
use super::incoming_requests::{IncomingRequest, IncomingRequests, RequestKind};
use super::message::{MessageWriter, Object};
use super::opening::{self, Credentials, HandshakeRequest};
use super::questions::Questions;
use super::registry::{self, RULES, Role};
use super::requests::{self, Decoded, Message, Read, Rejected, checked};
use super::results::write_result;
use super::tools::write_definition;
use super::{message, schemas, tools};
use crate::ambient::Ambient;
use crate::rule_violation::REQUEST_NOT_AGREED;
use crate::side::{Action, Declined, Output, Pass, Server, ServerSetup, Stop, Unagreed};

/// Number of refused handshakes after which the channel is closed.
const MAX_REFUSALS: u32 = 5;
/// Maximum number of session ids of earlier handshakes that are still accepted.
const MAX_SESSION_IDS: usize = 64;
const DEFAULT_GRACE_SECONDS: i64 = 10;
const MAX_GRACE: Duration = Duration::from_secs(3600);

/// Our side towards an agent.
#[derive(Debug)]
pub struct Host {
    setup: ServerSetup,
    state: SessionState,
    refusals: u32,
    session_ids: VecDeque<String>,
    incoming: IncomingRequests,
    questions: Questions,
}

/// The state of the session, named after the expected input.
#[derive(Debug)]
enum SessionState {
    /// No capability is granted. A handshake is expected.
    ExpectHandshake,
    /// Capabilities are granted. Requests are expected.
    Open(Box<Session>),
    /// Input is ignored. Accepted requests are still answered.
    Closing,
}

#[derive(Debug)]
struct Session {
    agreement: Arc<Agreement>,
    gate: Gate,
    /// The credentials of the handshake.
    credentials: Credentials,
}

impl Host {
    /// A host before the handshake.
    pub fn new(setup: ServerSetup) -> Self {
        let incoming = IncomingRequests::new(&setup);
        Self {
            setup,
            state: SessionState::ExpectHandshake,
            refusals: 0,
            session_ids: VecDeque::new(),
            incoming,
            questions: Questions::default(),
        }
    }

    fn handshake(
        &mut self,
        line: &Decoded<'_>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) -> Result<(), ErrorBody> {
        let request = HandshakeRequest::read(&line.members).map_err(|problems| ErrorBody::fields(&problems))?;
        match request.evaluate(&self.setup) {
            Ok(agreement) => {
                let session = ambient.hex_id();
                if self.session_ids.len() == MAX_SESSION_IDS {
                    self.session_ids.pop_front();
                }
                self.session_ids.push_back(session.clone());
                let agreement = Arc::new(Agreement { session: Some(session), ..agreement });
                let (id, names) = (line.id.as_ref(), request.known_names());
                opening::grant(id, &names, &self.setup.menu, &agreement, ambient, &mut out.wire);
                out.actions.push(Action::Opened(Arc::clone(&agreement)));
                let gate = Gate::new(RULES, &agreement);
                self.state =
                    SessionState::Open(Box::new(Session { agreement, gate, credentials: request.credentials() }));
                self.revoke(ambient, out);
            }
            Err(refusal) => {
                self.state = SessionState::ExpectHandshake;
                self.refusals += 1;
                opening::refuse(line.id.as_ref(), &refusal, self.setup.max_parallel, ambient, &mut out.wire);
                out.actions.push(Action::Refused(refusal));
                self.revoke(ambient, out);
                if self.refusals >= MAX_REFUSALS {
                    self.state = SessionState::Closing;
                    out.actions.push(Action::Close(Duration::ZERO));
                }
            }
        }
        Ok(())
    }

    /// Ends the calls whose capability the latest handshake no longer grants.
    fn revoke(&mut self, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let agreement = match &self.state {
            SessionState::Open(session) => Some(Arc::clone(&session.agreement)),
            SessionState::ExpectHandshake | SessionState::Closing => None,
        };
        let is_granted =
            |capability: &str| agreement.as_ref().is_some_and(|agreement| agreement.allows(Side::Server, capability));
        // Newest first: ending a running call first would make room for a queued one.
        for call in self.incoming.calls().into_iter().rev() {
            let capability = self.incoming.get_mut(call).map_or("", |incoming| incoming.request_kind.capability());
            if is_granted(capability) {
                continue;
            }
            let Some(incoming) = self.incoming.end(call) else { continue };
            self.questions.call_ended(call);
            if incoming.delivered.is_some() {
                out.actions.push(Action::Cancel(call));
            }
            ErrorBody::revoked(capability).send(incoming.request.as_ref(), ambient, &mut out.wire);
        }
        self.deliver_queued(ambient.now.elapsed, out);
    }

    fn ping(&self, line: &Decoded<'_>, ambient: &mut Ambient<'_>, out: &mut Output<'_>) -> Result<(), ErrorBody> {
        checked(Fields::of(&line.members))?;
        let uptime = ambient.now.elapsed.saturating_sub(self.setup.started.elapsed);
        MessageWriter::answer("pong", line.id.as_ref(), ambient)
            .with("uptime_seconds", &uptime.as_secs_f64())
            .send(&mut out.wire);
        Ok(())
    }

    fn shutdown(&mut self, line: &Decoded<'_>, out: &mut Output<'_>) -> Result<(), ErrorBody> {
        let mut fields = Fields::of(&line.members);
        let seconds = fields.integer("timeout").unwrap_or(DEFAULT_GRACE_SECONDS);
        checked(fields)?;
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(MAX_GRACE);
        self.state = SessionState::Closing;
        out.actions.push(Action::Close(grace));
        Ok(())
    }

    /// Handles a request that requires an open session.
    fn request<'a>(
        &mut self,
        line: &Decoded<'a>,
        ambient: &Ambient<'_>,
        out: &mut Output<'a>,
    ) -> Result<(), ErrorBody> {
        let SessionState::Open(session) = &self.state else { return Err(ErrorBody::handshake_required()) };
        let name = line.message.name;
        // The only request that both sides may send (a2e §8).
        let sender = if name == "mcp/root/list/req" { Side::Server } else { Side::Client };
        if line.message.from != sender {
            return Err(ErrorBody::wrong_direction(name));
        }
        match session.gate.admit(sender, name) {
            Ok(_) => {}
            Err(Closed::NotAgreed(need)) => {
                let term = session.agreement.term(need.owner, need.capability);
                // The agent may have forgotten to request the capability. One that it would not have been granted stays
                // closed.
                let is_open = term.is_some_and(|term| term.server == Stance::Provides);
                if is_open && self.setup.unagreed == Unagreed::Passes {
                    out.actions.push(Action::Passed(REQUEST_NOT_AGREED));
                } else {
                    let (capability, agreement) = (need.capability, Arc::clone(&session.agreement));
                    out.actions.push(Action::Declined(Declined { request: name.to_owned(), capability, agreement }));
                    let asked_for = term.is_some_and(|term| term.client == Stance::Wants);
                    return Err(ErrorBody::capability_missing(name, need.capability, asked_for));
                }
            }
            Err(Closed::Unknown | Closed::NotInThisVersion) => return Err(ErrorBody::unknown_type(name)),
        }
        if line.message.role == Role::Response {
            return self.answered(line, out);
        }
        if name.starts_with("SUBAGENT_") {
            return Err(ErrorBody::superseded(name));
        }
        let request = requests::read(line)?;
        let session_id = &request.session_id;
        if !session_id.is_empty() && !self.session_ids.iter().any(|issued| issued == session_id) {
            return Err(ErrorBody::unknown_session());
        }
        let agreement = &session.agreement;
        let is_urgent = line.message.is_urgent();
        let accepted = self.incoming.accept(line.id.clone(), request, is_urgent, agreement, ambient);
        out.actions.extend(accepted.map_err(|_| ErrorBody::busy())?);
        Ok(())
    }

    /// Receives the agent's answer to a question of ours. It gets no answer itself.
    fn answered(&mut self, line: &Decoded<'_>, out: &mut Output<'_>) -> Result<(), ErrorBody> {
        schemas::check(line.message.name, &line.members).map_err(|problems| ErrorBody::fields(&problems))?;
        out.actions.push(match self.questions.answered(&line.members) {
            Some((question, answered)) => Action::Answered(question, answered),
            None => Action::Dropped("a response without a pending request"),
        });
        Ok(())
    }

    /// Writes an event of a capability.
    fn event(event: &CapabilityEvent, ambient: &mut Ambient<'_>, wire: &mut Frames) {
        let message = match &event.request {
            Some(request) => MessageWriter::answer(event.kind, Some(request), ambient),
            None => MessageWriter::request(event.kind, ambient).0,
        };
        message.of_kind(FrameKind::Notice).members_of(event.fields.get()).send(wire);
    }

    /// Writes the single answer of a call.
    fn answer(incoming: IncomingRequest, outcome: Outcome, ambient: &mut Ambient<'_>, wire: &mut Frames) {
        let request = incoming.request.as_ref();
        let reply = match outcome {
            Ok(reply) => reply,
            Err(failure) => {
                let capability = incoming.request_kind.capability();
                ErrorBody::of(&failure, capability).send(request, ambient, wire);
                return incoming.request_kind.held_back().iter().for_each(|event| Self::event(event, ambient, wire));
            }
        };
        match (reply, incoming.request_kind) {
            (Reply::Tools(tools), RequestKind::List(filter)) => {
                let shown = tools.iter().filter(|tool| filter.shows(tool));
                MessageWriter::answer("tool/list/resp", request, ambient)
                    .written("tools", |out| message::write_list(out, shown, write_definition))
                    .send(wire);
            }
            (Reply::Tool(result), RequestKind::Tool { name, .. }) => {
                let now = ambient.now;
                let took = now.elapsed.saturating_sub(incoming.delivered.unwrap_or(now.elapsed));
                MessageWriter::answer("tool/call/resp", request, ambient)
                    .written("data", |out| write_result(out, &name, &result, took))
                    .with("created_at", &now.unix_seconds())
                    .send(wire);
            }
            (Reply::Capability(members), ref request_kind @ RequestKind::Capability { message, .. }) => {
                let name = message.response().map_or(message.name, |response| response.name);
                MessageWriter::answer(name, request, ambient).members_of(members.get()).send(wire);
                request_kind.held_back().iter().for_each(|event| Self::event(event, ambient, wire));
            }
            _ => {
                let mismatch = Failure::new(FailureKind::Internal, "the reply does not belong to the request");
                ErrorBody::of(&mismatch, TOOLS).send(request, ambient, wire);
            }
        }
    }

    fn deliver_queued(&mut self, now: Duration, out: &mut Output<'_>) {
        while let Some(action) = self.incoming.deliver_next(now) {
            out.actions.push(action);
        }
    }

    /// Processes a message that was parsed before.
    pub fn take<'a>(&mut self, message: Message<'a>, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        if matches!(message.read, Read::Blank) {
            return;
        }
        if matches!(self.state, SessionState::Closing) {
            out.actions.push(Action::Dropped("a line after the end of the session"));
            return;
        }
        let line = match message.read {
            Read::Blank => return,
            Read::Decoded(line) => line,
            Read::Rejected(Rejected { id, error }) => return error.send(id.as_ref(), ambient, &mut out.wire),
            Read::Unreadable(fault) => return self.handle_unreadable_line(&fault, ambient, out),
        };
        let done = match line.message.name {
            "handshake/req" => self.handshake(&line, ambient, out),
            "ping" => self.ping(&line, ambient, out),
            "shutdown" => self.shutdown(&line, out),
            _ => self.request(&line, ambient, out),
        };
        if let Err(error) = done {
            error.send(line.id.as_ref(), ambient, &mut out.wire);
        }
    }
}

impl Server for Host {
    fn handle_line<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        self.take(Message::parse(text), ambient, out);
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        match self.state {
            SessionState::Closing => out.actions.push(Action::Dropped("a line after the end of the session")),
            _ => {
                out.actions.push(Action::Dropped("a line that cannot be read"));
                ErrorBody::garbled(fault).send(None, ambient, &mut out.wire);
            }
        }
    }

    fn handle_outcome(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(incoming) = self.incoming.end(call) else { return };
        self.questions.call_ended(call);
        Self::answer(incoming, outcome, ambient, &mut out.wire);
        self.deliver_queued(ambient.now.elapsed, out);
    }

    fn ask(
        &mut self,
        call: Option<CallId>,
        questions: Vec<(QuestionId, Question)>,
        ambient: &mut Ambient<'_>,
        out: &mut Output<'_>,
    ) {
        let can_be_asked =
            matches!(&self.state, SessionState::Open(session) if session.agreement.allows(Side::Server, MCP));
        for (id, question) in questions {
            let result = match can_be_asked {
                true => self.questions.ask((id, question), call, ambient, &mut out.wire),
                false => Err(Failure::missing_capability(question.kind.capability())),
            };
            out.actions.extend(result.err().map(|failure| Action::Answered(id, Err(failure))));
        }
    }

    fn notify(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        if let Notice::Capability(event) = notice {
            let capability = registry::find(event.kind).map_or("", |message| message.capability);
            let is_granted = matches!(&self.state, SessionState::Open(session) if session.agreement.allows(Side::Server, capability));
            // While the session closes, events of granted capabilities may still be sent.
            if !is_granted && !matches!(self.state, SessionState::Closing) {
                return;
            }
            // The output of a process must follow the response that announces the process.
            let events_to_write = self.incoming.release_events(event);
            return events_to_write.iter().for_each(|event| Self::event(event, ambient, &mut out.wire));
        }
        // A2E has events for requests but none for sessions, and no message for a changed list.
        let call = match &notice {
            Notice::Progress(call, _) | Notice::Log(Some(call), _) => *call,
            _ => return,
        };
        let Some(IncomingRequest { request, request_kind: RequestKind::Tool { streaming: true, events, .. }, .. }) =
            self.incoming.get_mut(call)
        else {
            return;
        };
        let seq = *events;
        *events += 1;
        let kind = if matches!(notice, Notice::Log(..)) { "log" } else { "progress" };
        MessageWriter::answer("tool/event", request.as_ref(), ambient)
            .of_kind(FrameKind::Notice)
            .with("kind", kind)
            .written("data", |out| match &notice {
                Notice::Progress(_, progress) => Object::open(out)
                    .with("pct", &tools::percent(progress))
                    .with("message", progress.message.as_deref().unwrap_or_default())
                    .close(),
                Notice::Log(_, log) => {
                    let data = Object::open(out).with("level", log.level.word());
                    match Kind::of(&log.data) {
                        Kind::String => data.raw("message", log.data.get()).close(),
                        _ => data.with("message", log.data.get()).close(),
                    }
                }
                _ => Object::open(out).close(),
            })
            .with("seq", &seq)
            .send(&mut out.wire);
    }

    fn set_passes(&mut self, passes: &[Pass], ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        self.setup.passes = passes.to_vec();
        let SessionState::Open(session) = &self.state else { return };
        let mut granted = capabilities::NAMES.iter().filter(|name| session.agreement.allows(Side::Server, name));
        let principal = session.credentials.principal(passes);
        let is_same = principal.is_none_or(|principal| session.agreement.pass.as_ref() == Some(&principal));
        if is_same && granted.all(|name| session.credentials.open(passes, name)) {
            return;
        }
        self.state = SessionState::Closing;
        self.revoke(ambient, out);
        out.actions.push(Action::Close(Duration::ZERO));
    }

    fn stop(&mut self, _stop: Stop, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {
        self.state = SessionState::Closing;
    }

    fn handle_timeout(&mut self, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        while let Some(call) = self.incoming.overdue(ambient.now.elapsed) {
            let Some(incoming) = self.incoming.end(call) else { break };
            let seconds = incoming.timeout.map_or(0, |timeout| timeout.as_secs());
            self.questions.call_ended(call);
            ErrorBody::timed_out(seconds, incoming.request_kind.capability()).send(
                incoming.request.as_ref(),
                ambient,
                &mut out.wire,
            );
            // The driver knows nothing of a call that never left the queue.
            if incoming.delivered.is_some() {
                out.actions.push(Action::Cancel(call));
            }
        }
        self.deliver_queued(ambient.now.elapsed, out);
    }

    fn poll_timeout(&self) -> Option<Duration> {
        self.incoming.deadline()
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.incoming.calls()
    }

    fn held_bytes(&self) -> usize {
        self.incoming.held_bytes()
    }
}
