//! Which lines exercise the rules. A script is data: a caller sends its lines and records what comes back.
//!
//! Scripts for servers are sent by a client. Scripts for clients are the answers of a scripted server. No script calls a
//! tool that a server has.

use serde_json::{Value, json};

use gladhand_core::negotiation::Side;

use crate::exchange::Line;
use crate::mcp::base::UNKNOWN_METHOD;
use crate::mcp::calls::{UNKNOWN_NAME, UNKNOWN_URI};
use crate::mcp::lists::BAD_CURSOR;
use crate::mcp::opening::UNKNOWN_VERSION;
use crate::mcp::{HANDSHAKE, STATELESS, stateless};
use crate::{a2e, fluxloop, loaf};

/// How many further pages of one list are requested.
const MOST_PAGES: usize = 20;

/// Lines to send, and where to wait for answers.
#[derive(Debug, Clone)]
pub struct Script {
    /// The subject of the exchange.
    pub name: &'static str,
    /// The dialect.
    pub dialect: &'static str,
    /// The version that its opening asks for.
    pub version: &'static str,
    /// Whether its lines can be posted over HTTP, where a line that is no message has no meaning.
    pub is_for_http: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Step {
    /// Send this line.
    Send(String),
    /// Wait until each request has an answer.
    Wait,
    /// Send what follows from the exchange so far, and wait for the answer. Repeated until nothing follows.
    Follow(fn(&[Line]) -> Option<String>),
}

fn send(value: &Value) -> Step {
    Step::Send(value.to_string())
}

/// The scripts that exercise a server in a dialect and version. `token` is for a dialect whose opening has one.
pub fn server_scripts(dialect: &str, version: &str, token: &str) -> Vec<Script> {
    match dialect {
        "mcp" if version == STATELESS => stateless_scripts(),
        "mcp" => {
            HANDSHAKE.iter().find(|known| **known == version).map_or_else(Vec::new, |known| handshake_scripts(known))
        }
        "a2e" => a2e_scripts(token),
        "loaf" => loaf_scripts(),
        "fluxloop" => fluxloop_scripts(),
        _ => Vec::new(),
    }
}

fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "gladhand-check", "version": "1"},
    }})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn request(id: u64, method: &str, params: &Value) -> Step {
    send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Requests for everything that a session offers, and for things that no server has. All ids are below 100.
fn requests(wrap: fn(Value) -> Value) -> Vec<Step> {
    let unknown = json!({"name": UNKNOWN_NAME, "arguments": {}});
    let complete = json!({"ref": {"type": "ref/prompt", "name": UNKNOWN_NAME}, "argument": {"name": "a", "value": ""}});
    [
        (10, "tools/list", json!({})),
        (11, "resources/list", json!({})),
        (12, "resources/templates/list", json!({})),
        (13, "prompts/list", json!({})),
        (14, "tools/list", json!({"cursor": BAD_CURSOR})),
        (15, "tools/call", unknown.clone()),
        (16, "prompts/get", unknown),
        (17, "resources/read", json!({"uri": UNKNOWN_URI})),
        (18, "completion/complete", complete),
        (19, "tools/list", json!({"x-gladhand": {"unknown": true}})),
        (20, UNKNOWN_METHOD, json!({})),
    ]
    .into_iter()
    // One after the other: answers that come together would not show which request ends a server.
    .flat_map(|(id, method, params)| [request(id, method, &wrap(params)), Step::Wait])
    .collect()
}

fn handshake_scripts(version: &'static str) -> Vec<Script> {
    let ping = |id: Value| send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    let mut session = vec![send(&initialize(version)), Step::Wait, ping(json!(2)), Step::Wait, send(&initialized())];
    session.extend(requests(|params| params));
    session.extend([
        Step::Follow(next_page),
        Step::Follow(first_resource),
        Step::Follow(first_prompt),
        request(21, "logging/setLevel", &json!({"level": "warning"})),
        Step::Wait,
        request(22, "logging/setLevel", &json!({"level": "loudest"})),
        Step::Wait,
        request(23, "resources/subscribe", &json!({"uri": UNKNOWN_URI})),
        Step::Wait,
        ping(json!("gladhand-ping")),
        ping(json!(9_007_199_254_740_991_u64)),
        Step::Wait,
    ]);
    let dialect = "mcp";
    let mut scripts = vec![Script { name: "session", dialect, version, is_for_http: true, steps: session }];
    if version == HANDSHAKE[3] {
        let unknown = vec![send(&initialize(UNKNOWN_VERSION)), Step::Wait];
        let malformed = vec![
            send(&initialize(version)),
            Step::Wait,
            send(&initialized()),
            Step::Send("{\"jsonrpc\":\"2.0\",\"id\":30,".to_owned()),
            send(&json!({"jsonrpc": "2.0", "id": 31})),
            ping(json!(32)),
            Step::Wait,
        ];
        scripts.push(Script { name: "unknown version", dialect, version, is_for_http: true, steps: unknown });
        scripts.push(Script { name: "malformed", dialect, version, is_for_http: false, steps: malformed });
    }
    scripts
}

/// The metadata of a stateless request.
fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "gladhand-check", "version": "1"},
    })
}

