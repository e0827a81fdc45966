//! Replays recorded sessions of the Fluxloop server against our server side.
//!
//! The tools are not available. A hub built from the recording answers each call with the recorded result, so that
//! envelopes, forms, ids, order and errors are compared. The order of members is ignored. For each intended difference,
//! `expected` names the line of the digest.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod recorded;

use std::collections::VecDeque;

use gladhand_core::operations::{Call, CallId, Failure, Operation, Outcome, Reply, Tool, ToolResult};
use gladhand_core::wire::{Line, Lines, json};
use gladhand_dialects::fluxloop::DIALECT;
use gladhand_dialects::testing::{self, TestServer, server_setup};
use gladhand_dialects::{Ambient, Event, Heard};
use recorded::Entry;
use serde_json::{Value, json};

#[test]
fn recorded_sessions_get_the_recorded_answers() {
    let files: Vec<_> = recorded::files("fluxloop").into_iter().filter(|file| !file.starts_with("04-")).collect();
    assert_eq!(files.len(), 9);
    for file in files {
        check(&file);
    }
}

fn check(file: &str) {
    let entries = recorded::load("fluxloop", file, "\n");
    let requests: Vec<String> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::ToServer(bytes) => Some(expand(std::str::from_utf8(bytes).unwrap())),
            _ => None,
        })
        .filter(|text| !text.trim().is_empty())
        .collect();
    let answers: Vec<Value> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::FromServer(line) => Some(serde_json::from_str(&expand(line)).unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(requests.len(), answers.len(), "{file}: every line that is not blank must have one answer");
    let mut hub = Hub::new(&answers);
    let mut ours = Vec::new();
    let mut server = TestServer::pinned(&DIALECT, server_setup()).holding();
    let ending = if file.starts_with("21-") { "\r\n" } else { "\n" };
    for request in &requests {
        let line = format!("{}{ending}", request.trim_end_matches('\n'));
        let mut lines = Lines::default();
        lines.push(line.as_bytes());
        let Some(line) = lines.next_line() else { panic!("no line in {request}") };
        ours.extend(server.frame(line));
        if !file.starts_with("19-") {
            ours.extend(resolve_backwards(&mut server, &mut hub));
        }
    }
    ours.extend(resolve_backwards(&mut server, &mut hub));
    let ours: Vec<Value> = ours.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected: Vec<Value> = requests.iter().zip(answers).map(|(line, answer)| expected(line, answer)).collect();
    for ((request, ours), expected) in requests.iter().zip(&ours).zip(&expected) {
        assert_eq!(ours, expected, "{file}: {}", request.chars().take(200).collect::<String>());
    }
    assert_eq!(ours.len(), expected.len(), "{file}");
}

/// Lets the hub answer all pending calls, newest first.
fn resolve_backwards(server: &mut TestServer, hub: &mut Hub) -> Vec<String> {
    let mut lines = Vec::new();
    while !server.delivered.is_empty() {
        let calls: Vec<_> = server.delivered.drain(..).collect();
        let outcomes: Vec<_> = calls.iter().map(|waiting| hub.answer(&waiting.call.operation)).collect();
        for (waiting, outcome) in calls.into_iter().zip(outcomes).rev() {
            lines.extend(server.resolve(waiting.call.id, outcome));
        }
    }
    lines
}

/// The expected answer by the digest's recommendations, where the recorded server answered `answer` to `line`.
fn expected(line: &str, answer: Value) -> Value {
    let Ok(Value::Object(asked)) = serde_json::from_str::<Value>(line) else {
        if line.contains("1e400") {
            // §6.2, "number out of range": only the code is compared, since the message is the decoder's.
            return json!({"type": "error", "error": {"code": "invalid_payload", "message": "Number out of range"}});
        }
        return answer;
    };
    let mut own = answer.clone();
    let with_id = |mut line: Value| {
        if let Some(id) = asked.get("id").filter(|id| !id.is_null()) {
            line["id"] = id.clone();
        }
        line
    };
    let invalid = |message: &str, details: Value| {
        let mut error = json!({"code": "invalid_payload", "message": message});
        if !details.is_null() {
            error["details"] = details;
        }
        with_id(json!({"type": "error", "error": error}))
    };
    let tool = asked.get("tool");
    // §5, row 1.
    if asked.contains_key("jsonrpc") {
        return invalid("This session speaks Fluxloop: JSON-RPC is not answered in it", Value::Null);
    }
    let implementation = json!({"name": "gladhand", "version": "0.0.0-test"});
    match asked.get("type").map(|kind| kind.as_str().unwrap_or_default()) {
        Some("handshake") if answer["type"] == "response" => {
            own["result"]["implementation"] = implementation;
            own
        }
        // §4: the recorded server does not know the page's handshake. We follow the page.
        Some("handshake") => with_id(json!({"type": "response", "result": page_handshake(&[])})),
        // §6.2, "no `tool`".
        Some("request") if tool.is_none() => invalid("Missing member: tool", json!({"missing": "tool"})),
        Some("request") => page_form(with_id, &asked, answer),
        // §6.2, "unknown `type`".
        Some(kind) => invalid(&format!("Unexpected message type: {kind}"), json!({"types": ["handshake", "request"]})),
        None => match tool {
            // §6.2, "`{}` or no `tool`".
            None => invalid("Missing member: type", json!({"missing": "type"})),
            Some(Value::String(name)) if name == "handshake" => {
                own["result"]["data"]["implementation"] = implementation;
                own
            }
            Some(Value::String(_)) => own,
            // §6.2, "`tool` is no string".
            Some(_) => invalid("tool must be of type string", json!({"param": "tool", "expected": "string"})),
        },
    }
}

