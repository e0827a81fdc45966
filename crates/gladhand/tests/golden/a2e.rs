//! A2E: the recordings of the reference host and client.

use std::process::Command;

use serde_json::{Value, json};

use crate::replay::{Item, Rules, Run, play, recorded};
use crate::support::{self, Process};
use crate::{fixture, serve};

/// The token that the recorded hosts were configured with.
const TOKEN: &str = "dev-secret";

const RULES: Rules = Rules {
    dialect: "a2e",
    varies: &["id", "ts", "created_at", "duration_ms", "uptime_seconds", "seq", "/message", "/data/error"],
    parser_texts: &[],
    elsewhere: &["client_sees_", "max_parallel_", "subprocess_as_shipped"],
    in_order: false,
    standing: as_we_say_it,
};

/// What differs from the reference in every answer, by a2e §§2, 4.1, 6.4.
fn as_we_say_it(answer: &mut Value) {
    // §2 row 1: both spellings of the version key.
    answer["a2e"] = json!("1.0");
    for capability in answer["accepted_caps"].as_array_mut().into_iter().flatten() {
        let name = capability["capability"].as_str().expect("a name").to_owned();
        *capability = if name == "tools" {
            // §6.4: metadata names the plugin that serves the capability; here there is one for all.
            json!({"capability": name, "enabled": true,
                   "metadata": {"name": "gladhand", "type": name, "priority": 0, "exclusive": true}})
        } else {
            // §2 row 7 and §6.4: known, not served here.
            json!({"capability": name, "enabled": false, "metadata": {"reason": "no plugin loaded"}})
        };
    }
    if answer["accepted_caps"].is_null() {
        answer.as_object_mut().expect("an object").remove("accepted_caps");
    }
}

fn with_token(mut command: Command) -> Command {
    command.env("GLADHAND_A2E_TOKEN", TOKEN);
    command
}

#[test]
fn recorded_hosts_are_matched() {
    let bare = ["handshake_minimal", "handshake_bad_fields", "calls_before_handshake"];
    let served = [
        "handshake_ok",
        "handshake_page_example",
        "handshake_wrong_token",
        "handshake_missing_token",
        "handshake_version_mismatch",
        "handshake_no_caps",
        "handshake_partial_caps",
        "handshake_twice",
        "handshake_unanswered",
        "capability_not_granted",
        "malformed_input",
        "malformed_silent",
        "host_types_from_client",
        "ping_and_shutdown",
    ];
    let calls = ["tools_call_results", "tools_streaming", "subprocess_stdio", "shutdown_drops_inflight"];
    let runs = bare
        .into_iter()
        .map(|file| Run::new(file, serve()))
        .chain(served.into_iter().map(|file| Run::new(file, with_token(serve()))))
        .chain(calls.into_iter().map(|file| Run::new(file, with_token(fixture("a2e_calls.json")))))
        .chain([
            Run::new("tools_list_and_search", with_token(fixture("a2e.json"))),
            Run::new("tools_stock", with_token(fixture("a2e_stock.json"))),
        ]);
    play(&RULES, runs.collect());
}

