//! Our side towards an upstream that speaks MCP.
//!
//! The requested version decides the era: `initialize`, or `server/discover` and an opening in every request. Common
//! deviations of servers are tolerated and reported as dropped: notices before the result of the opening, answers
//! without a pending request, ids in another notation, error code 0.

mod behalf;
mod call_kind;
mod headers;
mod listening;
mod notices;
mod opening;
mod pages;
mod questions;
mod recovery;
mod results;
mod rounds;
mod tasks;
mod visits;
mod work;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Capability, Offer, Refusal, Rules, Side, Wants};
use gladhand_core::number_map::NumberMap;
use gladhand_core::operations::{
    Answered, Call, CallId, Failure, FailureKind, Level, Operation, Outcome, Party, QuestionId, Reply,
};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::rpc::{self, Envelope};
use gladhand_core::wire::{Fault, Members, Skim, values};

use behalf::CallerEnvelope;
use call_kind::{CallKind, ResultKind};
use headers::ToolRequirements;
use listening::Listening;
use pages::PageResult;
use questions::PendingQuestion;
use rounds::Round;
use tasks::Poll;
use visits::Visit;
use work::{OutgoingRequest, RequestExtras, Work};

pub(super) use headers::posting;

use super::batch::MAX_BATCH;
use super::capabilities::{self, InForce};
use super::ids;
use super::revision::Revision;
use crate::ambient::Ambient;
use crate::side::{Client, ClientSetup, Event, Heard, Lane, Loss, Posting, TASKS_EXTENSION, Unagreed};

/// An answer: a result, or an error object.
type Answer<'a> = Result<Option<&'a RawValue>, &'a RawValue>;

/// Our side towards an upstream.
#[derive(Debug)]
pub(super) struct McpClient {
    offer: Offer,
    /// The requested version.
    revision: Revision,
    phase: Phase,
    /// The `capabilities` object that we declare.
    declaration: String,
    /// The members of `_meta` in every request, without the braces. Empty with a handshake.
    envelope: String,
    /// The latest callers, if every request describes its caller.
    caller_envelopes: VecDeque<Arc<CallerEnvelope>>,
    log_level: Option<Level>,
    /// How many times in a row the session was reopened without any answer in between.
    reopenings: usize,
    /// Whether each request is an exchange of its own.
    exchanges: bool,
    /// How to treat messages that were not agreed.
    unagreed: Unagreed,
    /// Our requests in flight, by our id.
    requests: NumberMap<u64, OutgoingRequest>,
    next_id: u64,
    /// Pending questions of the upstream.
    questions: BTreeMap<QuestionId, PendingQuestion>,
    next_question: u64,
    /// Calls that wait for answers to the upstream's questions.
    rounds: NumberMap<CallId, Round>,
    /// Calls that wait until the user has visited a page.
    visits: NumberMap<CallId, Visit>,
    /// Calls that became tasks and are polled.
    polls: Vec<Poll>,
    /// The number of subscriptions to each resource.
    watched: BTreeMap<String, usize>,
    listening: Listening,
    /// The special requirements of tools from the last list.
    requirements: HashMap<String, ToolRequirements>,
}

/// The state of the session.
#[derive(Debug)]
enum Phase {
    /// Nothing was sent.
    Unopened,
    /// `initialize` was sent.
    ExpectInitializeResult { id: u64 },
    /// `server/discover` was sent, for the first time or again.
    ExpectDiscoverResult { id: u64, again: bool },
    /// Calls can be made.
    Open(InForce),
    /// The session was lost and another `initialize` was sent. These requests wait for its result.
    Reopening { id: u64, waiting: Vec<OutgoingRequest> },
    /// There is no session, and none will be opened.
    Closed,
}

