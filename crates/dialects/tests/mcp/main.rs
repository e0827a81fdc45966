//! MCP, both sides, held in a hand: openings, gates, wrong input, recorded peers.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod client;
mod client_features;
mod client_laws;
mod client_listening;
mod client_questions;
mod client_recovery;
mod client_rounds;
mod client_tasks;
mod gate;
mod handshake;
mod http;
mod lanes;
mod notices;
mod pairs;
mod stateless;
mod tools;
mod transcripts;
mod wrong_input;

use gladhand_dialects::mcp::DIALECT;
use gladhand_dialects::testing::{TestServer, server_setup};
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

/// A request that carries its own opening; `params` and `meta` are members, without braces.
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
    (line["id"].clone(), line["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {line}")))
}

const NOTHING: Vec<String> = Vec::new();
