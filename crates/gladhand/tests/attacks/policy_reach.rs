//! Reach of policy: rules, scopes, limits and the audit file cover everything that a principal can reach.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::a2e_agent::ask;
use crate::client::{Connection, STATELESS, open_session_with, stateless};
use crate::names::Place;
use crate::support::{MCP_INITIALIZED, Process, mcp_call};

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
fn a_denied_operation_is_denied_by_every_method_and_not_listed() {
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
fn required_scopes_apply_to_every_method_that_reaches_an_operation() {
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
fn a_limit_counts_resource_reads_and_prompts() {
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

/// The configured server on stdin and stdout, with a client that can be asked.
fn asked_client(place: &Place) -> Process {
    let mut process = Process::start(place.gladhand(&["serve"]));
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": client});
    process.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string());
    process.send(MCP_INITIALIZED);
    process
}

/// The answer to a request, or a question that comes before it.
fn told(process: &mut Process, id: u64) -> Value {
    loop {
        let message = process.value();
        if message["id"] == id || message["method"] == "elicitation/create" {
            return message;
        }
    }
}

/// Calls a tool: the answer, or a question that comes before it.
fn call(process: &mut Process, id: u64, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    process.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string());
    told(process, id)
}

#[test]
fn a_person_is_asked_only_about_arguments_that_are_shown() {
    let place = Place::new();
    let upstream = place.server("vault", &["look"]);
    let rule = "[[policy.rules]]\nname = 'careful'\ntools = ['vault__look']\neffect = 'ask'\n";
    place.configure(&format!("{rule}{upstream}"));
    let mut process = asked_client(&place);
    let note = |count: usize| "note ".repeat(count);
    let hiding = json!({"a": note(320), "b": note(80), "cmd": "rm -rf /", "path": "/etc/shadow", "z": note(800)});
    let question = call(&mut process, 1, "vault__look", &hiding);
    let shown = question["params"]["message"].as_str().unwrap_or_else(|| panic!("a question: {question}"));
    assert!(shown.contains(r#""cmd":"rm -rf /","path":"/etc/shadow","z":"note"#), "{shown}");
    process.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}).to_string());
    let refused = told(&mut process, 1);
    assert!(refused.to_string().contains("careful"), "{refused}");
    let refused = call(&mut process, 2, "vault__look", &json!({"cmd": "rm -rf /", "list": vec![0; 5000]}));
    assert!(refused.to_string().contains("too long to be shown"), "{refused}");
    assert_eq!(place.asked("vault", "tools/call"), 0);
}

/// A value as TOML, in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| format!("{} = {}", json!(name), inline(member)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[test]
fn a_deep_value_switches_off_no_schema() {
    let place = Place::new();
    let upstream = place.server("vault", &[]);
    let filter = |member: &str, value: &str| {
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/f"}});
        let twice = json!({"allOf": [{"$ref": "#/$defs/f"}, {"$ref": "#/$defs/f"}]});
        let definition = json!({"properties": {"and": list, "or": list, "twice": twice}});
        json!({"type": "object", "required": [member], "$defs": {"f": definition},
            "properties": {member: {"enum": [value]}, "f": {"$ref": "#/$defs/f"}}})
    };
    let tool = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    place.says(
        "vault",
        "tools",
        &json!([tool("tree", filter("mode", "safe")), tool("free", json!({"type": "object"}))]),
    );
    let schema = inline(&filter("op", "drop"));
    place.configure(&format!(
        "[policy]\nvalidate_arguments = true\n[[policy.rules]]\ntools = ['vault__free']\neffect = 'deny'\n\
        schema = {schema}\n{upstream}"
    ));
    let mut process = asked_client(&place);
    let deep = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let costly = (0..40).fold(json!({}), |inner, _| json!({"twice": inner}));
    let mut id = 0;
    let mut refused = |tool: &str, arguments: Value| {
        id += 1;
        let answer = call(&mut process, id, tool, &arguments);
        !answer.to_string().contains("said by vault")
    };
    assert!(!refused("vault__tree", json!({"mode": "safe", "pad": deep(30)})), "depth alone is no reason");
    assert!(!refused("vault__free", json!({"op": "keep", "pad": deep(30)})), "depth alone is no reason");
    for more in [json!({}), json!({"pad": deep(30)}), json!({"pad": deep(100)}), json!({"f": costly})] {
        let with = |name: &str, value: &str| {
            let mut arguments = more.clone();
            arguments[name] = value.into();
            arguments
        };
        assert!(refused("vault__tree", with("mode", "evil")), "{more}");
        assert!(refused("vault__free", with("op", "drop")), "{more}");
    }
}

