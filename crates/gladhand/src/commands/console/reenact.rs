//! Opens sessions again in memory, with the same state machines as real sessions, and asks them what they would answer.
//!
//! The explorer states two offers. A session that was seen states them in its first messages. In both cases a client side
//! and a server side of the dialect exchange the opening. Then every request of the method table that the agreement closes
//! is sent to the side that receives it, and its answer is the error that a peer would get. Nothing here decides what is
//! in force or words an error: the negotiation and the dialects do.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use gladhand_core::negotiation::{
    Agreement, Capability, Closed, Gate, Kind, Offer, Peer, Side, Stance, Verdict, Wants,
};
use gladhand_core::operations::{Failure, Operation, Reply};
use gladhand_core::wire::json::raw;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_core::wire::{Frame, Frames, Line, Members, RawValue};
use gladhand_dialects::storage::Unshared;
use gladhand_dialects::{
    Action, Client, ClientSetup, Dialect, Door, Event, FirstLine, Heard, Menu, Moment, Output, Server as _,
    ServerSetup, TASKS_EXTENSION, Unagreed, carried_name,
};
use gladhand_session::clock::Clock;
use serde_json::{Map, Value, json};

/// Maximum number of messages in an opening. The longest real one has six.
const MAX_MESSAGES: usize = 64;

/// The id of the requests that are closed.
const PROBE: &str = "closed";

/// A client and a server of one dialect, before their opening.
pub(super) struct OfferPair {
    dialect: &'static Dialect,
    client: ClientSetup,
    menu: Menu,
}

/// An opening, its result, and the answers to closed requests.
pub(super) struct Reenactment {
    /// The messages of the opening, with their senders.
    pub(super) messages: Vec<(Side, String)>,
    /// The agreement, or the reason why there is none.
    pub(super) outcome: Result<Arc<Agreement>, String>,
    closed: Vec<ClosedRequest>,
}

/// A request that the agreement closes.
struct ClosedRequest {
    name: &'static str,
    from: Side,
    /// The capability that it needs. `None`: the version in force does not have it.
    needs: Option<&'static str>,
    /// The answer as it would be sent. `None`: it gets none.
    answer: Option<String>,
}

impl OfferPair {
    /// The offers that a page states. Unknown names are offered as they are: the negotiation says that they are unknown.
    pub(super) fn of_request(request: &Value) -> Result<Self, &'static str> {
        let dialect = dialect(request["dialect"].as_str().unwrap_or_default()).ok_or("there is no such dialect")?;
        let version = request["version"].as_str().unwrap_or(dialect.versions[0]);
        if !dialect.versions.contains(&version) {
            return Err("the dialect has no such version");
        }
        let names = |value: &Value| -> Vec<Capability> {
            let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.take(256).map(Capability::from_wire).collect()
        };
        let wants = request["wants"].is_array().then(|| names(&request["wants"]));
        let provides = names(&request["client"]).into_iter().map(|name| (name, None)).collect();
        let provided = names(&request["server"]);
        let menu = menu(provided.iter().map(|name| (&*name.0, None)));
        Ok(Self { dialect, client: setup(version, wants, provides), menu })
    }

    /// The offers of a session: the client's in its first message, the server's in an agreement that follows from it.
    fn of_session(dialect: &'static Dialect, version: &str, offer: &Offer, agreement: Option<&Agreement>) -> Self {
        let asked = offer.versions.first().map(String::as_str).into_iter().chain([version]);
        let version = asked.filter_map(|asked| dialect.versions.iter().find(|known| **known == asked)).next();
        let wants = match &offer.wants {
            Wants::Everything => None,
            Wants::Only(names) => Some(names.iter().cloned().collect()),
        };
        let provides = offer.provides.iter().map(|(name, settings)| (name.clone(), settings.clone())).collect();
        let terms = agreement.map_or(&[][..], |agreement| &agreement.terms);
        let provided = terms.iter().filter(|term| term.owner == Side::Server && term.server == Stance::Provides);
        let menu = menu(provided.map(|term| (&*term.capability.0, term.settings.as_deref())));
        let mut client = setup(version.unwrap_or(&dialect.versions[0]), wants, provides);
        client.identity = offer.peer.clone();
        client.token = offer.tokens.first().cloned();
        Self { dialect, client, menu }
    }

    /// Opens the session, and sends the closed requests.
    pub(super) fn run(self) -> Reenactment {
        let mut stage = PairInMemory::new(&self);
        stage.open();
        stage.reenactment()
    }
}