/// A recorded exchange in page form: §§4 and 22.
fn page_form(with_id: impl Fn(Value) -> Value, asked: &serde_json::Map<String, Value>, answer: Value) -> Value {
    let wrapped = &answer["result"]["data"];
    if answer["type"] == "response" {
        if asked["tool"] == "handshake" {
            let names: Vec<_> = wrapped["capabilities"].as_array().unwrap().to_vec();
            return with_id(json!({"type": "response", "result": page_handshake(&names)}));
        }
        let result = if wrapped.is_null() { answer["result"].clone() } else { wrapped.clone() };
        return with_id(json!({"type": "response", "result": result}));
    }
    let error = &answer["error"];
    match error["code"].as_str() {
        Some("unknown_tool") => with_id(json!({"type": "error", "error": {
            "code": "tool_not_found",
            "message": format!("Unknown tool: {}", asked["tool"].as_str().unwrap()),
            "details": {"availableTools": ["handshake", "faq", "analyze_repository"]},
        }})),
        // §22: `message` is a string.
        Some("tool_error") => {
            let message = error["message"].as_str().or_else(|| error["message"]["message"].as_str()).unwrap();
            with_id(json!({"type": "error", "error": {"code": "tool_error", "message": message}}))
        }
        _ => answer,
    }
}

fn page_handshake(names: &[Value]) -> Value {
    let fallback = [json!("analyze_repository"), json!("faq")];
    let mut names = if names.is_empty() { fallback.to_vec() } else { names.to_vec() };
    // The page has `faq` first (§3).
    names.sort_by_key(|name| name != "faq");
    let tools: Vec<Value> = std::iter::once(json!("handshake")).chain(names).collect();
    json!({
        "name": "fluxloop-mcp", "version": "0.1.0", "capabilities": {"tools": tools},
        "implementation": {"name": "gladhand", "version": "0.0.0-test"},
    })
}

/// Expands `x…<N x in all>` to N times the letter x.
fn expand(text: &str) -> String {
    let Some((before, rest)) = text.split_once('<').filter(|_| text.contains(" x in all>")) else {
        return text.to_owned();
    };
    let (count, after) = rest.split_once(" x in all>").unwrap();
    let before = before.trim_end_matches('x');
    format!("{before}{}{after}", "x".repeat(count.parse().unwrap()))
}

/// A hub with the recorded tools that returns the recorded results in order.
struct Hub {
    names: Vec<String>,
    results: VecDeque<Value>,
}

impl Hub {
    fn new(answers: &[Value]) -> Self {
        let listed = answers.iter().find_map(|answer| {
            let page = &answer["result"]["capabilities"]["tools"];
            let shipped = &answer["result"]["data"]["capabilities"];
            page.as_array().or(shipped.as_array())
        });
        let names = match listed {
            Some(names) => names.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
            None => vec!["analyze_repository".to_owned(), "faq".to_owned()],
        };
        let is_called = |answer: &Value| {
            let result = &answer["result"];
            answer["error"]["code"] == "tool_error"
                || (result.is_object() && result["capabilities"].is_null() && result["data"]["capabilities"].is_null())
        };
        Self { names, results: answers.iter().filter(|answer| is_called(answer)).cloned().collect() }
    }

    fn answer(&mut self, operation: &Operation<'_>) -> Outcome {
        let call = match operation {
            Operation::ListTools => {
                let tool = |name: &String| Tool::new(name, "", json::raw("{}".into()));
                return Ok(Reply::Tools(self.names.iter().map(tool).collect()));
            }
            Operation::CallTool(call) => call,
            other => panic!("unexpected operation in this dialect: {other:?}"),
        };
        let recorded = self.results.front().filter(|answer| {
            let name = &answer["result"]["tool"];
            name.is_null() && !matches!(call.name.as_ref(), "faqz" | "nope" | "zz") || *name == call.name.as_ref()
        });
        if recorded.is_none() {
            return Err(Failure::unknown_tool(&call.name));
        }
        let answer = self.results.pop_front().unwrap();
        if let Some(error) = answer.get("error") {
            let message = error["message"].as_str().or_else(|| error["message"]["message"].as_str()).unwrap();
            return Ok(Reply::Tool(ToolResult::failure(message)));
        }
        let data = answer["result"].get("data").unwrap_or_else(|| &answer["result"]);
        Ok(Reply::Tool(ToolResult::structured(json::to_raw(data))))
    }
}

