//! Tests of tool calls at a host: results, failures, events, `max_parallel`, timeouts, the end of the session.

use std::time::Duration;

use gladhand_core::operations::{
    CallId, Failure, FailureKind, Level, Log, Notice, Operation, Progress, Reply, ToolResult,
};
use gladhand_core::wire::json::raw;
use serde_json::json;

use super::*;
use crate::side::Server as _;
use crate::side::Stop;

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool/call/req","id":"{id}","tool_name":"echo","arguments":{{"message":"{id}"}}}}"#)
}

fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["req_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_call_is_delivered_with_its_arguments_untouched_and_answered_with_a_tool_result() {
    let mut server = open(server_setup());
    let line = r#"{"type":"tool/call/req","id":"c","tool_name":"echo","arguments":{ "n":12345678901234567890123, "s":"\ud83d" },"streaming":true,"timeout":60.0}"#;
    assert!(say(&mut server, line).is_empty());
    let delivered = &server.delivered[0].call;
    let Operation::CallTool(tool) = &delivered.operation else { panic!("{delivered:?}") };
    assert_eq!(
        (tool.name.as_ref(), tool.arguments.get()),
        ("echo", r#"{ "n":12345678901234567890123, "s":"\ud83d" }"#)
    );
    assert_eq!((delivered.terms.wants_progress, delivered.terms.timeout), (true, Some(Duration::from_secs(60))));
    let id = delivered.id;
    server.advance(Duration::from_millis(71));
    let answer = bodies(&server.resolve(id, Ok(Reply::Tool(ToolResult::text("héllo ✓ 𝄞")))));
    let expected = json!({"type": "tool/call/resp", "req_id": "c", "data": {
            "success": true, "tool_name": "echo", "data": {"value": "héllo ✓ 𝄞"}, "summary": null, "truncated": false,
            "exit_code": null, "error": null, "error_code": null, "duration_ms": 71, "events": []},
        "created_at": 1_767_225_600.071});
    assert_eq!(answer, [expected]);
    assert!(server.resolve(id, Ok(Reply::Tool(ToolResult::text("again")))).is_empty(), "only once");
}

#[test]
fn every_failure_has_its_code() {
    let cases = [
        (FailureKind::UnknownTool, "unknown_tool", false),
        (FailureKind::Denied, "tool_denied", false),
        (FailureKind::InvalidArguments, "tool_error", false),
        (FailureKind::ToolFailed, "tool_error", true),
        (FailureKind::TimedOut, "timeout", true),
        (FailureKind::Busy, "runtime_error", true),
        (FailureKind::Cancelled, "runtime_error", true),
        (FailureKind::Stopping, "runtime_error", true),
        (FailureKind::UpstreamLost, "runtime_error", true),
        (FailureKind::UpstreamError, "runtime_error", true),
        (FailureKind::Internal, "runtime_error", true),
    ];
    let mut server = open(server_setup());
    for (kind, code, retryable) in cases {
        say(&mut server, &call("c"));
        let id = server.delivered.pop_front().unwrap().call.id;
        let failure = Failure { data: Some(raw("[1]".into())), ..Failure::new(kind, "kaput") };
        let answer = bodies(&server.resolve(id, Err(failure)));
        let mut detail = json!({"reason": kind.word(), "data": [1]});
        if kind == FailureKind::InvalidArguments {
            detail["kind"] = json!("arguments");
        }
        let message = if kind == FailureKind::Busy { "too many requests" } else { "kaput" };
        let expected = json!({"type": "error", "req_id": "c", "code": code, "message": message, "detail": detail,
            "retryable": retryable, "capability_name": "tools"});
        assert_eq!(answer, [expected]);
    }
}

#[test]
fn events_are_numbered_from_zero_and_sent_only_with_streaming() {
    let mut server = open(server_setup());
    let streaming = call("s").replace("\"arguments\"", "\"streaming\":true,\"arguments\"");
    say(&mut server, &streaming);
    say(&mut server, &call("q"));
    let (streamed, quiet) = (server.delivered[0].call.id, server.delivered[1].call.id);
    let progress =
        |call, progress, total| Notice::Progress(call, Progress { progress, total, message: Some("step".to_owned()) });
    let log = |call, data: &str| Notice::Log(call, Log::from_upstream(Level::Warning, None, raw(data.to_owned())));
    let event = |seq: u64, kind: &str, data: Value| {
        vec![json!({"type": "tool/event", "req_id": "s", "kind": kind, "data": data, "seq": seq})]
    };
    let pct = |pct: u64| json!({"pct": pct, "message": "step"});
    let cases = [
        (progress(streamed, 2.0, Some(3.0)), event(0, "progress", pct(66))),
        (log(Some(streamed), r#""careful""#), event(1, "log", json!({"level": "warning", "message": "careful"}))),
        (log(Some(streamed), r#"{"a":1}"#), event(2, "log", json!({"level": "warning", "message": "{\"a\":1}"}))),
        (progress(streamed, 500.0, None), event(3, "progress", pct(100))),
        (progress(streamed, f64::NAN, Some(1.0)), event(4, "progress", pct(0))),
        (progress(quiet, 1.0, Some(2.0)), vec![]),
        (log(Some(quiet), "1"), vec![]),
        (log(None, "1"), vec![]),
        (progress(CallId(99), 1.0, None), vec![]),
        (Notice::ToolsChanged, vec![]),
    ];
    for (notice, expected) in cases {
        assert_eq!(bodies(&server.notify(notice)), expected);
    }
    server.resolve(streamed, Ok(Reply::Tool(ToolResult::default())));
    assert!(server.notify(progress(streamed, 3.0, None)).is_empty(), "no event may follow the final message");
}

#[test]
fn at_most_max_parallel_calls_are_delivered_and_the_rest_waits_in_order() {
    let mut server = open(ServerSetup { max_parallel: 2, max_in_flight: 3, ..server_setup() });
    for id in ["a", "b", "c", "d", "e"] {
        assert!(say(&mut server, &call(id)).is_empty());
    }
    assert_eq!((server.delivered.len(), server.door.in_flight().len()), (2, 5));
    let full = say(&mut server, &call("f"));
    assert_eq!(error_of(&full[0]), ("f".into(), "runtime_error".into(), String::new()));
    assert_eq!((&full[0]["retryable"], &full[0]["message"]), (&json!(true), &json!("too many requests")));
    // Core messages are not queued.
    assert_eq!(say(&mut server, r#"{"type":"ping","id":"p"}"#)[0]["type"], json!("pong"));
    let mut answered = Vec::new();
    while !server.delivered.is_empty() {
        assert!(server.delivered.len() <= 2);
        answered.extend(ids(&bodies(&server.resolve_next())));
    }
    assert_eq!(answered, ["a", "b", "c", "d", "e"]);
    assert!(server.door.in_flight().is_empty());
}

#[test]
fn a_call_that_takes_too_long_is_answered_and_cancelled_and_makes_room() {
    let mut server = open(ServerSetup { max_parallel: 1, ..server_setup() });
    let with_timeout =
        |id: &str, seconds: &str| call(id).replace("\"arguments\"", &format!("\"timeout\":{seconds},\"arguments\""));
    say(&mut server, &with_timeout("slow", "1"));
    say(&mut server, &with_timeout("waits-too-long", "1"));
    say(&mut server, &with_timeout("default", "0"));
    say(&mut server, &with_timeout("also-default", "-5"));
    assert_eq!(server.door.poll_timeout(), Some(Duration::from_secs(1)));
    let slow = server.delivered[0].call.id;
    assert!(server.advance(Duration::from_millis(999)).is_empty());
    let late = bodies(&server.advance(Duration::from_millis(1)));
    assert_eq!(ids(&late), ["slow", "waits-too-long"]);
    let expected = json!({"type": "error", "req_id": "slow", "code": "timeout", "message": "no result within 1 s",
        "detail": {"reason": "timed_out"}, "retryable": true, "capability_name": "tools"});
    assert_eq!(late[0], expected);
    assert_eq!(server.cancelled, [slow], "a queued call must not be cancelled at the driver");
    assert_eq!((server.delivered.len(), server.delivered[0].call.terms.timeout), (1, Some(Duration::from_secs(29))));
    assert_eq!(server.door.poll_timeout(), Some(Duration::from_secs(30)));
    assert!(server.resolve(slow, Ok(Reply::Tool(ToolResult::text("late")))).is_empty());
    assert_eq!(ids(&bodies(&server.advance(Duration::from_secs(29)))), ["default", "also-default"]);
    assert_eq!((server.door.poll_timeout(), server.door.in_flight().len()), (None, 0));
}

#[test]
fn absurd_timeouts_are_clamped() {
    let mut server = open(server_setup());
    say(&mut server, &call("c").replace("\"arguments\"", "\"timeout\":1e300,\"arguments\""));
    assert_eq!(server.delivered[0].call.terms.timeout, Some(Duration::from_secs(7 * 24 * 3600)));
}

#[test]
fn shutdown_gets_no_answer_and_accepted_calls_finish() {
    let cases = [
        ("", 10),
        (r#","timeout":3"#, 3),
        (r#","timeout":2.0"#, 2),
        (r#","timeout":-1"#, 0),
        (r#","timeout":1000000"#, 3600),
    ];
    for (field, seconds) in cases {
        let mut server = open(ServerSetup { max_parallel: 1, ..server_setup() });
        say(&mut server, &call("running"));
        say(&mut server, &call("queued"));
        assert!(say(&mut server, &format!(r#"{{"type":"shutdown","id":"s"{field}}}"#)).is_empty());
        assert_eq!(server.closed, Some(Duration::from_secs(seconds)));
        for line in [r#"{"type":"ping","id":"late"}"#, "garbage", HELLO] {
            assert!(say(&mut server, line).is_empty());
        }
        assert!(server.bytes(b"\xff").is_empty());
        assert_eq!(server.dropped.len(), 4);
        assert_eq!(ids(&bodies(&server.resolve_next())), ["running"]);
        assert_eq!(ids(&bodies(&server.resolve_next())), ["queued"]);
    }
}

#[test]
fn unfinished_calls_fail_including_queued_ones() {
    let mut server = open(ServerSetup { max_parallel: 1, ..server_setup() });
    for id in ["running", "queued", "last"] {
        say(&mut server, &call(id));
    }
    assert!(server.stop(Stop::Terminated).is_empty());
    let in_flight = server.door.in_flight();
    let mut answers = Vec::new();
    // Newest first, so that no queued call is delivered in between.
    for call in in_flight.into_iter().rev() {
        answers.extend(bodies(&server.resolve(call, Err(Failure::new(FailureKind::Stopping, "stopping")))));
    }
    assert_eq!(ids(&answers), ["last", "queued", "running"]);
    assert_eq!((server.delivered.len(), server.door.in_flight().len()), (1, 0));
}

#[test]
fn multi_line_json_is_written_on_one_line() {
    let mut server = open(server_setup());
    say(&mut server, &call("c"));
    let id = server.delivered[0].call.id;
    let pretty = raw("{\r\n  \"a\": \"é\\n\"\n}".to_owned());
    let lines = server.resolve(id, Ok(Reply::Tool(ToolResult::structured(pretty))));
    assert_eq!(body(&lines[0])["data"]["data"], json!({"a": "é\n"}));
}