/// A vault whose tool can be called as a task, and a server that knows so from its start on.
fn vault_with_tasks(authorization: &str) -> (Place, Server) {
    let place = vault(authorization, "");
    let tool = json!({"name": "look", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}});
    place.says("vault", "tools", &json!([tool]));
    // Features of tools are offered from the start if the lists are cached.
    Server::start(&place).caller("open-sesame").request("tools/list", &json!({}));
    let server = Server::start(&place);
    (place, server)
}

/// Lets the vault answer no call until the file is removed, because a call that is answered at once becomes no task.
fn hold(place: &Place) -> PathBuf {
    let hold = place.file("vault").join("hold");
    std::fs::write(&hold, "").expect("it can be written");
    hold
}

/// Asks without a session, as a client that takes tasks.
fn ask_stateless(server: &Server, token: &str, method: &str, name: &str, mut params: Value) -> String {
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
    Connection::open(server.address).post(&headers, &body).body
}

/// The id of the task in an answer.
fn task_of(made: &str) -> String {
    let task = made.split("\"taskId\":\"").nth(1).and_then(|rest| rest.split('"').next());
    task.unwrap_or_else(|| panic!("a task: {made}")).to_owned()
}

#[test]
fn the_task_of_another_principal_does_not_exist() {
    let (place, server) = vault_with_tasks("");
    let hold = hold(&place);
    let call = json!({"name": "vault__look", "arguments": {}});
    let task = task_of(&ask_stateless(&server, "open-sesame", "tools/call", "vault__look", call));
    for method in ["tasks/get", "tasks/cancel"] {
        let answer = ask_stateless(&server, "open-barley", method, &task, json!({"taskId": task}));
        assert!(answer.contains("\"error\"") && !answer.contains("said by vault"), "{method}: {answer}");
    }
    let answer = ask_stateless(&server, "open-sesame", "tasks/get", &task, json!({"taskId": task}));
    assert!(answer.contains(&task) && !answer.contains("\"error\""), "{answer}");
    std::fs::remove_file(hold).expect("it is there");
}

#[test]
fn a_task_is_read_only_with_the_scopes_that_its_call_needed() {
    let (place, server) = vault_with_tasks("tool_scopes = { 'vault__*' = ['ops'] }");
    let hold = hold(&place);
    let call = json!({"name": "vault__look", "arguments": {}});
    let task = task_of(&ask_stateless(&server, "open-sesame", "tools/call", "vault__look", call));
    std::fs::remove_file(hold).expect("it is there");
    let ask = |token, method| ask_stateless(&server, token, method, &task, json!({"taskId": task}));
    crate::names::until("the task ends", || ask("open-sesame", "tasks/get").contains("said by vault"));
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let answer = ask("open-oats", method);
        assert!(answer.contains("needs a scope that was not granted: ops"), "{method}: {answer}");
    }
}

