//! A server that plays a part: strictly of one era, with the habits of servers that people have.
//!
//! `scripted FILE handshake|stateless [HABIT…]` serves MCP on standard input and output, and leaves in the file every line
//! that it got, with what was wrong with it. It is written without the library, so that what it sees is the wire itself.
//!
//! Habits: see [`Habit`].

mod tools;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, Write};

use serde_json::{Map, Value, json};
use wire::{Id, failure, say};

const STATELESS: &str = "2026-07-28";
const HANDSHAKE: &str = "2025-11-25";
const ENVELOPE: &str = "io.modelcontextprotocol/";

/// Which era it is of, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Handshake,
    Stateless,
}

/// Unusual behaviour of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Once it was asked what it speaks, it knows no handshake any more, and lists only versions that have one.
    NeverForgets,
    /// It answers requests of the other era before any handshake, in the shape of its own.
    ServesTheWrongEra,
    /// It dies of a first line that is no `initialize`.
    DiesOfQuestions,
    /// It says nothing to a first line that is no `initialize`.
    IgnoresQuestions,
    /// It drops messages with unknown members without an answer.
    DropsSilently,
    /// A cancelled call is answered all the same, after more progress, with an error of code 0.
    AnswersCancelled,
    /// Lists change before it is open, a line is logged before a subscription is answered, and folders are asked for at
    /// once, under ids that its client uses too.
    SpeaksFirst,
    /// It does not leave when its input ends.
    Stays,
    /// It speaks both eras, each process only the one that its first request is of.
    SpeaksBoth,
    /// It has a tool `private` for clients that can be asked by a form, and for no others.
    HasAPrivateTool,
    /// It writes a log line when a session is open, at any log level.
    LogsAtOnce,
    /// It sends log lines and notifications of changed lists, but declares neither.
    DeclaresLittle,
    /// It neither declares nor sends notifications of changed lists.
    ChangesQuietly,
    /// It reads nothing while a call lingers.
    Blocks,
}

impl Habit {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "never-forgets" => Self::NeverForgets,
            "serves-the-wrong-era" => Self::ServesTheWrongEra,
            "dies-of-questions" => Self::DiesOfQuestions,
            "ignores-questions" => Self::IgnoresQuestions,
            "drops-silently" => Self::DropsSilently,
            "answers-cancelled" => Self::AnswersCancelled,
            "speaks-first" => Self::SpeaksFirst,
            "stays" => Self::Stays,
            "speaks-both" => Self::SpeaksBoth,
            "has-a-private-tool" => Self::HasAPrivateTool,
            "logs-at-once" => Self::LogsAtOnce,
            "declares-little" => Self::DeclaresLittle,
            "changes-quietly" => Self::ChangesQuietly,
            "blocks" => Self::Blocks,
            _ => return None,
        })
    }
}

/// The server.
#[derive(Debug)]
struct Server {
    era: Era,
    habits: Vec<Habit>,
    log: File,
    is_first: bool,
    is_open: bool,
    /// The client capabilities of a handshake.
    capabilities: Value,
    /// The level of `logging/setLevel`.
    level: Option<String>,
    watched: BTreeSet<String>,
    /// Ids of `subscriptions/listen` with what each wants to hear of.
    listening: Vec<(Id, Value)>,
    /// Our own requests, with the calls that wait for them.
    asked: BTreeMap<String, (Option<Id>, &'static str)>,
    next_question: u64,
    /// Progress tokens of calls that asked something.
    tokens: Vec<Value>,
    /// Calls that wait to be cancelled, with their progress tokens.
    lingering: Vec<(Id, Option<Value>)>,
    cancelled: usize,
    has_grown: bool,
}

/// A request as its handlers need it.
#[derive(Debug)]
struct Request {
    id: Id,
    method: String,
    params: Map<String, Value>,
}

impl Request {
    fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }

