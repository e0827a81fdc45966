//! A2E over HTTP: its four paths, its statuses, and what travels on the stream.

use serde_json::{Value, json};

use crate::client::{Connection, open_session};
use crate::server::Program;

pub(crate) const PING: &str = r#"{"type":"ping","id":"p1"}"#;

/// An agent with a session and its stream.
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) sending: Connection,
    pub(crate) stream: Connection,
}

impl Agent {
    /// A session, its stream, and the handshake.
    pub(crate) fn open(connect: impl Fn() -> Connection) -> Self {
        let mut agent = Self::unopened(connect);
        let opened = agent.ask(&handshake(&["tools"], ""));
        assert_eq!(opened["ok"], true, "{opened}");
        agent
    }

    /// A session and its stream.
    pub(crate) fn unopened(connect: impl Fn() -> Connection) -> Self {
        let mut sending = connect();
        let id = new_session(&mut sending);
        let stream = listen(connect(), &id);
        Self { id, sending, stream }
    }

    pub(crate) fn send(&mut self, message: &str) {
        let sent = send(&mut self.sending, &self.id, message);
        assert_eq!(sent, (200, json!({"ok": true})), "{message}");
    }

    /// The next message.
    pub(crate) fn hear(&mut self) -> Value {
        self.stream.event().expect("the stream goes on").json()
    }

    pub(crate) fn ask(&mut self, message: &str) -> Value {
        self.send(message);
        self.hear()
    }
}

pub(crate) fn new_session(connection: &mut Connection) -> String {
    let opened = connection.ask("POST", "/session", &[], "");
    assert_eq!((opened.status, opened.header("content-type")), (200, Some("application/json")), "{opened:?}");
    let id = opened.json()["session_id"].as_str().expect("an id").to_owned();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id
}