/// Opens a session again that was seen. The agreement follows from the messages of its two peers, so it is theirs also if
/// the server is another program. `None`: the messages contain no opening.
pub(super) fn session(
    dialect: &'static Dialect,
    version: &str,
    from_client: &str,
    from_server: &[&str],
) -> Option<Reenactment> {
    let first = FirstLine { text: from_client, members: Some(Members::parse(from_client).ok()?) };
    let offer = (dialect.offer)(&first);
    // The real answer of the server, to a client of ours with the same offer.
    let mut stage = PairInMemory::new(&OfferPair::of_session(dialect, version, &offer, None));
    stage.open_with(from_client, from_server);
    let agreement = stage.agreement?;
    let mut reenactment = OfferPair::of_session(dialect, version, &offer, Some(&agreement)).run();
    reenactment.outcome = Ok(agreement);
    Some(reenactment)
}

impl Reenactment {
    /// As the page shows it.
    pub(super) fn to_json(&self) -> Value {
        let messages = self.messages.iter().map(|(from, text)| json!({"from": from.word(), "text": text}));
        let closed = self.closed.iter().map(|request| {
            json!({"name": request.name, "from": request.from.word(), "needs": request.needs, "answer": request.answer})
        });
        let mut shown = json!({"messages": messages.collect::<Value>(), "closed": closed.collect::<Value>()});
        match &self.outcome {
            Ok(agreement) => {
                let terms = agreement.terms.iter().map(|term| {
                    let why = match term.verdict {
                        Verdict::Agreed => Value::Null,
                        Verdict::Refused(why) => why.to_string().into(),
                    };
                    json!({
                        "owner": term.owner.word(),
                        "capability": term.capability.0,
                        "client": term.client.word(),
                        "server": term.server.word(),
                        "agreed": term.verdict == Verdict::Agreed,
                        "why": why,
                    })
                });
                shown["dialect"] = agreement.dialect.into();
                shown["version"] = agreement.version.clone().into();
                shown["asked_version"] = agreement.asked_version.clone().into();
                shown["per_request"] = agreement.per_request.into();
                shown["terms"] = terms.collect::<Value>();
            }
            Err(why) => shown["refusal"] = why.clone().into(),
        }
        shown
    }
}

/// The dialect of a name.
pub(super) fn dialect(name: &str) -> Option<&'static Dialect> {
    gladhand_dialects::REGISTRY.iter().copied().find(|dialect| dialect.name == name)
}

fn setup(
    version: &str,
    wants: Option<Vec<Capability>>,
    provides: Vec<(Capability, Option<Box<RawValue>>)>,
) -> ClientSetup {
    ClientSetup {
        identity: Peer::new("client", "1.0"),
        version: version.to_owned(),
        wants,
        provides,
        token: None,
        log_level: None,
        listen: false,
        exchanges: false,
        unagreed: Unagreed::default(),
    }
}

/// The menu of a server that provides these capabilities, in the names of any dialect.
fn menu<'n>(provided: impl Iterator<Item = (&'n str, Option<&'n RawValue>)>) -> Menu {
    let mut menu = Menu::default();
    for (name, settings) in provided {
        let settings = || settings.map_or_else(|| raw("{}".to_owned()), ToOwned::to_owned);
        match name {
            "tools" | "tool" | "tools.call" => menu.tools = true,
            "tools.listChanged" => menu.tool_changes = true,
            "resources" => menu.resources = true,
            "resources.subscribe" => menu.resource_updates = true,
            "resources.listChanged" => menu.resource_changes = true,
            "prompts" => menu.prompts = true,
            "prompts.listChanged" => menu.prompt_changes = true,
            "completions" => menu.completions = true,
            "logging" => menu.logging = true,
            "agent" => menu.agent = true,
            "tasks" | TASKS_EXTENSION => menu.tasks = true,
            _ => {
                menu.capabilities.extend(carried_name(name));
                if let Some(name) = name.strip_prefix("extensions.") {
                    menu.extensions.push((name.to_owned(), settings()));
                } else if let Some(name) = name.strip_prefix("experimental.") {
                    menu.experimental.push((name.to_owned(), settings()));
                }
            }
        }
    }
    menu
}

