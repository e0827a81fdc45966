//! Our side towards an upstream that speaks MCP.
//!
//! The version that we were asked to speak decides the era: `initialize`, or `server/discover` and
//! an opening in every request. What a careless server sends (notices before its result, answers
//! nobody waits for, ids spelt differently, error code 0) is tolerated and said to be dropped.

use std::collections::HashMap;
use std::sync::Arc;

use gladhand_accord::{Offer, Refusal, Rules, Side, Wants};
use gladhand_operations::{CallId, Failure, FailureKind, Log, Notice, Operation, Outcome, Progress, Reply};
use gladhand_wire::json::{self, Kind, RawValue};
use gladhand_wire::rpc::{self, Envelope};
use gladhand_wire::{Fault, Id, Members};

use super::batch::MAX_BATCH;
use super::capabilities::{self, InForce};
use super::client_calls::{Asked, Step};
use super::meta;
use super::revision::Revision;
use super::{errors, ids};
use crate::ambient::Ambient;
use crate::side::{Client, ClientSetup, Event, Heard};
use gladhand_wire::pick;

/// Our side towards an upstream.
#[derive(Debug)]
pub(super) struct McpClient {
    pub(super) offer: Offer,
    /// The version that we were asked to speak.
    pub(super) revision: Revision,
    pub(super) phase: Phase,
    /// The `capabilities` object that we declare.
    pub(super) declaration: String,
    /// What every request carries in `_meta`, without the braces; empty with a handshake.
    pub(super) envelope: String,
    /// Requests of ours in flight, by our id.
    requests: HashMap<u64, Sent>,
    next_id: u64,
}

/// Where the session stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing was sent.
    Unopened,
    /// `initialize` is out.
    ExpectInitializeResult { id: u64 },
    /// `server/discover` is out.
    ExpectDiscoverResult { id: u64 },
    /// Calls may be made.
    Open(InForce),
    /// There is no session and there will be none.
    Closed,
}

/// A request in flight.
#[derive(Debug)]
struct Sent {
    call: CallId,
    asked: Asked,
    wants_progress: bool,
}

impl McpClient {
    pub(super) fn new(setup: ClientSetup) -> Self {
        let revision = Revision::named(&setup.version).unwrap_or(Revision::HANDSHAKE[0]);
        let mut offer = Offer::new(setup.identity, [revision.as_str()]);
        offer.provides = setup.provides.into_iter().collect();
        if let Some(wants) = setup.wants {
            offer.wants = Wants::Only(wants.into_iter().collect());
        }
        let declaration = capabilities::declaration(&offer.provides);
        let envelope = if revision.is_stateless() {
            format!(
                r#""{}":"{}","{}":{},"{}":{}"#,
                meta::PROTOCOL_VERSION,
                revision.as_str(),
                meta::CLIENT_INFO,
                json::to_raw(&offer.peer).get(),
                meta::CLIENT_CAPABILITIES,
                declaration,
            )
        } else {
            String::new()
        };
        Self { offer, revision, phase: Phase::Unopened, declaration, envelope, requests: HashMap::new(), next_id: 0 }
    }

    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Settles that there is a session.
    pub(super) fn opened(&mut self, in_force: InForce, heard: &mut Heard) {
        heard.events.push(Event::Opened(Arc::clone(&in_force.agreement)));
        self.phase = Phase::Open(in_force);
    }

    /// Settles that there is none.
    pub(super) fn refused(&mut self, refusal: Refusal, heard: &mut Heard) {
        self.phase = Phase::Closed;
        heard.events.push(Event::Refused(refusal));
    }

    /// Compares what both sides declared, now that the server's version is a fact.
    pub(super) fn compare(
        &self,
        rules: &Rules,
        version: &str,
        declared: &RawValue,
        server_info: Option<&RawValue>,
    ) -> Result<InForce, Refusal> {
        let misbehaved = |problem: &str| Refusal::PeerMisbehaved { problem: problem.to_owned() };
        let members = Members::of(declared).ok_or_else(|| misbehaved("`capabilities` is no object"))?;
        let provides = capabilities::declared(Side::Server, &members)
            .map_err(|_| misbehaved("`capabilities` declares more than 256 of them"))?;
        let server = Offer { provides, ..Offer::new(capabilities::peer(server_info), [version]) };
        InForce::between(rules, &self.offer, &server)
    }