#[test]
fn the_eleven_fatal_lines_are_answered_and_a_handshake_still_works() {
    let files: Vec<_> = recorded::files("fluxloop").into_iter().filter(|file| file.starts_with("04-")).collect();
    assert_eq!(files.len(), 11);
    // Each alone after a fresh start, and all of them in one session.
    let mut all = TestServer::pinned(&DIALECT, server_setup());
    for file in files {
        let mut alone = TestServer::pinned(&DIALECT, server_setup());
        let entries = recorded::load("fluxloop", &file, "\n");
        let fatal = entries.iter().rev().find_map(|entry| match entry {
            Entry::ToServer(bytes) => bytes.strip_suffix(b"\n"),
            _ => None,
        });
        let fatal = fatal.unwrap();
        for server in [&mut alone, &mut all] {
            let answers = server.frame(Line::Bytes(fatal));
            let [answer] = answers.as_slice() else { panic!("{file}: {answers:?}") };
            let answer: Value = serde_json::from_str(answer).unwrap();
            assert_eq!(answer["error"]["code"], "invalid_payload", "{file}");
            assert!(answer["error"]["message"].as_str().unwrap().starts_with("Malformed line: "), "{answer}");
            assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["error", "type"], "no id: {file}");
            assert_eq!(
                server.line(r#"{"type":"handshake","id":"z"}"#),
                [
                    r#"{"type":"response","id":"z","result":{"name":"fluxloop-mcp","version":"0.1.0","capabilities":{"tools":["handshake","echo","fail"]},"implementation":{"name":"gladhand","version":"0.0.0-test"}}}"#
                ]
            );
        }
    }
}

#[test]
fn our_client_opens_the_recorded_server_in_its_own_form() {
    let recorded_answer = |file: &str, at: usize| {
        let answers = recorded::load("fluxloop", file, "\n").into_iter().filter_map(|entry| match entry {
            Entry::FromServer(line) => Some(line),
            _ => None,
        });
        answers.collect::<Vec<_>>().swap_remove(at)
    };
    let mut client = (DIALECT.client)(testing::client_setup("0.1.0"));
    let (mut heard, mut entropy) = (Heard::default(), testing::Counting::default());
    let mut ambient = Ambient::new(testing::moment(std::time::Duration::ZERO), &mut entropy);
    client.open(&mut ambient, &mut heard);
    client.handle_line(&recorded_answer("02-page-dialect-at-peer.ndjson", 0), &mut ambient, &mut heard);
    let hello = recorded_answer("01-handshake.ndjson", 0).replace(r#""id": "1""#, r#""id": "2""#);
    client.handle_line(&hello, &mut ambient, &mut heard);
    client.call(Call::new(CallId(1), Operation::ListTools), None, &mut ambient, &mut heard);
    client.handle_line(&hello.replace(r#""id": "2""#, r#""id": "3""#), &mut ambient, &mut heard);
    client.call(Call::new(CallId(2), testing::bare_call("run_integration_workflow")), None, &mut ambient, &mut heard);
    // The only error of the recorded server whose message is an object.
    let odd = recorded_answer("02-page-dialect-at-peer.ndjson", 5).replace(r#""id": "46""#, r#""id": "4""#);
    client.handle_line(&odd, &mut ambient, &mut heard);
    let [
        Event::Opened(agreement),
        Event::Answered(_, Ok(Reply::Tools(tools))),
        Event::Answered(_, Ok(Reply::Tool(result))),
    ] = &heard.events[..]
    else {
        panic!("{:?}", heard.events)
    };
    assert_eq!((agreement.server.name.as_str(), agreement.server.version.as_str()), ("fluxloop", "0.0.1"));
    assert_eq!((tools.len(), tools[1].name.as_str()), (12, "faq"));
    assert!(result.failed && result.joined_text().contains("missing_question"), "{result:?}");
    assert_eq!(
        String::from_utf8(heard.wire.into_bytes()).unwrap(),
        concat!(
            r#"{"type":"handshake","id":"1"}"#,
            "\n",
            r#"{"tool":"handshake","id":"2"}"#,
            "\n",
            r#"{"tool":"handshake","id":"3"}"#,
            "\n",
            r#"{"id":"4","tool":"run_integration_workflow"}"#,
            "\n",
        )
    );
}