pub(crate) fn listen(mut stream: Connection, id: &str) -> Connection {
    stream.send("GET", "/stream", &[("X-Session-Id", id), ("Accept", "text/event-stream")], "");
    let head = stream.head();
    assert_eq!((head.status, head.header("cache-control")), (200, Some("no-cache")), "{head:?}");
    assert_eq!(head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    stream
}

pub(crate) fn send(connection: &mut Connection, id: &str, message: &str) -> (u16, Value) {
    let headers = [("X-Session-Id", id), ("Content-Type", "text/plain")];
    let sent = connection.ask("POST", "/send", &headers, message);
    (sent.status, sent.json())
}

pub(crate) fn handshake(capabilities: &[&str], token: &str) -> String {
    let request = json!({
        "a2e": "1.0", "type": "handshake/req", "id": "h1", "ts": 1.5,
        "agent_id": "tester", "agent_caps": capabilities, "auth_token": token,
    });
    request.to_string()
}

pub(crate) fn call(id: &str, tool: &str, arguments: &Value) -> String {
    json!({"a2e": "1.0", "type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments}).to_string()
}

#[test]
fn paths_methods_and_headers_are_answered_as_the_reference_does() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let known = new_session(&mut connection);
    let (known, unknown) = (known.as_str(), "00000000000000000000000000000000");
    let detail = |text: &str| json!({ "detail": text });
    let (missing, not_found) = (detail("Missing X-Session-Id"), detail("Session not found"));
    let (not_allowed, ok) = (detail("Method Not Allowed"), json!({"ok": true}));
    let no_headers: &[(&str, &str)] = &[];
    for (method, path, headers, body, status, answer) in [
        ("GET", "/health", no_headers, "", 200, json!({"status": "ok"})),
        ("POST", "/health", no_headers, "", 405, not_allowed.clone()),
        ("GET", "/session", no_headers, "", 405, not_allowed.clone()),
        ("DELETE", "/session", &[("X-Session-Id", known)], "", 405, not_allowed.clone()),
        ("GET", "/send", &[("X-Session-Id", known)], "", 405, not_allowed.clone()),
        ("POST", "/stream", &[("X-Session-Id", known)], "", 405, not_allowed.clone()),
        ("POST", "/send", no_headers, PING, 400, missing.clone()),
        ("POST", "/send", &[("X-Session-Id", unknown)], PING, 404, not_found.clone()),
        ("POST", "/send", &[("X-Session-Id", known)], PING, 200, ok.clone()),
        ("POST", "/send", &[("X-Session-Id", known)], "not json", 200, ok.clone()),
        ("POST", "/send", &[("X-Session-Id", known)], "", 200, ok.clone()),
        ("GET", "/stream", no_headers, "", 400, missing.clone()),
        ("GET", "/stream", &[("X-Session-Id", "nope")], "", 404, not_found.clone()),
        ("GET", &format!("/stream?session_id={known}"), no_headers, "", 400, missing.clone()),
        ("GET", "/nope", no_headers, "", 404, detail("Not Found")),
    ] {
        let response = connection.ask(method, path, headers, body);
        assert_eq!((response.status, response.json()), (status, answer), "{method} {path} {body}");
        assert_eq!(response.header("content-type"), Some("application/json"), "{method} {path}");
        let allowed = if ["/health", "/stream"].contains(&path) { "GET" } else { "POST" };
        assert_eq!(response.header("allow"), (status == 405).then_some(allowed), "{method} {path}");
    }
    // A body may be there, and does not matter.
    let second = connection.ask("POST", "/session", &[("Content-Type", "application/json")], r#"{"whatever":1}"#);
    assert_eq!(second.status, 200);
    assert_ne!(second.json()["session_id"], known);
}

#[test]
fn messages_queued_before_the_stream_are_sent_first_and_in_order() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let id = new_session(&mut connection);
    for number in 0..10 {
        let ping = format!(r#"{{"type":"ping","id":"queued-{number}"}}"#);
        assert_eq!(send(&mut connection, &id, &ping), (200, json!({"ok": true})));
    }
    let mut stream = listen(program.connect(), &id);
    for number in 0..10 {
        let event = stream.event().unwrap();
        assert_eq!((&event.id, &event.name, event.retry), (&None, &None, None), "nothing but data");
        assert_eq!(event.json()["req_id"], format!("queued-{number}"));
    }
    assert_eq!(send(&mut connection, &id, r#"{"type":"ping","id":"live"}"#).0, 200);
    assert_eq!(stream.event().unwrap().json()["req_id"], "live");
}

#[test]
fn a_whole_session_from_handshake_to_shutdown() {
    let program = Program::start(&[]);
    let mut agent = Agent::unopened(|| program.connect());
    assert_eq!(agent.ask(&call("c0", "echo", &json!({"message": "x"})))["code"], "unauthorized");
    let opened = agent.ask(&handshake(&["tools", "memory"], "any"));
    assert_eq!(
        (&opened["type"], &opened["req_id"], &opened["ok"]),
        (&json!("handshake/resp"), &json!("h1"), &json!(true))
    );
    assert_eq!(opened["accepted_caps"][0]["capability"], "tools");
    let answer = agent.ask(&call("c1", "echo", &json!({"message": "grüße \u{2028}"})));
    assert_eq!((&answer["type"], &answer["req_id"]), (&json!("tool/call/resp"), &json!("c1")), "{answer}");
    assert!(answer["data"].to_string().contains("grüße \u{2028}"), "{answer}");
    agent.send(r#"{"type":"shutdown","id":"s","timeout":5}"#);
    assert!(agent.stream.event().is_none(), "the stream ends");
    assert_eq!(send(&mut agent.sending, &agent.id, PING), (404, json!({"detail": "Session not found"})));
    let again = program.connect().ask("GET", "/stream", &[("X-Session-Id", &agent.id)], "");
    assert_eq!((again.status, again.json()), (404, json!({"detail": "Session not found"})));
}

#[test]
fn shutdown_waits_for_running_calls_up_to_its_timeout() {
    let program = Program::start(&[]);
    let mut agent = Agent::open(|| program.connect());
    agent.send(&call("quick", "wait", &json!({"ms": 200})));
    agent.send(r#"{"type":"shutdown","id":"s","timeout":20}"#);
    assert_eq!(send(&mut agent.sending, &agent.id, PING).0, 404, "nothing new is taken");
    assert_eq!(agent.hear()["req_id"], "quick");
    assert!(agent.stream.event().is_none());
    let mut agent = Agent::open(|| program.connect());
    agent.send(&call("slow", "wait", &json!({"ms": 60000})));
    agent.send(r#"{"type":"shutdown","id":"s","timeout":0}"#);
    let failed = agent.hear();
    assert_eq!((&failed["type"], &failed["req_id"]), (&json!("error"), &json!("slow")), "{failed}");
    assert!(agent.stream.event().is_none());
}

#[test]
fn invalid_bodies_are_answered_on_the_stream_and_the_session_continues() {
    let program = Program::start(&[]);
    let mut agent = Agent::open(|| program.connect());
    let two = "{\"type\":\"ping\",\"id\":\"a\"}\n{\"type\":\"ping\",\"id\":\"b\"}\n";
    for garbage in ["not json", "{", "[]", "5", r#"{"type":"no/such","id":"x"}"#, two] {
        let answer = agent.ask(garbage);
        assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("parse_error")), "{garbage}: {answer}");
    }
    agent.sending.send_bytes(
        format!("POST /send HTTP/1.1\r\nHost: localhost\r\nX-Session-Id: {}\r\nContent-Length: 2\r\n\r\n", agent.id)
            .as_bytes(),
    );
    agent.sending.send_bytes(&[0xff, 0xfe]);
    assert_eq!(agent.sending.response().status, 200);
    assert_eq!(agent.hear()["code"], "parse_error");
    // Line ends between values are blanks, and do not come back as line ends.
    let spread = call("c1", "echo", &json!({"message": "x", "more": [1]})).replace(",", "\r\n,\n");
    assert_eq!(agent.ask(&spread)["req_id"], "c1");
    assert_eq!(agent.ask(&format!("{PING}\n"))["type"], "pong");
    agent.send("");
    agent.send(" \n");
    assert_eq!(agent.ask(PING)["type"], "pong", "blank bodies are nothing");
}

#[test]
fn a_second_stream_takes_the_place_of_the_first_and_nothing_is_lost() {
    let program = Program::start(&[]);
    let mut agent = Agent::open(|| program.connect());
    agent.send(&call("later", "wait", &json!({"ms": 300})));
    let second = listen(program.connect(), &agent.id);
    assert!(agent.stream.event().is_none(), "the first ends");
    agent.stream = second;
    // Messages that the first reader may not have received are sent once more.
    let hear = |agent: &mut Agent, known: &str| {
        let heard = agent.hear()["req_id"].clone();
        if heard == known { agent.hear()["req_id"].clone() } else { heard }
    };
    assert_eq!(hear(&mut agent, "h1"), "later");
    // Messages that arrive while there is no reader are stored.
    let closed = std::mem::replace(&mut agent.stream, program.connect());
    drop(closed);
    for number in 0..5 {
        agent.send(&format!(r#"{{"type":"ping","id":"{number}"}}"#));
    }
    agent.stream = listen(program.connect(), &agent.id);
    let heard: Vec<_> = (0..5).map(|_| hear(&mut agent, "later")).collect();
    assert_eq!(heard, ["0", "1", "2", "3", "4"]);
}

#[test]
fn slow_calls_of_one_session_delay_no_other_call() {
    let program = Program::start(&[]);
    let mut agent = Agent::open(|| program.connect());
    for number in 0..8 {
        agent.send(&call(&format!("slow-{number}"), "wait", &json!({"ms": 60000})));
    }
    assert_eq!(agent.ask(PING)["type"], "pong");
    let mut other = Agent::open(|| program.connect());
    assert_eq!(other.ask(&call("c", "echo", &json!({"message": "x"})))["req_id"], "c");
}

#[test]
fn both_dialects_are_served_at_once_unless_one_is_asked_for() {
    let program = Program::start(&[]);
    Agent::open(|| program.connect());
    open_session(&mut program.connect(), "2025-11-25");
    let only_mcp = Program::start(&["--dialect", "mcp"]);
    open_session(&mut only_mcp.connect(), "2025-11-25");
    assert_eq!(only_mcp.connect().ask("POST", "/session", &[], "").status, 404);
    assert_eq!(only_mcp.connect().ask("GET", "/health", &[], "").status, 404);
    let only_a2e = Program::start(&["--dialect", "a2e"]);
    assert!(!only_a2e.url.ends_with("/mcp"), "{}", only_a2e.url);
    Agent::open(|| only_a2e.connect());
    assert_eq!(only_a2e.connect().ask("POST", "/mcp", &[], "{}").status, 404);
}

#[test]
fn the_agent_endpoint_refuses_unexpected_hosts_and_origins() {
    let program = Program::start(&[]);
    for headers in [[("Origin", "http://evil.example")], [("Host", "evil.example")]] {
        let turned = program.connect().ask("POST", "/session", &headers, "");
        assert_eq!(turned.status, 403);
        assert!(turned.json()["detail"].is_string(), "{turned:?}");
    }
    assert_eq!(program.connect().ask("GET", "/health", &[("Host", "evil.example")], "").status, 200);
}
