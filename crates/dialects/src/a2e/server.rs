//! The host: our side towards an agent that speaks A2E.
//!
//! A line is decoded, then judged by its direction, the standing of the session and the gate, and
//! only then are its fields read. A malformed message never ends the session (a2e §7.3).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use gladhand_accord::{Agreement, Closed, Gate, Side};
use gladhand_operations::{CallId, Notice, Operation, Outcome, Reply, ToolCall};
use gladhand_wire::json::{Kind, RawValue};
use gladhand_wire::{Fault, Id, Members};

use super::capabilities::TOOLS;
use super::errors::{ErrorBody, Undecodable};
use super::fields::{self, Fields};
use super::flights::{Asked, Flight, Flights};
use super::message::{Message, Object};
use super::opening::{self, HandshakeRequest};
use super::registry::{self, MessageType, RULES};
use super::results::write_result;
use super::tools::{Filter, write_definition};
use super::{message, tools};
use crate::ambient::Ambient;
use crate::breach::REQUEST_NOT_AGREED;
use crate::side::{Action, Output, Server, ServerSetup, Stop, Unagreed};

/// Refused handshakes before the channel is closed.
const MOST_REFUSALS: u32 = 5;
/// Session ids of earlier handshakes that are still honoured.
const MOST_SESSION_IDS: usize = 64;
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_CALL_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
const DEFAULT_GRACE_SECONDS: i64 = 10;
const LONGEST_GRACE: Duration = Duration::from_secs(3600);

/// Our side towards an agent.
#[derive(Debug)]
pub(super) struct Host {
    setup: ServerSetup,
    standing: Standing,
    refusals: u32,
    session_ids: VecDeque<String>,
    flights: Flights,
}

/// Where the session stands, named after what may come.
#[derive(Debug)]
enum Standing {
    /// Nothing is granted; a handshake may come.
    ExpectHandshake,
    /// Something is granted; requests may come.
    Open(Box<Session>),
    /// Nothing is listened to any more; what was accepted is still answered.
    Closing,
}

#[derive(Debug)]
struct Session {
    agreement: Arc<Agreement>,
    gate: Gate,
}

/// A decoded line: an object with a known type and a sound id.
struct Decoded<'a> {
    members: Members<'a>,
    id: Option<Id>,
    message: &'static MessageType,
}

/// What answers a line that went no further.
struct Rejected {
    id: Option<Id>,
    error: ErrorBody,
}

