//! Questions in the middle of a call, as each era asks them.

use gladhand::hub::{Kit, Reporter};
use gladhand::operations::{Progress, Question, Tool, ToolCall, ToolResult};
use gladhand_server::http::HttpOptions;
use serde_json::{Value, json};

use crate::client::{Connection, STATELESS};
use crate::server::Embedded;
use crate::support::{MCP_INITIALIZED, mcp_call};

/// Asks for a name, and greets.
fn greeter() -> Kit {
    Kit::new().slow_tool(Tool::plain("greet", "Asks for a name."), |_, reporter| async move {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let answer = reporter.ask(Question::form("Who are you?", &schema)).await?;
        let answer: Value = serde_json::from_str(answer.get()).unwrap_or_default();
        Ok(ToolResult::text(&format!("hello {}", answer["content"]["name"].as_str().unwrap_or("stranger"))))
    })
}

fn open_with_elicitation(connection: &mut Connection) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = connection.post(&[], &initialize.to_string());
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    assert_eq!(connection.post(&[("Mcp-Session-Id", &session)], MCP_INITIALIZED).status, 202);
    session
}

#[test]
fn in_a_session_the_question_comes_on_the_stream_of_its_call() {
    let server = Embedded::start(greeter(), HttpOptions::default());
    let mut connection = server.connect();
    let session = open_with_elicitation(&mut connection);
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.send_post(&headers, &mcp_call(1, "greet", "{}"));
    connection.head();
    let mut events = std::iter::from_fn(|| connection.event()).filter(|event| !event.data.is_empty());
    let question = events.next().expect("a question").json();
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string();
    assert_eq!(server.connect().post(&headers, &answer).status, 202);
    let answer = events.next().expect("an answer").json();
    assert_eq!(answer["result"]["content"][0]["text"], "hello Ada", "{answer}");
    assert!(events.next().is_none());
}

#[test]
fn without_a_session_the_question_is_an_answer_and_the_retry_brings_it_back() {
    let server = Embedded::start(greeter(), HttpOptions::default());
    let mut connection = server.connect();
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", "greet")];
    let mut call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "greet",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        },
    }});
    let asked = connection.post(&headers, &call.to_string());
    assert_eq!((asked.status, asked.header("content-type")), (200, Some("application/json")));
    let asked = asked.json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let key = asked["result"]["inputRequests"].as_object().and_then(|all| all.keys().next().cloned()).expect("a key");
    call["id"] = json!(2);
    call["params"]["requestState"] = asked["result"]["requestState"].clone();
    call["params"]["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let answer = connection.post(&headers, &call.to_string());
    let answer = match answer.header("content-type") {
        Some("application/json") => answer.json(),
        _ => {
            let last = answer.body.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("an answer");
            serde_json::from_str(last).expect("JSON")
        }
    };
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("hello Ada")), "{answer}");
}

#[test]
fn progress_between_two_rounds_comes_on_the_stream_of_the_second() {
    let (go_on, go) = tokio::sync::watch::channel(false);
    let (reported, mut is_reported) = tokio::sync::watch::channel(false);
    let tool = move |_: ToolCall<'static>, reporter: Reporter| {
        let (mut go, reported) = (go.clone(), reported.clone());
        async move {
            let working = async {
                go.wait_for(|go| *go).await.expect("the test goes on");
                for step in [1.0, 2.0] {
                    reporter.progress(Progress { progress: step, total: Some(3.0), message: None });
                }
                reported.send_replace(true);
            };
            let question = Question::form("Who are you?", &json!({"type": "object", "properties": {}}));
            let (answer, ()) = tokio::join!(reporter.ask(question), working);
            answer.map(|_| ToolResult::text("done"))
        }
    };
    let kit = Kit::new().slow_tool(Tool::plain("work", "Goes on while it asks."), tool);
    let server = Embedded::start(kit, HttpOptions::default());
    let mut connection = server.connect();
    let headers = [("MCP-Protocol-Version", STATELESS), ("Mcp-Method", "tools/call"), ("Mcp-Name", "work")];
    let mut call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "work",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            "progressToken": "one",
        },
    }});
    let asked = connection.post(&headers, &call.to_string()).json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    go_on.send_replace(true);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(is_reported.wait_for(|is_reported| *is_reported)).expect("it reports");
    let key = asked["result"]["inputRequests"].as_object().and_then(|all| all.keys().next().cloned()).expect("a key");
    call["id"] = json!(2);
    call["params"]["_meta"]["progressToken"] = json!("two");
    call["params"]["requestState"] = asked["result"]["requestState"].clone();
    call["params"]["inputResponses"] = json!({key: {"action": "accept", "content": {}}});
    let answer = connection.post(&headers, &call.to_string());
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
    let events: Vec<Value> = events.map(|data| serde_json::from_str(data).expect("JSON")).collect();
    let reports = [1, 2].map(|step| json!({"progressToken": "two", "progress": step, "total": 3}));
    assert_eq!(events.iter().take(2).map(|event| event["params"].clone()).collect::<Vec<_>>(), reports, "{answer:?}");
    assert_eq!((events.len(), &events[2]["result"]["content"][0]["text"]), (3, &json!("done")), "{answer:?}");
}

#[test]
fn a_question_without_the_capability_is_refused_with_the_status_of_the_era() {
    let server = Embedded::start(greeter(), HttpOptions::default());
    let (headers, body) = crate::client::stateless_call(1, "greet", "{}");
    let refused = server.connect().post(&headers, &body);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(-32021)), "{refused:?}");
}