/// Both sides of a session in memory.
struct PairInMemory {
    dialect: &'static Dialect,
    client: Box<dyn Client>,
    server: Door,
    clock: Clock,
    messages: Vec<(Side, String)>,
    agreement: Option<Arc<Agreement>>,
    refusal: Option<String>,
}

impl fmt::Debug for PairInMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("dialect", &self.dialect.name).finish_non_exhaustive()
    }
}

impl PairInMemory {
    fn new(scene: &OfferPair) -> Self {
        let server = ServerSetup {
            identity: Peer::new("server", "1.0"),
            about: Vec::new(),
            menu: scene.menu.clone(),
            passes: Vec::new(),
            max_parallel: 4,
            page_size: 100,
            max_in_flight: 64,
            started: Moment::default(),
            unagreed: Unagreed::default(),
            storage: Arc::new(Unshared),
        };
        Self {
            dialect: scene.dialect,
            client: (scene.dialect.client)(scene.client.clone()),
            server: Door::pinned(scene.dialect, server),
            clock: Clock::start(),
            messages: Vec::new(),
            agreement: None,
            refusal: None,
        }
    }

    /// Both sides exchange the opening.
    fn open(&mut self) {
        let mut waiting = VecDeque::from_iter(self.begin());
        while let Some((from, text)) = waiting.pop_front() {
            if self.messages.len() == MAX_MESSAGES {
                return;
            }
            let answers = match from {
                Side::Client => self.hand_to_server(&text),
                Side::Server => self.hand_to_client(&text),
            };
            self.messages.push((from, text));
            waiting.extend(answers);
        }
    }

    /// The client side opens, and gets the answers that another server gave to another client.
    fn open_with(&mut self, from_client: &str, from_server: &[&str]) {
        let Some((_, ours)) = self.begin().into_iter().next() else { return };
        for answer in from_server {
            self.hand_to_client(&with_id_of(self.dialect, answer, from_client, &ours));
            if self.agreement.is_some() || self.refusal.is_some() {
                return;
            }
        }
    }

    fn begin(&mut self) -> Vec<(Side, String)> {
        let mut heard = Heard::default();
        self.client.open(&mut self.clock.ambient(), &mut heard);
        self.take(heard)
    }

    /// Hands a line to the server side. Returns its answers.
    fn hand_to_server(&mut self, text: &str) -> Vec<(Side, String)> {
        let mut out = Output::onto(Frames::default());
        self.server.handle_frame(Line::Bytes(text.as_bytes()), &mut self.clock.ambient(), &mut out);
        let Output { mut wire, actions } = out.into_owned();
        for action in actions {
            match action {
                // Some openings contain the list of tools. No tool is behind this server.
                Action::Deliver(call, _) => {
                    let outcome = match call.operation {
                        Operation::ListTools => Ok(Reply::Tools(Arc::from([]))),
                        _ => Err(Failure::unknown_tool("")),
                    };
                    let mut out = Output::onto(std::mem::take(&mut wire));
                    self.server.handle_outcome(call.id, outcome, &mut self.clock.ambient(), &mut out);
                    wire = out.wire;
                }
                Action::Refused(refusal) => self.refusal = Some(refusal.to_string()),
                _ => {}
            }
        }
        lines(&wire).map(|text| (Side::Server, text)).collect()
    }

    /// Hands a line to the client side. Returns its answers.
    fn hand_to_client(&mut self, text: &str) -> Vec<(Side, String)> {
        let mut heard = Heard::default();
        self.client.handle_line(text, &mut self.clock.ambient(), &mut heard);
        self.take(heard)
    }

