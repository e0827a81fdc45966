//! Upstreams that do not read, do not answer or answer with errors only: other calls and clients do not suffer.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::open_session;
use crate::exhaustion::memory;
use crate::known::{Hostile, configured, reply, tool};
use crate::serving::{Server, until};
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

/// The reply to a request for the tools, and how long it took.
fn listed(process: &mut Process, id: u64) -> (String, Duration) {
    let begun = Instant::now();
    let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
    (reply(process, id, &request.to_string()).to_string(), begun.elapsed())
}

/// Waits until a tool of the upstream is listed.
fn until_listed(process: &mut Process, tool: &str) {
    let mut id = 100;
    until("the tool is listed", || {
        id += 1;
        listed(process, id).0.contains(tool)
    });
}

#[test]
fn an_upstream_whose_lists_fail_delays_no_list_request_and_is_asked_again() {
    let hostile = hostile();
    let lists = ["tools_list", "resources_list", "prompts_list"];
    let contents = lists.map(|list| hostile.text(list));
    lists.iter().for_each(|list| std::fs::remove_file(hostile.at(list)).expect("it is there"));
    let config = configuration(&hostile, "");
    let mut process = open(&config);
    for id in 1..4 {
        let (told, time) = listed(&mut process, id);
        assert!(time < Duration::from_secs(5), "{time:?}");
        assert!(told.contains("of upstream h failed"), "{told}");
    }
    let status = configured(&config, &["ps"]).output().expect("it runs");
    let status = String::from_utf8_lossy(&status.stdout);
    assert!(status.contains("of upstream h failed"), "{status}");
    for (list, content) in lists.iter().zip(contents) {
        std::fs::write(hostile.at(list), content).expect("the folder is there");
    }
    until_listed(&mut process, "h__fine");
}

#[test]
fn an_upstream_that_does_not_answer_a_list_request_delays_few_of_them() {
    let hostile = hostile();
    let mute = r#"[ "$method" = tools_list ] && [ -f mute ] && continue"#;
    let script = hostile.text("script").replace(r#"    [ -n "$id" ]"#, &format!("    {mute}\n    [ -n \"$id\" ]"));
    std::fs::write(hostile.at("script"), script).expect("the folder is there");
    let mut process = open(&configuration(&hostile, ""));
    assert!(listed(&mut process, 1).0.contains("h__fine"));
    std::fs::write(hostile.at("mute"), "").expect("the folder is there");
    let delays = (2..8).map(|id| {
        // Lists without change notifications are fresh for a second.
        std::thread::sleep(Duration::from_millis(1100));
        listed(&mut process, id).1
    });
    let delayed = delays.filter(|time| *time > Duration::from_secs(1)).count();
    assert!(delayed <= 1, "{delayed} of 6 list requests waited");
    let other = hostile.text("tools_list").replace("fine", "other");
    std::fs::write(hostile.at("tools_list"), other).expect("the folder is there");
    std::fs::remove_file(hostile.at("mute")).expect("it is there");
    until_listed(&mut process, "h__other");
}

#[cfg(target_os = "linux")]
#[test]
fn upstreams_that_do_not_read_answers_take_little_memory() {
    let hostile = hostile();
    let ping = json!({"jsonrpc": "2.0", "id": "i".repeat(1000), "method": "ping"});
    let flood = format!("[ \"$method\" = tools_call ] && exec yes '{ping}'");
    let script = hostile.text("script").replace(r#"    [ -n "$id" ]"#, &format!("    {flood}\n    [ -n \"$id\" ]"));
    std::fs::write(hostile.at("script"), script).expect("the folder is there");
    let settings = format!("command = {}\nisolated = true\ncall_timeout_ms = 3000\n", json!(hostile.command()));
    let server = Server::start(&format!("[toolbox]\nenabled = false\n[upstreams.h]\n{settings}"));
    let mut connection = server.connect();
    let before = memory(&server);
    for _ in 0..8 {
        let session = open_session(&mut connection, "2025-11-25");
        let answer = connection.post(&[("Mcp-Session-Id", &session)], &mcp_call(1, "h__fine", "{}"));
        assert!(answer.body.contains("upstream h does not read the answers to its requests"), "{answer:?}");
    }
    let more = memory(&server).saturating_sub(before) / 1024;
    assert!(more < 100, "{more} MiB");
}