#[test]
fn a_session_is_used_only_with_the_scopes_that_its_content_needed() {
    let (place, server) = vault_with_tasks("tool_scopes = { 'vault__*' = ['ops'] }");
    let mut ann = server.caller("open-oats");
    let session = ann.session.clone();
    let listen = |token: &str, last: Option<&str>| {
        let bearer = format!("Bearer {token}");
        let mut headers =
            vec![("Authorization", bearer.as_str()), ("Mcp-Session-Id", &session), ("Accept", "text/event-stream")];
        headers.extend(last.map(|last| ("Last-Event-ID", last)));
        let mut stream = Connection::open(server.address);
        stream.send("GET", "/mcp", &headers, "");
        let head = stream.head();
        (head, stream)
    };
    let (head, mut low) = listen("open-oats", None);
    assert_eq!(head.status, 200, "nothing in the session needed a scope so far");
    let look = json!({"name": "vault__look", "arguments": {}});
    assert_eq!(ann.request("tools/call", &look).0, 403);

    // The client gets a token with more scopes, and goes on in its session.
    ann.bearer = "Bearer open-sesame".to_owned();
    let hold = hold(&place);
    let task = task_of(&ann.request("tools/call", &json!({"name": "vault__look", "arguments": {}, "task": {}})).1);
    let headers = [("Authorization", "Bearer open-sesame"), ("Mcp-Session-Id", session.as_str())];
    let mut lost = Connection::open(server.address);
    lost.send_post(&headers, &mcp_call(7, "vault__look", "{}"));
    lost.head();
    let last = lost.event().and_then(|event| event.id).expect("something to come back with");
    drop(lost);
    std::fs::remove_file(hold).expect("it is there");
    let result = ann.request("tasks/result", &json!({"taskId": task}));
    assert!(result.0 == 200 && result.1.contains("said by vault"), "{result:?}");

    // The other token knows all ids, and reads nothing.
    while let Some(event) = low.event() {
        assert!(event.data.is_empty(), "{event:?}");
    }
    ann.bearer = "Bearer open-oats".to_owned();
    let tasks = ["tasks/result", "tasks/get", "tasks/cancel"].map(|method| (method, json!({"taskId": task})));
    for (method, params) in tasks.into_iter().chain([("tasks/list", json!({})), ("ping", json!({}))]) {
        let (status, answer) = ann.request(method, &params);
        assert!(status == 403 && answer.contains("insufficient_scope"), "{method}: {status} {answer}");
    }
    for last in [None, Some(last.as_str())] {
        let (head, _) = listen("open-oats", last);
        let challenge = head.header("www-authenticate").unwrap_or_default();
        assert!(head.status == 403 && challenge.contains("scope=\"ops\""), "{head:?}");
    }
    let (head, mut replayed) = listen("open-sesame", Some(&last));
    assert_eq!(head.status, 200);
    assert!(replayed.event().expect("it is kept").data.contains("said by vault"));
}

#[test]
fn the_stream_of_the_first_revision_is_read_only_with_the_scopes_that_its_content_needed() {
    let place = vault("tool_scopes = { 'vault__*' = ['ops'] }", "");
    let server = Server::start(&place);
    let mut stream = Connection::open(server.address);
    stream.send("GET", "/sse", &[("Authorization", "Bearer open-oats"), ("Accept", "text/event-stream")], "");
    assert_eq!(stream.head().status, 200);
    let messages = stream.event().expect("where messages go").data;
    let post = |token: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        Connection::open(server.address).ask("POST", &messages, &headers, body).status
    };
    let params =
        json!({"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    assert_eq!(post("open-oats", &initialize.to_string()), 202);
    assert!(stream.event().expect("an answer").data.contains("result"));
    assert_eq!(post("open-oats", &mcp_call(2, "vault__look", "{}")), 403);
    assert_eq!(post("open-sesame", &mcp_call(3, "vault__look", "{}")), 202);
    assert_eq!(stream.event(), None, "its reader has the token with fewer scopes");
}

#[test]
fn the_stream_of_an_agent_is_read_only_with_the_scopes_that_its_content_needed() {
    let place = vault("tool_scopes = { 'vault__*' = ['ops'] }", "");
    let server = Server::start(&place);
    let mut agent = AgentCaller::open(&server, "open-oats", "");
    assert_eq!(agent.send(&call_of("vault__look")), 403);
    agent.bearer = "Bearer open-sesame".to_owned();
    assert_eq!(agent.send(&call_of("vault__look")), 200);
    assert_eq!(agent.stream.event(), None, "its reader has the token with fewer scopes");
    let mut listen = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("X-Session-Id", &agent.session)];
        agent.stream = Connection::open(server.address);
        agent.stream.send("GET", "/stream", &headers, "");
        agent.stream.head().status
    };
    assert_eq!((listen("open-oats"), listen("open-sesame")), (403, 200));
    assert!(agent.stream.event().expect("it is kept").data.contains("said by vault"));
    agent.bearer = "Bearer open-oats".to_owned();
    assert_eq!(agent.send(&json!({"type": "ping"})), 403);
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

