//! The agent: our side towards a host that speaks A2E.
//!
//! It respects the host's `max_parallel` by queueing further calls. A2E has no cancellation: a cancelled call is
//! answered here and removed, and later messages for it are dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_core::negotiation::{Agreement, Gate, Refusal, Side};
use gladhand_core::operations::{
    Answered, Call, CallId, CapabilityEvent, Failure, FailureKind, Notice, Operation, Outcome, QuestionId,
    QuestionKind, Reply, Tool,
};
use gladhand_core::wire::{Fault, FrameKind, Id, Members, Skim, values};

use super::answers;
use super::capabilities::TOOLS;
use super::carrying::{PendingQuestion, carry, own_members, to_question};
use super::fields::text_of;
use super::message::MessageWriter;
use super::registry::{self, MessageType, RULES, Role};
use super::results::read_result;
use super::tools::read_definition;
use crate::MAX_TOOLS;
use crate::ambient::Ambient;
use crate::side::{Client, ClientSetup, Event, Heard};

/// Maximum number of queued calls. Further calls are answered with "busy".
const MAX_QUEUE: usize = 1000;
/// Timeout of a call at the host, in seconds. The driver has its own deadlines and cancels calls. The host's default of
/// 30 seconds would end long calls that a caller still waits for.
const CALL_TIMEOUT: u64 = 3600;
const GRACE: u64 = 10;
/// Maximum number of processes whose output is forwarded at the same time.
const MAX_PROCESSES: usize = 256;
/// Maximum number of pending questions of the host.
const MAX_QUESTIONS: usize = 64;

/// Our side towards a host.
#[derive(Debug)]
pub(super) struct Agent {
    setup: ClientSetup,
    state: SessionState,
    calls: BTreeMap<CallId, OutgoingRequest>,
    requests: BTreeMap<String, CallId>,
    queue: VecDeque<QueuedCall>,
    /// Processes that were started and have not ended, with the id of the caller's request. Their output still arrives.
    /// Oldest first.
    processes: VecDeque<(String, Option<Id>)>,
    /// OutgoingRequest questions of the host.
    questions: BTreeMap<QuestionId, PendingQuestion>,
    last_question: u64,
}

/// The state of the session, named after the expected input.
#[derive(Debug)]
enum SessionState {
    /// The opening has not started.
    Unopened,
    /// The handshake was sent under this id.
    ExpectHandshake(String),
    /// Calls can be made.
    Open(Box<Session>),
    /// We sent `shutdown`. Answers may still arrive.
    Closing,
    /// The session has ended.
    Over,
}

#[derive(Debug)]
struct Session {
    agreement: Arc<Agreement>,
    gate: Gate,
}

/// A call that was sent to the host.
#[derive(Debug)]
struct OutgoingRequest {
    request: String,
    wants_progress: bool,
    carried: Option<CapabilityRequest>,
}

/// A capability request, with the caller's own id for it.
#[derive(Debug, Clone)]
struct CapabilityRequest {
    kind: &'static str,
    request: Option<Id>,
}

/// A queued call.
#[derive(Debug)]
struct QueuedCall {
    call: CallId,
    operation: Operation<'static>,
    wants_progress: bool,
}

impl Agent {
    pub(super) fn new(setup: ClientSetup) -> Self {
        Self {
            setup,
            state: SessionState::Unopened,
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            queue: VecDeque::new(),
            processes: VecDeque::new(),
            questions: BTreeMap::new(),
            last_question: 0,
        }
    }

