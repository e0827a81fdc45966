//! Tests of questions during a call in revisions with a handshake, where they are requests of the server.

use gladhand_core::operations::{CallId, FailureKind, Notice, Progress, Question, QuestionId};
use gladhand_dialects::{Lane, Stop};
use serde_json::json;

use crate::*;

/// A session with a client that declares these capabilities. Calls wait for the test.
pub(crate) fn open_with(version: &str, capabilities: &str) -> TestServer {
    let mut server = server().holding();
    let line = initialize(version).replace(r#""capabilities":{}"#, &format!(r#""capabilities":{capabilities}"#));
    assert_eq!(server.line(&line).len(), 1);
    assert_eq!(server.line(INITIALIZED), NOTHING);
    server
}

/// Sends a request that must be delivered without an answer, and returns its call.
pub(crate) fn delivered(server: &mut TestServer, line: &str) -> CallId {
    assert_eq!(server.line(line), NOTHING);
    server.delivered.back().unwrap().call.id
}

pub(crate) fn form() -> Question {
    Question::form("Who?", &json!({"type": "object", "properties": {"name": {"type": "string"}}}))
}

/// Asks one question and returns the sent lines.
pub(crate) fn ask(server: &mut TestServer, call: CallId, id: u64, question: Question) -> Vec<String> {
    server.ask(call, vec![(QuestionId(id), question)])
}

/// The only answer to a question: its result, or the kind of its failure.
pub(crate) fn answer(server: &mut TestServer) -> (u64, Result<Value, FailureKind>) {
    assert_eq!(server.answered.len(), 1, "{:?}", server.answered);
    let (question, answered) = server.answered.remove(0);
    (question.0, answered.map(|raw| value(raw.get())).map_err(|failure| failure.kind))
}

pub(crate) const EVERYTHING: &str =
    r#"{"roots":{},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}"#;

fn ok(id: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

#[test]
fn a_question_is_a_request_on_the_lane_of_its_call() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut server = open_with(version, EVERYTHING);
        server.lane = Lane(7);
        let call = delivered(&mut server, &echo("1"));
        server.lane = Lane::MAIN;
        for (question, method) in [
            (form(), "elicitation/create"),
            (Question::sample(&json!({"messages": [], "maxTokens": 1})), "sampling/createMessage"),
            (Question::roots(), "roots/list"),
        ] {
            let asked = only(ask(&mut server, call, 9, question));
            assert_eq!((server.lanes.as_slice(), &asked["method"]), ([Lane(7)].as_slice(), &json!(method)));
            assert!(server.answered.is_empty());
            assert_eq!(server.line(&ok(&asked["id"], r#"{"a":1}"#)), NOTHING);
            assert_eq!(answer(&mut server), (9, Ok(json!({"a": 1}))));
            server.line(&ok(&asked["id"], "{}"));
            assert_eq!((server.answered.len(), server.dropped.len()), (0, 1), "only the first response must count");
            server.dropped.clear();
        }
        assert_eq!(only(server.resolve_next())["id"], 1);
    }
}

#[test]
fn a_conversation_out_of_order_is_not_asked() {
    let used = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {}}]});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "toolUseId": "a", "content": []}]});
    let sample = |messages: &[&Value]| Question::sample(&json!({"messages": messages, "maxTokens": 1, "tools": []}));
    let mut server = open_with("2025-11-25", EVERYTHING);
    let call = delivered(&mut server, &echo("1"));
    for messages in [&[&used][..], &[&result], &[&result, &used]] {
        assert_eq!(ask(&mut server, call, 9, sample(messages)), NOTHING);
        assert_eq!(answer(&mut server), (9, Err(FailureKind::InvalidArguments)));
    }
    assert_eq!(ask(&mut server, call, 9, sample(&[&used, &result])).len(), 1);
}