fn with_meta(mut params: Value) -> Value {
    if let Some(members) = params.as_object_mut() {
        members.insert("_meta".to_owned(), meta(STATELESS));
    }
    params
}

fn stateless_scripts() -> Vec<Script> {
    let (dialect, version) = ("mcp", STATELESS);
    let discover = || request(1, "server/discover", &with_meta(json!({})));
    let mut session = vec![discover(), Step::Wait];
    session.extend(requests(with_meta));
    session.extend([Step::Follow(next_page), Step::Follow(first_resource), Step::Follow(first_prompt)]);
    for (id, method) in (24..).zip(stateless::REMOVED) {
        session.extend([request(id, method, &with_meta(json!({}))), Step::Wait]);
    }
    let without_capabilities = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": STATELESS}});
    let wrong = vec![
        discover(),
        Step::Wait,
        request(2, "tools/list", &without_capabilities),
        Step::Wait,
        request(3, "tools/list", &json!({"_meta": meta(UNKNOWN_VERSION)})),
        Step::Wait,
    ];
    vec![
        Script { name: "session", dialect, version, is_for_http: true, steps: session },
        Script { name: "wrong metadata", dialect, version, is_for_http: true, steps: wrong },
    ]
}

fn a2e_message(kind: &str, id: &str, members: &Value) -> Step {
    let mut message = json!({"type": kind, "id": id, "version": "1.0", "a2e": "1.0", "ts": 0.0});
    if let (Some(message), Some(members)) = (message.as_object_mut(), members.as_object()) {
        message.extend(members.clone());
    }
    send(&message)
}

fn a2e_scripts(token: &str) -> Vec<Script> {
    let handshake = |id: &str, capabilities: Value, version: &str| {
        let members = json!({"agent_id": "gladhand-check", "agent_caps": capabilities, "auth_token": token, "a2e": version, "version": version});
        a2e_message("handshake/req", id, &members)
    };
    let ping = |id: &str| a2e_message("ping", id, &json!({}));
    let call = json!({"tool_name": a2e::UNKNOWN_TOOL, "arguments": {}});
    let session = vec![
        handshake("h1", json!(["tools", a2e::UNKNOWN_CAPABILITY]), "1.0"),
        Step::Wait,
        ping("p1"),
        a2e_message("tool/list/req", "l1", &json!({})),
        Step::Wait,
        a2e_message("tool/call/req", "c1", &call),
        Step::Wait,
        a2e_message("memory/init/req", "m1", &json!({})),
        Step::Wait,
        a2e_message(a2e::UNKNOWN_TYPE, "u1", &json!({})),
        Step::Wait,
        handshake("h2", json!(["tools"]), "1.0"),
        Step::Wait,
    ];
    let early = vec![ping("p1"), Step::Wait, a2e_message("tool/list/req", "l1", &json!({})), Step::Wait];
    let version = vec![handshake("h1", json!(["tools"]), a2e::UNKNOWN_VERSION), Step::Wait];
    let hopeless = vec![handshake("h1", json!([a2e::UNKNOWN_CAPABILITY]), "1.0"), Step::Wait];
    let open = |odd: Step| vec![handshake("h1", json!(["tools"]), "1.0"), Step::Wait, odd, ping("p1"), Step::Wait];
    let number = json!({"type": "ping", "id": 7, "version": "1.0", "a2e": "1.0", "ts": 0.0});
    let script = |name, is_for_http, steps| Script { name, dialect: "a2e", version: "1.0", is_for_http, steps };
    vec![
        script("session", true, session),
        script("before the handshake", true, early),
        script("unknown version", true, version),
        script("unknown capability", true, hopeless),
        script("unreadable line", false, open(Step::Send("{\"type\":\"ping\",".to_owned()))),
        script("no object", false, open(Step::Send("[1]".to_owned()))),
        script("number as id", false, open(send(&number))),
        script("wrong direction", false, open(a2e_message("pong", "x1", &json!({})))),
    ]
}

fn loaf_scripts() -> Vec<Script> {
    let handshake = |id: u64, version: &str, strict: bool| {
        let client = json!({"client_name": "gladhand-check", "client_version": "1", "protocol_version": version, "strict": strict});
        request(id, "rpc.handshake", &client)
    };
    let ping = |id: Value| send(&json!({"jsonrpc": "2.0", "id": id, "method": "system.ping"}));
    let session = vec![
        handshake(1, "1.0.0", false),
        Step::Wait,
        handshake(2, loaf::UNKNOWN_VERSION, false),
        Step::Wait,
        handshake(3, loaf::UNKNOWN_VERSION, true),
        Step::Wait,
        ping(json!("a")),
        ping(Value::Null),
        Step::Wait,
        send(&json!({"jsonrpc": "2.0", "method": "system.ping"})),
        request(4, loaf::UNKNOWN_METHOD, &json!({})),
        Step::Wait,
        request(5, "session.get", &json!({})),
        Step::Wait,
        request(6, "session.get", &json!({"session_id": loaf::UNKNOWN_SESSION})),
        Step::Wait,
        request(7, "state.get", &json!({})),
        request(8, "tools.list", &json!({})),
        Step::Wait,
    ];
    let odd = |line: &str| {
        vec![handshake(1, "1.0.0", false), Step::Wait, Step::Send(line.to_owned()), ping(json!(2)), Step::Wait]
    };
    let script = |name, steps| Script { name, dialect: "loaf", version: "1.0.0", is_for_http: false, steps };
    vec![
        script("session", session),
        script("unreadable line", odd("{\"jsonrpc\":\"2.0\",\"id\":9,")),
        script("batch", odd("[{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"system.ping\"}]")),
        script("invalid request", odd("{\"jsonrpc\":\"2.0\",\"id\":9}")),
    ]
}

