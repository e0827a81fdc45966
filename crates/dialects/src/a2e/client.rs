//! The agent: our side towards a host that speaks A2E.
//!
//! It keeps to the host's `max_parallel` by holding back what is too much. A2E cannot cancel: a call
//! that is given up is answered here and forgotten, and what still comes for it is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gladhand_accord::{Agreement, Gate, Refusal, Secret, Side};
use gladhand_operations::{Call, CallId, Failure, FailureKind, Operation, Outcome, Reply, Tool};
use gladhand_wire::{Fault, Members, RawValue, Skim};

use super::answers;
use super::fields::text_of;
use super::message::Message;
use super::registry::{self, RULES, Role};
use super::results::read_result;
use super::tools::read_definition;
use crate::ambient::Ambient;
use crate::side::{Client, ClientSetup, Event, Heard};

/// The most calls that are held back before the answer is "busy".
const LONGEST_QUEUE: usize = 1000;
/// What a call is given, in seconds. Whoever drives us has deadlines of its own and gives a call up
/// by cancelling; the host's default of 30 would end long calls that somebody still waits for.
const CALL_TIMEOUT: u64 = 3600;
const GRACE: u64 = 10;

/// Our side towards a host.
#[derive(Debug)]
pub(super) struct Agent {
    setup: ClientSetup,
    standing: Standing,
    calls: BTreeMap<CallId, Pending>,
    requests: BTreeMap<String, CallId>,
    queue: VecDeque<Held>,
}

/// Where the session stands, named after what may come.
#[derive(Debug)]
enum Standing {
    /// Nothing was said yet.
    Unopened,
    /// The handshake was sent under this id.
    ExpectHandshake(String),
    /// Calls may be made.
    Open(Box<Session>),
    /// We said goodbye; answers may still come.
    Closing,
    /// Nothing comes any more.
    Over,
}

#[derive(Debug)]
struct Session {
    agreement: Arc<Agreement>,
    gate: Gate,
}

/// A call that the host has.
#[derive(Debug)]
struct Pending {
    request: String,
    wants_progress: bool,
}

/// A call that is held back.
#[derive(Debug)]
struct Held {
    call: CallId,
    operation: Operation<'static>,
    wants_progress: bool,
}

