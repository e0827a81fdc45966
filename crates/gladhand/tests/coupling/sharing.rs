//! Many clients over HTTP: which of them share a server, which have a separate one, and that each is asked only its own
//! questions.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::bridge::{Era, STATELESS, Script, is_alive, until};
use crate::client::{Connection, Response};
use crate::support::MCP_INITIALIZED;

/// `gladhand bridge --http` in front of a scripted server.
struct Bridge {
    child: Child,
    address: SocketAddr,
    script: Script,
}

impl Bridge {
    fn start(server: Era, options: &[&str]) -> Self {
        Self::start_with(server, &[], options)
    }

    fn start_with(server: Era, habits: &[&str], options: &[&str]) -> Self {
        let script = Script::of(server, habits);
        let mut command = script.bridge(&[&["--http", "127.0.0.1:0"], options].concat());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            line.split("http://").nth(1)?.split('/').next()?.parse().ok()
        });
        // A process that writes to a pipe without a reader ends.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("it says where it listens"), script }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Servers that run now.
    fn running(&self) -> BTreeSet<i32> {
        self.script.processes().into_iter().filter(|process| is_alive(*process)).collect()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session of the handshake era.
struct Session {
    connection: Connection,
    id: String,
    next: u64,
}

impl Session {
    fn open(bridge: &Bridge, capabilities: &Value) -> Self {
        let mut connection = bridge.connect();
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let opened = connection.post(&[], &initialize.to_string());
        let id = opened.header("mcp-session-id").unwrap_or_else(|| panic!("{opened:?}")).to_owned();
        assert_eq!(connection.post(&[("Mcp-Session-Id", &id)], MCP_INITIALIZED).status, 202);
        Self { connection, id, next: 0 }
    }

    fn begin(&mut self, tool: &str) {
        self.next += 1;
        let params = json!({"name": tool, "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params});
        self.connection.send_post(&[("Mcp-Session-Id", &self.id)], &call.to_string());
    }

    fn text(&mut self, tool: &str) -> String {
        self.begin(tool);
        said(&message(&self.connection.response()))
    }

    fn list(&mut self) -> Vec<String> {
        self.next += 1;
        let list = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/list"});
        names(&message(&self.connection.post(&[("Mcp-Session-Id", &self.id)], &list.to_string())))
    }

    /// The question of a call that was begun.
    fn question(&mut self) -> Value {
        self.connection.head();
        let mut events = std::iter::from_fn(|| self.connection.event()).filter(|event| !event.data.is_empty());
        events.next().expect("a question").json()
    }

    fn answer(&self, bridge: &Bridge, question: &Value, name: &str) {
        let result = json!({"action": "accept", "content": {"name": name}});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string();
        assert_eq!(bridge.connect().post(&[("Mcp-Session-Id", &self.id)], &answer).status, 202);
    }

    fn outcome(&mut self) -> String {
        let mut events = std::iter::from_fn(|| self.connection.event()).filter(|event| !event.data.is_empty());
        said(&events.next().expect("an answer").json())
    }
}

/// The message that a response ends with.
fn message(response: &Response) -> Value {
    match response.header("content-type") {
        Some("application/json") => response.json(),
        _ => {
            let last = response.body.lines().rev().find_map(|line| line.strip_prefix("data: "));
            serde_json::from_str(last.unwrap_or_else(|| panic!("{response:?}"))).expect("JSON")
        }
    }
}

fn said(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// A call that stands for itself.
fn stateless(connection: &mut Connection, tool: &str, capabilities: &Value, more: &Value) -> Value {
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    let mut params = json!({"name": tool, "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    for (name, value) in more.as_object().expect("members") {
        params[name] = value.clone();
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    message(&connection.post(&headers, &call.to_string()))
}

#[test]
fn two_sessions_that_can_be_asked_have_a_server_each_and_are_asked_their_own() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let mut both = ["ada", "bea"].map(|name| (name, Session::open(&bridge, &json!({"elicitation": {}}))));
    let servers: BTreeSet<_> = both.iter_mut().map(|(_, session)| session.text("pid")).collect();
    assert_eq!(servers.len(), 2);
    both.iter_mut().for_each(|(_, session)| session.begin("ask"));
    // Both are open before either is answered, and the second is answered first.
    let questions = both.each_mut().map(|(_, session)| session.question());
    for ((name, session), question) in both.iter().zip(&questions).rev() {
        assert_eq!(question["method"], "elicitation/create");
        session.answer(&bridge, question, name);
    }
    let outcomes = both.each_mut().map(|(_, session)| session.outcome());
    assert_eq!(outcomes, ["Hello, ada!", "Hello, bea!"]);
    assert_eq!(bridge.script.objections(), Vec::<String>::new());
}

#[test]
fn a_session_that_ends_takes_its_server_along() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let mut session = Session::open(&bridge, &json!({"elicitation": {}}));
    let server: i32 = session.text("pid").parse().unwrap();
    let ended = session.connection.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &session.id)], "");
    assert!(ended.status < 300, "{ended:?}");
    until("its server is gone", || !is_alive(server));
    assert_eq!(Session::open(&bridge, &json!({})).text("ask"), "nobody can be asked");
}

#[test]
fn sessions_that_cannot_be_asked_share_one_server() {
    for server in Era::BOTH {
        let bridge = Bridge::start(server, &[]);
        let mut sessions: Vec<_> = (0..4).map(|_| Session::open(&bridge, &json!({}))).collect();
        let servers: BTreeSet<_> = sessions.iter_mut().map(|session| session.text("pid")).collect();
        assert_eq!(servers.len(), 1, "{server:?}");
        assert_eq!(bridge.running().len(), 1, "{server:?}");
    }
}

#[test]
fn sessions_share_a_stateless_server_and_get_their_own_questions() {
    let bridge = Bridge::start(Era::Stateless, &[]);
    let mut both = ["ada", "bea"].map(|name| (name, Session::open(&bridge, &json!({"elicitation": {}}))));
    both.iter_mut().for_each(|(_, session)| session.begin("ask"));
    let questions = both.each_mut().map(|(_, session)| session.question());
    for ((name, session), question) in both.iter().zip(&questions).rev() {
        session.answer(&bridge, question, name);
    }
    assert_eq!(both.each_mut().map(|(_, session)| session.outcome()), ["Hello, ada!", "Hello, bea!"]);
    assert_eq!(bridge.running().len(), 1);
    assert_eq!(bridge.script.objections(), Vec::<String>::new());
}

#[test]
fn isolate_starts_a_server_for_each_session() {
    let bridge = Bridge::start(Era::Stateless, &["--isolate"]);
    let servers: BTreeSet<_> = (0..2).map(|_| Session::open(&bridge, &json!({})).text("pid")).collect();
    assert_eq!(servers.len(), 2);
}

#[test]
fn calls_without_a_session_take_turns_and_each_is_asked_its_own() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let can = json!({"elicitation": {}});
    // One after the other they use the same server.
    let mut connection = bridge.connect();
    let servers: BTreeSet<_> = (0..3).map(|_| said(&stateless(&mut connection, "pid", &can, &json!({})))).collect();
    assert_eq!(servers.len(), 1);
    // While one waits for its caller, the other has another.
    let asked: Vec<_> = (0..2).map(|_| stateless(&mut connection, "ask", &can, &json!({}))).collect();
    for (asked, name) in asked.iter().zip(["ada", "bea"]).rev() {
        let result = &asked["result"];
        assert_eq!(result["resultType"], "input_required", "{asked}");
        let key = result["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a question");
        let answer = json!({"action": "accept", "content": {"name": name}});
        let more = json!({"requestState": result["requestState"], "inputResponses": {key: answer}});
        assert_eq!(said(&stateless(&mut connection, "ask", &can, &more)), format!("Hello, {name}!"));
    }
    assert_eq!(bridge.script.objections(), Vec::<String>::new());
}

