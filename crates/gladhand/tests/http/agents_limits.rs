//! A2E over HTTP: what is bounded, what ends by itself, what is left when it has ended, and what needs a token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gladhand::hub::{Answer, CapabilityProvider, Context, Provider, SessionId, SessionObserver};
use gladhand::operations::{Tool, ToolCall, ToolResult};
use gladhand_server::http::{AgentLimits, Http, HttpOptions};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{Agent, PING, call, handshake, listen, new_session, send};
use crate::client::Connection;
use crate::limits::memory;
use crate::server::{Embedded, Program};
use crate::support::PATIENCE;

/// Has one tool that says much, one that never ends, and the capabilities that are worth a token.
#[derive(Debug, Default)]
struct Loud {
    running: Arc<AtomicUsize>,
    left: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Provider for Loud {
    fn tools(&self) -> Vec<Tool> {
        vec![Tool::plain("shout", "says much"), Tool::plain("forever", "never ends")]
    }

    fn call(&self, call: ToolCall<'_>, _: &Context<'_>) -> Answer {
        if call.name == "shout" {
            return ToolResult::text(&"x".repeat(50_000)).into();
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(Arc::clone(&self.running));
        Answer::later(async move {
            let _running = running;
            std::future::pending::<()>().await;
            Ok(ToolResult::text(""))
        })
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl CapabilityProvider for Loud {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["proc", "skill", "memory", "planning"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        vec!["memory"]
    }
}

impl SessionObserver for Loud {
    fn left(&self, _: SessionId) {
        self.left.fetch_add(1, Ordering::SeqCst);
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_there(connection: &mut Connection, id: &str) -> bool {
    send(connection, id, PING).0 == 200
}

#[test]
fn no_message_of_an_agent_is_read_while_its_output_is_full() {
    let server = Embedded::start(Loud::default(), HttpOptions::default());
    let mut sending = server.connect();
    let id = new_session(&mut sending);
    assert_eq!(send(&mut sending, &id, &handshake(&["tools"], "")).0, 200);
    let mut taken = 0;
    let refused = loop {
        match send(&mut sending, &id, &call(&format!("c{taken}"), "shout", &json!({}))) {
            (200, _) => taken += 1,
            refused => break refused,
        }
        assert!(taken < 1000, "it would go on for ever");
    };
    assert_eq!((refused.0, refused.1["detail"].as_str().is_some_and(|why| why.starts_with("Busy"))), (503, true));
    assert!((2..20).contains(&taken), "{taken}");
    let mut stream = listen(server.connect(), &id);
    assert_eq!(stream.event().unwrap().json()["type"], "handshake/resp");
    for number in 0..taken {
        assert_eq!(stream.event().unwrap().json()["req_id"], format!("c{number}"), "everything that was taken");
    }
    assert!(is_there(&mut sending, &id), "and it goes on");
}

#[test]
fn outcomes_of_queued_calls_are_bounded() {
    let server = Embedded::start(Loud::default(), HttpOptions::default());
    let mut sending = server.connect();
    let id = new_session(&mut sending);
    send(&mut sending, &id, &handshake(&["tools"], ""));
    // Four run and end by their deadline; what waits behind them would all be answered at once.
    for number in 0..4 {
        let forever = json!({"type": "tool/call/req", "id": format!("f{number}"), "tool_name": "forever", "arguments": {}, "timeout": 1});
        assert_eq!(send(&mut sending, &id, &forever.to_string()).0, 200);
    }
    for number in 0..200 {
        assert_eq!(send(&mut sending, &id, &call(&format!("c{number}"), "shout", &json!({}))).0, 200);
    }
    until("it is busy", || send(&mut sending, &id, PING).0 == 503);
    let mut stream = listen(server.connect(), &id);
    let mut answered = 0;
    while answered < 200 {
        let message = stream.event().unwrap().json();
        answered += usize::from(message["type"] == "tool/call/resp");
    }
}

#[test]
fn running_calls_end_with_their_session() {
    let loud = Loud::default();
    let (running, left) = (Arc::clone(&loud.running), Arc::clone(&loud.left));
    let server = Embedded::start(loud, HttpOptions::default());
    let mut agent = Agent::open(|| server.connect());
    agent.send(&call("f", "forever", &json!({})));
    until("it runs", || running.load(Ordering::SeqCst) == 1);
    agent.send(r#"{"type":"shutdown","id":"s","timeout":0}"#);
    until("it has ended", || running.load(Ordering::SeqCst) == 0);
    until("the session has left", || left.load(Ordering::SeqCst) == 1);
}

#[test]
fn sessions_are_limited_in_number_and_end_by_themselves() {
    let (program, _folder) = Program::configured("[a2e]\nsessions = 2\nhandshake_seconds = 1\n");
    let mut connection = program.connect();
    let (agent, other) = (Agent::open(|| program.connect()), Agent::open(|| program.connect()));
    let refused = connection.ask("POST", "/session", &[], "");
    assert_eq!((refused.status, refused.json()), (503, json!({"detail": "Too many sessions"})));
    // A session that no agent reads gives way.
    drop(other);
    let mut mute = None;
    until("there is room again", || {
        let opened = connection.ask("POST", "/session", &[], "");
        mute = opened.json()["session_id"].as_str().map(str::to_owned);
        opened.status == 200
    });
    // A session without a handshake ends, also if it is read.
    let mut waiting = listen(program.connect(), &mute.expect("a session"));
    assert!(waiting.event().is_none());
    assert!(is_there(&mut connection, &agent.id), "an agent that shook hands stays");
}

#[test]
fn an_idle_agent_session_ends_unless_its_stream_is_read() {
    let agents = AgentLimits { idle: Duration::from_millis(400), ..AgentLimits::default() };
    let server = Embedded::with(Loud::default(), Http { agents, ..Http::default() });
    let (idle, read) = (Agent::open(|| server.connect()), Agent::open(|| server.connect()));
    let Agent { id, mut sending, stream } = idle;
    drop(stream);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!is_there(&mut sending, &id));
    assert!(is_there(&mut sending, &read.id));
}

#[test]
fn an_idle_stream_sends_keep_alive_comments() {
    let (program, _folder) = Program::configured("[http]\nkeep_alive_ms = 50\n");
    let agent = Agent::open(|| program.connect());
    let Agent { mut stream, .. } = agent;
    let mut seen = Vec::new();
    until("a comment comes", || {
        seen.extend(stream.some_bytes());
        seen.windows(3).any(|bytes| bytes == b":\n\n")
    });
}

#[test]
fn a_thousand_idle_sessions_take_little_and_leave_nothing() {
    let program = Program::start(&[]);
    let mut sending = program.connect();
    let round = |sending: &mut Connection| {
        let ids: Vec<_> = (0..1000).map(|_| new_session(sending)).collect();
        for id in &ids {
            send(sending, id, &handshake(&["tools"], ""));
            send(sending, id, &call("c", "echo", &json!({"message": "x"})));
        }
        let full = memory(program.id());
        for id in &ids {
            send(sending, id, r#"{"type":"shutdown","id":"s","timeout":0}"#);
        }
        full
    };
    let before = memory(program.id());
    let full = round(&mut sending);
    let each = full.saturating_sub(before) / 1000;
    assert!(each < 32, "{each} KiB for each session");
    let after_one = memory(program.id());
    for _ in 0..3 {
        round(&mut sending);
    }
    let after_more = memory(program.id());
    assert!(after_more < after_one + 4096, "{after_one} KiB, and {after_more} after more of the same");
    let refused = (0..2000).find(|_| sending.ask("POST", "/session", &[], "").status != 200);
    assert_eq!(refused, None, "nobody who left takes a place");
}

#[test]
fn streams_end_when_the_server_does() {
    let mut program = Program::start(&[]);
    let mut agent = Agent::open(|| program.connect());
    agent.send(&call("w", "wait", &json!({"ms": 300})));
    program.signal(Signal::TERM);
    assert_eq!(agent.hear()["req_id"], "w", "what is in flight is finished");
    assert!(agent.stream.event().is_none());
    assert_eq!(program.wait().code(), Some(0));
}

fn granted(agent: &mut Agent, token: &str) -> Vec<String> {
    let opened = agent.ask(&handshake(&["tools", "proc", "skill", "memory", "planning"], token));
    let capabilities = opened["accepted_caps"].as_array().cloned().unwrap_or_default();
    let enabled = capabilities.iter().filter(|one| one["enabled"] == true);
    enabled.map(|one| one["capability"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn capabilities_need_a_token_unless_their_provider_grants_them() {
    let server = Embedded::start(Loud::default(), HttpOptions::default());
    assert_eq!(granted(&mut Agent::unopened(|| server.connect()), "any"), ["tools", "memory"]);
    let server = Embedded::asking_for("hush", Loud::default());
    let all = ["tools", "proc", "skill", "memory", "planning"];
    assert_eq!(granted(&mut Agent::unopened(|| server.connect()), "hush"), all);
    let refused = Agent::unopened(|| server.connect()).ask(&handshake(&["tools"], "any"));
    assert_eq!((&refused["ok"], &refused["reason"]), (&Value::Bool(false), &json!("auth_failed")));
}

#[test]
fn a_token_grants_its_capabilities_and_five_wrong_tokens_end_the_session() {
    let config = "[[a2e.agents]]\nid = 'tester'\ntoken = 'hush'\ncapabilities = ['tools']\n\
                  [[a2e.agents]]\nid = 'other'\ntoken = 'other'\ncapabilities = ['tools']\n";
    let (program, _folder) = Program::configured(config);
    assert_eq!(granted(&mut Agent::unopened(|| program.connect()), "hush"), ["tools"]);
    let mut wrong = Agent::unopened(|| program.connect());
    for _ in 0..5 {
        assert_eq!(wrong.ask(&handshake(&["tools"], "other"))["reason"], "auth_failed");
    }
    assert!(wrong.stream.event().is_none());
    assert_eq!(send(&mut wrong.sending, &wrong.id, PING).0, 404);
}