impl Agent {
    pub(super) fn new(setup: ClientSetup) -> Self {
        Self {
            setup,
            standing: Standing::Unopened,
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    fn hear(&mut self, members: &Members<'_>, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let name = members.raw("type").and_then(text_of).unwrap_or_default();
        let request = members.raw("req_id").and_then(text_of).unwrap_or_default();
        if let Standing::ExpectHandshake(ours) = &self.standing {
            // Nothing else was asked yet, so an answer to nothing in particular is the answer to this.
            let is_ours = request.is_empty() || request == *ours;
            match name.as_ref() {
                "handshake/resp" if is_ours => self.opened(members, heard),
                "error" if is_ours => self.refused(answers::read_refusing_error(members), heard),
                _ => heard.events.push(Event::Dropped("a message before the answer to the handshake")),
            }
            return;
        }
        let Some(&call) = self.requests.get(request.as_ref()) else {
            heard.events.push(Event::Dropped("a message that answers nothing we asked"));
            return;
        };
        let role = registry::find(&name).map(|message| message.role);
        if role == Some(Role::Event) {
            let wanted = self.calls.get(&call).is_some_and(|pending| pending.wants_progress);
            heard.events.push(match answers::read_event(call, members) {
                Some(notice) if wanted => Event::Notice(notice),
                Some(_) => Event::Dropped("an event that nobody asked for"),
                None => Event::Dropped("an event of a kind that is not passed on"),
            });
            return;
        }
        let outcome = match name.as_ref() {
            "tool/list/resp" => read_list(members).map(Reply::Tools),
            "tool/call/resp" => members.raw("data").ok_or("no result").and_then(read_result).map(Reply::Tool),
            "error" => return self.end(call, Err(answers::read_error(members)), ambient, heard),
            _ => Err("a message of another type"),
        };
        let misread =
            |problem| Failure::new(FailureKind::UpstreamError, format!("the host's answer makes no sense: {problem}"));
        self.end(call, outcome.map_err(misread), ambient, heard);
    }

    fn opened(&mut self, members: &Members<'_>, heard: &mut Heard) {
        match answers::read_handshake(members, &self.setup) {
            Ok(agreement) => {
                let agreement = Arc::new(agreement);
                let gate = Gate::new(RULES, &agreement);
                heard.events.push(Event::Opened(Arc::clone(&agreement)));
                self.standing = Standing::Open(Box::new(Session { agreement, gate }));
            }
            Err(refusal) => self.refused(refusal, heard),
        }
    }

    fn refused(&mut self, refusal: Refusal, heard: &mut Heard) {
        self.standing = Standing::Over;
        heard.events.push(Event::Refused(refusal));
    }

    /// Ends a call that the host has, and sends what was held back for it.
    fn end(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if let Some(pending) = self.calls.remove(&call) {
            self.requests.remove(&pending.request);
            heard.events.push(Event::Answered(call, outcome));
        }
        while self.has_room() {
            let Some(held) = self.queue.pop_front() else { break };
            self.send(held.call, &held.operation, held.wants_progress, ambient, heard);
        }
    }

    fn has_room(&self) -> bool {
        match &self.standing {
            Standing::Open(session) => {
                let most = session.agreement.max_parallel.unwrap_or(u32::MAX);
                self.calls.len() < usize::try_from(most).unwrap_or(usize::MAX)
            }
            _ => false,
        }
    }

    fn send(
        &mut self,
        call: CallId,
        operation: &Operation<'_>,
        wants_progress: bool,
        ambient: &mut Ambient<'_>,
        heard: &mut Heard,
    ) {
        let (message, request) = Message::request(request_type(operation), ambient);
        let message = match operation {
            // The neutral list holds deferred tools too, marked as such.
            Operation::ListTools => message
                .with("filter_kind", "")
                .raw("filter_tags", "[]")
                .with("query", "")
                .with("include_deferred", &true),
            Operation::CallTool(tool) => message
                .with("session_id", self.session_id())
                .with("tool_name", &tool.name)
                .raw("arguments", tool.arguments.get())
                .with("correlation_id", "")
                .with("streaming", &wants_progress)
                .with("timeout", &CALL_TIMEOUT),
            _ => return,
        };
        message.send(&mut heard.wire);
        self.requests.insert(request.clone(), call);
        self.calls.insert(call, Pending { request, wants_progress });
    }

    fn session_id(&self) -> &str {
        match &self.standing {
            Standing::Open(session) => session.agreement.session.as_deref().unwrap_or_default(),
            _ => "",
        }
    }
}

impl Client for Agent {
    fn open(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let (message, id) = Message::request("handshake/req", ambient);
        message
            .with("agent_id", &self.setup.identity.name)
            .with("agent_caps", &answers::wanted(&self.setup))
            .with("auth_token", self.setup.token.as_ref().map_or("", Secret::expose))
            .send(&mut heard.wire);
        self.standing = Standing::ExpectHandshake(id);
    }

    fn receive(&mut self, text: &str, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let repaired;
        let members = match Members::parse(text) {
            Ok(members) => Some(members),
            Err(_) => match answers::without_bare_words(text) {
                Some(text) => {
                    repaired = text;
                    Members::parse(&repaired).ok()
                }
                None => None,
            },
        };
        match members {
            Some(members) => self.hear(&members, ambient, heard),
            // Hosts print banners, and the reference's own prefixes its lines.
            None => heard.events.push(Event::Dropped("a line that is no message")),
        }
    }

    fn garbled(&mut self, _fault: &Fault, _skim: &Skim, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        heard.events.push(Event::Dropped("a line that cannot be read"));
    }

    fn call(&mut self, call: Call<'_>, _behalf: Option<&Arc<Agreement>>, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let (wants_progress, operation, call) = (call.terms.wants_progress, call.operation, call.id);
        if let Some(outcome) = operation.where_there_are_only_tools() {
            heard.events.push(Event::Answered(call, outcome));
            return;
        }
        let failure = match &self.standing {
            Standing::Open(session) => match session.gate.admit(Side::Client, request_type(&operation)) {
                Ok(_) if self.has_room() && self.queue.is_empty() => {
                    return self.send(call, &operation, wants_progress, ambient, heard);
                }
                Ok(_) if self.queue.len() < LONGEST_QUEUE => {
                    self.queue.push_back(Held { call, operation: operation.into_owned(), wants_progress });
                    return;
                }
                Ok(_) => Failure::new(FailureKind::Busy, "too many calls are waiting for this host"),
                Err(_) => Failure::new(FailureKind::Denied, "the host did not grant the capability tools"),
            },
            Standing::Closing => Failure::new(FailureKind::Stopping, "the session is being closed"),
            Standing::Unopened | Standing::ExpectHandshake(_) | Standing::Over => {
                Failure::new(FailureKind::UpstreamLost, "there is no session with this host")
            }
        };
        heard.events.push(Event::Answered(call, Err(failure)));
    }

    fn cancel(&mut self, call: CallId, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let cancelled = Err(Failure::new(FailureKind::Cancelled, "cancelled by the caller"));
        let held = self.queue.len();
        self.queue.retain(|held| held.call != call);
        if self.queue.len() < held {
            heard.events.push(Event::Answered(call, cancelled));
        } else {
            self.end(call, cancelled, ambient, heard);
        }
    }

    fn gone(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let before = std::mem::replace(&mut self.standing, Standing::Over);
        if matches!(before, Standing::Unopened | Standing::ExpectHandshake(_)) {
            heard.events.push(Event::Refused(Refusal::PeerGone));
        }
        let sent = std::mem::take(&mut self.calls).into_keys();
        let held = std::mem::take(&mut self.queue).into_iter().map(|held| held.call);
        self.requests.clear();
        for call in sent.chain(held) {
            let failure = Failure::new(FailureKind::UpstreamLost, "the host is gone");
            heard.events.push(Event::Answered(call, Err(failure)));
        }
    }

    fn close(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if matches!(self.standing, Standing::Unopened | Standing::Closing | Standing::Over) {
            return;
        }
        Message::request("shutdown", ambient).0.with("timeout", &GRACE).send(&mut heard.wire);
        if let Standing::ExpectHandshake(_) = self.standing {
            return;
        }
        self.standing = Standing::Closing;
        // The host hears nothing after that, so what was held back can only fail.
        for held in std::mem::take(&mut self.queue) {
            let failure = Failure::new(FailureKind::Stopping, "the session was closed before the call was sent");
            heard.events.push(Event::Answered(held.call, Err(failure)));
        }
    }
}

fn request_type(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::ListTools => "tool/list/req",
        _ => "tool/call/req",
    }
}

fn read_list(members: &Members<'_>) -> Result<Arc<[Tool]>, &'static str> {
    let Some(raw) = members.raw("tools") else { return Ok(Arc::from([])) };
    let items: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| "`tools` is no list")?;
    let tools = items.into_iter().map(|item| read_definition(item).ok_or("a tool has no name"));
    tools.collect()
}