    fn receive_message(&mut self, members: &Members<'_>, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let name = members.raw("type").and_then(text_of).unwrap_or_default();
        let request = members.raw("req_id").and_then(text_of).unwrap_or_default();
        if let SessionState::ExpectHandshake(ours) = &self.state {
            // No other request is pending yet, so an answer without a request id belongs to the handshake.
            let is_ours = request.is_empty() || request == *ours;
            match name.as_ref() {
                "handshake/resp" if is_ours => self.opened(members, heard),
                "error" if is_ours => self.refused(answers::read_refusing_error(members), heard),
                _ => heard.events.push(Event::Dropped("a message before the answer to the handshake")),
            }
            return;
        }
        let message = registry::find(&name).filter(|message| message.from == Side::Server);
        match message {
            Some(message) if message.role == Role::Request => {
                return self.receive_question(message, members, ambient, heard);
            }
            Some(message) if message.role == Role::Event && message.capability != TOOLS => {
                heard.events.push(match self.event_owner(message, &request, members) {
                    Some(request) => {
                        let fields = own_members(members);
                        let event = CapabilityEvent { kind: message.name, request, fields };
                        Event::Notice(Notice::Capability(event))
                    }
                    None => Event::Dropped("an event without a pending request"),
                });
                return;
            }
            _ => {}
        }
        let call = match self.requests.get(request.as_ref()) {
            Some(call) => *call,
            // Some answers of the reference host have no request id. They belong to the oldest request of the matching
            // type.
            None if request.is_empty() => match self.oldest_answered_by(message) {
                Some(call) => call,
                None => return heard.events.push(Event::Dropped("a message without a pending request")),
            },
            None => return heard.events.push(Event::Dropped("a message without a pending request")),
        };
        if message.is_some_and(|message| message.role == Role::Event) {
            let wanted = self.calls.get(&call).is_some_and(|pending| pending.wants_progress);
            heard.events.push(match answers::read_event(call, members) {
                Some(notice) if wanted => Event::Notice(notice),
                Some(_) => Event::Dropped("an event without a pending request"),
                None => Event::Dropped("an event of a kind that is not passed on"),
            });
            return;
        }
        let outcome = match name.as_ref() {
            "tool/list/resp" => read_list(members).map(Reply::Tools),
            "tool/call/resp" => members.raw("data").ok_or("no result").and_then(read_result).map(Reply::Tool),
            "error" => {
                let is_carried = self.calls.get(&call).is_some_and(|pending| pending.carried.is_some());
                let failure = answers::read_error(members, is_carried);
                return self.end(call, Err(failure), ambient, heard);
            }
            _ => match self.carried(call, message) {
                Some(carried) => {
                    if carried.kind == "proc/spawn/req" {
                        self.track_process(request.into_owned(), carried.request);
                    }
                    Ok(Reply::Capability(own_members(members)))
                }
                None => Err("the message has another type"),
            },
        };
        let invalid =
            |problem| Failure::new(FailureKind::UpstreamError, format!("the host's answer is invalid: {problem}"));
        self.end(call, outcome.map_err(invalid), ambient, heard);
    }

    /// The capability request of a call, if the message has the matching response type.
    fn carried(&self, call: CallId, message: Option<&MessageType>) -> Option<CapabilityRequest> {
        let carried = self.calls.get(&call)?.carried.as_ref()?;
        let response = registry::find(carried.kind)?.response()?;
        (response.name == message?.name).then(|| carried.clone())
    }

    /// The oldest call that a message of this type answers.
    fn oldest_answered_by(&self, message: Option<&MessageType>) -> Option<CallId> {
        self.calls.keys().find(|call| self.carried(**call, message).is_some()).copied()
    }

    /// The caller's id of the request that an event belongs to. `Some(None)`: the event belongs to no request. `None`:
    /// no caller expects the event.
    fn event_owner(&mut self, message: &MessageType, request: &str, members: &Members<'_>) -> Option<Option<Id>> {
        if message.name.ends_with("/push") {
            return Some(None);
        }
        if let Some(call) = self.requests.get(request) {
            return self.calls.get(call)?.carried.as_ref().map(|carried| carried.request.clone());
        }
        let at = self.processes.iter().position(|(process, _)| process == request)?;
        let is_last = members.object("data").is_some_and(|data| data.has("code"));
        match is_last {
            true => self.processes.remove(at).map(|(_, request)| request),
            false => self.processes.get(at).map(|(_, request)| request.clone()),
        }
    }