impl Host {
    pub(super) fn new(setup: ServerSetup) -> Self {
        let flights = Flights::new(&setup);
        Self { setup, standing: Standing::ExpectHandshake, refusals: 0, session_ids: VecDeque::new(), flights }
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
                if self.session_ids.len() == MOST_SESSION_IDS {
                    self.session_ids.pop_front();
                }
                self.session_ids.push_back(session.clone());
                let agreement = Arc::new(Agreement { session: Some(session), ..agreement });
                opening::grant(line.id.as_ref(), &request.known_names(), &agreement, ambient, &mut out.wire);
                out.actions.push(Action::Opened(Arc::clone(&agreement)));
                let gate = Gate::new(RULES, &agreement);
                self.standing = Standing::Open(Box::new(Session { agreement, gate }));
            }
            Err(refusal) => {
                self.standing = Standing::ExpectHandshake;
                self.refusals += 1;
                opening::refuse(line.id.as_ref(), &refusal, self.setup.max_parallel, ambient, &mut out.wire);
                out.actions.push(Action::Refused(refusal));
                if self.refusals >= MOST_REFUSALS {
                    self.standing = Standing::Closing;
                    out.actions.push(Action::Close(Duration::ZERO));
                }
            }
        }
        Ok(())
    }

    fn ping(&self, line: &Decoded<'_>, ambient: &mut Ambient<'_>, out: &mut Output<'_>) -> Result<(), ErrorBody> {
        checked(Fields::of(&line.members))?;
        let uptime = ambient.now.elapsed.saturating_sub(self.setup.started.elapsed);
        Message::answer("pong", line.id.as_ref(), ambient)
            .with("uptime_seconds", &uptime.as_secs_f64())
            .send(&mut out.wire);
        Ok(())
    }

    fn shutdown(&mut self, line: &Decoded<'_>, out: &mut Output<'_>) -> Result<(), ErrorBody> {
        let mut fields = Fields::of(&line.members);
        let seconds = fields.integer("timeout").unwrap_or(DEFAULT_GRACE_SECONDS);
        checked(fields)?;
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST_GRACE);
        self.standing = Standing::Closing;
        out.actions.push(Action::Close(grace));
        Ok(())
    }

    /// A request that only an open session may make.
    fn request<'a>(&mut self, line: &Decoded<'a>, now: Duration, out: &mut Output<'a>) -> Result<(), ErrorBody> {
        let Standing::Open(session) = &self.standing else { return Err(ErrorBody::handshake_required()) };
        let name = line.message.name;
        if line.message.from == Side::Server {
            return Err(ErrorBody::wrong_direction(name));
        }
        match session.gate.admit(Side::Client, name) {
            Ok(_) => {}
            Err(Closed::NotAgreed(_)) if self.setup.unagreed == Unagreed::Passes => {
                out.actions.push(Action::Passed(REQUEST_NOT_AGREED));
            }
            Err(Closed::NotAgreed(need)) => {
                out.actions.push(Action::Dropped(REQUEST_NOT_AGREED));
                let asked_for = session.agreement.term(need.owner, need.capability).is_some();
                return Err(ErrorBody::capability_missing(name, need.capability, asked_for));
            }
            Err(Closed::Unknown | Closed::NotInThisVersion) => return Err(ErrorBody::unknown_type(name)),
        }
        let (asked, operation, timeout) = match name {
            "tool/list/req" => (Asked::List(read_list(&line.members)?), Operation::ListTools, None),
            "tool/call/req" => {
                let request = read_call(&line.members)?;
                let session_id = &request.session_id;
                if !session_id.is_empty() && !self.session_ids.iter().any(|issued| issued == session_id) {
                    return Err(ErrorBody::unknown_session());
                }
                let name = request.call.name.clone().into_owned();
                let asked = Asked::Tool { name, streaming: request.streaming, events: 0 };
                (asked, Operation::CallTool(request.call), Some(request.timeout))
            }
            // The gate opens only what we grant, and we grant only tools.
            _ => return Err(ErrorBody::capability_missing(name, line.message.capability, true)),
        };
        let agreement = &session.agreement;
        let accepted = self.flights.accept(line.id.clone(), asked, operation, timeout, agreement, now);
        out.actions.extend(accepted.map_err(|_| ErrorBody::busy())?);
        Ok(())
    }

    /// Writes the one answer of a call.
    fn answer(flight: Flight, outcome: Outcome, ambient: &mut Ambient<'_>, wire: &mut Vec<u8>) {
        let request = flight.request.as_ref();
        let reply = match outcome {
            Ok(reply) => reply,
            Err(failure) => return ErrorBody::of(&failure, TOOLS).send(request, ambient, wire),
        };
        match (reply, flight.asked) {
            (Reply::Tools(tools), Asked::List(filter)) => {
                let shown = tools.iter().filter(|tool| filter.shows(tool));
                Message::answer("tool/list/resp", request, ambient)
                    .written("tools", |out| message::write_list(out, shown, write_definition))
                    .send(wire);
            }
            (Reply::Tool(result), Asked::Tool { name, .. }) => {
                let now = ambient.now;
                let took = now.elapsed.saturating_sub(flight.delivered.unwrap_or(now.elapsed));
                Message::answer("tool/call/resp", request, ambient)
                    .written("data", |out| write_result(out, &name, &result, took))
                    .with("created_at", &now.unix_seconds())
                    .send(wire);
            }
            _ => {
                let mixed_up = gladhand_operations::Failure::new(
                    gladhand_operations::FailureKind::Internal,
                    "the reply does not belong to the request",
                );
                ErrorBody::of(&mixed_up, TOOLS).send(request, ambient, wire);
            }
        }
    }

    fn deliver_what_fits(&mut self, now: Duration, out: &mut Output<'_>) {
        while let Some(action) = self.flights.deliver_next(now) {
            out.actions.push(action);
        }
    }
}

