//! A2E: the recordings of the reference host and client.

mod stage;
mod subagents;

use std::process::Command;

use serde_json::{Value, json};

use self::stage::{Stage, TOKEN};
use self::subagents::Model;
use crate::fixture;
use crate::replay::{Item, Rules, Run, play, recorded};
use crate::support::{self, Process};

const RULES: Rules = Rules {
    dialect: "a2e",
    varies: &[
        "id",
        "ts",
        "created_at",
        "updated_at",
        "connected_at",
        "started_at",
        "applied_at",
        "duration_ms",
        "uptime_seconds",
        "pid",
        "seq",
        "/message",
        "/data/error",
    ],
    parser_texts: &[],
    elsewhere: &["client_sees_", "max_parallel_", "subprocess_as_shipped", "http_"],
    in_order: false,
    // Output of a process, and changes that a server reports, can arrive at any time.
    apart: &["proc/read/event", "mcp/server/push"],
    standing: as_we_say_it,
};

/// The differences from the reference in every answer, by a2e §§2, 6.4.
fn as_we_say_it(answer: &mut Value) {
    // §2 row 1: both spellings of the version key.
    answer["a2e"] = json!("1.0");
    // §6.4: metadata names the plugin that serves the capability; here there is one for all.
    for capability in answer.get_mut("accepted_caps").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = capability["capability"].clone();
        capability["metadata"] = json!({"name": "gladhand", "type": name, "priority": 0, "exclusive": true});
    }
}

fn with_token(mut command: Command) -> Command {
    command.env("GLADHAND_A2E_TOKEN", TOKEN);
    command
}

/// The hosts of `hosts/`, and the recordings that each stands in for.
const HOSTS: [(&str, &[&str]); 5] = [
    (
        "stock",
        &[
            "handshake_page_example",
            "handshake_wrong_token",
            "handshake_missing_token",
            "handshake_version_mismatch",
            "handshake_no_caps",
            "handshake_partial_caps",
            "handshake_twice",
            "capability_not_granted",
            "malformed_input",
            "malformed_silent",
            "host_types_from_client",
            "ping_and_shutdown",
            "memory_basic",
            "learning",
            "learning_validation",
            "planning",
            "env_episode",
            "env_extended",
            "proc_denied",
            "proc_exit_codes",
            "proc_lifecycle",
            "skills",
        ],
    ),
    (
        "fixture",
        &[
            "handshake_ok",
            "subprocess_stdio",
            "chains_linear",
            "chains_routing",
            "chains_errors",
            "toolkits",
            "env_state_push",
        ],
    ),
    ("multi", &["handshake_unanswered", "broadcast_two_plugins"]),
    ("mcp", &["mcp_stock"]),
    ("wired", &["mcp_wired"]),
];

/// The nodes of `chains_errors` that run a skill and a process, for an agent to which these are granted.
fn with_everything_granted(items: Vec<Item>) -> Vec<Item> {
    let is_kept = |item: &Item| match item {
        Item::Send(line, _) | Item::Expect(line, _) => *line <= 2 || *line >= 27,
        _ => true,
    };
    let granted = items.into_iter().filter(is_kept).map(|item| match item {
        Item::Send(1, bytes) => {
            let text = String::from_utf8(bytes).expect("text");
            Item::Send(
                1,
                text.replace(r#"["chains", "tools"]"#, r#"["chains", "tools", "skill", "proc"]"#).into_bytes(),
            )
        }
        item => item,
    });
    granted.collect()
}

#[test]
fn recorded_hosts_are_matched() {
    let (stage, model) = (Stage::new(), Model::start());
    let bare = ["handshake_minimal", "handshake_bad_fields", "calls_before_handshake"];
    let hosts = HOSTS.iter().flat_map(|(host, files)| files.iter().map(move |file| (host, file)));
    let toolboxes = [
        ("a2e_calls.json", "tools_call_results"),
        ("a2e_calls.json", "tools_streaming"),
        ("a2e_calls.json", "shutdown_drops_inflight"),
        ("a2e.json", "tools_list_and_search"),
        ("a2e_stock.json", "tools_stock"),
    ];
    let runs = bare
        .into_iter()
        .map(|file| stage.bare(file))
        .chain(hosts.map(|(host, file)| stage.host(host, file)))
        .chain(toolboxes.into_iter().map(|(toolbox, file)| Run::new(file, with_token(fixture(toolbox)))))
        .chain([
            Run {
                name: "chains_errors with everything granted",
                rewrite: with_everything_granted,
                ..stage.host("fixture", "chains_errors")
            },
            model.asked_in(stage.host("stock", "multi_agent")),
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
        // The request equals that of the recorded client, apart from its name and the version key.
        let mut recorded: Value = serde_json::from_slice(request).unwrap();
        let asked = &report["messages"][0]["message"];
        recorded["a2e"] = json!("1.0");
        recorded["agent_id"] = json!("gladhand");
        recorded["auth_token"] = json!("***");
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