#[test]
fn ungranted_requests_are_audited_as_refused_with_escaped_names() {
    let place = vault("", "");
    let server = Server::start(&place);
    let refused = AgentCaller::open(&server, "open-barley", "")
        .ask(&json!({"type": "proc/spawn/req", "id": "p", "cmd": ["sh", "-c", "true"]}));
    assert_eq!(refused["code"], "capability_missing", "{refused}");
    let mut bob = server.caller("open-barley");
    let (_, refused) = bob.request("tasks/list", &json!({}));
    assert!(refused.contains("\"error\""), "{refused}");
    let name = "a\u{202e}b\u{2028}c\u{e0041}";
    bob.request("tools/call", &json!({"name": name, "arguments": {}}));
    crate::names::until("all of it is written down", || audited(&place).len() >= 3);
    let expected = [
        "bob capability proc/spawn/req missing_capability only_what_was_agreed".to_owned(),
        "bob capability tasks/list missing_capability only_what_was_agreed".to_owned(),
        format!("bob tool {name} unknown_tool"),
    ];
    assert_eq!(audited(&place), expected);
    let text = std::fs::read_to_string(place.file("audit.jsonl")).expect("it is there");
    assert!(text.contains(r"a\u202eb\u2028c\udb40\udc41") && text.is_ascii(), "{text}");
}

#[test]
fn sessionless_listeners_get_updates_only_of_resources_that_they_may_read() {
    let place = vault("", "");
    place.says("vault", "resources", &json!([{"uri": "x:1", "name": "one"}, {"uri": "x:2", "name": "two"}]));
    let server = Server::start(&place);
    let mut ann = server.caller("open-sesame");
    // Features of the vault are offered once its lists are known.
    ann.request("resources/list", &json!({}));
    let listen = |token: &str| {
        let bearer = format!("Bearer {token}");
        let mut listener = Connection::open(server.address);
        let params = r#""notifications":{"resourceSubscriptions":["x:1","x:2"]}"#;
        let headers = [
            ("Authorization", bearer.as_str()),
            ("MCP-Protocol-Version", STATELESS),
            ("Mcp-Method", "subscriptions/listen"),
        ];
        listener.send_post(&headers, &stateless(9, "subscriptions/listen", params));
        listener.head();
        let first = listener.event().expect("an acknowledgement").json();
        assert_eq!(first["params"]["notifications"]["resourceSubscriptions"], json!(["x:1", "x:2"]), "{first}");
        listener
    };
    let mut listeners = [listen("open-sesame"), listen("open-barley")];
    let config = std::fs::read_to_string(place.file("gladhand.toml")).expect("it is there");
    let rule = "[[policy.rules]]\nname = 'not-bob'\nwho = ['principal:bob']\nresources = ['x:1']\neffect = 'deny'\n";
    place.configure(&format!("{config}{rule}"));
    let mut bob = server.caller("open-barley");
    crate::names::until("the rule holds", || {
        bob.request("resources/read", &json!({"uri": "x:1"})).1.contains("not-bob")
    });
    for uri in ["x:1", "x:2"] {
        place.says("vault", "announce", &json!(uri));
        ann.request("tools/call", &json!({"name": "vault__look", "arguments": {}}));
    }
    let heard = listeners.each_mut().map(|listener| listener.event().expect("news").json()["params"]["uri"].clone());
    assert_eq!(heard, ["x:1", "x:2"], "the first that ann hears of, and bob");
}