#[test]
fn unagreed_questions_are_not_asked() {
    let url = || Question::elicit(&json!({"mode": "url", "url": "https://example.org", "message": "Go"}));
    let with_tools = || Question::sample(&json!({"messages": [], "maxTokens": 1, "tools": []}));
    for (version, declared, question, missing) in [
        ("2025-11-25", "{}", form(), "elicitation"),
        ("2025-11-25", "{}", Question::roots(), "roots"),
        ("2025-11-25", "{}", with_tools(), "sampling"),
        ("2025-11-25", r#"{"sampling":{}}"#, with_tools(), "sampling.tools"),
        ("2025-11-25", r#"{"elicitation":{}}"#, url(), "elicitation.url"),
        ("2025-11-25", r#"{"elicitation":{"url":{}}}"#, form(), "elicitation.form"),
        ("2025-06-18", r#"{"elicitation":{"url":{}}}"#, url(), "elicitation.url"),
        ("2025-03-26", r#"{"elicitation":{}}"#, form(), "elicitation"),
        ("2024-11-05", r#"{"elicitation":{}}"#, form(), "elicitation"),
    ] {
        let mut server = open_with(version, declared);
        let call = delivered(&mut server, &echo("1"));
        assert_eq!(ask(&mut server, call, 1, question), NOTHING, "{version} {declared}");
        let (_, answered) = server.answered.remove(0);
        let failure = answered.unwrap_err();
        assert_eq!(failure.kind, FailureKind::MissingCapability, "{version} {declared}");
        assert_eq!(value(failure.data.unwrap().get()), json!(missing), "{version} {declared}");
    }
}

#[test]
fn a_question_is_converted_to_the_revision() {
    let ask_params = |version: &str, declared: &str, question: &Question| -> Result<Value, FailureKind> {
        let mut server = open_with(version, declared);
        let call = delivered(&mut server, &echo("1"));
        let lines = ask(&mut server, call, 1, question.clone());
        if lines.is_empty() {
            return Err(answer(&mut server).1.unwrap_err());
        }
        Ok(only(lines)["params"].clone())
    };
    let fields = json!({
        "yes": {"type": "boolean", "default": true},
        "name": {"type": "string", "default": "x"},
        "color": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]},
    });
    let form = Question::form("?", &json!({"type": "object", "properties": fields}));
    let newest = json!({"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": fields}});
    assert_eq!(ask_params("2025-11-25", EVERYTHING, &form), Ok(newest));
    let older = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {
        "yes": {"type": "boolean", "default": true},
        "name": {"type": "string"},
        "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "g"]},
    }}});
    assert_eq!(ask_params("2025-06-18", EVERYTHING, &form), Ok(older));
    let several = Question::form("?", &json!({"type": "object", "properties": {"many": {"type": "array"}}}));
    assert_eq!(ask_params("2025-06-18", EVERYTHING, &several), Err(FailureKind::Unanswered));

    let page = json!({"mode": "url", "message": "?", "url": "https://example.org"});
    let minted = ask_params("2025-11-25", EVERYTHING, &Question::elicit(&page)).unwrap();
    assert_eq!((&minted["url"], minted["elicitationId"].as_str().map(str::len)), (&page["url"], Some(36)));
    let mut named = page;
    named["elicitationId"] = json!("mine");
    assert_eq!(ask_params("2025-11-25", EVERYTHING, &Question::elicit(&named)).unwrap(), named);

    let text = |text: &str| json!({"type": "text", "text": text});
    let sample = |content: Value| {
        Question::sample(
            &json!({"messages": [{"role": "user", "content": content}], "maxTokens": 1, "includeContext": "thisServer"}),
        )
    };
    let content = |version, declared, question| {
        ask_params(version, declared, &question).map(|params| params["messages"][0]["content"].clone())
    };
    assert_eq!(content("2025-06-18", EVERYTHING, sample(json!([text("a")]))), Ok(text("a")));
    assert_eq!(content("2025-06-18", EVERYTHING, sample(text("a"))), Ok(text("a")));
    let two = json!([text("a"), text("b")]);
    assert_eq!(content("2025-06-18", EVERYTHING, sample(two.clone())), Err(FailureKind::Unanswered));
    assert_eq!(content("2025-11-25", EVERYTHING, sample(two.clone())), Ok(two));
    let tool = json!([{"type": "tool_result", "toolUseId": "1", "content": []}]);
    assert_eq!(content("2024-11-05", EVERYTHING, sample(tool)), Err(FailureKind::MissingCapability));
    let context =
        |version, declared| ask_params(version, declared, &sample(text("a"))).unwrap()["includeContext"].clone();
    assert_eq!(context("2025-11-25", EVERYTHING), "thisServer");
    assert_eq!(context("2025-11-25", r#"{"sampling":{}}"#), Value::Null);
    assert_eq!(context("2025-06-18", r#"{"sampling":{}}"#), "thisServer");
}

#[test]
fn a_multi_line_question_is_sent_on_one_line() {
    let mut server = open_with("2025-11-25", EVERYTHING);
    let call = delivered(&mut server, &echo("1"));
    let params = gladhand_core::wire::json::raw("{\n \"message\": \"a\\nb\"\r\n}".to_owned());
    let asked = only(ask(&mut server, call, 1, Question { params, ..form() }));
    assert_eq!(asked["params"], json!({"message": "a\nb"}));
}

#[test]
fn an_error_or_an_invalid_result_fails_the_question() {
    let mut server = open_with("2025-11-25", EVERYTHING);
    let call = delivered(&mut server, &echo("1"));
    for ending in [r#""error":{"code":-1,"message":"no"}"#, r#""result":[]"#, r#""result":null"#] {
        let id = only(ask(&mut server, call, 1, form()))["id"].clone();
        server.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},{ending}}}"#));
        let failure = server.answered.remove(0).1.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unanswered, "{ending}");
        if ending.contains("error") {
            assert_eq!(failure.message, "no");
            assert_eq!(value(failure.data.unwrap().get()), json!({"code": -1, "message": "no"}));
        }
    }
}