#[test]
fn a_closed_exchange_cancels_its_call_at_the_server() {
    for server in Era::BOTH {
        let bridge = Bridge::start(server, &[]);
        let mut connection = bridge.connect();
        let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", "linger")];
        let params = json!({"name": "linger", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 1,
        }});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        connection.send_post(&headers, &call.to_string());
        connection.head();
        assert_eq!(connection.event().expect("progress").json()["method"], "notifications/progress");
        drop(connection);
        until("the server is told", || !bridge.script.requests("notifications/cancelled").is_empty());
    }
}

/// Begins a call that lasts until it is cancelled, and closes its exchange when it runs.
fn cancel_a_call(bridge: &Bridge, capabilities: &Value) {
    let before = bridge.script.requests("tools/call").len();
    let mut connection = bridge.connect();
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", "linger")];
    let params = json!({"name": "linger", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "progressToken": 1,
    }});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    connection.send_post(&headers, &call.to_string());
    connection.head();
    assert_eq!(connection.event().expect("progress").json()["method"], "notifications/progress");
    assert_eq!(bridge.script.requests("tools/call").len(), before + 1);
}

#[test]
fn the_server_of_a_cancelled_call_answers_the_next_one() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let can = json!({"elicitation": {}});
    let mut connection = bridge.connect();
    let server = said(&stateless(&mut connection, "pid", &can, &json!({})));
    for count in 1..=3 {
        cancel_a_call(&bridge, &can);
        until("the server is told", || bridge.script.requests("notifications/cancelled").len() == count);
        assert_eq!(said(&stateless(&mut connection, "lingered", &can, &json!({}))), count.to_string());
    }
    assert_eq!(said(&stateless(&mut connection, "pid", &can, &json!({}))), server);
    // It is as good as before: it asks, and is answered.
    let asked = stateless(&mut connection, "ask", &can, &json!({}));
    let result = &asked["result"];
    let key = result["inputRequests"].as_object().and_then(|all| all.keys().next()).expect("a question");
    let answer = json!({"action": "accept", "content": {"name": "ada"}});
    let more = json!({"requestState": result["requestState"], "inputResponses": {key: answer}});
    assert_eq!(said(&stateless(&mut connection, "ask", &can, &more)), "Hello, ada!");
    assert_eq!(bridge.script.objections(), Vec::<String>::new());
}

