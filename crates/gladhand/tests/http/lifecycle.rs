//! Signals, drains, and clients that go away.

use std::time::Duration;

use gladhand::hub::{Answer, Context, Provider};
use gladhand::operations::{Failure, FailureKind, Outcome, Reply, Tool, ToolCall};
use gladhand::wire::json;
use gladhand_server::http::HttpOptions;
use rustix::process::Signal;
use serde_json::json;

use crate::client::{call_with_progress, open_session, stateless_call};
use crate::server::{Embedded, Program};
use crate::support::{PATIENCE, mcp_call};

#[test]
fn a_signal_lets_calls_in_flight_finish() {
    let mut program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &call_with_progress(1, "wait", r#"{"ms":700,"steps":7}"#));
    connection.head();
    connection.event().expect("it has begun");
    let mut main = program.connect();
    main.send("GET", "/mcp", &headers, "");
    main.head();
    let mut idle = program.connect();
    assert_eq!(idle.ask("GET", "/readyz", &[], "").status, 200);
    program.signal(Signal::TERM);
    assert!(idle.ends(), "an idle connection is closed");
    assert!(std::iter::from_fn(|| main.event()).all(|event| event.data.is_empty()), "the main stream ends");
    let events: Vec<_> = std::iter::from_fn(|| connection.event()).collect();
    let answer = events.last().expect("an answer").json();
    assert_eq!(answer["result"]["content"][0]["text"], "waited 700 ms in 7 steps");
    assert_eq!(program.wait().code(), Some(0));
    let rest = program.rest_of_stderr();
    assert!(rest.lines().all(|line| line.contains("A2E agents connect to ")), "nothing but the start lines: {rest}");
}

#[test]
fn a_signal_fails_http_calls_that_exceed_the_drain_time() {
    let (mut program, _folder) = Program::configured("[limits]\ndrain_ms = 100\n");
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    connection.send_post(&[("Mcp-Session-Id", &session)], &mcp_call(1, "wait", r#"{"ms":60000}"#));
    connection.head();
    let mut stateless = program.connect();
    let (headers, body) = stateless_call(2, "wait", r#"{"ms":60000}"#);
    stateless.send_post(&headers, &body);
    stateless.head();
    program.signal(Signal::INT);
    for (connection, id) in [(&mut connection, 1), (&mut stateless, 2)] {
        let events: Vec<_> = std::iter::from_fn(|| connection.event()).collect();
        let answer = events.last().expect("an answer").json();
        assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(id), &json!("stopping")), "{answer}");
    }
    assert_eq!(program.wait().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut program = Program::start(&[]);
    let mut connection = program.connect();
    let (headers, body) = stateless_call(2, "wait", r#"{"ms":60000}"#);
    connection.send_post(&headers, &body);
    connection.head();
    let mut idle = program.connect();
    assert_eq!(idle.ask("GET", "/readyz", &[], "").status, 200);
    program.signal(Signal::TERM);
    assert!(idle.ends(), "the first one is heard once idle connections are closed");
    program.signal(Signal::TERM);
    assert_eq!(program.wait().code(), Some(143));
}

#[test]
fn deleting_a_session_fails_its_calls() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-06-18");
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &mcp_call(1, "wait", r#"{"ms":60000}"#));
    connection.head();
    let mut main = program.connect();
    main.send("GET", "/mcp", &headers, "");
    main.head();
    assert_eq!(program.connect().ask("DELETE", "/mcp", &headers, "").status, 204);
    let answer = connection.event().expect("an answer").json();
    assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(1), &json!("stopping")));
    assert_eq!((connection.event(), main.event()), (None, None));
}

#[test]
fn a_cancelled_call_ends_its_stream_without_an_answer() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-06-18");
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &mcp_call(1, "wait", r#"{"ms":60000}"#));
    connection.head();
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(program.connect().post(&headers, cancel).status, 202);
    assert_eq!(connection.event(), None);
}

/// Says when its call begins, and when it is given up.
#[derive(Debug)]
struct Watched(std::sync::mpsc::SyncSender<&'static str>);

/// Says that it is dropped.
struct Dropped(std::sync::mpsc::SyncSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

/// Fails to fail in an orderly way.
fn stumble() -> Failure {
    panic!("over its own feet")
}

impl Provider for Watched {
    fn tools(&self) -> Vec<Tool> {
        ["hang", "rest", "stumble", "stumble_later"]
            .map(|name| Tool::new(name, "", json::raw(r#"{"type":"object"}"#.to_owned())))
            .into()
    }

    fn call(&self, call: ToolCall<'_>, _: &Context<'_>) -> Answer {
        if call.name == "stumble" {
            stumble();
        }
        if call.name == "stumble_later" {
            return Answer::later(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err::<Reply, _>(stumble())
            });
        }
        if call.name == "rest" {
            let begun = self.0.clone();
            return Answer::later(async move {
                // It is polled once when it is delivered; a second poll means that the connection waits for it.
                tokio::task::yield_now().await;
                let _ = begun.send("begun");
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err::<Reply, _>(Failure::new(FailureKind::ToolFailed, "rested"))
            });
        }
        let _ = self.0.send("begun");
        let dropped = Dropped(self.0.clone());
        Answer::later(async move {
            let _dropped = dropped;
            std::future::pending::<Outcome>().await
        })
    }
}

#[test]
fn a_closed_connection_cancels_stateless_calls_and_not_those_of_a_session() {
    let (sender, heard) = std::sync::mpsc::sync_channel(16);
    let server = Embedded::start(Watched(sender), HttpOptions::default());
    let mut connection = server.connect();
    let (headers, body) = stateless_call(1, "hang", "{}");
    connection.send_post(&headers, &body);
    connection.head();
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("begun"));
    drop(connection);
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("dropped"));

    let mut connection = server.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &mcp_call(1, "hang", "{}"));
    connection.head();
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("begun"));
    drop(connection);
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err(), "it goes on");
    assert_eq!(server.connect().ask("DELETE", "/mcp", &headers, "").status, 204);
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("dropped"), "until its session ends");
}

