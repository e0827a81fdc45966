//! The view of a bridge's clients when the server behind it misbehaves, or the bridge itself ends.
#![cfg(target_os = "linux")]

#[path = "support/bridge.rs"]
mod bridge;
#[allow(dead_code, reason = "it is written for other tests, too")]
#[path = "http/client.rs"]
mod client;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand::Service;
use gladhand::dialects::Stop;
use gladhand::hub::{Hub, Mount, Represented as _, ServerProvider as _};
use gladhand::upstream::{Options, Speak, Target};
use gladhand::upstream_provider::{ConnectionBudget, Spec, UpstreamProvider};
use gladhand_server::http::Http;
use rustix::process::Signal;
use serde_json::{Value, json};

use bridge::{Bridge, answer, command, signal, until, upstreams};
use client::{Connection, open_session, stateless_call};
use support::{MCP_INITIALIZED, PATIENCE, Process, example, mcp_call, mcp_initialize};

/// A client over HTTP with a session.
struct Caller {
    connection: Connection,
    session: String,
    calls: u64,
}

impl Caller {
    fn new(mut connection: Connection) -> Self {
        let session = open_session(&mut connection, "2025-11-25");
        Self { connection, session, calls: 0 }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.calls += 1;
        let body = mcp_call(self.calls, tool, &arguments.to_string());
        let answer = answer(&self.connection.post(&[("Mcp-Session-Id", &self.session)], &body));
        assert_eq!(answer["id"], self.calls, "{answer}");
        answer
    }

