//! The official SDK clients open `gladhand serve` over stdio, list, call, follow, cancel and close.
//!
//! Each script prints what its user would see. A tap in between writes down the lines themselves, since an SDK
//! hides from its user much of what a server does wrong: replies to cancelled calls, noise, a bad end.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::installed::{GLADHAND, node, python, run, scripts};

#[test]
fn the_first_typescript_client_is_served() {
    check(node("clients/ts-v1.mjs"), None, &seen("2025-11-25"));
}

#[test]
fn the_current_typescript_client_is_served_in_each_of_its_modes() {
    check(node("clients/ts-v2.mjs"), Some("default"), &seen("2025-11-25"));
    check(node("clients/ts-v2.mjs"), Some("auto"), &seen("2026-07-28"));
    check(node("clients/ts-v2.mjs"), Some("2026-07-28"), &seen("2026-07-28"));
}

#[test]
fn the_first_python_client_is_served() {
    check(python("py1", "clients/py_v1.py"), None, &seen("2025-11-25"));
}

#[test]
fn the_current_python_client_is_served_in_each_of_its_modes() {
    check(python("py2", "clients/py_v2.py"), Some("legacy"), &seen("2025-11-25"));
    check(python("py2", "clients/py_v2.py"), Some("auto"), &seen("2026-07-28"));
    // Pinned, it never discovers, and so does not look who answers.
    let mut unasked = seen("2026-07-28");
    unasked["server"] = Value::Null;
    check(python("py2", "clients/py_v2.py"), Some("2026-07-28"), &unasked);
}

/// The view of every client, in all revisions.
fn seen(protocol: &str) -> Value {
    json!({
        "protocol": protocol,
        "server": "gladhand",
        "tools": ["agreement", "echo", "wait"],
        "echo": [{ "type": "text", "text": "grüezi \"🤝\" \u{2028} \\ " }],
        "unknown_tool": { "code": -32602 },
        "progress": [[1, 3], [2, 3]],
        "wait": { "failed": false },
        "cancelled": true,
        "reports_of_the_cancelled": 1,
        "echo_afterwards": [{ "type": "text", "text": "still here" }],
    })
}

fn check(mut client: Vec<OsString>, mode: Option<&str>, expected: &Value) {
    let folder = tempfile::tempdir().expect("a folder for the tap");
    client.extend(mode.map(Into::into));
    client.extend(["python3".into(), scripts().join("clients/tap.py").into(), folder.path().into()]);
    client.extend([GLADHAND, "serve"].map(Into::into));
    let printed = run(&client);
    assert_eq!((printed.code, &printed.json), (Some(0), expected), "{mode:?}");
    for tapped in tapped(folder.path()) {
        tapped.check();
    }
}

/// The messages between a client and one process of ours.
struct Tapped {
    lines: Vec<(String, Value)>,
    exit: Option<Value>,
}

fn tapped(folder: &Path) -> Vec<Tapped> {
    let files = fs::read_dir(folder).expect("the tap's folder").map(|entry| entry.expect("a file of the tap").path());
    let tapped: Vec<Tapped> =
        files.map(|file| Tapped::read(&fs::read_to_string(file).expect("a tapped file"))).collect();
    assert!(!tapped.is_empty(), "the tap saw nothing");
    tapped
}

impl Tapped {
    fn read(text: &str) -> Self {
        let mut tapped = Self { lines: Vec::new(), exit: None };
        for entry in text.lines() {
            let mut entry: Value = serde_json::from_str(entry).expect("the tap writes JSON");
            match entry["from"].as_str().map(str::to_owned) {
                Some(from) => tapped.lines.push((from, entry["line"].take())),
                None => tapped.exit = Some(entry["exit"].take()),
            }
        }
        tapped
    }

    /// Each request is answered exactly once, but not at all if it was cancelled, and nothing else is answered.
    /// Progress is complete and comes before the reply. The process exits successfully, whether its stdin was closed or
    /// a signal ended it.
    fn check(&self) {
        let cancelled = self.all("client", |line| {
            line["params"].get("requestId").filter(|_| line["method"] == "notifications/cancelled")
        });
        let mut asked = self.all("client", |line| line.get("id"));
        let mut answered = self.all("server", |line| line.get("id"));
        asked.retain(|id| !cancelled.contains(id));
        asked.sort_by_key(Value::to_string);
        answered.sort_by_key(Value::to_string);
        assert_eq!(answered, asked, "cancelled: {cancelled:?}");
        for (_, call) in self.lines.iter().filter(|(_, line)| line["params"]["name"] == "wait") {
            let steps = if cancelled.contains(&call["id"]) { 1 } else { 3 };
            assert_eq!(self.reported_before_the_reply(call), (1..=steps).collect::<Vec<u64>>(), "{call}");
        }
        assert_eq!(self.exit, Some(json!(0)));
    }

    fn all(&self, sender: &str, wanted: impl Fn(&Value) -> Option<&Value>) -> Vec<Value> {
        let lines = self.lines.iter().filter(|(from, _)| from == sender);
        lines.filter_map(|(_, line)| wanted(line)).cloned().collect()
    }

    fn reported_before_the_reply(&self, call: &Value) -> Vec<u64> {
        let token = &call["params"]["_meta"]["progressToken"];
        let from_server = self.lines.iter().filter(|(from, _)| from == "server").map(|(_, line)| line);
        let before = from_server.take_while(|line| line["id"] != call["id"]);
        let reports = before.filter(|line| line["params"]["progressToken"] == *token);
        // A whole number may be written with or without a fraction.
        reports.filter_map(|line| line["params"]["progress"].as_f64()).map(|progress| progress as u64).collect()
    }
}