    fn text(&self, name: &str) -> &str {
        self.params.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

impl Server {
    fn has(&self, habit: Habit) -> bool {
        self.habits.contains(&habit)
    }

    /// Notes that the other side did what it must not do.
    fn object(&mut self, objection: &str) {
        let _ = writeln!(self.log, "violation: {objection}");
    }

    fn receive(&mut self, line: &str) {
        let _ = writeln!(self.log, "{line}");
        let Ok(Value::Object(message)) = serde_json::from_str::<Value>(line) else {
            return self.object("this is no message");
        };
        let unknown = message
            .keys()
            .any(|name| !["jsonrpc", "id", "method", "params", "result", "error"].contains(&name.as_str()));
        if unknown || message.get("params").is_some_and(Value::is_null) {
            self.object("a message has members that nobody knows");
            if self.has(Habit::DropsSilently) {
                return;
            }
        }
        let is_first = std::mem::replace(&mut self.is_first, false);
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        if is_first && self.has(Habit::SpeaksBoth) {
            self.era = if method == "initialize" { Era::Handshake } else { Era::Stateless };
        }
        if is_first && method != "initialize" && self.era == Era::Handshake {
            if self.has(Habit::DiesOfQuestions) {
                std::process::exit(1);
            }
            if self.has(Habit::IgnoresQuestions) {
                return;
            }
        }
        let params = message.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
        match (message.get("id"), method.is_empty()) {
            (Some(id), false) => self.request(Request { id: Id(id.clone()), method, params }),
            (Some(id), true) => self.answered(id, message.get("result")),
            (None, _) => self.notified(&method, &params),
        }
    }

    fn request(&mut self, request: Request) {
        match self.era {
            Era::Handshake => self.handshake_request(request),
            Era::Stateless => self.stateless_request(request),
        }
    }

    fn handshake_request(&mut self, request: Request) {
        let has_envelope = request.params.get("_meta").and_then(Value::as_object);
        let has_envelope = has_envelope.is_some_and(|meta| meta.keys().any(|key| key.starts_with(ENVELOPE)));
        match request.method.as_str() {
            "server/discover" if self.has(Habit::NeverForgets) => {
                self.habits.push(Habit::ServesTheWrongEra);
                let result = json!({"supportedVersions": [HANDSHAKE], "capabilities": {}, "resultType": "complete"});
                return say(&request.id.result(&result));
            }
            "server/discover" => return say(&request.id.error(-32601, "Method not found")),
            "initialize" if self.has(Habit::NeverForgets) && self.has(Habit::ServesTheWrongEra) => {
                return say(&request.id.error(-32022, "Unsupported protocol version"));
            }
            "initialize" => return self.initialize(&request),
            "ping" => return say(&request.id.result(&json!({}))),
            _ => {}
        }
        if has_envelope && !self.has(Habit::ServesTheWrongEra) {
            self.object("a request of the other era");
            return say(&request.id.error(-32602, "Invalid params"));
        }
        if !self.is_open && !self.has(Habit::ServesTheWrongEra) {
            self.object("a request before the session is open");
            return say(&request.id.error(-32602, "Invalid params"));
        }
        self.serve(&request);
    }

    /// The declared capabilities.
    fn declared(&self) -> Value {
        if self.has(Habit::DeclaresLittle) || self.has(Habit::ChangesQuietly) {
            return json!({"tools": {}, "resources": {}, "prompts": {}, "completions": {}});
        }
        json!({
            "tools": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "prompts": {},
            "logging": {},
            "completions": {},
            "extensions": {"com.example/server": {"a": 1}},
            "experimental": {"server": {"b": 2}},
        })
    }

    fn initialize(&mut self, request: &Request) {
        self.capabilities = request.params.get("capabilities").cloned().unwrap_or_default();
        if self.has(Habit::SpeaksFirst) {
            say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
        let version = request.params.get("protocolVersion").filter(|_| self.has(Habit::SpeaksBoth));
        say(&request.id.result(&json!({
            "protocolVersion": version.cloned().unwrap_or_else(|| HANDSHAKE.into()),
            "capabilities": self.declared(),
            "serverInfo": server_info("scripted-handshake"),
            "instructions": "Ask twice.",
        })));
    }

    fn stateless_request(&mut self, request: Request) {
        if request.method == "initialize" {
            // Clients that speak both eras may try this one first.
            let error = json!({"code": -32022, "message": "no", "data": {"supported": [STATELESS]}});
            return say(&json!({"jsonrpc": "2.0", "id": request.id.0, "error": error}));
        }
        let version = request.meta("io.modelcontextprotocol/protocolVersion").and_then(Value::as_str);
        let has_capabilities = request.meta("io.modelcontextprotocol/clientCapabilities").is_some_and(Value::is_object);
        if version != Some(STATELESS) || !has_capabilities {
            self.object("a request without its envelope");
            let error = json!({"code": -32022, "message": "no", "data": {"supported": [STATELESS]}});
            return say(&json!({"jsonrpc": "2.0", "id": request.id.0, "error": error}));
        }
        match request.method.as_str() {
            "server/discover" => say(&request.id.result(&json!({
                "resultType": "complete",
                "supportedVersions": [STATELESS],
                "capabilities": self.declared(),
                "instructions": "Ask twice.",
                "_meta": {"io.modelcontextprotocol/serverInfo": server_info("scripted-stateless")},
                "ttlMs": 0,
                "cacheScope": "private",
            }))),
            "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                self.object("a request of the other era");
                say(&request.id.error(-32601, "Method not found"));
            }
            "subscriptions/listen" => self.listen(&request),
            _ => self.serve(&request),
        }
    }

    fn listen(&mut self, request: &Request) {
        let wanted = request.params.get("notifications").cloned().unwrap_or_default();
        let meta = json!({"io.modelcontextprotocol/subscriptionId": request.id.0});
        let params = json!({"notifications": wanted, "_meta": meta});
        say(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}));
        self.listening.push((request.id.clone(), wanted));
    }