impl McpClient {
    pub(super) fn new(setup: ClientSetup) -> Self {
        let revision = Revision::named(&setup.version).unwrap_or(Revision::HANDSHAKE[0]);
        let mut offer = Offer::new(setup.identity, [revision.as_str()]);
        offer.provides = setup.provides.into_iter().collect();
        if revision.has_initialize() {
            offer.provides.remove(&Capability::named(TASKS_EXTENSION));
        }
        if let Some(wants) = setup.wants {
            offer.wants = Wants::Only(wants.into_iter().collect());
        }
        let declaration = capabilities::declaration(&offer.provides);
        let envelope = behalf::envelope(revision, &offer.peer, &declaration, setup.log_level);
        Self {
            offer,
            revision,
            phase: Phase::Unopened,
            declaration,
            envelope,
            caller_envelopes: VecDeque::new(),
            log_level: setup.log_level,
            reopenings: 0,
            exchanges: setup.exchanges,
            unagreed: setup.unagreed,
            requests: NumberMap::default(),
            next_id: 0,
            questions: BTreeMap::new(),
            next_question: 0,
            rounds: NumberMap::default(),
            visits: NumberMap::default(),
            polls: Vec::new(),
            watched: BTreeMap::new(),
            listening: Listening::new(setup.listen),
            requirements: HashMap::new(),
        }
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn in_force(&self) -> Option<&InForce> {
        match &self.phase {
            Phase::Open(in_force) => Some(in_force),
            _ => None,
        }
    }

    /// The revision in force, or the requested one before the opening.
    fn spoken(&self) -> Revision {
        self.in_force().map_or(self.revision, |in_force| in_force.revision)
    }

    /// Whether the agreement allows us to send a request.
    fn may_send(&self, method: &str) -> bool {
        self.in_force().is_some_and(|in_force| in_force.gate.admit(Side::Client, method).is_ok())
    }

    /// Whether a capability of a side is in force.
    fn is_agreed(&self, owner: Side, capability: &str) -> bool {
        self.in_force().is_some_and(|in_force| in_force.agreement.allows(owner, capability))
    }

    /// Ends the opening with a session.
    fn opened(&mut self, in_force: InForce, heard: &mut Heard) {
        heard.events.push(Event::Opened(Arc::clone(&in_force.agreement)));
        let waiting = match std::mem::replace(&mut self.phase, Phase::Open(in_force)) {
            Phase::Reopening { waiting, .. } => waiting,
            _ => Vec::new(),
        };
        self.set_level(heard);
        self.watch_again(heard);
        self.listen(heard);
        for sent in waiting {
            self.send_again(sent, heard);
        }
    }

    /// Sets the minimum level of log lines, in revisions where one level applies to all calls.
    fn set_level(&mut self, heard: &mut Heard) {
        if self.log_level.is_some() && self.may_send("logging/setLevel") {
            let level = self.level_params();
            self.send_quietly("logging/setLevel", &level, heard);
        }
    }

    fn level_params(&self) -> String {
        format!(r#""level":"{}""#, self.log_level.map_or("info", Level::word))
    }

    /// Ends the opening without a session.
    fn refused(&mut self, refusal: Refusal, heard: &mut Heard) {
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        heard.events.push(Event::Refused(refusal));
        if let Phase::Reopening { waiting, .. } = phase {
            let lost = waiting.into_iter().filter_map(OutgoingRequest::into_work);
            lost.for_each(|work| done(work.call, Err(recovery::gone()), heard));
        }
    }

    /// Compares the declarations of both sides, once the server's version is known.
    fn compare(
        &self,
        rules: &Rules,
        version: &str,
        declared: &RawValue,
        server_info: Option<&RawValue>,
        instructions: Option<&RawValue>,
    ) -> Result<InForce, Refusal> {
        let misbehaved = |problem: &str| Refusal::PeerMisbehaved { problem: problem.to_owned() };
        let members = Members::of(declared).ok_or_else(|| misbehaved("`capabilities` is not an object"))?;
        let provides = capabilities::declared(Side::Server, &members)
            .map_err(|_| misbehaved("`capabilities` declares more than 256 of them, or more than 65536 bytes"))?;
        let server = Offer {
            provides,
            ..Offer::new(capabilities::peer(server_info, capabilities::SERVER_DESCRIPTION), [version])
        };
        let mut in_force = InForce::between(rules, &self.offer, &server)?;
        if let Some(instructions) = instructions.and_then(json::string) {
            let mut instructions = instructions.into_owned();
            instructions.truncate(instructions.floor_char_boundary(capabilities::SERVER_DESCRIPTION));
            Arc::make_mut(&mut in_force.agreement).instructions = Some(instructions);
        }
        Ok(in_force)
    }

    fn message(&mut self, text: &str, ambient: &Ambient<'_>, heard: &mut Heard) {
        let (lane, now) = (ambient.lane, ambient.now.elapsed);
        let envelope = match Envelope::parse(text) {
            Ok(envelope) => envelope,
            Err(error) => return self.unreadable(&error.into(), &Skim::of(text.as_bytes()), lane, now, heard),
        };
        match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => self.request(id, json::string(method).as_deref(), envelope.params, lane, heard),
            (Some(method), None) => match json::string(method) {
                Some(method) => self.notification(&method, envelope.params, lane, now, heard),
                None => heard.events.push(Event::Dropped("a notification without a name")),
            },
            (None, id) if envelope.result.is_some() || envelope.error.is_some() => {
                // An `error` that is `null` next to a result is not an error.
                let error = envelope.error.filter(|error| Kind::of(error) != Kind::Null);
                self.response(id, error.map_or(Ok(envelope.result), Err), lane, now, heard);
            }
            (None, Some(id)) if our_id(id.get()).is_some_and(|id| self.is_awaited(id)) => {
                let id = our_id(id.get()).unwrap_or_default();
                self.invalid_answer(id, recovery::invalid_answer("it is neither a result nor an error"), now, heard);
            }
            _ => heard.events.push(Event::Dropped("a line that is not a JSON-RPC message")),
        }
    }

    fn response(&mut self, id: Option<&RawValue>, answer: Answer<'_>, lane: Lane, now: Duration, heard: &mut Heard) {
        let known = |id: &u64| self.is_awaited(*id);
        // An error is only reliably identified by its exchange: many servers write a wrong id into it.
        let by_lane = || Some(lane.0).filter(|_| answer.is_err() && lane != Lane::MAIN);
        let Some(id) = id.and_then(|id| our_id(id.get())).filter(known).or_else(by_lane).filter(known) else {
            heard.events.push(Event::Dropped("an answer without a pending request"));
            return;
        };
        match &self.phase {
            Phase::ExpectInitializeResult { id: awaited } | Phase::Reopening { id: awaited, .. } if *awaited == id => {
                return self.initialize_answered(answer, heard);
            }
            Phase::ExpectDiscoverResult { id: awaited, again } if *awaited == id => {
                return self.discover_answered(answer, *again, heard);
            }
            _ => {}
        }
        self.reopenings = 0;
        match self.requests.remove(&id) {
            Some(OutgoingRequest::Work(work)) => self.answered(work, answer, now, heard),
            Some(OutgoingRequest::Relist(work, pages)) => self.relisted(work, pages, answer, heard),
            Some(OutgoingRequest::PollTask(work, task)) => self.polled(work, task, answer, now, heard),
            Some(OutgoingRequest::Update(work, task)) => self.updated(work, task, answer, now, heard),
            Some(OutgoingRequest::Result(work, _)) => self.finished(work, answer, now, heard),
            Some(OutgoingRequest::Listen) => self.listen_answered(id, answer, now, heard),
            // Send the call even if the level was refused: log lines are less important.
            Some(OutgoingRequest::Level(work)) => self.send(work, heard),
            None => {}
        }
    }

    fn is_awaited(&self, id: u64) -> bool {
        let of_opening = match &self.phase {
            Phase::ExpectInitializeResult { id }
            | Phase::ExpectDiscoverResult { id, .. }
            | Phase::Reopening { id, .. } => Some(*id),
            Phase::Unopened | Phase::Open(_) | Phase::Closed => None,
        };
        of_opening == Some(id) || self.requests.contains_key(&id)
    }

    /// Handles the answer to a call's own request.
    fn answered(&mut self, work: Box<Work>, answer: Answer<'_>, now: Duration, heard: &mut Heard) {
        match answer {
            Err(error) if self.wants_to_relist(&work, error) => self.relist(work, heard),
            _ => self.finished(work, answer, now, heard),
        }
    }

    /// Handles an answer that may end a call.
    fn finished(&mut self, mut work: Box<Work>, answer: Answer<'_>, now: Duration, heard: &mut Heard) {
        let members = match answer {
            Err(error) if self.wants_visits(&work, error) => return self.visit_first(work, error, now, heard),
            Err(error) => return self.done(&work, Err(work.kind.failure(error)), heard),
            Ok(result) => match result.and_then(Members::of) {
                Some(members) => members,
                None => {
                    let failure = results::upstream_error("the upstream's result is not an object");
                    return self.done(&work, Err(failure), heard);
                }
            },
        };
        match call_kind::result_kind(&members) {
            Ok(ResultKind::InputRequired) => return self.input_required(work, &members, heard),
            Ok(ResultKind::Task) if self.has_tasks() => return self.became_task(work, &members, now, heard),
            Ok(ResultKind::Complete) => {}
            Ok(ResultKind::Task) | Err(_) => {
                let kind = members.raw("resultType").map_or("", RawValue::get);
                let failure = results::upstream_error(format!("the upstream's result is of an unknown type: {kind}"));
                return self.done(&work, Err(failure), heard);
            }
        }
        if let Some(task) = self.created_task(&work, &members) {
            return self.await_task(work, task, heard);
        }
        let outcome = match work.kind {
            CallKind::List(pages) => match pages.add_page(&members) {
                Ok(PageResult::Next(pages, params)) => {
                    (work.kind, work.params) = (CallKind::List(pages), params);
                    return self.send(work, heard);
                }
                Ok(PageResult::Whole(reply)) => Ok(self.store_requirements(reply)),
                Err(failure) => Err(failure),
            },
            ref kind => kind.outcome(&members),
        };
        done(work.call, outcome, heard);
    }

    /// Ends a call.
    fn done(&mut self, work: &Work, outcome: Outcome, heard: &mut Heard) {
        if let (CallKind::Watch { uri }, Err(_)) = (&work.kind, &outcome) {
            self.remove_subscription(uri);
        }
        done(work.call, outcome, heard);
    }

    /// Sends the request of a call.
    fn send(&mut self, work: Box<Work>, heard: &mut Heard) {
        self.send_with(work, "", heard);
    }

    /// The same, with further members in `params`.
    fn send_with(&mut self, mut work: Box<Work>, more: &str, heard: &mut Heard) {
        let (id, wants_progress) = (self.take_id(), work.wants_progress);
        work.token = Some(id);
        let envelope = work.behalf.as_ref().map_or(&*self.envelope, |behalf| behalf.envelope());
        let extras = RequestExtras { more, envelope, meta: &work.meta, wants_progress, party: work.party };
        work::write(&mut heard.wire, id, work.method, &work.params, extras);
        self.requests.insert(id, OutgoingRequest::Work(work));
    }

    /// Sends a request that is not a call's own.
    fn send_other(&mut self, method: &str, params: &str, sent: OutgoingRequest, heard: &mut Heard) -> u64 {
        let id = self.write_other(method, params, sent.work().and_then(|work| work.party), heard);
        self.requests.insert(id, sent);
        id
    }

    /// Sends a request whose answer is ignored. An answer that arrives is dropped.
    fn send_quietly(&mut self, method: &str, params: &str, heard: &mut Heard) -> u64 {
        self.write_other(method, params, None, heard)
    }

    /// Writes a request that is not a call's own, and uses the share of a party.
    fn write_other(&mut self, method: &str, params: &str, party: Option<Party>, heard: &mut Heard) -> u64 {
        let id = self.take_id();
        let extras = RequestExtras { more: "", envelope: &self.envelope, meta: "", wants_progress: false, party };
        work::write(&mut heard.wire, id, method, params, extras);
        id
    }

    /// The outcome of a call that cannot be sent. A capability that was not agreed counts as absent, so its list is
    /// empty.
    fn unsendable(&self, operation: &Operation<'_>) -> Option<Outcome> {
        let in_force = match &self.phase {
            Phase::Open(in_force) => in_force,
            // The call waits for the new session, which decides.
            Phase::Reopening { .. } => return None,
            _ => {
                let failure = Failure::new(FailureKind::UpstreamLost, "there is no session with the upstream");
                return Some(Err(failure));
            }
        };
        let is_open = |method| in_force.gate.admit(Side::Client, method).is_ok();
        let is_open = match operation {
            Operation::ListTools => is_open("tools/list"),
            Operation::CallTool(_) => is_open("tools/call"),
            Operation::ListResources => is_open("resources/list"),
            Operation::ListTemplates => is_open("resources/templates/list"),
            Operation::ReadResource(_) => is_open("resources/read"),
            Operation::Watch(_) => in_force.agreement.allows(Side::Server, "resources.subscribe"),
            Operation::ListPrompts => is_open("prompts/list"),
            Operation::GetPrompt(_) => is_open("prompts/get"),
            Operation::Complete(_) => is_open("completion/complete"),
            Operation::Agent(_) | Operation::Capability(_) => false,
        };
        let absent = || {
            operation.outcome_with_only_tools().unwrap_or_else(|| match operation {
                Operation::CallTool(tool) => Err(Failure::unknown_tool(&tool.name)),
                _ => Ok(Reply::Tools(Arc::from([]))),
            })
        };
        (!is_open).then(absent)
    }
}

/// Reports the end of a call.
fn done(call: CallId, outcome: Outcome, heard: &mut Heard) {
    heard.events.push(Event::Answered(call, outcome));
}

/// The number of an id that may be ours, in any notation.
fn our_id(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| {
        let number = text.parse::<f64>().ok().filter(|number| *number >= 1.0)? as u64;
        ids::is_same(text, &number.to_string()).then_some(number)
    })
}

