//! Event streams: progress, numbers, resuming, letting go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gladhand::hub::{Answer, ChangeNotifier, Context, Features, Provider};
use gladhand::operations::{Progress, Reply, Tool, ToolCall, ToolResult};
use gladhand::wire::json;
use gladhand_server::http::HttpOptions;
use serde_json::json;
use tokio::sync::Notify;

use crate::client::{Connection, call_with_progress, open_session, stateless_call};
use crate::limits::memory;
use crate::server::{Embedded, Program};
use crate::support::PATIENCE;

/// Reads all events of a stream that ends.
fn all(connection: &mut Connection) -> Vec<crate::client::Event> {
    std::iter::from_fn(|| connection.event()).collect()
}

#[test]
fn progress_comes_before_the_answer_on_the_stream_of_its_request() {
    let program = Program::start(&[]);
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut connection = program.connect();
        let session = open_session(&mut connection, version);
        let call = call_with_progress(5, "wait", r#"{"ms":60,"steps":3}"#);
        connection.send_post(&[("Mcp-Session-Id", &session)], &call);
        let head = connection.head();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!((head.header("x-accel-buffering"), head.header("cache-control")), (Some("no"), Some("no-cache")));
        let mut events = all(&mut connection);
        if version == "2025-11-25" {
            let first = events.remove(0);
            assert_eq!((first.data.as_str(), first.retry.is_some(), first.id.is_some()), ("", true, true));
        }
        let ids: Vec<_> = events.iter().map(|event| event.id.clone().expect("an id")).collect();
        assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "{ids:?}");
        let progress: Vec<_> = events.iter().filter_map(|event| event.json()["params"]["progress"].as_f64()).collect();
        assert_eq!(progress, [1.0, 2.0, 3.0]);
        let answer = events.last().expect("an answer").json();
        assert_eq!((&answer["id"], events.len()), (&json!(5), 4), "{answer}");
        // The connection can be used again.
        assert_eq!(connection.ask("GET", "/healthz", &[], "").status, 200);
    }
}

#[test]
fn a_stream_without_a_session_has_no_numbers() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let (headers, body) = stateless_call(5, "wait", r#"{"ms":30,"steps":2}"#);
    connection.send_post(&headers, &body);
    assert_eq!(connection.head().header("content-type"), Some("text/event-stream"));
    let events = all(&mut connection);
    assert!(events.iter().all(|event| event.id.is_none() && event.retry.is_none()), "{events:?}");
    assert_eq!(events.last().expect("an answer").json()["id"], 5);
}