    /// Registers a started process, so that its output is forwarded.
    fn track_process(&mut self, process: String, request: Option<Id>) {
        if self.processes.len() == MAX_PROCESSES {
            self.processes.pop_front();
        }
        self.processes.push_back((process, request));
    }

    /// Receives a question of the host.
    fn receive_question(
        &mut self,
        message: &MessageType,
        members: &Members<'_>,
        ambient: &mut Ambient<'_>,
        heard: &mut Heard,
    ) {
        let kind = if message.name == "mcp/sample/req" { QuestionKind::Sample } else { QuestionKind::Roots };
        let question = PendingQuestion::of(kind, members);
        if self.questions.len() >= MAX_QUESTIONS {
            let busy = Failure::new(FailureKind::Busy, "too many questions wait for an answer");
            return question.answer(Err(busy), ambient, &mut heard.wire);
        }
        self.last_question += 1;
        let id = QuestionId(self.last_question);
        self.questions.insert(id, question);
        heard.events.push(Event::Asked(id, None, to_question(kind, members)));
    }

    fn opened(&mut self, members: &Members<'_>, heard: &mut Heard) {
        match answers::read_handshake(members, &self.setup) {
            Ok(agreement) => {
                let agreement = Arc::new(agreement);
                let gate = Gate::new(RULES, &agreement);
                heard.events.push(Event::Opened(Arc::clone(&agreement)));
                self.state = SessionState::Open(Box::new(Session { agreement, gate }));
            }
            Err(refusal) => self.refused(refusal, heard),
        }
    }

    fn refused(&mut self, refusal: Refusal, heard: &mut Heard) {
        self.state = SessionState::Over;
        heard.events.push(Event::Refused(refusal));
    }

    /// Ends a call that was sent to the host, and sends queued calls that fit now.
    fn end(&mut self, call: CallId, outcome: Outcome, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if let Some(pending) = self.calls.remove(&call) {
            self.requests.remove(&pending.request);
            heard.events.push(Event::Answered(call, outcome));
        }
        while self.may_send() {
            let Some(held) = self.queue.pop_front() else { break };
            self.send(held.call, &held.operation, held.wants_progress, ambient, heard);
        }
    }