    /// The answer of `echo`.
    fn echo(&mut self) -> String {
        let answer = self.call("echo", &json!({"text": "grüezi"}));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

/// The message of an answer that is an error.
fn message(answer: &Value) -> &str {
    answer["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn a_server_that_dies_in_a_call_costs_that_call_in_both_eras() {
    let bridge = Bridge::to(&["dying"]);
    let mut caller = Caller::new(bridge.connect());
    for tool in ["die", "vanish"] {
        let answer = caller.call(tool, &json!({"text": "a text that is cut"}));
        match tool {
            "die" => assert!(message(&answer).ends_with(LOST), "{answer}"),
            _ => assert!(message(&answer).starts_with("the upstream's answer is invalid: "), "{answer}"),
        }
        until("it is there again", || (caller.call("echo", &json!({}))["error"].is_null()).then_some(()));
    }
    let (headers, body) = stateless_call(9, "die", "{}");
    let answer = answer(&bridge.connect().post(&headers, &body));
    assert!(message(&answer).starts_with("upstream /") && message(&answer).ends_with(LOST), "{answer}");
    assert!(bridge.stop());
}

const LOST: &str = "/unreliable ended during the call (exit status: 1); its stderr ends with: dying as asked";

#[test]
fn a_server_that_is_killed_between_calls_costs_nothing() {
    let bridge = Bridge::to(&["killed"]);
    let mut caller = Caller::new(bridge.connect());
    assert_eq!(caller.echo(), "grüezi");
    let [first] = upstreams("killed")[..] else { panic!("there is one") };
    signal(first, Signal::KILL);
    until("it is gone", || (!upstreams("killed").contains(&first)).then_some(()));
    // A call at that very moment may still fail.
    until("it is there again", || caller.call("echo", &json!({}))["error"].is_null().then_some(()));
    assert_eq!(caller.echo(), "grüezi");
    assert!(bridge.stop());
    assert!(upstreams("killed").is_empty());
}

#[test]
fn floods_garbage_and_second_answers_are_no_harm() {
    let bridge = Bridge::to(&["noisy"]);
    let mut caller = Caller::new(bridge.connect());
    for (tool, arguments) in [("flood", json!({"lines": 20_000, "text": "a"})), ("garbage", json!({"text": "b"}))] {
        let answer = caller.call(tool, &arguments);
        assert_eq!(answer["result"]["content"][0]["text"], arguments["text"], "{tool}: {answer}");
    }
    for _ in 0..3 {
        assert_eq!(caller.call("twice", &json!({"text": "c"}))["result"]["content"][0]["text"], "c");
    }
    assert_eq!(caller.echo(), "grüezi");
    assert_eq!(upstreams("noisy").len(), 1, "it was never started again");
    assert!(bridge.stop());
}

#[test]
fn a_server_that_exits_at_once_is_a_named_error() {
    let mut process = Process::start(command(&["--exit"], &[]));
    let opened = process.ask(&mcp_initialize("2025-11-25"));
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    process.send(MCP_INITIALIZED);
    let called = process.ask(&mcp_call(1, "echo", "{}"));
    assert!(message(&called).contains("the server ended before the session was open (exit status: "), "{called}");
    assert_eq!(process.finish().0, 4, "the server never was there");
}

#[test]
fn a_server_that_does_not_leave_is_ended() {
    let mut process = Process::start(command(&["--stay"], &[]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    assert_eq!(process.ask(&mcp_call(1, "echo", r#"{"text":"x"}"#))["result"]["content"][0]["text"], "x");
    let [server] = upstreams("--stay")[..] else { panic!("there is one") };
    assert_eq!(process.finish().0, 0);
    assert!(!upstreams("--stay").contains(&server));
}

#[test]
fn a_call_to_a_silent_server_ends_after_its_timeout() {
    let words = [example("unreliable").get_program().to_str().expect("text").to_owned()];
    let target = Target::parse(&words).unwrap();
    let options = Options { call_timeout: Some(Duration::from_millis(200)), ..Options::default() };
    let spec = Spec {
        name: "silent".to_owned(),
        target,
        options,
        isolated: false,
        client_roots: Vec::new(),
        connection_budget: ConnectionBudget::default(),
        list_wait: Some(Spec::USUAL_LIST_WAIT),
        remembered_in: None,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hub = Hub::of(vec![Mount::plain(Arc::new(UpstreamProvider::new(spec)))]);
    let http = Http { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Http::default() };
    let server = runtime.block_on(async {
        hub.settled().await;
        Service::new(hub.clone()).bind_http(http).await.unwrap()
    });
    let address = server.urls()[0].split('/').nth(2).and_then(|address| address.parse().ok()).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let served = runtime.spawn(server.run(async { stopped.await.unwrap_or(Stop::Terminated) }));
    let mut caller = Caller::new(Connection::open(address));
    for _ in 0..2 {
        assert_eq!(message(&caller.call("silence", &json!({}))), "the upstream gave no sign of life for 0.2 s");
        assert_eq!(caller.echo(), "grüezi");
    }
    drop(caller);
    stop.send(Stop::Terminated).unwrap();
    runtime.block_on(async {
        served.await.unwrap();
        hub.closed().await;
    });
}

/// A shell script as an upstream.
fn scripted(script: &str, list_wait: Option<Duration>) -> Arc<UpstreamProvider> {
    let target = Target::parse(&["sh", "-c", script].map(str::to_owned)).expect("a command");
    let spec = Spec {
        name: "slow".to_owned(),
        target,
        options: Options { speak: Speak::parse("mcp@2025-11-25").expect("a dialect"), ..Options::default() },
        isolated: false,
        client_roots: Vec::new(),
        connection_budget: ConnectionBudget::default(),
        list_wait,
        remembered_in: None,
    };
    Arc::new(UpstreamProvider::new(spec))
}

/// A server without tools that starts late.
const SLOW: &str = r#"sleep 1; read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25",
"capabilities":{},"serverInfo":{"name":"late","version":"1"}}}' | tr -d '\n'; echo; sleep 1000"#;

#[tokio::test]
async fn a_server_that_is_alone_is_waited_for_until_it_has_opened() {
    let provider = scripted(SLOW, None);
    let hub = Hub::of(vec![Mount::plain(Arc::clone(&provider) as _)]);
    hub.settled().await;
    let introduction = provider.introduction().expect("its name is known");
    assert_eq!(introduction.0.name, "late");
    assert!(provider.outage().is_none());
    hub.closed().await;
}

#[tokio::test]
async fn a_server_that_opens_late_is_named_while_it_opens() {
    let provider = scripted(SLOW, Some(Duration::from_millis(100)));
    let hub = Hub::of(vec![Mount::plain(Arc::clone(&provider) as _)]);
    hub.settled().await;
    let outage = provider.outage().expect("it has not opened");
    assert_eq!(outage.message, "upstream slow: it has not opened yet (for 0 s)");
    assert_eq!(provider.status().expect("a status").state, "opening");
    hub.closed().await;
}

#[tokio::test]
async fn a_server_that_fails_after_the_wait_for_it_is_shown_as_failed() {
    let provider = scripted("sleep 0.5; exit 3", Some(Duration::from_millis(50)));
    let hub = Hub::of(vec![Mount::plain(Arc::clone(&provider) as _)]);
    hub.settled().await;
    let state = || provider.status().expect("a status").state;
    let begun = Instant::now();
    while state() != "failed" {
        assert!(begun.elapsed() < PATIENCE, "{}", state());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    hub.closed().await;
}

#[test]
fn a_killed_bridge_leaves_no_server_and_its_sessions_are_reopened() {
    let bridge = Bridge::to(&["orphan"]);
    let address = bridge.address.to_string();
    let mut caller = Caller::new(bridge.connect());
    assert_eq!(caller.echo(), "grüezi");
    bridge.kill();
    until("its server is gone", || upstreams("orphan").is_empty().then_some(()));
    let bridge = Bridge::at(&address, &["orphan"]);
    caller.connection = bridge.connect();
    let body = mcp_call(7, "echo", "{}");
    assert_eq!(caller.connection.post(&[("Mcp-Session-Id", &caller.session)], &body).status, 404);
    assert_eq!(Caller::new(caller.connection).echo(), "grüezi");
    assert!(bridge.stop());
}