impl Client for McpClient {
    fn open(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if matches!(self.phase, Phase::Unopened) {
            self.begin_opening(heard);
        }
    }

    fn handle_line(&mut self, text: &str, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if !text.starts_with('[') {
            return self.message(text, ambient, heard);
        }
        let has_batches = self.in_force().is_some_and(|in_force| in_force.revision.has_batches());
        match values::items(text) {
            Ok(parts) if has_batches && parts.len() <= MAX_BATCH => {
                parts.into_iter().for_each(|part| self.message(part.get(), ambient, heard));
            }
            parts => {
                heard.events.push(Event::Dropped("a batch that was not agreed"));
                let answered = parts
                    .into_iter()
                    .flatten()
                    .filter_map(|part| Skim::of(part.get().as_bytes()).answered().and_then(our_id));
                for id in answered {
                    let failure = recovery::invalid_answer("it came in a batch that was not agreed");
                    self.invalid_answer(id, failure, ambient.now.elapsed, heard);
                }
            }
        }
    }

    fn handle_unreadable_line(&mut self, fault: &Fault, skim: &Skim, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.unreadable(fault, skim, ambient.lane, ambient.now.elapsed, heard);
    }

    fn call(&mut self, call: Call<'_>, behalf: Option<&Arc<Agreement>>, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if let Some(outcome) = self.unsendable(&call.operation) {
            done(call.id, outcome, heard);
            return;
        }
        let mut work = Box::new(Work::new(&call));
        if let Some(agreement) = behalf {
            work.behalf = self.on_behalf(agreement, call.terms.log_level);
        }
        let wanted = call.terms.log_level.filter(|_| behalf.is_some());
        let operation = call.operation;
        if let Phase::Reopening { waiting, .. } = &mut self.phase {
            waiting.push(OutgoingRequest::Work(work));
            return;
        }
        if let Operation::Watch(uri) = &operation {
            *self.watched.entry(uri.clone().into_owned()).or_default() += 1;
            if self.spoken().is_stateless() {
                return self.watch_by_listening(work, heard);
            }
        }
        self.ask_for_task(&mut work);
        self.send_at_level(work, wanted, heard);
    }

    fn handle_roots_changed(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if self.may_send("notifications/roots/list_changed") {
            rpc::notification::<()>(&mut heard.wire, "notifications/roots/list_changed", None);
        }
    }

    fn answer(&mut self, question: QuestionId, answered: Answered, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.question_answered(question, answered, ambient.now.elapsed, heard);
    }

    fn unwatch(&mut self, uri: &str, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if !self.remove_subscription(uri) {
            return;
        }
        if self.spoken().is_stateless() {
            self.listen(heard);
        } else if self.may_send("resources/unsubscribe") {
            let mut params = work::Params::default();
            params.text("uri", uri);
            self.send_quietly("resources/unsubscribe", &params.0, heard);
        }
    }

    fn cancel(&mut self, call: CallId, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.cancel_call(call, heard);
    }

    fn handle_lost_exchange(&mut self, lane: Lane, loss: Loss, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.exchange_lost(lane, loss, ambient.now.elapsed, heard);
    }

    fn handle_disconnect(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        self.upstream_lost(heard);
    }

    fn handle_timeout(&mut self, ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let now = ambient.now.elapsed;
        self.poll_due_tasks(now, heard);
        self.repeat_due_calls(now, heard);
        self.listen_if_due(now, heard);
    }

    fn poll_timeout(&self) -> Option<Duration> {
        let polls = self.polls.iter().map(|poll| poll.due);
        let visits = self.visits.values().filter_map(|visit| visit.due);
        polls.chain(visits).chain(self.listening.due()).min()
    }

    fn posting(&self, line: &str) -> Posting {
        self.posting_of(line)
    }
}
