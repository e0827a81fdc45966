//! Tests of both sides of MCP in memory: openings, gates, wrong input, recorded peers.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod client;
mod client_features;
mod client_laws;
mod client_listening;
mod client_questions;
mod client_recovery;
mod client_rounds;
mod client_tasks;
mod client_unreadable;
mod client_visits;
mod compatibility;
mod coupling;
mod docs;
mod failures;
mod gate;
mod handshake;
mod http;
mod kept;
mod lanes;
mod late_tasks;
mod listen;
mod notices;
mod pairs;
mod parked;
mod prompts;
mod questions;
mod resources;
mod stateless;
mod tasks;
mod tools;
mod transcripts;
mod wrong_input;

use std::sync::Arc;

use gladhand_core::operations::{
    Completion, Contents, Failure, Operation, Outcome, Prompt, PromptResult, Reply, Resource, Template, WatchId,
};
use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{Delivered, TestServer, answer, server_setup};
use gladhand_dialects::{Menu, ServerSetup};
use serde_json::Value;

const HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const STATELESS: &str = "2026-07-28";

fn server() -> TestServer {
    TestServer::pinned(&DIALECT, server_setup())
}

/// A server after a complete handshake.
fn open(version: &str) -> TestServer {
    opened(server(), version)
}

fn opened(mut server: TestServer, version: &str) -> TestServer {
    assert_eq!(server.line(&initialize(version)).len(), 1);
    assert_eq!(server.line(INITIALIZED), Vec::<String>::new());
    server
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":"p","result":{}}"#;

fn initialize(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A request that carries its own opening. `params` and `meta` are members, without braces.
fn stateless(id: &str, method: &str, params: &str, meta: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    let meta_comma = if meta.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{meta_comma}{meta}}}}}}}"#
    )
}

const ECHO: &str = r#""name":"echo","arguments":{"message":"hi"}"#;

fn echo(id: &str) -> String {
    request(id, "tools/call", &format!("{{{ECHO}}}"))
}

fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// The only line of an answer, as a tree.
fn only(lines: Vec<String>) -> Value {
    assert_eq!(lines.len(), 1, "{lines:?}");
    value(&lines[0])
}

/// The id and the code of the only line of an answer, which must be an error.
fn error(lines: Vec<String>) -> (Value, i64) {
    let line = only(lines);
    assert!(line["error"]["message"].is_string(), "{line}");
    (line["id"].clone(), line["error"]["code"].as_i64().unwrap_or_else(|| panic!("expected an error, got {line}")))
}

const NOTHING: Vec<String> = Vec::new();

/// A menu with everything except tasks.
fn whole_menu() -> Menu {
    Menu {
        tools: true,
        tool_changes: true,
        resources: true,
        resource_changes: true,
        resource_updates: true,
        prompts: true,
        prompt_changes: true,
        completions: true,
        logging: true,
        ..Menu::default()
    }
}

/// A server with this menu, after the handshake if the version has one. Calls wait until [`ask`] answers them.
fn with_menu(menu: Menu, version: &str) -> TestServer {
    let server = TestServer::pinned(&DIALECT, ServerSetup { menu, ..server_setup() });
    if version == STATELESS { server } else { opened(server, version) }.holding()
}

/// A server with the full menu.
fn whole(version: &str) -> TestServer {
    with_menu(whole_menu(), version)
}

/// A request of a version. `params` are members, without braces.
fn line(version: &str, id: &str, method: &str, params: &str) -> String {
    match version {
        STATELESS => stateless(id, method, params, ""),
        _ => request(id, method, &format!("{{{params}}}")),
    }
}

/// The answers to a line, after [`stock`] has answered all delivered calls.
fn ask(server: &mut TestServer, line: &str) -> Vec<String> {
    let mut lines = server.line(line);
    while let Some(Delivered { call, agreement }) = server.delivered.pop_front() {
        let outcome = match stock(&call.operation) {
            Some(outcome) => outcome,
            None => answer(&call, &agreement),
        };
        lines.extend(server.resolve(call.id, outcome));
    }
    lines
}

/// The only answer to a request of a version.
fn asked(server: &mut TestServer, version: &str, method: &str, params: &str) -> Value {
    only(ask(server, &line(version, "1", method, params)))
}

/// Test data other than tools: one resource, one template, one prompt.
fn stock(operation: &Operation<'_>) -> Option<Outcome> {
    Some(match operation {
        Operation::ListTools | Operation::CallTool(_) => return None,
        Operation::ListResources => Ok(Reply::Resources(Arc::from([Resource::new("test://a", "a", "A thing")]))),
        Operation::ListTemplates => Ok(Reply::Templates(Arc::from([Template::new("test://{x}", "t", "Things")]))),
        Operation::ReadResource(uri) if uri == "test://a" => {
            Ok(Reply::Contents(Contents::text(uri, "text/plain", "content of a")))
        }
        Operation::Watch(uri) if uri.starts_with("test://") => Ok(Reply::Watching(WatchId(1))),
        Operation::Watch(uri) => Err(Failure::unknown_resource(uri)),
        Operation::ListPrompts => Ok(Reply::Prompts(Arc::from([Prompt::new("p", "A prompt").argument("x", "An x")]))),
        Operation::GetPrompt(prompt) if prompt.name == "p" => Ok(Reply::Prompt(PromptResult::text("filled in"))),
        Operation::Complete(_) => {
            Ok(Reply::Completion(Completion { values: vec!["one".to_owned()], ..Completion::default() }))
        }
        other => return other.outcome_with_only_tools(),
    })
}
