//! Tests of calls that continue as tasks, in both forms: the core of 2025-11-25 and the extension of 2026-07-28.

use std::time::Duration;

use gladhand_core::operations::{CallId, FailureKind, Notice, Progress, Question, QuestionId, TaskWish};
use gladhand_core::operations::{Failure, Reply, ToolResult};
use gladhand_dialects::Server as _;
use gladhand_dialects::{Lane, Party, Stop};
use serde_json::json;

use crate::questions::{EVERYTHING, answer, ask, delivered, form};
use crate::*;

const MINUTES: Duration = Duration::from_secs(60);
const RELATED: &str = "io.modelcontextprotocol/related-task";
const EXTENSION: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

pub(crate) fn with_tasks(mut setup: ServerSetup) -> TestServer {
    setup.menu.tasks = true;
    TestServer::pinned(&DIALECT, setup).holding()
}

/// A session of 2025-11-25 with a client that declares all capabilities for questions.
pub(crate) fn session(setup: ServerSetup) -> TestServer {
    let mut server = with_tasks(setup);
    let opening = initialize("2025-11-25");
    server.line(&opening.replace(r#""capabilities":{}"#, &format!(r#""capabilities":{EVERYTHING}"#)));
    server.line(INITIALIZED);
    server
}

pub(crate) fn legacy_call(id: &str, task: &str) -> String {
    request(id, "tools/call", &format!(r#"{{{ECHO},"task":{task}}}"#))
}

/// A request of 2026-07-28 that declares the extension.
pub(crate) fn extended(id: &str, method: &str, params: &str) -> String {
    stateless(id, method, params, "").replace(r#"Capabilities":{}"#, &format!(r#"Capabilities":{EXTENSION}"#))
}

/// Creates a task of 2025-11-25.
pub(crate) fn legacy_task(server: &mut TestServer, id: &str) -> (CallId, String) {
    let call = delivered(server, &legacy_call(id, "{}"));
    let line = only(server.continue_as_task(call));
    (call, line["result"]["task"]["taskId"].as_str().unwrap().to_owned())
}

/// Creates a task of the extension.
pub(crate) fn extended_task(server: &mut TestServer, id: &str) -> (CallId, String) {
    let call = delivered(server, &extended(id, "tools/call", ECHO));
    let line = only(server.continue_as_task(call));
    (call, line["result"]["taskId"].as_str().unwrap().to_owned())
}

pub(crate) fn about(id: &str, method: &str, task: &str) -> String {
    request(id, method, &format!(r#"{{"taskId":"{task}"}}"#))
}

pub(crate) fn get(server: &mut TestServer, task: &str) -> Value {
    only(server.line(&extended("99", "tasks/get", &format!(r#""taskId":"{task}""#))))["result"].take()
}

/// The result of the line with this id.
fn result_of(lines: &[String], id: u64) -> Value {
    let mut lines = lines.iter().map(|line| value(line)).filter(|line| line["id"] == id);
    let line = lines.next().unwrap();
    assert!(lines.next().is_none() && line["error"].is_null(), "{line}");
    line["result"].clone()
}

fn failed() -> Outcome {
    Ok(Reply::Tool(ToolResult::failure("no luck")))
}

#[test]
fn a_task_is_requested_only_if_agreed() {
    let wish = |server: &mut TestServer, line: &str| {
        delivered(server, line);
        server.delivered.back().unwrap().call.terms.task
    };
    assert_eq!(wish(&mut session(server_setup()), &legacy_call("1", "{}")), TaskWish::Only);
    assert_eq!(wish(&mut session(server_setup()), &echo("1")), TaskWish::Never);
    assert_eq!(wish(&mut open("2025-11-25").holding(), &legacy_call("1", "{}")), TaskWish::Never);
    assert_eq!(wish(&mut open("2025-06-18").holding(), &legacy_call("1", "{}")), TaskWish::Never);
    assert_eq!(wish(&mut with_tasks(server_setup()), &extended("1", "tools/call", ECHO)), TaskWish::Able);
    assert_eq!(wish(&mut server().holding(), &extended("1", "tools/call", ECHO)), TaskWish::Never);
    let undeclared = stateless("1", "tools/call", &format!(r#"{ECHO},"task":{{"ttl":1}}"#), "");
    assert_eq!(wish(&mut with_tasks(server_setup()), &undeclared), TaskWish::Never);
    for bad in ["1", "[]", r#"{"ttl":"long"}"#, r#"{"ttl":-1}"#] {
        assert_eq!(error(session(server_setup()).line(&legacy_call("1", bad))).1, -32602, "{bad}");
    }
}

#[test]
fn a_task_is_made_polled_and_its_result_fetched() {
    let mut server = session(server_setup());
    let call = delivered(&mut server, &legacy_call("1", r#"{"ttl":60000}"#));
    let line = only(server.continue_as_task(call));
    let task = &line["result"]["task"];
    let id = task["taskId"].as_str().unwrap();
    let began = "2026-01-01T00:00:00.000Z";
    let expected = json!({"taskId": id, "status": "working", "createdAt": began, "lastUpdatedAt": began, "ttl": 60000, "pollInterval": 500});
    assert_eq!((&line["id"], &line["result"]), (&json!(1), &json!({"task": expected})));
    assert!(server.door.in_flight().is_empty(), "its request must be answered");
    assert_eq!(only(server.line(&about("2", "tasks/get", id)))["result"], expected);

    // Several requests wait; one of them is cancelled.
    for waiter in ["3", "4", "5"] {
        assert_eq!(server.line(&about(waiter, "tasks/result", id)), NOTHING);
    }
    assert_eq!(server.line(&cancel("4")), NOTHING);
    assert!(server.cancelled.is_empty() && server.dropped.is_empty(), "the task must continue");
    server.advance(Duration::from_millis(1500));
    let lines = server.resolve_next();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let told = value(&lines[0]);
    assert_eq!(
        (&told["method"], &told["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("completed"))
    );
    assert_eq!(told["params"]["lastUpdatedAt"], "2026-01-01T00:00:01.500Z");
    let expected = json!({"content": [{"type": "text", "text": "hi"}], "_meta": {RELATED: {"taskId": id}}});
    assert_eq!((result_of(&lines, 3), result_of(&lines, 5)), (expected.clone(), expected.clone()));
    assert_eq!(only(server.line(&about("6", "tasks/result", id)))["result"], expected, "the result must be kept");
}

#[test]
fn an_ended_task_has_its_final_state() {
    for (outcome, status, is_error) in [
        (failed(), "failed", false),
        (Err(Failure::unknown_tool("echo")), "failed", true),
        (Err(Failure::new(FailureKind::Internal, "broken")), "failed", true),
    ] {
        let mut server = session(server_setup());
        let (call, id) = legacy_task(&mut server, "1");
        server.resolve(call, outcome);
        assert_eq!(only(server.line(&about("2", "tasks/get", &id)))["result"]["status"], status);
        let line = only(server.line(&about("3", "tasks/result", &id)));
        assert_eq!((line["error"].is_object(), line["result"]["isError"] == true), (is_error, !is_error));
        assert_eq!(error(server.line(&about("4", "tasks/cancel", &id))).1, -32602, "an ended task cannot be cancelled");
    }
    for (outcome, status, member) in
        [(failed(), "completed", "result"), (Err(Failure::new(FailureKind::Internal, "broken")), "failed", "error")]
    {
        let mut server = with_tasks(server_setup());
        let (call, id) = extended_task(&mut server, "1");
        assert_eq!(server.resolve(call, outcome), NOTHING);
        let got = get(&mut server, &id);
        assert_eq!((&got["status"], got[member].is_object()), (&json!(status), true), "{got}");
        assert_ne!(got["result"].is_object(), got["error"].is_object());
        assert!(got["result"]["_meta"][RELATED].is_null());
    }
}

#[test]
fn the_extension_writes_tasks_flat() {
    let mut server = with_tasks(server_setup());
    let call = delivered(&mut server, &extended("1", "tools/call", ECHO));
    let created = only(server.continue_as_task(call))["result"].take();
    let id = created["taskId"].as_str().unwrap();
    let info = json!({"io.modelcontextprotocol/serverInfo": {"name": "gladhand", "version": "0.0.0-test"}});
    let began = "2026-01-01T00:00:00.000Z";
    let mut expected = json!({
        "resultType": "task", "taskId": id, "status": "working", "createdAt": began, "lastUpdatedAt": began,
        "ttlMs": 1800000, "pollIntervalMs": 500, "_meta": info,
    });
    assert_eq!(created, expected);
    expected["resultType"] = json!("complete");
    assert_eq!(get(&mut server, id), expected);
    server.resolve_next();
    let got = get(&mut server, id);
    assert_eq!((&got["status"], &got["result"]["content"][0]["text"]), (&json!("completed"), &json!("hi")));
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(error(server.line(&extended("2", method, &format!(r#""taskId":"{id}""#)))).1, -32601);
    }
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = format!(r#""taskId":"{id}","inputResponses":{{}}"#);
        assert_eq!(error(server.line(&stateless("2", method, &params, ""))).1, -32021, "{method}");
        assert_eq!(error(server.line(&extended("2", method, r#""taskId":"none","inputResponses":{}"#))).1, -32602);
    }
    assert_eq!(error(server.line(&extended("2", "tasks/update", &format!(r#""taskId":"{id}""#)))).1, -32602);
}

#[test]
fn a_cancelled_task_ends_and_answers_waiting_requests() {
    let mut server = session(server_setup());
    let (call, id) = legacy_task(&mut server, "1");
    server.line(&about("2", "tasks/result", &id));
    let lines = server.line(&about("3", "tasks/cancel", &id));
    assert_eq!((result_of(&lines, 3)["status"].clone(), server.cancelled.clone()), (json!("cancelled"), vec![call]));
    let waiter = lines.iter().map(|line| value(line)).find(|line| line["id"] == 2).unwrap();
    assert_eq!(waiter["error"]["data"]["reason"], "cancelled");
    assert_eq!(server.resolve(call, failed()), NOTHING, "a late outcome must be ignored");
    assert!(only(server.line(&about("4", "tasks/result", &id)))["error"].is_object());

    let mut server = with_tasks(server_setup());
    let (call, id) = extended_task(&mut server, "1");
    for _ in 0..2 {
        let acknowledged = only(server.line(&extended("2", "tasks/cancel", &format!(r#""taskId":"{id}""#))));
        let members: Vec<_> = acknowledged["result"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            (members, acknowledged["result"]["resultType"].clone()),
            (vec!["_meta".into(), "resultType".into()], json!("complete"))
        );
    }
    assert_eq!((get(&mut server, &id)["status"].clone(), server.cancelled.clone()), (json!("cancelled"), vec![call]));
}

#[test]
fn a_task_asks_in_requests_that_name_it() {
    let mut server = session(server_setup());
    let (call, id) = legacy_task(&mut server, "1");
    let lines = ask(&mut server, call, 1, form());
    let (told, asked) = (value(&lines[0]), value(&lines[1]));
    assert_eq!(told["params"]["status"], "input_required");
    assert_eq!(
        (&asked["method"], &asked["params"]["_meta"][RELATED]["taskId"]),
        (&json!("elicitation/create"), &json!(id))
    );
    assert_eq!(only(server.line(&about("2", "tasks/get", &id)))["result"]["status"], "input_required");
    let lines = server.line(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"decline"}}}}"#, asked["id"]));
    assert_eq!(only(lines)["params"]["status"], "working");
    assert_eq!(answer(&mut server), (1, Ok(json!({"action": "decline"}))));
    // Open questions are withdrawn when the task is cancelled.
    let asked = value(&ask(&mut server, call, 2, form())[1]);
    let lines = server.line(&about("3", "tasks/cancel", &id));
    assert_eq!(value(&lines[0])["params"]["requestId"], asked["id"]);
}

#[test]
fn over_http_a_task_asks_on_a_waiting_exchange() {
    let mut server = session(server_setup());
    server.lane = Lane(1);
    let (call, id) = legacy_task(&mut server, "1");
    server.lane = Lane::MAIN;
    assert_eq!(
        only(ask(&mut server, call, 1, form()))["params"]["status"],
        "input_required",
        "no request waits for the task yet"
    );
    server.lane = Lane(2);
    let asked = only(server.line(&about("2", "tasks/result", &id)));
    assert_eq!((&asked["method"], server.lanes.as_slice()), (&json!("elicitation/create"), [Lane(2)].as_slice()));
    let second = value(&ask(&mut server, call, 2, Question::roots())[1]);
    assert_eq!((&second["method"], server.lanes.as_slice()), (&json!("roots/list"), [Lane::MAIN, Lane(2)].as_slice()));
    server.handle_lane_closed(Lane(1));
    server.handle_lane_closed(Lane(2));
    assert!(server.cancelled.is_empty(), "a task must continue without a waiting request");
    let lines = server.resolve_next();
    assert_eq!(lines.len(), 4, "expected two withdrawn questions, a state and an answer");
    assert_eq!((value(&lines[3])["id"].clone(), server.lanes[3]), (json!(2), Lane(2)));
}

#[test]
fn a_task_of_the_extension_asks_when_polled() {
    let mut server = with_tasks(server_setup());
    let (call, id) = extended_task(&mut server, "1");
    let questions = vec![
        (QuestionId(1), form().named("a")),
        (QuestionId(2), form().named("b")),
        (QuestionId(3), Question::roots()),
    ];
    assert_eq!(server.ask(call, questions), NOTHING);
    assert_eq!(answer(&mut server), (3, Err(FailureKind::MissingCapability)), "the client declared no roots");
    let got = get(&mut server, &id);
    assert_eq!(
        (&got["status"], &got["inputRequests"]["a"]["method"]),
        (&json!("input_required"), &json!("elicitation/create"))
    );
    assert!(got["requestState"].is_null());
    let mut update = |answers: &str| {
        let line = extended("2", "tasks/update", &format!(r#""taskId":"{id}","inputResponses":{answers}"#));
        let result = only(server.line(&line))["result"].take();
        assert_eq!(result["resultType"], "complete");
        get(&mut server, &id)
    };
    assert_eq!(update(r#"{"unknown":{},"a":1}"#), got);
    let partly = update(r#"{"a":{"action":"accept"}}"#);
    assert_eq!(partly["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(update(r#"{"a":{},"b":{"action":"cancel"}}"#)["status"], "working");
    assert_eq!(server.answered.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn listeners_get_the_state_of_a_task_of_the_extension() {
    let mut server = with_tasks(server_setup());
    server.principal = Some("alice".to_owned());
    let (call, id) = extended_task(&mut server, "1");
    let (_, other) = extended_task(&mut server, "2");
    let listen = |server: &mut TestServer, line: String| only(server.line(&line))["params"]["notifications"].take();
    let filter = format!(r#""notifications":{{"taskIds":["{id}","none"]}}"#);
    server.lane = Lane(5);
    assert_eq!(listen(&mut server, extended("3", "subscriptions/listen", &filter)), json!({"taskIds": [id]}));
    server.lane = Lane(6);
    assert_eq!(
        listen(&mut server, stateless("4", "subscriptions/listen", &filter, "")),
        json!({}),
        "the request did not declare the extension"
    );
    server.principal = None;
    assert_eq!(
        listen(&mut server, extended("5", "subscriptions/listen", &filter)),
        json!({}),
        "the task belongs to another principal"
    );
    server.lane = Lane::MAIN;
    let told = only(ask(&mut server, call, 1, form().named("a")));
    assert_eq!((&told["method"], server.lanes.as_slice()), (&json!("notifications/tasks"), [Lane(5)].as_slice()));
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3);
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!(id), &json!("input_required")));
    assert!(told["params"]["inputRequests"]["a"].is_object());
    server.principal = Some("alice".to_owned());
    assert_eq!(server.line(&extended("6", "tasks/cancel", &format!(r#""taskId":"{other}""#))).len(), 1);
    let told = only(server.resolve(call, failed()));
    assert_eq!((&told["params"]["status"], &told["params"]["result"]["isError"]), (&json!("completed"), &json!(true)));
    let bad = extended("7", "subscriptions/listen", r#""notifications":{"taskIds":"x"}"#);
    assert_eq!(error(server.line(&bad)).1, -32602);
}

#[test]
fn a_call_may_ask_first_and_continue_as_a_task_later() {
    let mut server = with_tasks(server_setup());
    let call = delivered(&mut server, &extended("1", "tools/call", ECHO));
    let asked = only(ask(&mut server, call, 1, form().named("a")));
    assert_eq!(asked["result"]["resultType"], "input_required");
    assert_eq!(server.continue_as_task(call), NOTHING, "a parked call has no request to answer");
    let retry = format!(
        r#"{ECHO},"inputResponses":{{"a":{{"action":"accept"}}}},"requestState":{}"#,
        asked["result"]["requestState"]
    );
    assert_eq!(server.line(&extended("2", "tools/call", &retry)), NOTHING);
    let created = only(server.continue_as_task(call));
    assert_eq!((&created["id"], &created["result"]["resultType"]), (&json!(2), &json!("task")));
    assert!(created["result"]["requestState"].is_null() && created["result"]["inputRequests"].is_null());
    server.resolve_next();
    assert_eq!(get(&mut server, created["result"]["taskId"].as_str().unwrap())["status"], "completed");
}

#[test]
fn a_task_belongs_to_its_principal() {
    let mut server = session(server_setup());
    server.principal = Some("alice".to_owned());
    let (_, old) = legacy_task(&mut server, "1");
    let (_, new) = extended_task(&mut server, "2");
    assert_eq!(error(server.line(&about("3", "tasks/get", &new))).1, -32602, "each form must have its own tasks");
    assert_eq!(error(server.line(&extended("3", "tasks/get", &format!(r#""taskId":"{old}""#)))).1, -32602);
    for other in [Some("bob".to_owned()), None] {
        server.principal = other;
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            assert_eq!(error(server.line(&about("3", method, &old))).1, -32602);
        }
        assert_eq!(error(server.line(&extended("3", "tasks/cancel", &format!(r#""taskId":"{new}""#)))).1, -32602);
        assert_eq!(only(server.line(&request("4", "tasks/list", "{}")))["result"], json!({"tasks": []}));
    }
    assert!(server.cancelled.is_empty());
}

#[test]
fn a_task_of_the_extension_needs_the_scopes_of_its_call() {
    let mut server = with_tasks(server_setup());
    (server.principal, server.scopes) = (Some("alice".to_owned()), Some("ops talk".into()));
    let call = delivered(&mut server, &extended("1", "tools/call", ECHO));
    server.delivered[0].call.terms.record.as_ref().expect("a kept result must have a scope record").add(["ops"]);
    let id = only(server.continue_as_task(call))["result"]["taskId"].as_str().unwrap().to_owned();
    let about = |method: &str| extended("2", method, &format!(r#""taskId":"{id}""#));
    let listen = extended("3", "subscriptions/listen", &format!(r#""notifications":{{"taskIds":["{id}"]}}"#));
    for fewer in [Some("talk".into()), None] {
        server.scopes = fewer;
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let refused = only(server.line(&about(method)));
            let data = json!({"reason": "denied", "detail": {"scope": "ops"}});
            assert_eq!(refused["error"]["data"], data, "{method}: {refused}");
        }
        assert_eq!(only(server.line(&listen))["params"]["notifications"], json!({}));
    }
    server.scopes = Some("ops".into());
    server.resolve_next();
    assert_eq!(only(server.line(&about("tasks/get")))["result"]["status"], "completed");
}

#[test]
fn tasks_are_listed_in_pages_even_if_some_expire() {
    let mut setup = server_setup();
    (setup.menu.tasks, setup.page_size) = (true, 2);
    let mut server = opened(TestServer::pinned(&DIALECT, setup).holding(), "2025-11-25");
    let short = delivered(&mut server, &legacy_call("0", r#"{"ttl":1000}"#));
    server.continue_as_task(short);
    let ids: Vec<_> = (1..=4).map(|id| legacy_task(&mut server, &id.to_string()).1).collect();
    let mut page = |cursor: &str| -> (Vec<Value>, Value) {
        let result = only(server.line(&request("9", "tasks/list", cursor)))["result"].take();
        server.advance(Duration::from_secs(1));
        (
            result["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()).collect(),
            result["nextCursor"].clone(),
        )
    };
    let (first, next) = page("{}");
    assert_eq!(first[1], ids[0].as_str());
    let (second, next) = page(&format!(r#"{{"cursor":{next}}}"#));
    assert_eq!(second, [ids[1].as_str(), ids[2].as_str()], "the first task has expired");
    let (third, next) = page(&format!(r#"{{"cursor":{next}}}"#));
    assert_eq!((third, next), (vec![json!(ids[3])], Value::Null));
    assert_eq!(error(server.line(&request("9", "tasks/list", r#"{"cursor":"x"}"#))).1, -32602);
}

#[test]
fn a_task_is_removed_after_its_time_to_live() {
    let mut server = session(server_setup());
    let ttl = |server: &mut TestServer, wish: &str| {
        let call = delivered(server, &legacy_call("1", wish));
        let line = only(server.continue_as_task(call));
        (
            line["result"]["task"]["ttl"].as_u64().unwrap(),
            line["result"]["task"]["taskId"].as_str().unwrap().to_owned(),
            call,
        )
    };
    let (long, ..) = ttl(&mut server, r#"{"ttl":1e300}"#);
    let (default, ..) = ttl(&mut server, r#"{"ttl":null}"#);
    let (short, id, call) = ttl(&mut server, r#"{"ttl":0}"#);
    assert_eq!((long, default, short), (86_400_000, 1_800_000, 1000));
    server.line(&about("2", "tasks/result", &id));
    assert_eq!(
        error(server.advance(Duration::from_secs(1))),
        (json!(2), -32602),
        "a waiting request must get an error"
    );
    assert_eq!(server.cancelled, [call]);
    assert_eq!(error(server.line(&about("3", "tasks/get", &id))).1, -32602);
    server.advance(30 * MINUTES);
    assert_eq!(only(server.line(&request("4", "tasks/list", "{}")))["result"]["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn progress_of_a_task_is_reported_until_it_ends_in_a_session() {
    let progress = |step: f64| Progress { progress: step, total: None, message: None };
    let mut server = session(server_setup());
    server.lane = Lane(3);
    let call = delivered(
        &mut server,
        &request("1", "tools/call", &format!(r#"{{{ECHO},"task":{{}},"_meta":{{"progressToken":7}}}}"#)),
    );
    server.continue_as_task(call);
    assert_eq!(only(server.notify(Notice::Progress(call, progress(1.0))))["params"]["progressToken"], 7);
    assert_eq!(server.lanes, [Lane::MAIN], "the exchange of the call is closed");
    server.resolve_next();
    assert_eq!(server.notify(Notice::Progress(call, progress(2.0))), NOTHING);

    let mut server = with_tasks(server_setup());
    let line = extended("1", "tools/call", ECHO).replace(r#""_meta":{"#, r#""_meta":{"progressToken":7,"#);
    let call = delivered(&mut server, &line);
    server.continue_as_task(call);
    assert_eq!(server.notify(Notice::Progress(call, progress(1.0))), NOTHING);
}

#[test]
fn tasks_are_bounded() {
    let mut server = session(server_setup());
    for at in 0..1024 {
        legacy_task(&mut server, &at.to_string());
    }
    assert_eq!(error(server.line(&legacy_call("1", "{}"))), (json!(1), -32603));
    delivered(&mut server, &extended("2", "tools/call", ECHO));
    assert_eq!(
        server.delivered.back().unwrap().call.terms.task,
        TaskWish::Never,
        "the call must still work without a task"
    );
}

#[test]
fn one_peer_cannot_use_all_tasks() {
    let mut server = with_tasks(server_setup());
    let mut wish = |party| {
        server.party = Some(Party(party));
        let call = delivered(&mut server, &extended("1", "tools/call", ECHO));
        let wish = server.delivered.back().unwrap().call.terms.task;
        server.continue_as_task(call);
        wish
    };
    for _ in 0..512 {
        assert_eq!(wish(1), TaskWish::Able);
    }
    assert_eq!((wish(1), wish(2)), (TaskWish::Never, TaskWish::Able));
}

#[test]
fn tasks_end_with_the_session() {
    let mut server = session(server_setup());
    let (working, id) = legacy_task(&mut server, "1");
    let (ended, _) = legacy_task(&mut server, "2");
    server.resolve(ended, failed());
    let late = delivered(&mut server, &legacy_call("3", "{}"));
    server.line(&about("4", "tasks/result", &id));
    assert_eq!(error(server.stop(Stop::InputClosed)), (json!(4), -32603));
    assert_eq!((server.cancelled.clone(), server.door.in_flight()), (vec![working], vec![late]));
    assert_eq!(server.continue_as_task(late), NOTHING, "a closing session must not create a task");
    assert_eq!(server.resolve(late, failed()).len(), 1);
    assert_eq!((server.door.in_flight().len(), server.door.held_bytes(), server.door.poll_timeout()), (0, 0, None));
}