    fn notified(&mut self, method: &str, params: &Map<String, Value>) {
        match method {
            "notifications/initialized" if self.era == Era::Handshake => {
                self.is_open = true;
                if self.has(Habit::LogsAtOnce) {
                    tools::log("debug", "open");
                }
                if self.has(Habit::SpeaksFirst) && self.capabilities.get("roots").is_some() {
                    self.asked.insert("0".to_owned(), (None, "roots"));
                    say(&json!({"jsonrpc": "2.0", "id": 0, "method": "roots/list"}));
                }
            }
            "notifications/cancelled" => {
                let id = Id(params.get("requestId").cloned().unwrap_or_default());
                self.listening.retain(|(listening, _)| *listening != id);
                if let Some(at) = self.lingering.iter().position(|(lingering, _)| *lingering == id) {
                    let (_, token) = self.lingering.remove(at);
                    self.cancelled += 1;
                    if self.has(Habit::AnswersCancelled) {
                        tools::progress(token.as_ref(), 2, 100);
                        say(&id.error(0, "Request cancelled"));
                    }
                }
            }
            "notifications/roots/list_changed" if self.era == Era::Handshake => {}
            _ => self.object("a notification that nobody knows"),
        }
    }

    /// A request of ours was answered.
    fn answered(&mut self, id: &Value, result: Option<&Value>) {
        let Some((call, what)) =
            id.as_str().map(str::to_owned).or_else(|| Some(id.to_string())).and_then(|id| self.asked.remove(&id))
        else {
            return self.object("an answer to nothing");
        };
        if let Some(call) = call {
            say(&tools::after(&call, what, result));
        }
    }

    fn serve(&mut self, request: &Request) {
        let complete = |mut result: Value| {
            if self.era == Era::Stateless {
                result["resultType"] = json!("complete");
                result["ttlMs"] = json!(0);
                result["cacheScope"] = json!("private");
            }
            result
        };
        let resource = json!({"uri": "test://watched", "name": "watched"});
        let result = match request.method.as_str() {
            "tools/list" => {
                let declared = request.meta("io.modelcontextprotocol/clientCapabilities").unwrap_or(&self.capabilities);
                let mut tools = tools::list(self.has_grown);
                if self.has(Habit::HasAPrivateTool) && declared.get("elicitation").is_some() {
                    tools.push(json!({"name": "private", "inputSchema": {"type": "object"}}));
                }
                complete(json!({"tools": tools}))
            }
            "resources/list" => complete(json!({"resources": [resource]})),
            "resources/templates/list" => complete(json!({"resourceTemplates": []})),
            "resources/read" => complete(json!({"contents": [{"uri": request.text("uri"), "text": "still water"}]})),
            "prompts/list" => complete(json!({"prompts": [{"name": "greeting"}]})),
            "prompts/get" => {
                let content = json!({"type": "text", "text": "Greet."});
                complete(json!({"messages": [{"role": "user", "content": content}]}))
            }
            "completion/complete" => complete(json!({"completion": {"values": ["Bern"]}})),
            "logging/setLevel" => {
                self.level = Some(request.text("level").to_owned());
                json!({})
            }
            "resources/subscribe" => {
                if self.has(Habit::SpeaksFirst) {
                    tools::log("info", "subscribing");
                }
                self.watched.insert(request.text("uri").to_owned());
                json!({})
            }
            "resources/unsubscribe" => {
                self.watched.remove(request.text("uri"));
                json!({})
            }
            "tools/call" => return self.call(request),
            _ => return say(&failure(&request.id, -32601, "Method not found")),
        };
        say(&request.id.result(&result));
    }
}

/// A whole description.
fn server_info(name: &str) -> Value {
    json!({"name": name, "version": "7", "title": "Scripted", "websiteUrl": "https://example.org/scripted", "icons": [{"src": "https://example.org/icon.png"}]})
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, era, habits @ ..] = words.as_slice() else { return Err("scripted FILE ERA [HABIT…]".into()) };
    let era = if era == "stateless" { Era::Stateless } else { Era::Handshake };
    let habits = habits.iter().map(|name| Habit::named(name).ok_or_else(|| format!("no habit {name}")));
    let mut server = Server {
        era,
        habits: habits.collect::<Result<_, _>>()?,
        log: File::options().create(true).append(true).open(file)?,
        is_first: true,
        is_open: false,
        capabilities: Value::Null,
        level: None,
        watched: BTreeSet::new(),
        listening: Vec::new(),
        asked: BTreeMap::new(),
        next_question: 0,
        tokens: Vec::new(),
        lingering: Vec::new(),
        cancelled: 0,
        has_grown: false,
    };
    writeln!(server.log, "start {}", std::process::id())?;
    for line in std::io::stdin().lock().lines() {
        server.receive(&line?);
    }
    if server.has(Habit::Stays) {
        std::thread::sleep(std::time::Duration::from_secs(600));
    }
    Ok(())
}
