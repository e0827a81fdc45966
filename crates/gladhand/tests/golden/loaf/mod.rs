//! loaf RPC: the recordings of the reference server, played to ours with its services scripted from the recordings.

mod faults;
mod leftovers;
mod order;
mod player;
mod recording;
mod rules;
mod same;
mod stage;

use std::collections::BTreeSet;
use std::sync::Mutex;

use gladhand_core::sync::Unpoisoned as _;
use serde_json::{Value, json};

use crate::fixture;
use crate::replay::{differences, idle_differences, recordings};
use crate::support::Process;

/// Logins come back to one port, so they are played one after the other.
const LOGINS: [&str; 3] = ["82_", "83_", "88_"];

/// How many recordings are played at once. Most of the time of each is spent waiting.
const AT_ONCE: usize = 6;

#[test]
fn the_recorded_server_is_matched() {
    let table = differences("loaf");
    let mut files = recordings("loaf");
    // During debugging, only recordings whose names begin with these may be played: `GLADHAND_REPLAY=42,45`.
    let only = std::env::var("GLADHAND_REPLAY").ok();
    if let Some(only) = &only {
        files.retain(|file| only.split(',').any(|start| file.starts_with(start)));
    }
    files.sort();
    let services =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (problems, used) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    let (waiting, logins) = (Mutex::new(files.clone()), Mutex::new(()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(file) = waiting.lock().unwrap().pop() else { return };
                    let is_login = LOGINS.iter().any(|start| file.starts_with(start));
                    let _alone = is_login.then(|| logins.lock().unpoisoned());
                    let (steps, differences) = recording::steps_of(&file, &table);
                    used.lock().unwrap().extend(differences);
                    let said = recording::services_of(&file);
                    let player = player::Player::new(&file, stage::Stage::new(), services.handle().clone(), &said);
                    problems.lock().unwrap().extend(player.play(steps, &said));
                }
            });
        }
    });
    let (mut problems, used) = (problems.into_inner().unwrap(), used.into_inner().unwrap());
    if only.is_none() {
        problems.extend(idle_differences(&table, |at| used.contains(&at)));
    }
    problems.sort();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
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