#[test]
fn a_lost_stream_is_resumed_where_it_was_lost() {
    let program = Program::start(&[]);
    let mut connection = program.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &call_with_progress(5, "wait", r#"{"ms":400,"steps":4}"#));
    connection.head();
    let primed = connection.event().expect("something to come back with");
    let first = connection.event().expect("progress");
    // Gone in the middle of the call, which goes on without us.
    drop(connection);
    let mut connection = program.connect();
    let last = first.id.expect("an id");
    connection.send("GET", "/mcp", &[headers[0], ("Last-Event-ID", &last)], "");
    assert_eq!(connection.head().status, 200);
    let rest = all(&mut connection);
    let progress: Vec<_> = rest.iter().filter_map(|event| event.json()["params"]["progress"].as_f64()).collect();
    assert_eq!(progress, [2.0, 3.0, 4.0], "what was seen is not sent again");
    assert_eq!(rest.last().expect("an answer").json()["id"], 5);
    // The answer is kept for a while: this time all of it, from the beginning.
    let all_of_it = [headers[0], ("Last-Event-ID", primed.id.as_deref().expect("an id"))];
    let again = connection.ask("GET", "/mcp", &all_of_it, "");
    assert_eq!(again.body.matches("data: {").count(), 5, "{again:?}");
    for unknown in ["77-1", "nonsense", "0-99"] {
        let response = connection.ask("GET", "/mcp", &[headers[0], ("Last-Event-ID", unknown)], "");
        assert_eq!(response.status, 400, "{unknown}");
    }
}

/// Lets go of its caller, then waits until it is told to answer; rings when it is told to.
#[derive(Debug, Default)]
struct Slow {
    go_on: Arc<Notify>,
    floods: Arc<AtomicUsize>,
    notifier: Mutex<Option<ChangeNotifier>>,
}

impl Provider for Slow {
    fn tools(&self) -> Vec<Tool> {
        ["let_go", "ring", "flood", "burst"]
            .map(|name| Tool::new(name, "", json::raw(r#"{"type":"object"}"#.to_owned())))
            .into()
    }

    fn features(&self) -> Features {
        Features { tool_changes: true, ..Features::default() }
    }

    fn attach(&self, notifier: &ChangeNotifier) {
        *self.notifier.lock().expect("nobody panics") = Some(notifier.clone());
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        let done = || Ok(Reply::Tool(ToolResult::text("done")));
        let (reporter, go_on, floods) = (context.reporter(), Arc::clone(&self.go_on), Arc::clone(&self.floods));
        let progress = |step: u32| Progress { progress: f64::from(step), total: None, message: Some("x".repeat(1000)) };
        match call.name.as_ref() {
            "let_go" => Answer::later(async move {
                reporter.come_back_later(Duration::from_millis(20));
                go_on.notified().await;
                done()
            }),
            "flood" => Answer::later(async move {
                for step in 0..20_000 {
                    reporter.progress(progress(step));
                    if step % 100 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                floods.fetch_add(1, Ordering::Relaxed);
                done()
            }),
            // Told from within the call, before it has answered.
            "burst" => {
                (0..3).for_each(|step| reporter.progress(progress(step)));
                Answer::Now(done())
            }
            _ => {
                let notifier = self.notifier.lock().expect("nobody panics").clone();
                notifier.expect("it is attached").tools_changed();
                self.go_on.notify_one();
                Answer::Now(done())
            }
        }
    }
}

#[test]
fn a_caller_whose_stream_was_closed_resumes_for_its_answer() {
    let server = Embedded::start(Slow::default(), HttpOptions::default());
    let mut connection = server.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &call_with_progress(1, "let_go", "{}"));
    connection.head();
    let events = all(&mut connection);
    let last = events.last().expect("a pause");
    assert_eq!((last.retry, last.data.as_str()), (Some(20), ""));
    assert!(events.iter().all(|event| event.data.is_empty()), "no answer yet: {events:?}");
    let mut other = server.connect();
    other.send("GET", "/mcp", &[headers[0], ("Last-Event-ID", last.id.as_deref().expect("an id"))], "");
    assert_eq!(other.head().status, 200);
    connection.post(&headers, &call_with_progress(2, "ring", "{}"));
    let answer = other.event().expect("the answer").json();
    assert_eq!((&answer["id"], other.event()), (&json!(1), None), "{answer}");
}

#[test]
fn notifications_sent_before_the_main_stream_opened_are_delivered_on_it() {
    let server = Embedded::start(Slow::default(), HttpOptions::default());
    let mut connection = server.connect();
    let session = open_session(&mut connection, "2025-11-25");
    let headers = [("Mcp-Session-Id", session.as_str())];
    let changed = |connection: &mut Connection| {
        let event = std::iter::from_fn(|| connection.event()).find(|event| !event.data.is_empty());
        event.expect("news").json()["method"].clone()
    };
    connection.post(&headers, &call_with_progress(1, "ring", "{}"));
    let mut first = server.connect();
    first.send("GET", "/mcp", &headers, "");
    first.head();
    assert_eq!(changed(&mut first), "notifications/tools/list_changed");
    // A second reader takes over: one message, one stream.
    let mut second = server.connect();
    second.send("GET", "/mcp", &headers, "");
    second.head();
    assert!(all(&mut first).iter().all(|event| event.data.is_empty()), "nothing more is said to the first");
    connection.post(&headers, &call_with_progress(2, "ring", "{}"));
    assert_eq!(changed(&mut second), "notifications/tools/list_changed");
}

#[test]
fn a_sessionless_listener_gets_the_requested_notifications() {
    let server = Embedded::start(Slow::default(), HttpOptions::default());
    let mut listener = server.connect();
    let body = crate::client::stateless(9, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#);
    let headers = [("MCP-Protocol-Version", crate::client::STATELESS), ("Mcp-Method", "subscriptions/listen")];
    listener.send_post(&headers, &body);
    listener.head();
    let first = listener.event().expect("an acknowledgement").json();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let (headers, body) = stateless_call(1, "ring", "{}");
    assert_eq!(server.connect().post(&headers, &body).status, 200);
    assert_eq!(listener.event().expect("news").json()["method"], "notifications/tools/list_changed");
    // When the server stops, the listener receives an answer in its protocol.
    drop(server);
    assert_eq!(listener.event().expect("the end").json()["id"], 9);
    assert_eq!(listener.event(), None);
}

#[test]
fn notifications_of_a_call_precede_its_response() {
    let server = Embedded::start(Slow::default(), HttpOptions::default());
    let mut connection = server.connect();
    let session = open_session(&mut connection, "2025-11-25");
    connection.send_post(&[("Mcp-Session-Id", &session)], &call_with_progress(1, "burst", "{}"));
    assert_eq!(connection.head().header("content-type"), Some("text/event-stream"));
    let events = all(&mut connection);
    let told: Vec<_> = events.iter().filter(|event| !event.data.is_empty()).map(|event| event.json()).collect();
    assert_eq!((told.len(), &told[3]["id"]), (4, &json!(1)), "{told:?}");
}

#[test]
fn a_reader_that_is_slow_loses_reports_and_not_its_answer() {
    let slow = Slow::default();
    let floods = Arc::clone(&slow.floods);
    let server = Embedded::start(slow, HttpOptions { replay_bytes: 64 * 1024, ..HttpOptions::default() });
    let mut connection = server.connect();
    let session = open_session(&mut connection, "2025-11-25");
    connection.send_post(&[("Mcp-Session-Id", &session)], &call_with_progress(1, "flood", "{}"));
    connection.head();
    // Twenty megabytes are told meanwhile.
    wait_for(&floods, 1);
    let events = all(&mut connection);
    assert_eq!(events.last().expect("an answer").json()["id"], 1);
}

#[test]
fn streams_that_are_never_read_take_little_memory() {
    let slow = Slow::default();
    let floods = Arc::clone(&slow.floods);
    let server = Embedded::start(slow, HttpOptions { replay_bytes: 64 * 1024, ..HttpOptions::default() });
    let before = memory(std::process::id());
    let deaf: Vec<_> = (0..6)
        .map(|_| {
            let mut connection = server.connect();
            let session = open_session(&mut connection, "2025-11-25");
            connection.send_post(&[("Mcp-Session-Id", &session)], &call_with_progress(1, "flood", "{}"));
            connection
        })
        .collect();
    wait_for(&floods, deaf.len());
    // A hundred and twenty megabytes were told.
    let grown = memory(std::process::id()).saturating_sub(before);
    assert!(grown < 60 * 1024, "{grown} KiB");
}

fn wait_for(floods: &AtomicUsize, count: usize) {
    let begun = Instant::now();
    while floods.load(Ordering::Relaxed) < count {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}