#[test]
fn at_most_max_parallel_calls_run_at_once() {
    // The reference ran all eight (a2e §6.6); here four run and four wait their turn.
    let mut process = Process::start(with_token(fixture("a2e_calls.json")));
    let mut asked = Vec::new();
    for item in recorded(&RULES, "max_parallel_exceeded") {
        let Item::Send(_, bytes) = item else { continue };
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let kind = message["type"].as_str().unwrap().to_owned();
        if kind == "tool/call/req" {
            asked.push(message["id"].clone());
            // Without the session of the recording, and quicker.
            let mut call = message;
            call["session_id"] = json!("");
            call["arguments"]["ms"] = json!(100);
            process.send(&call.to_string());
        } else if kind == "handshake/req" {
            process.send_bytes(&bytes);
            assert_eq!(process.value()["max_parallel"], 4);
        }
    }
    process.send(r#"{"type":"ping","id":"p"}"#);
    assert_eq!(process.value()["req_id"], "p", "core messages bypass the limit");
    let answers: Vec<_> = (0..8).map(|_| process.value()).collect();
    let answered: Vec<_> = answers.iter().map(|answer| answer["req_id"].clone()).collect();
    let sorted = |ids: &[Value]| {
        let mut ids: Vec<_> = ids.iter().map(Value::to_string).collect();
        ids.sort();
        ids
    };
    for half in [0..4, 4..8] {
        assert_eq!(sorted(&answered[half.clone()]), sorted(&asked[half]), "four at a time, first come, first served");
    }
    for answer in &answers {
        assert_eq!(answer["data"]["data"], json!({"slept_ms": 100}));
    }
    let peak = process.ask(r#"{"type":"tool/call/req","id":"q","tool_name":"peak","arguments":{}}"#);
    assert_eq!(peak["data"]["data"], json!({"peak": 4}));
}

/// A host that answers the first line with a recorded message, as the answer to that line.
const SCRIPTED_HOST: &str =
    r#"read -r line; id=${line#*\"id\":\"}; id=${id%%\"*}; printf '%s\n' "$1" | sed "s/REQUEST/$id/"; cat >/dev/null"#;

#[test]
fn recorded_answers_to_a_client_are_understood() {
    let agreed = json!([
        {"owner": "server", "capability": "chains", "client": "wants", "server": "silent", "verdict": "refused", "why": "not_provided"},
        {"owner": "server", "capability": "tools", "client": "wants", "server": "provides", "verdict": "agreed"},
    ]);
    let refused = |reason: &str| Err(reason.to_owned());
    let opened = || Ok(agreed.clone());
    for (file, verdict) in [
        ("client_sees_auth_failed", refused("auth_failed")),
        ("client_sees_version_mismatch", refused("version_mismatch")),
        ("client_sees_no_caps", refused("no_capabilities")),
        ("client_sees_server_error", refused("server_error")),
        ("client_sees_error_to_handshake", refused("peer_refused")),
        ("client_sees_partial_grant", opened()),
        ("client_sees_a2e_key_only", opened()),
        // The reference client drops these two and waits for ever; a2e §26 asks to cope.
        ("client_sees_unknown_capability", opened()),
        ("client_sees_null_reason", opened()),
    ] {
        let items = recorded(&RULES, file);
        let [Item::Send(_, request), Item::Expect(_, answer), ..] = items.as_slice() else { panic!("{file}") };
        let mut answer = answer.clone();
        answer["req_id"] = json!("REQUEST");
        let output = support::gladhand()
            .env("GLADHAND_A2E_TOKEN", "x")
            .args(["open", "--as", "a2e", "--want", "tools,chains", "--json", "--timeout", "10", "--"])
            .args(["sh", "-c", SCRIPTED_HOST, "host", &answer.to_string()])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let got = match report["opened"].as_bool() {
            Some(true) => Ok(report["agreement"]["terms"].clone()),
            _ => Err(report["refusal"]["reason"].as_str().unwrap().to_owned()),
        };
        assert_eq!((output.status.code(), &got), (Some(if got.is_ok() { 0 } else { 3 }), &verdict), "{file}");
        // What was asked is what the recorded client asked, apart from its name and the version key.
        let mut recorded: Value = serde_json::from_slice(request).unwrap();
        let asked = &report["messages"][0]["message"];
        recorded["a2e"] = json!("1.0");
        recorded["agent_id"] = json!("gladhand");
        recorded["auth_token"] = json!("[redacted]");
        recorded["id"] = asked["id"].clone();
        recorded["ts"] = asked["ts"].clone();
        assert_eq!(*asked, recorded, "{file}");
    }
}

#[test]
fn the_clock_of_an_answer_is_that_of_its_end() {
    let mut process = Process::start(fixture("a2e_calls.json"));
    process.ask(r#"{"type":"handshake/req","id":"h","agent_caps":["tools"]}"#);
    let answer = process.ask(r#"{"type":"tool/call/req","id":"c","tool_name":"sleep","arguments":{"ms":120}}"#);
    let took = answer["data"]["duration_ms"].as_u64().unwrap();
    assert!((120..2000).contains(&took), "{answer}");
}
