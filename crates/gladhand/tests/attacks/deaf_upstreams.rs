//! Upstreams that do not read, do not answer or answer with errors only: other calls and clients do not suffer.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::json;

use crate::known::{Hostile, configured, reply, tool};
use crate::support::{MCP_INITIALIZED, Process, mcp_call, mcp_initialize};

/// An upstream with one tool.
fn hostile() -> Hostile {
    Hostile::new(&json!([tool("fine")])).answering("call_fine", &json!({"content": [{"type": "text", "text": "fine"}]}))
}

/// The configuration of an upstream, with more settings of its own.
fn configuration(hostile: &Hostile, settings: &str) -> PathBuf {
    let config = hostile.configuration("[toolbox]\nenabled = false");
    let mut file = std::fs::File::options().append(true).open(&config).expect("it is there");
    file.write_all(settings.as_bytes()).expect("there is room");
    config
}

fn open(config: &std::path::Path) -> Process {
    let mut process = Process::start(configured(config, &["serve"]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    process
}

#[test]
fn an_upstream_that_stops_reading_is_restarted_and_every_call_is_answered_once() {
    let hostile = hostile();
    let mut process = open(&configuration(&hostile, "call_timeout_ms = 1000\n"));
    let answer = reply(&mut process, 1, &mcp_call(1, "h__fine", "{}"));
    assert_eq!(answer["result"]["content"][0]["text"], "fine", "{answer}");
    std::fs::write(hostile.at("hold"), "").expect("the folder is there");
    process.send(&mcp_call(2, "h__fine", "{}"));
    process.send(&mcp_call(3, "h__fine", &json!({"pad": "x".repeat(6_000_000)}).to_string()));
    (4..10).for_each(|id| process.send(&mcp_call(id, "h__fine", "{}")));
    let mut failures = Vec::new();
    let mut open: HashSet<u64> = (2..10).collect();
    while !open.is_empty() {
        let message = process.value();
        if let Some(id) = message["id"].as_u64() {
            assert!(open.remove(&id), "another answer: {message}");
            failures.push(message.to_string());
        }
    }
    let stopped = failures.iter().filter(|failure| failure.contains("upstream h stopped reading its input")).count();
    assert!(stopped > 0, "{failures:?}");
    std::fs::remove_file(hostile.at("hold")).expect("it is there");
    let answer = reply(&mut process, 10, &mcp_call(10, "h__fine", "{}"));
    assert_eq!(answer["result"]["content"][0]["text"], "fine", "{answer}");
}
