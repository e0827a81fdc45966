//! loaf RPC: the recordings of the reference server.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::replay::{Item, Rules, Run, play};
use crate::support::Process;
use crate::{fixture, serve};

/// Methods of loaf §5 that are not callable here yet; `methods` does not list them.
const NOT_YET: [&str; 21] = [
    "auth.connect.antigravity",
    "auth.connect.openai",
    "auth.set.exa_key",
    "auth.set.openrouter_key",
    "auth.status",
    "command.execute",
    "history.clear_session",
    "history.get",
    "history.list",
    "limits.get",
    "model.list",
    "model.openrouter.providers",
    "model.select",
    "onboarding.complete",
    "onboarding.status",
    "session.interrupt",
    "session.queue.clear",
    "session.queue.list",
    "session.send",
    "session.steer",
    "skills.list",
];

const RULES: Rules = Rules {
    dialect: "loaf",
    varies: &["timestamp", "time", "createdAt", "updatedAt", "contextTokenEstimate", "pinned_tokens"],
    parser_texts: &["parse error: "],
    elsewhere: &[],
    in_order: false,
    raw_has_line_end: true,
    standing: as_we_say_it,
};

/// What differs from the reference wherever it is said.
fn as_we_say_it(answer: &mut Value) {
    // §6.1: `methods` lists what is callable, and the flags say the same; our own name is additive.
    if let Some(methods) = answer.pointer_mut("/result/methods") {
        let listed = methods.as_array_mut().expect("a list");
        listed.retain(|method| !NOT_YET.iter().any(|name| method == name));
        listed.push(json!("tools.call"));
        listed.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        answer["result"]["capabilities"]["command_execute"] = json!(false);
        answer["result"]["capabilities"]["image_inputs"] = json!([]);
        answer["result"]["implementation"] = json!({"name": "gladhand", "version": env!("CARGO_PKG_VERSION")});
    }
    // §6.4: `skills.directories` are those searched in the last scan, and nothing was scanned.
    for snapshot in ["/result", "/params/payload/snapshot"] {
        if let Some(directories) = answer.pointer_mut(&format!("{snapshot}/skills/directories")) {
            *directories = json!([]);
        }
    }
}

/// §3.2: what is not callable is not found, and has no effects.
fn without_the_rest(items: Vec<Item>) -> Vec<Item> {
    let mut asked = HashMap::new();
    let mut kept = Vec::new();
    for item in items {
        match item {
            Item::Send(line, bytes) => {
                if let Ok(request) = serde_json::from_slice::<Value>(&bytes)
                    && let Some(method) = request["method"].as_str()
                    && NOT_YET.contains(&method)
                {
                    asked.insert(request["id"].to_string(), method.to_owned());
                }
                kept.push(Item::Send(line, bytes));
            }
            Item::Expect(line, answer) => match asked.remove(&answer["id"].to_string()) {
                Some(method) => {
                    let data = json!({"reason": "method_not_found", "method": method});
                    let error = json!({"code": -32601, "message": format!("method not found: {method}"), "data": data});
                    kept.push(Item::Expect(line, json!({"jsonrpc": "2.0", "id": answer["id"], "error": error})));
                }
                None if answer["params"]["payload"]["reason"] == "onboarding_complete" => {}
                None => kept.push(Item::Expect(line, answer)),
            },
            other => kept.push(other),
        }
    }
    kept
}

#[test]
fn the_recorded_server_is_matched() {
    let served = [
        "01_handshake_flexible",
        "02_handshake_strict_ok",
        "03_handshake_strict_mismatch",
        "04_handshake_bad_types",
        "05_framing_malformed",
        "06_framing_batches",
        "07_framing_notifications_and_ids",
        "09_eof_without_newline",
        "10_ping_and_pipelining",
        "11_state_initial",
        "12_session_create_get",
        "13_param_errors",
        "27_debug_set",
        "30_shutdown_default",
        "31_shutdown_reason",
        "32_shutdown_pipelined",
        "33_stdin_close",
        "34_sigint",
        "35_sigterm",
        "36_sigterm_after_shutdown",
    ];
    // A method that nobody knows gives no dialect away, so here the operator has to.
    let mut pinned = serve();
    pinned.args(["--dialect", "loaf"]);
    let runs = served.into_iter().map(|file| Run::new(file, serve())).chain([
        Run::new("08_unknown_method", pinned),
        Run::new("25_tools_list", fixture("loaf.json")),
        Run::new("26_custom_tools", fixture("loaf_custom.json")),
    ]);
    play(&RULES, runs.map(|run| Run { rewrite: without_the_rest, ..run }).collect());
}

#[test]
fn a_tool_is_called_by_the_additive_method() {
    let mut process = Process::start(fixture("a2e_calls.json"));
    let mut ask = |id: u64, params: &str| {
        process.ask(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools.call","params":{params}}}"#))
    };
    let answers = [
        ask(1, r#"{"name":"echo","arguments":{"text":"hi"}}"#),
        ask(2, r#"{"name":"soft_fail","arguments":{}}"#),
        ask(3, r#"{"name":"fail","arguments":{"message":"kaput"}}"#),
        ask(4, r#"{"name":"scalar"}"#),
    ];
    let result = |id: u64, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    assert_eq!(
        answers,
        [
            result(1, json!({"ok": true, "output": {"text": "hi"}})),
            result(2, json!({"ok": false, "output": "nope", "error": "nope"})),
            result(3, json!({"ok": false, "output": {"tool": "fail", "status": "error"}, "error": "kaput"})),
            result(4, json!({"ok": true, "output": 42})),
        ]
    );
    assert_eq!(ask(5, r#"{"name":"nope"}"#)["error"]["data"]["reason"], "unknown_tool");
    assert_eq!(ask(6, "{}")["error"]["data"], json!({"reason": "invalid_params", "field": "name"}));
}