    fn take(&mut self, heard: Heard) -> Vec<(Side, String)> {
        for event in heard.events {
            match event {
                Event::Opened(agreement) => self.agreement = Some(agreement),
                Event::Refused(refusal) => self.refusal = Some(refusal.to_string()),
                _ => {}
            }
        }
        lines(&heard.wire).map(|text| (Side::Client, text)).collect()
    }

    fn reenactment(mut self) -> Reenactment {
        let closed = self.agreement.clone().map(|agreement| self.closed(&agreement)).unwrap_or_default();
        let refusal = self.refusal.unwrap_or_else(|| "the opening has no end".to_owned());
        Reenactment { messages: self.messages, outcome: self.agreement.ok_or(refusal), closed }
    }

    /// The requests that the agreement closes, with their answers.
    fn closed(&mut self, agreement: &Agreement) -> Vec<ClosedRequest> {
        let rules = (self.dialect.rules)();
        let gate = Gate::new(rules, agreement);
        let opening = self.messages.iter().find(|(from, _)| *from == Side::Client).map(|(_, text)| text.clone());
        let mut closed: Vec<ClosedRequest> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.kind == Kind::Call) {
            let is_known = closed.iter().any(|known| (known.name, known.from) == (rule.name, rule.from));
            let needs = match gate.admit(rule.from, rule.name) {
                Err(Closed::NotAgreed(need)) => Some(need.capability),
                Err(Closed::NotInThisVersion) => None,
                Err(Closed::Unknown) | Ok(_) => continue,
            };
            if is_known {
                continue;
            }
            let request = request(rule.name, opening.as_deref(), agreement);
            let answers = match rule.from {
                Side::Client => self.hand_to_server(&request),
                Side::Server => self.hand_to_client(&request),
            };
            let answer = answers.into_iter().map(|(_, text)| text).find(|text| text.contains(PROBE));
            closed.push(ClosedRequest { name: rule.name, from: rule.from, needs, answer });
        }
        closed
    }
}

fn lines(wire: &Frames) -> impl Iterator<Item = String> {
    let text = |frame: &Frame| String::from_utf8_lossy(&wire[frame.span.clone()]).into_owned();
    wire.frames().iter().map(text)
}

/// A request without parameters in the form of the dialect's own first message, which carries what the dialect sends with
/// every message.
fn request(name: &str, opening: Option<&str>, agreement: &Agreement) -> String {
    let opening: Map<String, Value> = opening.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    if opening.contains_key("jsonrpc") {
        let mut params = json!({});
        if agreement.per_request {
            params["_meta"] = opening.get("params").map_or(Value::Null, |params| params["_meta"].clone());
        }
        return json!({"jsonrpc": "2.0", "id": PROBE, "method": name, "params": params}).to_string();
    }
    let mut request = Map::new();
    request.insert("type".to_owned(), name.into());
    request.insert("id".to_owned(), PROBE.into());
    for member in ["version", "a2e", "ts"] {
        request.extend(opening.get(member).map(|value| (member.to_owned(), value.clone())));
    }
    request.extend(agreement.session.as_ref().map(|session| ("session_id".to_owned(), session.clone().into())));
    Value::Object(request).to_string()
}

