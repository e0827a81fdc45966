//! Tests of calls that become tasks.

use std::time::Duration;

use gladhand_core::negotiation::Capability;
use gladhand_core::operations::{FailureKind, Operation, Reply};
use gladhand_core::wire::json;
use gladhand_dialects::ClientSetup;
use gladhand_dialects::testing::{bare_call, client_setup};

use crate::client::{EVERYTHING, Hand, open_client, opened_with, result};
use crate::*;

const OLD_TASKS: &str = r#"{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#;

fn with_extension() -> Hand {
    let names = ["elicitation", "extensions", "extensions.io.modelcontextprotocol/tasks"];
    let provides = names.map(|name| (Capability::named(name), None)).to_vec();
    opened_with(ClientSetup { provides, ..client_setup(STATELESS) }, EVERYTHING)
}

fn task(id: u64, kind: &str, status: &str) -> String {
    result(&id.to_string(), &format!(r#"{{"resultType":"{kind}","taskId":"k","pollIntervalMs":50,{status}}}"#))
}

#[test]
fn a_task_is_polled_until_it_has_ended() {
    let mut hand = with_extension();
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.hears(&task(2, "task", r#""status":"working""#));
    assert_eq!(hand.sent, NOTHING);
    assert_eq!(hand.take_notices().len(), 1, "the caller must be notified of the task");
    assert_eq!(hand.wakes(), Duration::from_millis(50));
    let look = hand.only_sent();
    assert_eq!((&look["method"], &look["params"]["taskId"]), (&"tasks/get".into(), &"k".into()));
    hand.hears(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#);
    assert_eq!(hand.take_notices().len(), 1, "a task must keep its progress token");
    hand.hears(&task(3, "complete", r#""status":"working""#));
    hand.wakes();
    hand.take_sent();
    hand.hears(&task(4, "complete", r#""status":"completed","result":{"content":[{"type":"text","text":"x"}]}"#));
    let Ok(Reply::Tool(result)) = hand.take_outcome(1) else { panic!() };
    assert_eq!(result.joined_text(), "x");
    assert!(!hand.has_deadline());
}

#[test]
fn the_final_states_of_a_task_are_distinguished() {
    for (status, kind) in [
        (r#""status":"failed","error":{"code":-32602,"message":"unknown tool"}"#, FailureKind::UnknownTool),
        (r#""status":"failed""#, FailureKind::UpstreamError),
        (r#""status":"cancelled""#, FailureKind::Cancelled),
        (r#""status":"completed""#, FailureKind::UpstreamError),
    ] {
        let mut hand = with_extension();
        hand.calls(1, bare_call("t"));
        hand.hears(&task(2, "task", r#""status":"working""#));
        hand.wakes();
        hand.hears(&task(3, "complete", status));
        assert_eq!(hand.take_outcome(1).unwrap_err().kind, kind, "{status}");
    }
    let mut hand = open_client(STATELESS);
    hand.calls(1, bare_call("t"));
    hand.hears(&task(2, "task", r#""status":"working""#));
    assert!(hand.take_outcome(1).is_err(), "the extension was not declared");
}

#[test]
fn the_questions_of_a_task_are_answered_once() {
    let asking = r#""status":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{}}}"#;
    let mut hand = with_extension();
    hand.calls(1, bare_call("t"));
    hand.take_sent();
    hand.hears(&task(2, "task", asking));
    let (id, ..) = hand.take_asked().remove(0);
    hand.answers(id, Ok(json::raw(r#"{"action":"accept"}"#.to_owned())));
    let update = hand.only_sent();
    assert_eq!((&update["method"], &update["params"]["taskId"]), (&"tasks/update".into(), &"k".into()));
    assert_eq!(update["params"]["inputResponses"]["who"]["action"], "accept");
    hand.hears(&result("3", r#"{"resultType":"complete"}"#));
    hand.wakes();
    hand.hears(&task(4, "complete", asking));
    assert!(hand.take_asked().is_empty(), "a repeated question must not be asked again");
    hand.wakes();
    hand.hears(&task(5, "complete", r#""status":"completed","result":{"content":[]}"#));
    assert!(hand.take_outcome(1).is_ok());
}

#[test]
fn a_task_with_too_many_questions_is_cancelled() {
    let mut hand = with_extension();
    hand.calls(1, bare_call("t"));
    let mut id = 2;
    for round in 0..17 {
        let asking = format!(r#""k{round}":{{"method":"elicitation/create","params":{{}}}}"#);
        let kind = if round == 0 { "task" } else { "complete" };
        hand.hears(&task(id, kind, &format!(r#""status":"input_required","inputRequests":{{{asking}}}"#)));
        if let Some((question, ..)) = hand.take_asked().pop() {
            hand.answers(question, Ok(json::raw(r#"{"action":"accept"}"#.to_owned())));
            hand.hears(&result(&(id + 1).to_string(), r#"{"resultType":"complete"}"#));
            hand.wakes();
        }
        id += 2;
    }
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::UpstreamError);
    assert_eq!(hand.take_sent().last().unwrap()["method"], "tasks/cancel");
}

#[test]
fn a_cancelled_call_cancels_its_task() {
    let mut hand = with_extension();
    hand.calls(1, bare_call("t"));
    hand.hears(&task(2, "task", r#""status":"working""#));
    hand.take_sent();
    hand.cancels(1);
    let sent = hand.only_sent();
    assert_eq!((&sent["method"], &sent["params"]["taskId"]), (&"tasks/cancel".into(), &"k".into()));
    assert_eq!(hand.take_outcome(1).unwrap_err().kind, FailureKind::Cancelled);
    assert!(!hand.has_deadline());
}

#[test]
fn a_tool_that_requires_a_task_is_called_as_one() {
    let mut hand = opened_with(client_setup("2025-11-25"), OLD_TASKS);
    hand.calls(1, Operation::ListTools);
    hand.hears(&result("2", r#"{"tools":[{"name":"slow","execution":{"taskSupport":"required"}},{"name":"quick"}]}"#));
    hand.take_sent();
    hand.calls(2, bare_call("slow"));
    assert_eq!(hand.only_sent()["params"]["task"], serde_json::json!({}));
    hand.hears(&result("3", r#"{"task":{"taskId":"k","status":"working"}}"#));
    let fetch = hand.only_sent();
    assert_eq!((&fetch["method"], &fetch["params"]["taskId"]), (&"tasks/result".into(), &"k".into()));
    hand.hears(&result("4", r#"{"content":[]}"#));
    assert!(hand.take_outcome(2).is_ok());
    hand.calls(3, bare_call("quick"));
    assert!(hand.only_sent()["params"].get("task").is_none());
    hand.calls(4, bare_call("slow"));
    hand.hears(&result("6", r#"{"task":{"taskId":"k"}}"#));
    hand.take_sent();
    hand.cancels(4);
    assert_eq!(hand.only_sent()["method"], "tasks/cancel");
}

#[test]
fn an_unlisted_tool_that_requires_a_task_is_detected() {
    let mut hand = opened_with(client_setup("2025-11-25"), OLD_TASKS);
    hand.calls(1, bare_call("slow"));
    hand.hears(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"task required"}}"#);
    assert_eq!(hand.take_sent()[1]["method"], "tools/list");
    hand.hears(&result("3", r#"{"tools":[{"name":"slow","execution":{"taskSupport":"required"}}]}"#));
    assert_eq!(hand.only_sent()["params"]["task"], serde_json::json!({}));
}