fn fluxloop_scripts() -> Vec<Script> {
    let handshake = |id: &str| send(&json!({"type": "handshake", "id": id}));
    let tool = |id: &str, tool: &str, params: Value| {
        send(&json!({"type": "request", "id": id, "tool": tool, "params": params}))
    };
    let session = vec![
        handshake("1"),
        Step::Wait,
        tool("2", "handshake", json!({})),
        tool("3", fluxloop::UNKNOWN_TOOL, json!({})),
        tool("4", "faq", json!({"query": "How do I integrate FastAPI?"})),
        Step::Wait,
        tool("5", "faq", json!([1])),
        send(&json!({"type": "request", "id": "6"})),
        send(&json!({"type": "gladhand-no-such-type", "id": "7"})),
        Step::Wait,
    ];
    let odd = |line: &str| vec![handshake("1"), Step::Wait, Step::Send(line.to_owned()), handshake("2"), Step::Wait];
    let script = |name, steps| Script { name, dialect: "fluxloop", version: "0.1.0", is_for_http: false, steps };
    vec![script("session", session), script("unreadable line", odd("{\"type\":")), script("no object", odd("[1]"))]
}

/// The result that answers a request, and the request.
fn answered<'l>(lines: &'l [Line], method: &'l str) -> impl Iterator<Item = (Value, Value)> + 'l {
    let parsed = |line: &Line| serde_json::from_str::<Value>(&line.text).ok();
    let requests = lines.iter().filter(|line| line.from == Side::Client).filter_map(parsed);
    requests.filter(move |request| request["method"] == method).filter_map(move |request| {
        let answers = lines.iter().filter(|line| line.from == Side::Server).filter_map(parsed);
        let answer =
            answers.into_iter().find(|answer| answer["id"] == request["id"] && answer.get("result").is_some())?;
        Some((request, answer["result"].clone()))
    })
}

/// A request with the metadata of the session, if it is stateless.
fn following(lines: &[Line], method: &str, mut params: Value) -> Option<String> {
    let is_stateless = lines.iter().any(|line| line.text.contains("server/discover"));
    if is_stateless {
        params = with_meta(params);
    }
    let id = 1000 + lines.len();
    Some(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
}

/// The next page of a list that was not requested yet.
fn next_page(lines: &[Line]) -> Option<String> {
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        let pages: Vec<_> = answered(lines, method).collect();
        let asked = |cursor: &Value| {
            lines.iter().any(|line| line.from == Side::Client && is_for(line, method, "cursor", cursor))
        };
        let cursors = pages.iter().filter_map(|(_, page)| page.get("nextCursor").filter(|cursor| cursor.is_string()));
        if let Some(cursor) = cursors.into_iter().find(|cursor| !asked(cursor))
            && pages.len() < MOST_PAGES
        {
            return following(lines, method, json!({"cursor": cursor}));
        }
    }
    None
}

/// Reads the first listed resource, once.
fn first_resource(lines: &[Line]) -> Option<String> {
    let (_, list) = answered(lines, "resources/list").next()?;
    let uri = list["resources"].get(0)?.get("uri")?.clone();
    let is_read = lines.iter().any(|line| line.from == Side::Client && is_for(line, "resources/read", "uri", &uri));
    if is_read { None } else { following(lines, "resources/read", json!({"uri": uri})) }
}

/// Gets the first prompt that needs no argument, once.
fn first_prompt(lines: &[Line]) -> Option<String> {
    let (_, list) = answered(lines, "prompts/list").next()?;
    let needs_none = |prompt: &&Value| {
        let arguments = prompt.get("arguments").and_then(Value::as_array);
        arguments.is_none_or(|arguments| arguments.iter().all(|argument| argument["required"] != true))
    };
    let name = list["prompts"].as_array()?.iter().find(needs_none)?.get("name")?.clone();
    let is_got = lines.iter().any(|line| line.from == Side::Client && is_for(line, "prompts/get", "name", &name));
    if is_got { None } else { following(lines, "prompts/get", json!({"name": name})) }
}

fn is_for(line: &Line, method: &str, member: &str, value: &Value) -> bool {
    let message: Value = serde_json::from_str(&line.text).unwrap_or_default();
    message["method"] == method && message["params"][member] == *value
}