    fn may_send(&self) -> bool {
        match &self.state {
            SessionState::Open(session) => {
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
        let (message, request) = MessageWriter::request(request_type(operation), ambient);
        let message = match operation {
            // The neutral list also contains deferred tools, marked as such.
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
            Operation::Capability(asked) => carry(message, asked, self.session_id()),
            _ => return,
        };
        message.send(&mut heard.wire);
        self.requests.insert(request.clone(), call);
        let carried = match operation {
            Operation::Capability(asked) => {
                Some(CapabilityRequest { kind: asked.kind, request: asked.request.clone() })
            }
            _ => None,
        };
        self.calls.insert(call, OutgoingRequest { request, wants_progress, carried });
    }

    fn session_id(&self) -> &str {
        match &self.state {
            SessionState::Open(session) => session.agreement.session.as_deref().unwrap_or_default(),
            _ => "",
        }
    }
}

impl Client for Agent {
    fn open(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let (message, id) = MessageWriter::request("handshake/req", ambient);
        message
            .with("agent_id", &self.setup.identity.name)
            .with("agent_caps", &answers::wanted(&self.setup))
            .with("auth_token", self.setup.token.as_ref().map_or("", Secret::expose))
            .send(&mut heard.wire);
        self.state = SessionState::ExpectHandshake(id);
    }

    fn handle_line(&mut self, text: &str, ambient: &mut Ambient<'_>, heard: &mut Heard) {
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
            Some(members) => self.receive_message(&members, ambient, heard),
            // Hosts print banners, and the reference host prefixes its lines.
            None => heard.events.push(Event::Dropped("a line that is not a message")),
        }
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, skim: &Skim, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        // Only a response ends its call. An unreadable event is simply lost.
        let answered = skim.belongs_to().filter(|(_, kind)| kind.ends_with("/resp") || *kind == "error");
        match answered.and_then(|(request, _)| self.requests.get(request).copied()) {
            Some(call) => self.end(call, Err(Failure::unreadable(fault)), ambient, heard),
            None => heard.events.push(Event::Dropped("a line that cannot be read")),
        }
    }

    fn call(&mut self, call: Call<'_>, _behalf: Option<&Arc<Agreement>>, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let (wants_progress, operation, call) = (call.terms.wants_progress, call.operation, call.id);
        let is_carried = matches!(operation, Operation::Capability(_));
        if let Some(outcome) = operation.outcome_with_only_tools().filter(|_| !is_carried) {
            heard.events.push(Event::Answered(call, outcome));
            return;
        }
        let failure = match &self.state {
            SessionState::Open(session) => match session.gate.admit(Side::Client, request_type(&operation)) {
                Ok(_) if self.may_send() && self.queue.is_empty() => {
                    return self.send(call, &operation, wants_progress, ambient, heard);
                }
                Ok(_) if self.queue.len() < MAX_QUEUE => {
                    self.queue.push_back(QueuedCall { call, operation: operation.into_owned(), wants_progress });
                    return;
                }
                Ok(_) => Failure::new(FailureKind::Busy, "too many calls are waiting for this host"),
                Err(_) => {
                    let capability =
                        registry::find(request_type(&operation)).map_or(TOOLS, |message| message.capability);
                    Failure::new(FailureKind::Denied, format!("the host did not grant the capability {capability}"))
                }
            },
            SessionState::Closing => Failure::new(FailureKind::Stopping, "the session is being closed"),
            SessionState::Unopened | SessionState::ExpectHandshake(_) | SessionState::Over => {
                Failure::new(FailureKind::UpstreamLost, "there is no session with this host")
            }
        };
        heard.events.push(Event::Answered(call, Err(failure)));
    }

    fn answer(&mut self, question: QuestionId, answered: Answered, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if let Some(question) = self.questions.remove(&question) {
            question.answer(answered, ambient, &mut heard.wire);
        }
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

    fn handle_disconnect(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let before = std::mem::replace(&mut self.state, SessionState::Over);
        if matches!(before, SessionState::Unopened | SessionState::ExpectHandshake(_)) {
            heard.events.push(Event::Refused(Refusal::PeerGone));
        }
        let sent = std::mem::take(&mut self.calls).into_keys();
        let held = std::mem::take(&mut self.queue).into_iter().map(|held| held.call);
        self.requests.clear();
        self.processes.clear();
        let unasked = std::mem::take(&mut self.questions).into_keys().map(Event::Unasked);
        heard.events.extend(unasked);
        for call in sent.chain(held) {
            let failure = Failure::new(FailureKind::UpstreamLost, "the host disconnected");
            heard.events.push(Event::Answered(call, Err(failure)));
        }
    }

    fn close(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if matches!(self.state, SessionState::Unopened | SessionState::Closing | SessionState::Over) {
            return;
        }
        MessageWriter::request("shutdown", ambient)
            .0
            .of_kind(FrameKind::Notice)
            .with("timeout", &GRACE)
            .send(&mut heard.wire);
        if let SessionState::ExpectHandshake(_) = self.state {
            return;
        }
        self.state = SessionState::Closing;
        // The host reads nothing after `shutdown`, so queued calls can only fail.
        for held in std::mem::take(&mut self.queue) {
            let failure = Failure::new(FailureKind::Stopping, "the session was closed before the call was sent");
            heard.events.push(Event::Answered(held.call, Err(failure)));
        }
    }
}

fn request_type(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::ListTools => "tool/list/req",
        Operation::Capability(call) => call.kind,
        _ => "tool/call/req",
    }
}

fn read_list(members: &Members<'_>) -> Result<Arc<[Tool]>, &'static str> {
    let Some(raw) = members.raw("tools") else { return Ok(Arc::from([])) };
    let items = values::items(raw.get()).map_err(|_| "`tools` is not a list")?;
    if items.len() > MAX_TOOLS {
        return Err("`tools` is too long");
    }
    let tools = items.into_iter().map(|item| read_definition(item).ok_or("a tool has no name"));
    tools.collect()
}
