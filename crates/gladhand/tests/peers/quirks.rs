//! Habits that real servers have, each behind the bridge. `tests/coupling/quirks.rs` has the same with scripted ones.

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::installed::{node, peers, python};
use crate::support::{MCP_INITIALIZED, Process, gladhand, mcp_call};

/// A client of the handshake era in front of a bridge in front of a server.
struct Client {
    process: Process,
    /// Messages that are not the answer to a request.
    heard: Vec<Value>,
    _folder: tempfile::TempDir,
}

impl Client {
    fn of(mut server: Vec<OsString>, way: &[&str], capabilities: &Value) -> Self {
        server.extend(way.iter().map(OsString::from));
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = gladhand();
        command.arg("bridge").arg("--data-dir").arg(folder.path()).arg("--").args(server);
        let mut client = Self { process: Process::start(command), heard: Vec::new(), _folder: folder };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
        });
        let opened = client.ask(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
        client.process.send(MCP_INITIALIZED);
        client
    }

    fn ask(&mut self, request: &Value) -> Value {
        self.process.send(&request.to_string());
        self.answer_to(&request["id"])
    }

    /// The answer to a request; everything else that comes before it is kept, and questions for roots are answered.
    fn answer_to(&mut self, id: &Value) -> Value {
        loop {
            let line = self.process.value();
            match (line.get("method").and_then(Value::as_str), line.get("id")) {
                (None, Some(answered)) if answered == id => return line,
                (Some("roots/list"), Some(asked)) => {
                    let answer = json!({"jsonrpc": "2.0", "id": asked, "result": {"roots": []}});
                    self.process.send(&answer.to_string());
                    self.heard.push(line);
                }
                _ => self.heard.push(line),
            }
        }
    }

    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.ask(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    fn echo(&mut self, id: u64) -> String {
        let answer = self.request(id, "tools/call", json!({"name": "echo", "arguments": {"message": "grüezi"}}));
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

fn everything() -> Vec<OsString> {
    let script = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    vec![peers().join("bin/node").into(), script.into()]
}

fn rmcp() -> Vec<OsString> {
    vec![peers().join("cargo/release/rmcp-matrix").into()]
}

#[test]
fn a_server_that_dies_after_an_unanswered_discovery_is_still_opened() {
    let mut client = Client::of(python("pyold", "matrix/py_v1_server.py"), &["stdio"], &json!({}));
    assert_eq!(client.echo(1), "grüezi");
}

#[test]
fn servers_that_stay_in_the_era_they_were_asked_for_serve_clients_of_the_other() {
    for server in [
        node("matrix/ts-v2-server.mjs"),
        python("py2", "matrix/py_v2_server.py"),
        python("pyservers", "matrix/fastmcp_server.py"),
        rmcp(),
    ] {
        let mut client = Client::of(server, &["stdio"], &json!({}));
        assert_eq!(client.echo(1), "grüezi");
    }
}

#[test]
fn a_server_that_drops_odd_requests_without_a_word_gets_none() {
    for server in [node("matrix/ts-v1-server.mjs"), node("matrix/ts-v2-server.mjs")] {
        let mut client = Client::of(server, &["stdio"], &json!({}));
        let odd = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "extra": 1, "params": {
            "name": "echo", "arguments": {"message": "x"}, "unheard": null,
        }});
        assert_eq!(client.ask(&odd)["result"]["content"][0]["text"], "x");
        let large = json!({"jsonrpc": "2.0", "id": 9_007_199_254_740_993_u64, "method": "tools/list", "params": null});
        let listed = client.ask(&large);
        assert!(listed.get("result").is_some() || listed.get("error").is_some(), "{listed}");
        assert_eq!(client.echo(2), "grüezi");
    }
}

#[test]
fn an_error_of_code_0_is_an_error() {
    let mut client = Client::of(python("py1", "matrix/py_v1_server.py"), &["stdio"], &json!({}));
    let failed = client.request(1, "resources/read", json!({"uri": "test://nowhere"}));
    assert!(failed["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{failed}");
    let failed = client.request(2, "prompts/get", json!({"name": "nobody"}));
    assert!(failed["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{failed}");
    assert_eq!(client.echo(3), "grüezi");
}

#[test]
fn late_answers_of_shipped_servers_to_a_cancelled_call_are_dropped() {
    let cancelled = [
        // Answers with an error of code 0.
        (python("py1", "matrix/py_v1_server.py"), "stdio", "linger", json!({})),
        // Goes on reporting.
        (everything(), "stdio", "trigger-long-running-operation", json!({"duration": 3, "steps": 12})),
    ];
    for (server, way, tool, arguments) in cancelled {
        let mut client = Client::of(server, &[way], &json!({}));
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
        client.process.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string());
        while client.process.value()["method"] != "notifications/progress" {}
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        client.process.send(&cancel.to_string());
        // All messages on their way have arrived when this is answered; none may come after it.
        client.request(8, "ping", json!({}));
        client.heard.clear();
        let text = client.echo(9);
        assert!(text.contains("grüezi"), "{text}");
        let (_, rest, _) = client.process.finish();
        let late = client.heard.iter().map(ToString::to_string).chain(rest);
        let late: Vec<_> =
            late.filter(|line| line.contains("notifications/progress") || line.contains("\"id\":7")).collect();
        assert_eq!(late, Vec::<String>::new(), "{tool}");
    }
}

#[test]
fn two_calls_under_one_id_are_both_answered() {
    // It would answer the first to finish, and no other.
    let mut client = Client::of(rmcp(), &["stdio"], &json!({}));
    let call = mcp_call(5, "echo", r#"{"message":"x"}"#);
    client.process.send(&call);
    client.process.send(&call);
    for _ in 0..2 {
        assert_eq!(client.answer_to(&json!(5))["result"]["content"][0]["text"], "x");
    }
}

#[test]
fn a_call_that_is_under_way_when_the_client_leaves_is_answered() {
    // Both would leave without an answer.
    for server in [node("matrix/ts-v2-server.mjs"), python("py1", "matrix/py_v1_server.py")] {
        let mut client = Client::of(server, &["stdio"], &json!({}));
        assert_eq!(client.echo(1), "grüezi");
        client.process.send(&mcp_call(2, "count", "{}"));
        let (code, rest, stderr) = client.process.finish();
        let answers: Vec<Value> = rest.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let answers: Vec<_> = answers.iter().filter(|line| line["id"] == 2).collect();
        assert_eq!((code, answers.len()), (0, 1), "{rest:?} {stderr}");
        assert_eq!(answers[0]["result"]["content"][0]["text"], "counted", "{rest:?}");
    }
}

#[test]
fn early_messages_and_requests_of_server_everything_do_not_disturb_calls() {
    let mut client = Client::of(everything(), &["stdio"], &json!({"roots": {"listChanged": true}}));
    // Its question for roots has an id that a request of ours has too.
    assert_eq!(client.echo(1), "Echo: grüezi");
    let watched = client.request(2, "resources/subscribe", json!({"uri": "demo://resource/dynamic/text/1"}));
    assert!(watched.get("result").is_some(), "a log line came before this, and is not taken for it: {watched}");
    assert_eq!(client.echo(3), "Echo: grüezi");
}
