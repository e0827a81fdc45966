//! Reach of policy: rules, scopes, limits and the audit file cover everything that a principal can reach.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::a2e_agent::ask;
use crate::client::{Connection, STATELESS, open_session_with};
use crate::names::Place;
use crate::support::Process;

/// `gladhand serve --http` in a place.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(place: &Place) -> Self {
        let mut command = place.gladhand(&["serve", "--http", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).expect("it listens");
        // It must never wait for us to read its log.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address");
        Self { child, address }
    }

    fn caller(&self, token: &str) -> Caller {
        let bearer = format!("Bearer {token}");
        let mut connection = Connection::open(self.address);
        let session = open_session_with(&mut connection, "2025-11-25", &[("Authorization", &bearer)]);
        Caller { connection, bearer, session }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A principal with a session.
struct Caller {
    connection: Connection,
    bearer: String,
    session: String,
}

impl Caller {
    /// The status of a request, and the answer as text.
    fn request(&mut self, method: &str, params: &Value) -> (u16, String) {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let headers = [("Authorization", self.bearer.as_str()), ("Mcp-Session-Id", &self.session)];
        let response = self.connection.post(&headers, &body);
        (response.status, response.body)
    }
}

/// An agent in a session of A2E.
struct AgentCaller {
    sending: Connection,
    stream: Connection,
    bearer: String,
    session: String,
}

impl AgentCaller {
    /// Opens a session with a token for the endpoint and one for the handshake.
    fn open(server: &Server, token: &str, pass: &str) -> Self {
        let bearer = format!("Bearer {token}");
        let mut sending = Connection::open(server.address);
        let opened = sending.ask("POST", "/session", &[("Authorization", &bearer)], "");
        let session = opened.json()["session_id"].as_str().expect("an id").to_owned();
        let mut stream = Connection::open(server.address);
        let headers = [("Authorization", bearer.as_str()), ("X-Session-Id", &session), ("Accept", "text/event-stream")];
        stream.send("GET", "/stream", &headers, "");
        stream.head();
        let mut agent = Self { sending, stream, bearer, session };
        let hello = json!({"a2e": "1.0", "type": "handshake/req", "id": "h1", "agent_id": "t",
            "agent_caps": ["memory", "tools"], "auth_token": pass});
        agent.ask(&hello);
        agent
    }

    fn send(&mut self, message: &Value) -> u16 {
        let headers = [("Authorization", self.bearer.as_str()), ("X-Session-Id", &self.session)];
        self.sending.ask("POST", "/send", &headers, &message.to_string()).status
    }

    fn ask(&mut self, message: &Value) -> Value {
        assert_eq!(self.send(message), 200);
        self.stream.event().expect("an answer").json()
    }

    /// Calls a tool.
    fn call(&mut self, tool: &str) -> String {
        self.ask(&call_of(tool)).to_string()
    }
}

fn call_of(tool: &str) -> Value {
    json!({"type": "tool/call/req", "id": "c", "tool_name": tool, "arguments": {}})
}

/// Two tokens of ann, of which one has no scope, and one of bob.
const TOKENS: &str = "tokens = [{ name = 'ann', token = 'open-sesame' }, { name = 'ann', token = 'open-oats', scopes = [] }, \
    { name = 'bob', token = 'open-barley', scopes = [] }]\n";

/// A vault with a tool, a prompt and a resource.
fn vault(authorization: &str, more: &str) -> Place {
    let place = Place::new();
    let config = place.server("vault", &["look"]);
    place.says("vault", "prompts", &json!([{"name": "greet", "arguments": [{"name": "who"}]}]));
    place.says("vault", "resources", &json!([{"uri": "x:1", "name": "keys"}]));
    let config = format!("[authorization]\n{TOKENS}{authorization}\n[audit]\nfile = 'audit.jsonl'\n{more}\n{config}");
    place.configure(&config);
    place
}

/// Everything of the vault that a client can ask for: method, parameters, what the audit file calls it, and a part of what
/// comes of it.
fn reachable() -> [(&'static str, Value, &'static str, &'static str); 5] {
    let argument = json!({"name": "who", "value": "a"});
    let complete = json!({"ref": {"type": "ref/prompt", "name": "vault__greet"}, "argument": argument});
    [
        ("tools/call", json!({"name": "vault__look", "arguments": {}}), "tool vault__look", "said by vault"),
        ("resources/read", json!({"uri": "x:1"}), "resource x:1", "what is in it"),
        ("resources/subscribe", json!({"uri": "x:1"}), "subscription x:1", "\"result\":{}"),
        ("prompts/get", json!({"name": "vault__greet"}), "prompt vault__greet", "filled in"),
        ("completion/complete", complete, "completion vault__greet", "secret value"),
    ]
}

/// How often the vault itself was asked for any of that.
fn reached(place: &Place) -> usize {
    reachable().iter().map(|(method, ..)| place.asked("vault", method)).sum()
}

fn audited(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.file("audit.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let word = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let told = |line: Value| {
        let words = ["principal", "operation", "tool", "outcome", "rule"].map(|name| word(&line, name));
        words.join(" ").trim_end().to_owned()
    };
    lines.map(told).collect()
}

#[test]
fn what_a_rule_denies_is_denied_by_every_way_to_it_and_not_listed() {
    let rule = "[[policy.rules]]\nname = 'not-bob'\nwho = ['principal:bob']\nupstreams = ['vault']\neffect = 'deny'\n";
    let place = vault("", rule);
    let server = Server::start(&place);
    let (mut ann, mut bob) = (server.caller("open-sesame"), server.caller("open-barley"));
    for (list, members) in [("tools/list", "vault__look"), ("resources/list", "x:1"), ("prompts/list", "vault__greet")]
    {
        assert!(ann.request(list, &json!({})).1.contains(members), "{list}");
        assert!(!bob.request(list, &json!({})).1.contains(members), "{list}");
    }
    for (method, params, told, _) in reachable() {
        let (_, answer) = bob.request(method, &params);
        assert!(answer.contains("not-bob"), "{told}: {answer}");
    }
    assert_eq!(reached(&place), 0, "nothing reached the vault");
    for (method, params, told, expected) in reachable() {
        let (_, answer) = ann.request(method, &params);
        assert!(answer.contains(expected), "{told}: {answer}");
    }
    crate::names::until("all of it is written down", || audited(&place).len() >= 10);
    let denied = reachable().map(|(_, _, told, _)| format!("bob {told} denied not-bob"));
    let fine = reachable().map(|(_, _, told, _)| format!("ann {told} ok"));
    assert_eq!(audited(&place), [denied, fine].concat());
}

#[test]
fn scopes_are_needed_for_every_way_to_what_they_name() {
    let place = vault("tool_scopes = { 'vault__*' = ['ops'] }", "");
    let server = Server::start(&place);
    let (mut ann, mut bob) = (server.caller("open-sesame"), server.caller("open-barley"));
    for (method, params, told, expected) in reachable() {
        let (status, answer) = bob.request(method, &params);
        assert!(status == 403 || answer.contains("needs a scope that was not granted: ops"), "{told}: {answer}");
        assert_eq!(status == 403, method == "tools/call", "{told}: {answer}");
        let (_, answer) = ann.request(method, &params);
        assert!(answer.contains(expected), "{told}: {answer}");
    }
    assert_eq!(reached(&place), reachable().len(), "each of them once, and for ann");
    crate::names::until("all of it is written down", || audited(&place).len() >= 10);
    let lines = reachable().map(|(_, _, told, _)| [format!("bob {told} denied tool_scopes"), format!("ann {told} ok")]);
    assert_eq!(audited(&place), lines.concat(), "also what the transport refused");
}

#[test]
fn another_name_for_a_tool_does_not_do_without_its_scope() {
    let profile = "[profiles.renaming]\nrename = { vault__look = 'harmless' }\n";
    let place = vault("tool_scopes = { 'vault__look' = ['ops'] }", profile);
    let server = Server::start(&place);
    let params = json!({"name": "harmless", "arguments": {}});
    let (_, answer) = server.caller("open-barley").request("tools/call", &params);
    assert!(answer.contains("needs a scope that was not granted: ops"), "{answer}");
    assert!(server.caller("open-sesame").request("tools/call", &params).1.contains("said by vault"));
    assert_eq!(reached(&place), 1);
}

#[test]
fn a_limit_counts_what_is_read_and_filled_in() {
    let limit =
        "[[policy.limits]]\nname = 'slowly'\ncalls = 2\nper_s = 3600\nresources = ['x:*']\nprompts = ['vault__*']\n";
    let place = vault("", limit);
    let server = Server::start(&place);
    let mut bob = server.caller("open-barley");
    let busy: Vec<_> = reachable()
        .into_iter()
        .filter(|(method, params, ..)| bob.request(method, params).1.contains("limit `slowly`"))
        .map(|(_, _, told, _)| told)
        .collect();
    assert_eq!(busy, ["prompt vault__greet", "completion vault__greet"], "two of the others were before");
    assert!(
        server.caller("open-sesame").request("prompts/get", &json!({"name": "vault__greet"})).1.contains("filled in")
    );
}

#[test]
fn the_task_of_another_principal_does_not_exist() {
    let place = vault("", "");
    let tool = json!({"name": "look", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}});
    place.says("vault", "tools", &json!([tool]));
    // What tools can is offered from the start on if it is remembered.
    Server::start(&place).caller("open-sesame").request("tools/list", &json!({}));
    let server = Server::start(&place);
    // What is answered at once does not become a task.
    let hold = place.file("vault").join("hold");
    std::fs::write(&hold, "").expect("it can be written");
    let mut connection = Connection::open(server.address);
    let mut ask = |token: &str, method: &str, name: &str, params: Value| {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("MCP-Protocol-Version", STATELESS),
            ("Mcp-Method", method),
            ("Mcp-Name", name),
        ];
        connection.post(&headers, &body).body
    };
    let made = ask("open-sesame", "tools/call", "vault__look", json!({"name": "vault__look", "arguments": {}}));
    let task = made
        .split("\"taskId\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_else(|| panic!("a task: {made}"))
        .to_owned();
    for method in ["tasks/get", "tasks/cancel"] {
        let answer = ask("open-barley", method, &task, json!({"taskId": task}));
        assert!(answer.contains("\"error\"") && !answer.contains("said by vault"), "{method}: {answer}");
    }
    let answer = ask("open-sesame", "tasks/get", &task, json!({"taskId": task}));
    assert!(answer.contains(&task) && !answer.contains("\"error\""), "{answer}");
    std::fs::remove_file(hold).expect("it is there");
}

#[test]
fn a_capability_that_a_rule_denies_is_denied_request_by_request() {
    let rule = "[[policy.rules]]\nname = 'no-store'\nwho = ['principal:bob']\ncapabilities = ['memory/store/req']\neffect = 'deny'\n";
    let place = vault("", rule);
    let server = Server::start(&place);
    let ask = |token: &str, message: &Value| AgentCaller::open(&server, token, "").ask(message).to_string();
    let entry = json!({"key": "k", "value": "v"});
    let store = json!({"type": "memory/store/req", "id": "s", "memory_id": "", "entries": [entry]});
    let refused = ask("open-barley", &store);
    assert!(refused.contains("no-store"), "{refused}");
    assert!(!ask("open-sesame", &store).contains("no-store"));
    crate::names::until("both are written down", || audited(&place).len() >= 2);
    assert!(audited(&place)[0].starts_with("bob capability memory/store/req denied no-store"), "{:?}", audited(&place));
}

#[test]
fn a_token_has_its_own_scopes_also_in_a_session_that_another_token_opened() {
    let profile = "[profiles.renaming]\nrename = { vault__look = 'harmless' }\n";
    let place = vault("tool_scopes = { 'vault__*' = ['ops'] }", profile);
    let server = Server::start(&place);
    let lacking = "needs a scope that was not granted: ops";
    let mut ann = server.caller("open-sesame");
    ann.bearer = "Bearer open-oats".to_owned();
    let renamed = ("tools/call", json!({"name": "harmless", "arguments": {}}), "", "");
    for (method, params, ..) in reachable().into_iter().skip(1).chain([renamed]) {
        let (_, answer) = ann.request(method, &params);
        assert!(answer.contains(lacking), "{method}: {answer}");
    }

    let (high, low) = (("Authorization", "Bearer open-sesame"), ("Authorization", "Bearer open-oats"));
    let mut pair = Connection::open(server.address);
    pair.send("GET", "/sse", &[high, ("Accept", "text/event-stream")], "");
    pair.head();
    let messages = pair.event().expect("the address for messages").data;
    let mut sending = Connection::open(server.address);
    let mut post = |token, message: Value| {
        let headers = [token, ("Content-Type", "application/json")];
        assert_eq!(sending.ask("POST", &messages, &headers, &message.to_string()).status, 202);
    };
    let opening =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    post(high, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}));
    pair.event().expect("it is open");
    post(high, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    post(low, json!({"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "x:1"}}));
    let answer = pair.event().expect("an answer").data;
    assert!(answer.contains(lacking), "{answer}");

    let mut agent = AgentCaller::open(&server, "open-sesame", "");
    agent.bearer = "Bearer open-oats".to_owned();
    let answer = agent.call("harmless");
    assert!(answer.contains(lacking), "{answer}");
    let before = audited(&place).len();
    assert_eq!(agent.send(&call_of("vault__look")), 403);
    crate::names::until("it is written down", || audited(&place).len() > before);
    let lines = audited(&place);
    assert_eq!(lines.last().map(String::as_str), Some("ann tool vault__look denied tool_scopes"), "{lines:?}");
    assert_eq!(reached(&place), 0, "nothing reached the vault");
    agent.bearer = "Bearer open-sesame".to_owned();
    let answer = agent.call("harmless");
    assert!(answer.contains("said by vault"), "{answer}");
}

#[test]
fn the_principal_of_an_agent_s_token_is_known_to_rules_limits_and_the_audit_file() {
    let place = Place::new();
    let upstream = place.server("vault", &["look", "peek"]);
    place.configure(&format!(
        "[[a2e.agents]]\nid = 't'\ntoken = 'hush-hush'\nprincipal = 'team'\n[audit]\nfile = 'audit.jsonl'\n\
        [[policy.rules]]\nname = 'not-team'\nwho = ['principal:team']\ntools = ['vault__look']\neffect = 'deny'\n\
        [[policy.limits]]\nname = 'once'\ncalls = 1\nper_s = 3600\ntools = ['vault__peek']\n{upstream}"
    ));
    let server = Server::start(&place);
    let open = || AgentCaller::open(&server, "", "hush-hush");
    let (mut first, mut second) = (open(), open());
    let refused = first.call("vault__look");
    assert!(refused.contains("not-team"), "{refused}");
    let answer = first.call("vault__peek");
    assert!(answer.contains("said by vault"), "{answer}");
    let refused = second.call("vault__peek");
    assert!(refused.contains("\"reason\":\"busy\""), "sessions of a principal are counted together: {refused}");
    crate::names::until("all of it is written down", || audited(&place).len() >= 3);
    let lines = audited(&place);
    assert_eq!(lines[..2], ["team tool vault__look denied not-team", "team tool vault__peek ok"]);
    assert!(lines[2].starts_with("team tool vault__peek "), "{lines:?}");
    let mut process = Process::start(place.gladhand(&["serve", "--dialect", "a2e"]));
    let hello = json!({"type": "handshake/req", "agent_id": "t", "agent_caps": ["tools"], "auth_token": "hush-hush"});
    assert_eq!(ask(&mut process, hello)["ok"], json!(true));
    let refused = ask(&mut process, call_of("vault__look")).to_string();
    assert!(refused.contains("not-team"), "also on standard streams: {refused}");
}