#[test]
fn nothing_is_asked_before_the_session_is_open() {
    let mut server = server().holding();
    server.line(&initialize("2025-11-25").replace(r#""capabilities":{}"#, &format!(r#""capabilities":{EVERYTHING}"#)));
    let call = delivered(&mut server, &echo("1"));
    assert_eq!(ask(&mut server, call, 1, form()), NOTHING);
    assert_eq!(ask(&mut server, call, 2, Question::roots()), NOTHING);
    server.line(&ok(&json!(1), "{}"));
    assert_eq!((server.answered.len(), server.dropped.len()), (0, 1), "an unsent question cannot be answered");
    let asked: Vec<_> = server.line(INITIALIZED).iter().map(|line| value(line)["method"].clone()).collect();
    assert_eq!(asked, ["elicitation/create", "roots/list"]);
}

#[test]
fn questions_are_withdrawn_when_their_call_ends() {
    for cancelled in [false, true] {
        let mut server = open_with("2025-11-25", EVERYTHING);
        let call = delivered(&mut server, &echo("1"));
        let id = only(ask(&mut server, call, 1, form()))["id"].clone();
        let lines = if cancelled { server.line(&cancel("1")) } else { server.resolve_next() };
        let taken_back = value(&lines[0]);
        assert_eq!(taken_back["method"], "notifications/cancelled");
        assert_eq!(taken_back["params"]["requestId"], id);
        assert_eq!(lines.len(), if cancelled { 1 } else { 2 });
        assert!(server.line(&ok(&id, "{}")).is_empty() && server.answered.is_empty(), "a late answer must be dropped");
        ask(&mut server, call, 2, form());
        assert_eq!(answer(&mut server), (2, Err(FailureKind::Unanswered)));
    }
}

#[test]
fn questions_fail_when_the_session_ends() {
    let mut server = open_with("2025-11-25", EVERYTHING);
    let call = delivered(&mut server, &echo("1"));
    ask(&mut server, call, 1, form());
    assert_eq!(server.stop(Stop::InputClosed), NOTHING);
    assert_eq!(answer(&mut server), (1, Err(FailureKind::Stopping)));
    assert_eq!(ask(&mut server, call, 2, form()), NOTHING);
    assert_eq!(answer(&mut server), (2, Err(FailureKind::Stopping)));
    assert_eq!(server.resolve_next().len(), 1, "the call itself must still be answered");
}

#[test]
fn open_questions_are_bounded() {
    let mut server = open_with("2025-11-25", EVERYTHING);
    let call = delivered(&mut server, &echo("1"));
    let questions = (0..1025).map(|id| (QuestionId(id), Question::roots())).collect();
    assert_eq!(server.ask(call, questions).len(), 1024);
    assert_eq!(answer(&mut server), (1024, Err(FailureKind::Busy)));
}

#[test]
fn a_batch_of_responses_answers_each_question() {
    let mut server = open_with("2025-03-26", EVERYTHING);
    let call = delivered(&mut server, &format!("[{}]", echo("1")));
    let ids: Vec<_> = (1..=2).map(|id| only(ask(&mut server, call, id, Question::roots()))["id"].clone()).collect();
    let batch = format!("[{},{},{}]", ok(&ids[1], "{}"), ok(&ids[0], "{}"), ok(&json!(99), "{}"));
    assert_eq!(server.line(&batch), NOTHING);
    let answered: Vec<_> = server.answered.iter().map(|(question, _)| question.0).collect();
    assert_eq!((answered, server.dropped.len()), (vec![2, 1], 1));
    assert_eq!(value(&server.resolve_next()[0])[0]["id"], 1);
}

#[test]
fn a_call_that_asks_still_reports_its_progress() {
    let mut server = open_with("2025-11-25", EVERYTHING);
    let line = request("1", "tools/call", &format!(r#"{{{ECHO},"_meta":{{"progressToken":5}}}}"#));
    let call = delivered(&mut server, &line);
    ask(&mut server, call, 1, form());
    let progress = Progress { progress: 1.0, total: None, message: None };
    assert_eq!(only(server.notify(Notice::Progress(call, progress)))["params"]["progressToken"], 5);
}