#[test]
fn a_server_that_does_not_answer_after_a_cancelled_call_is_replaced() {
    let bridge = Bridge::start_with(Era::Handshake, &["blocks"], &[]);
    let can = json!({"elicitation": {}});
    let mut connection = bridge.connect();
    let server = said(&stateless(&mut connection, "pid", &can, &json!({})));
    cancel_a_call(&bridge, &can);
    // The end of the exchange is noticed in its own time, and a call before that has another server anyway.
    assert_ne!(said(&stateless(&mut connection, "pid", &can, &json!({}))), server);
    until("it is gone", || !is_alive(server.parse().expect("an id")));
}

#[test]
fn a_list_that_changed_for_one_session_is_announced_and_shown() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let mut session = Session::open(&bridge, &json!({"elicitation": {}}));
    let mut stream = bridge.connect();
    stream.send("GET", "/mcp", &[("Accept", "text/event-stream"), ("Mcp-Session-Id", &session.id)], "");
    stream.head();
    assert_eq!(session.text("grow"), "grown");
    let mut events = std::iter::from_fn(|| stream.event()).filter(|event| !event.data.is_empty());
    let told = events.find(|event| event.json()["method"] == "notifications/tools/list_changed");
    assert!(told.is_some());
    let list = r#"{"jsonrpc":"2.0","id":90,"method":"tools/list"}"#;
    let listed = session.connection.post(&[("Mcp-Session-Id", &session.id)], list);
    assert!(message(&listed).to_string().contains("\"grown\""), "{listed:?}");
    assert_eq!(session.text("grown"), "here");
}