impl Server for Host {
    fn receive<'a>(&mut self, text: &'a str, ambient: &mut Ambient<'_>, out: &mut Output<'a>) {
        if matches!(self.standing, Standing::Closing) {
            out.actions.push(Action::Dropped("a line after the end of the session"));
            return;
        }
        let line = match decode(text) {
            Ok(line) => line,
            Err(Rejected { id, error }) => return error.send(id.as_ref(), ambient, &mut out.wire),
        };
        let done = match line.message.name {
            "handshake/req" => self.handshake(&line, ambient, out),
            "ping" => self.ping(&line, ambient, out),
            "shutdown" => self.shutdown(&line, out),
            _ => self.request(&line, ambient.now.elapsed, out),
        };
        if let Err(error) = done {
            error.send(line.id.as_ref(), ambient, &mut out.wire);
        }
    }

    fn garbled(&mut self, fault: &Fault, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        match self.standing {
            Standing::Closing => out.actions.push(Action::Dropped("a line after the end of the session")),
            _ => {
                out.actions.push(Action::Dropped("a line that cannot be read"));
                ErrorBody::garbled(fault).send(None, ambient, &mut out.wire);
            }
        }
    }

    fn resolve(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        let Some(flight) = self.flights.end(call) else { return };
        Self::answer(flight, outcome, ambient, &mut out.wire);
        self.deliver_what_fits(ambient.now.elapsed, out);
    }

    fn notice(&mut self, notice: Notice, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        // A2E has events of requests and none of sessions, and no word for a changed list.
        let call = match &notice {
            Notice::Progress(call, _) | Notice::Log(Some(call), _) => *call,
            _ => return,
        };
        let Some(Flight { request, asked: Asked::Tool { streaming: true, events, .. }, .. }) =
            self.flights.get_mut(call)
        else {
            return;
        };
        let seq = *events;
        *events += 1;
        let kind = if matches!(notice, Notice::Log(..)) { "log" } else { "progress" };
        Message::answer("tool/event", request.as_ref(), ambient)
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

    fn stop(&mut self, _stop: Stop, _ambient: &mut Ambient<'_>, _out: &mut Output<'_>) {
        self.standing = Standing::Closing;
    }

    fn wake(&mut self, ambient: &mut Ambient<'_>, out: &mut Output<'_>) {
        while let Some(call) = self.flights.overdue(ambient.now.elapsed) {
            let Some(flight) = self.flights.end(call) else { break };
            let seconds = flight.timeout.map_or(0, |timeout| timeout.as_secs());
            ErrorBody::timed_out(seconds).send(flight.request.as_ref(), ambient, &mut out.wire);
            // One that never left the queue is known to nobody else.
            if flight.delivered.is_some() {
                out.actions.push(Action::Cancel(call));
            }
        }
        self.deliver_what_fits(ambient.now.elapsed, out);
    }

    fn deadline(&self) -> Option<Duration> {
        self.flights.deadline()
    }

    fn in_flight(&self) -> Vec<CallId> {
        self.flights.calls()
    }

    fn held(&self) -> usize {
        self.flights.held()
    }
}

/// Reads a line as far as its type and its id.
fn decode(text: &str) -> Result<Decoded<'_>, Rejected> {
    let reject = |id, error| Rejected { id, error };
    let members = Members::parse(text).map_err(|error| {
        let error = match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if Kind::of(raw) != Kind::Object => {
                let message = format!("a message is an object, not {}", fields::described(raw));
                ErrorBody::parse(Undecodable::Schema, message)
            }
            _ => ErrorBody::garbled(&error.into()),
        };
        reject(None, error)
    })?;
    let id = match members.raw("id") {
        None => None,
        Some(raw) if Kind::of(raw) == Kind::String && Id::is_keepable(raw) => Some(Id::of(raw)),
        Some(raw) if Kind::of(raw) == Kind::String => {
            let problem = format!("longer than {} bytes", Id::LONGEST);
            return Err(reject(None, ErrorBody::fields(&[("id".to_owned(), problem)])));
        }
        Some(raw) => {
            let problem = format!("expected a string, got {}", fields::described(raw));
            return Err(reject(None, ErrorBody::fields(&[("id".to_owned(), problem)])));
        }
    };
    let name = match members.raw("type") {
        None => Cow::Borrowed("None"),
        Some(raw) => match fields::text_of(raw) {
            Some(name) => name,
            None => {
                let problem = format!("expected a string, got {}", fields::described(raw));
                return Err(reject(id, ErrorBody::fields(&[("type".to_owned(), problem)])));
            }
        },
    };
    match registry::find(&name) {
        Some(message) => Ok(Decoded { members, id, message }),
        None => {
            let shown: String = name.chars().take(100).collect();
            Err(reject(id, ErrorBody::unknown_type(&shown)))
        }
    }
}

/// The last step of reading fields: the envelope's own, and the verdict.
fn checked(mut fields: Fields<'_, '_>) -> Result<(), ErrorBody> {
    fields.envelope();
    fields.finish().map_err(|problems| ErrorBody::fields(&problems))
}

fn read_list(members: &Members<'_>) -> Result<Filter, ErrorBody> {
    let mut fields = Fields::of(members);
    fields.text("filter_kind");
    let tags = fields.texts("filter_tags");
    let filter = Filter::new(&fields.text("query"), &tags, fields.flag("include_deferred"));
    checked(fields).map(|()| filter)
}

struct ToolRequest<'a> {
    session_id: Cow<'a, str>,
    call: ToolCall<'a>,
    streaming: bool,
    timeout: Duration,
}

fn read_call<'a>(members: &Members<'a>) -> Result<ToolRequest<'a>, ErrorBody> {
    let mut fields = Fields::of(members);
    let session_id = fields.text("session_id");
    let name = fields.text("tool_name");
    let arguments = fields.object("arguments");
    fields.text("correlation_id");
    let streaming = fields.flag("streaming");
    let timeout = match fields.integer("timeout") {
        Some(seconds @ 1..) => Duration::from_secs(seconds.unsigned_abs()).min(LONGEST_CALL_TIMEOUT),
        _ => DEFAULT_CALL_TIMEOUT,
    };
    checked(fields)?;
    let arguments = arguments.map_or_else(gladhand_operations::call::no_arguments, Cow::Borrowed);
    Ok(ToolRequest { session_id, call: ToolCall { name, arguments }, streaming, timeout })
}