    fn message(&mut self, text: &str, heard: &mut Heard) {
        let Ok(envelope) = Envelope::parse(text) else {
            heard.events.push(Event::Dropped("a line that is no JSON-RPC message"));
            return;
        };
        match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => self.request(id, json::string(method).as_deref(), heard),
            (Some(method), None) => match json::string(method) {
                Some(method) => self.notification(&method, envelope.params, heard),
                None => heard.events.push(Event::Dropped("a notification without a name")),
            },
            (None, Some(id)) if envelope.result.is_some() || envelope.error.is_some() => {
                // An `error` that is `null` beside a result is no error.
                let error = envelope.error.filter(|error| Kind::of(error) != Kind::Null);
                self.response(id, error.map_or(Ok(envelope.result), Err), heard);
            }
            _ => heard.events.push(Event::Dropped("a line that is no JSON-RPC message")),
        }
    }

    /// The server asks something of us: only `ping` is answered with a result so far.
    fn request(&mut self, id: &RawValue, method: Option<&str>, heard: &mut Heard) {
        let revision = match &self.phase {
            Phase::Open(in_force) => in_force.revision,
            _ => self.revision,
        };
        if revision.is_stateless() || !Id::is_string_or_number(id) {
            heard.events.push(Event::Dropped("a request that a server may not send"));
            return;
        }
        let id = Id::of(id);
        match method {
            Some("ping") => rpc::result(&mut heard.wire, &id, &serde_json::Map::new()),
            method => {
                let error = errors::method_not_found(method.unwrap_or_default());
                rpc::error(&mut heard.wire, Some(&id), &error);
            }
        }
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>, heard: &mut Heard) {
        let Phase::Open(in_force) = &self.phase else {
            heard.events.push(Event::Dropped("a notification before the session was open"));
            return;
        };
        if in_force.gate.admit(Side::Server, method).is_err() {
            heard.events.push(Event::Dropped("a notification that was not agreed"));
            return;
        }
        let notice = match method {
            "notifications/progress" => self.progress(params),
            "notifications/message" => params.and_then(log).map(|log| Notice::Log(None, log)),
            "notifications/tools/list_changed" => Some(Notice::ToolsChanged),
            _ => None,
        };
        heard.events.push(notice.map_or(Event::Dropped("a notification that nobody here waits for"), Event::Notice));
    }

    fn progress(&self, params: Option<&RawValue>) -> Option<Notice> {
        let [token, progress, total, message] = pick(params?, ["progressToken", "progress", "total", "message"])?;
        let sent = self.requests.get(&our_id(token?)?).filter(|sent| sent.wants_progress)?;
        let number = |raw: &RawValue| raw.get().parse::<f64>().ok();
        let progress = Progress {
            progress: number(progress?)?,
            total: total.and_then(number),
            message: message.and_then(json::string).map(Into::into),
        };
        Some(Notice::Progress(sent.call, progress))
    }

    fn response(&mut self, id: &RawValue, outcome: Result<Option<&RawValue>, &RawValue>, heard: &mut Heard) {
        let Some(id) = our_id(id) else {
            heard.events.push(Event::Dropped("an answer under an id that is not ours"));
            return;
        };
        match &self.phase {
            Phase::ExpectInitializeResult { id: awaited } if *awaited == id => {
                return self.initialize_answered(outcome, heard);
            }
            Phase::ExpectDiscoverResult { id: awaited } if *awaited == id => {
                return self.discover_answered(outcome, heard);
            }
            _ => {}
        }
        let Some(Sent { call, asked, wants_progress }) = self.requests.remove(&id) else {
            heard.events.push(Event::Dropped("an answer that nobody waits for"));
            return;
        };
        match asked.answered(outcome) {
            Step::Done(outcome) => heard.events.push(Event::Answered(call, outcome)),
            Step::NextPage(asked) => self.send(call, asked, None, wants_progress, heard),
        }
    }

    /// Sends a request for a call.
    fn send(
        &mut self,
        call: CallId,
        asked: Asked,
        arguments: Option<&RawValue>,
        wants_progress: bool,
        heard: &mut Heard,
    ) {
        let id = self.take_id();
        asked.write(&mut heard.wire, id, arguments, wants_progress, &self.envelope);
        self.requests.insert(id, Sent { call, asked, wants_progress });
    }

    /// The outcome of a call that cannot be sent.
    fn unsendable(&self, operation: &Operation<'_>) -> Option<Outcome> {
        let Phase::Open(in_force) = &self.phase else {
            return Some(Err(Failure::new(FailureKind::UpstreamLost, "there is no session with the upstream")));
        };
        if let Some(outcome) = operation.where_there_are_only_tools() {
            return Some(outcome);
        }
        match operation {
            Operation::ListTools if in_force.gate.admit(Side::Client, "tools/list").is_err() => {
                // What was not agreed is absent, so the list of it is empty.
                Some(Ok(Reply::Tools(Arc::from([]))))
            }
            Operation::CallTool(tool) if in_force.gate.admit(Side::Client, "tools/call").is_err() => {
                Some(Err(Failure::unknown_tool(&tool.name)))
            }
            _ => None,
        }
    }
}