#[test]
fn changes_in_the_server_of_one_session_are_invisible_to_other_sessions() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let can = json!({"elicitation": {}});
    let [mut ada, mut bea, mut shared] = [&can, &can, &json!({})].map(|can| Session::open(&bridge, can));
    let servers: BTreeSet<_> = [&mut ada, &mut bea, &mut shared].map(|session| session.text("pid")).into();
    assert_eq!(servers.len(), 3);
    assert_eq!(ada.text("grow"), "grown");
    let list = r#"{"jsonrpc":"2.0","id":90,"method":"tools/list"}"#;
    let has = |session: &mut Session| {
        let listed = session.connection.post(&[("Mcp-Session-Id", &session.id)], list);
        message(&listed).to_string().contains("\"grown\"")
    };
    until("it is listed", || has(&mut ada));
    assert_eq!(ada.text("grown"), "here");
    assert!(!has(&mut bea) && !has(&mut shared), "it is at the end of a way that is not theirs");
    // The other way round: what all others see grows, and hers does not.
    assert_eq!(shared.text("grow"), "grown");
    until("it is listed", || has(&mut shared));
    assert!(has(&mut ada) && !has(&mut bea));
}

#[test]
fn calls_that_are_never_answered_give_way() {
    let bridge = Bridge::start(Era::Handshake, &[]);
    let can = json!({"elicitation": {}});
    let mut connection = bridge.connect();
    for _ in 0..20 {
        let asked = stateless(&mut connection, "ask", &can, &json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    }
    assert!(bridge.running().len() <= 18, "{:?}", bridge.running());
    assert!(stateless(&mut connection, "pid", &can, &json!({}))["result"].is_object());
}

#[test]
fn sessions_speak_their_own_era_to_a_server_of_both() {
    let bridge = Bridge::start_with(Era::Stateless, &["speaks-both"], &[]);
    let mut both = ["ada", "bea"].map(|name| (name, Session::open(&bridge, &json!({"elicitation": {}}))));
    both.iter_mut().for_each(|(_, session)| session.begin("ask"));
    let questions = both.each_mut().map(|(_, session)| session.question());
    for ((name, session), question) in both.iter().zip(&questions).rev() {
        session.answer(&bridge, question, name);
    }
    assert_eq!(both.each_mut().map(|(_, session)| session.outcome()), ["Hello, ada!", "Hello, bea!"]);
    assert_eq!(bridge.script.requests("initialize").len(), 2, "each session has its own");
    let answer = stateless(&mut bridge.connect(), "echo", &json!({"elicitation": {}}), &json!({}));
    assert!(answer["result"]["content"].is_array(), "{answer}");
    assert_eq!(bridge.script.requests("initialize").len(), 2, "a call without a session needs none");
    assert_eq!(bridge.script.objections(), Vec::<String>::new());
}

#[test]
fn each_http_client_gets_the_list_for_its_capabilities() {
    for server in Era::BOTH {
        let bridge = Bridge::start_with(server, &["has-a-private-tool"], &[]);
        for (declared, has_it) in [(json!({"elicitation": {}}), true), (json!({}), false)] {
            let mut session = Session::open(&bridge, &declared);
            let listed = session.list();
            assert_eq!(listed.contains(&"private".to_owned()), has_it, "a session, {server:?}: {listed:?}");
            let listed = list_alone(&mut bridge.connect(), &declared);
            assert_eq!(listed.contains(&"private".to_owned()), has_it, "without a session, {server:?}: {listed:?}");
        }
        assert_eq!(bridge.script.objections(), Vec::<String>::new());
    }
}

/// The tools that a client without a session sees.
fn list_alone(connection: &mut Connection, capabilities: &Value) -> Vec<String> {
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/list")];
    let params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
    names(&message(&connection.post(&headers, &list.to_string())))
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}