#[test]
fn a_connection_closed_during_the_first_poll_of_a_call_cancels_the_same_calls() {
    let (sender, heard) = std::sync::mpsc::sync_channel(16);
    let server = Embedded::start(Watched(sender), HttpOptions::default());
    let call = |headers: &[(&str, &str)], body: &str| {
        let mut connection = server.connect();
        // Who leaves something unread leaves without a goodbye.
        connection.send("GET", "/readyz", &[], "");
        connection.send_post(headers, body);
        assert_eq!(heard.recv_timeout(PATIENCE), Ok("begun"));
        connection
    };
    let (headers, body) = stateless_call(1, "hang", "{}");
    drop(call(&headers, &body));
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("dropped"));

    let session = open_session(&mut server.connect(), "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let cancel = |id: u64| {
        let params = json!({"requestId": id});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string();
        assert_eq!(server.connect().post(&headers, &cancel).status, 202);
        assert_eq!(heard.recv_timeout(PATIENCE), Ok("dropped"));
    };
    drop(call(&headers, &mcp_call(1, "hang", "{}")));
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err(), "it goes on");
    cancel(1);
    let mut waiting = call(&headers, &mcp_call(2, "hang", "{}"));
    cancel(2);
    assert_eq!(waiting.response().body, "ready\n");
    assert!(!waiting.response().body.contains("\"id\":2"), "what is cancelled is not answered");
}

#[test]
fn a_stopping_server_waits_for_a_call_that_just_began() {
    let (sender, heard) = std::sync::mpsc::sync_channel(16);
    let server = Embedded::start(Watched(sender), HttpOptions::default());
    let mut connection = server.connect();
    let (headers, body) = stateless_call(1, "rest", "{}");
    connection.send_post(&headers, &body);
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("begun"));
    drop(server);
    let answer = connection.response();
    assert!(answer.body.contains("rested"), "{answer:?}");
}

#[test]
fn a_provider_that_panics_fails_its_call_and_nothing_else() {
    let (sender, _heard) = std::sync::mpsc::sync_channel(16);
    let server = Embedded::start(Watched(sender), HttpOptions::default());
    let mut connection = server.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let now = connection.post(&headers, &mcp_call(1, "stumble", "{}")).json();
    assert_eq!((&now["id"], now["error"].is_object()), (&json!(1), true), "{now}");
    // Whether that is soon enough to be no stream is for the scheduler to say.
    let later = connection.post(&headers, &mcp_call(2, "stumble_later", "{}"));
    assert!(later.body.contains(r#""id":2,"error":{"#), "{later:?}");
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    assert_eq!(connection.post(&headers, ping).status, 200);
}

#[test]
fn a_half_closed_connection_still_gets_its_answer() {
    let program = Program::start(&[]);
    for arguments in [r#"{"ms":0}"#, r#"{"ms":1500}"#] {
        let mut connection = program.connect();
        let session = open_session(&mut connection, "2025-11-25");
        connection.send_post(&[("Mcp-Session-Id", &session)], &mcp_call(1, "wait", arguments));
        connection.finish();
        let answer = connection.response();
        assert!(answer.body.contains(r#""id":1,"result""#), "{answer:?}");
        assert!(connection.ends());
    }
    // Also where the answer is the first thing that comes, after a moment.
    let (sender, _heard) = std::sync::mpsc::sync_channel(16);
    let server = Embedded::start(Watched(sender), HttpOptions::default());
    let session = open_session(&mut server.connect(), "2025-11-25");
    let mut connection = server.connect();
    connection.send_post(&[("Mcp-Session-Id", &session)], &mcp_call(2, "stumble_later", "{}"));
    connection.finish();
    let answer = connection.response();
    assert!(answer.body.contains(r#""id":2,"error":{"#), "{answer:?}");
    assert!(connection.ends());
}