/// The number of an id that we may have given, however the server spells it.
fn our_id(raw: &RawValue) -> Option<u64> {
    let text = raw.get();
    text.parse().ok().or_else(|| {
        let number = text.parse::<f64>().ok().filter(|number| *number >= 1.0)? as u64;
        ids::is_same(text, &number.to_string()).then_some(number)
    })
}

fn log(params: &RawValue) -> Option<Log> {
    let [level, logger, data] = pick(params, ["level", "logger", "data"])?;
    let data = data.map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned);
    Some(Log { level: meta::level(level?)?, logger: logger.and_then(json::string).map(Into::into), data })
}

impl Client for McpClient {
    fn open(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if matches!(self.phase, Phase::Unopened) {
            self.begin_opening(heard);
        }
    }

    fn receive(&mut self, text: &str, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        if !text.starts_with('[') {
            return self.message(text, heard);
        }
        let has_batches = matches!(&self.phase, Phase::Open(in_force) if in_force.revision.has_batches());
        match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(parts) if has_batches && parts.len() <= MAX_BATCH => {
                parts.into_iter().for_each(|part| self.message(part.get(), heard));
            }
            _ => heard.events.push(Event::Dropped("a batch, which was not agreed")),
        }
    }

    fn garbled(&mut self, _fault: &Fault, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        heard.events.push(Event::Dropped("a line that cannot be read"));
    }

    fn call(
        &mut self,
        call: CallId,
        operation: Operation<'_>,
        wants_progress: bool,
        _ambient: &mut Ambient<'_>,
        heard: &mut Heard,
    ) {
        if let Some(outcome) = self.unsendable(&operation) {
            heard.events.push(Event::Answered(call, outcome));
            return;
        }
        let arguments = match &operation {
            Operation::CallTool(tool) => Some(&*tool.arguments),
            _ => None,
        };
        self.send(call, Asked::by(&operation), arguments, wants_progress, heard);
    }

    fn cancel(&mut self, call: CallId, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        let Some(id) = self.requests.iter().find(|(_, sent)| sent.call == call).map(|(id, _)| *id) else { return };
        self.requests.remove(&id);
        let params = serde_json::json!({"requestId": id, "reason": "cancelled by the caller"});
        rpc::notification(&mut heard.wire, "notifications/cancelled", Some(&params));
        heard.events.push(Event::Answered(call, Err(Failure::new(FailureKind::Cancelled, "cancelled by the caller"))));
    }

    fn gone(&mut self, _ambient: &mut Ambient<'_>, heard: &mut Heard) {
        match self.phase {
            Phase::ExpectInitializeResult { .. } | Phase::ExpectDiscoverResult { .. } => {
                self.refused(Refusal::PeerGone, heard);
            }
            _ => self.phase = Phase::Closed,
        }
        let mut lost: Vec<_> = self.requests.drain().collect();
        lost.sort_unstable_by_key(|(id, _)| *id);
        for (_, Sent { call, .. }) in lost {
            let failure = Failure::new(FailureKind::UpstreamLost, "the upstream went away before it answered");
            heard.events.push(Event::Answered(call, Err(failure)));
        }
    }
}