/// An answer to one client's request, as the answer to ours.
fn with_id_of(dialect: &Dialect, answer: &str, theirs: &str, ours: &str) -> String {
    let id = |text: &str| (dialect.describe)(text).and_then(|summary| summary.id).map(|id| id.get().to_owned());
    let (Some(theirs), Some(ours)) = (id(theirs), id(ours)) else { return answer.to_owned() };
    if answer.len() > MAX_LINE {
        return answer.to_owned();
    }
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(answer) else { return answer.to_owned() };
    let parsed = |raw: &str| serde_json::from_str::<Value>(raw).unwrap_or_default();
    let (theirs, ours) = (parsed(&theirs), parsed(&ours));
    members.values_mut().filter(|value| **value == theirs).for_each(|value| value.clone_from(&ours));
    Value::Object(members).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(request: &Value) -> Value {
        OfferPair::of_request(request).unwrap_or_else(|why| panic!("{why}: {request}")).run().to_json()
    }

    fn closed<'s>(shown: &'s Value, name: &str) -> Option<&'s Value> {
        shown["closed"].as_array().unwrap().iter().find(|request| request["name"] == name)
    }

    #[test]
    fn a_request_that_was_not_agreed_gets_the_error_of_the_dialect() {
        let request = json!({"dialect": "mcp", "version": "2025-06-18", "client": ["roots"], "server": ["tools"]});
        let shown = shown(&request);
        assert_eq!((&shown["version"], &shown["refusal"]), (&json!("2025-06-18"), &Value::Null));
        assert!(closed(&shown, "tools/call").is_none() && closed(&shown, "roots/list").is_none(), "{shown}");
        let read = closed(&shown, "resources/read").unwrap();
        assert_eq!((&read["needs"], &read["from"]), (&json!("resources"), &json!("client")));
        assert!(read["answer"].as_str().unwrap().contains("-32601"), "{read}");
        let sample = closed(&shown, "sampling/createMessage").unwrap();
        assert_eq!((&sample["needs"], &sample["from"]), (&json!("sampling"), &json!("server")));
        assert!(sample["answer"].as_str().unwrap().contains("\"error\""), "{sample}");
        let roots = shown["terms"].as_array().unwrap().iter().find(|term| term["capability"] == "roots").unwrap();
        assert_eq!((&roots["agreed"], &roots["client"]), (&json!(true), &json!("provides")));
    }

    #[test]
    fn every_version_of_every_dialect_opens_and_answers_closed_requests() {
        for dialect in gladhand_dialects::REGISTRY {
            for version in dialect.versions {
                for server in [json!([]), json!(["tools", "tool", "memory"])] {
                    let shown = shown(&json!({"dialect": dialect.name, "version": version, "server": server}));
                    let may_refuse = dialect.name == "a2e" && server == json!([]);
                    assert!(may_refuse || shown["terms"].is_array(), "{} {version}: {shown}", dialect.name);
                    // In stateless MCP, a server sends no requests, so a client answers none. A client of A2E ignores
                    // requests that were not agreed.
                    let ignores_server = *version == "2026-07-28" || dialect.name == "a2e";
                    let is_answered = |request: &Value| !(ignores_server && request["from"] == "server");
                    for request in shown["closed"].as_array().unwrap() {
                        assert_eq!(
                            request["answer"].is_string(),
                            is_answered(request),
                            "{} {version}: {request}",
                            dialect.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn offers_of_unknown_dialects_and_versions_are_refused() {
        for request in [json!({}), json!({"dialect": "x"}), json!({"dialect": "mcp", "version": "1"}), json!([1])] {
            assert!(OfferPair::of_request(&request).is_err(), "{request}");
        }
        let odd =
            json!({"dialect": "mcp", "client": ["x".repeat(9999), 7], "server": {"a": 1}, "wants": ["", "tools"]});
        assert!(shown(&odd)["messages"].as_array().is_some());
    }

    #[test]
    fn the_agreement_of_a_session_follows_from_its_own_messages() {
        let initialize = json!({"jsonrpc": "2.0", "id": "init-7", "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}, "clientInfo": {"name": "c", "version": "1"}}});
        let result = json!({"jsonrpc": "2.0", "id": "init-7", "result": {"protocolVersion": "2025-06-18",
            "capabilities": {"prompts": {}}, "serverInfo": {"name": "another", "version": "2"}}});
        let (initialize, result) = (initialize.to_string(), result.to_string());
        let mcp = dialect("mcp").unwrap();
        let shown = session(mcp, "2025-06-18", &initialize, &["{}", &result]).unwrap().to_json();
        let terms: Vec<_> = shown["terms"].as_array().unwrap().iter().map(|term| &term["capability"]).collect();
        assert_eq!(terms, ["prompts", "sampling"]);
        assert!(closed(&shown, "prompts/get").is_none() && closed(&shown, "tools/call").is_some());
        assert!(closed(&shown, "sampling/createMessage").is_none() && closed(&shown, "roots/list").is_some());
        assert!(session(mcp, "2025-06-18", "{}", &[]).is_none());
        assert!(session(mcp, "2025-06-18", "no JSON", &[&result]).is_none());
    }
}
