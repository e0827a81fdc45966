//! Servers and files that try to make redaction costly, or to pass a secret by it.

use std::process::Command;

use serde_json::{Value, json};

use super::known::configured;
use crate::support::{MCP_INITIALIZED, Process, gladhand, mcp_call, mcp_initialize};

/// A server of MCP. Its tools send a log line or an error with millions of tiny values.
const DENSE: &str = r#"
import json, sys
dense = "[" + '"",' * 5000000 + '""]'
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    head = '{"jsonrpc": "2.0", "id": ' + json.dumps(message["id"])
    method = message.get("method")
    if method == "initialize":
        capabilities = {"tools": {}, "logging": {}}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ["log", "err"]]}
    elif method == "tools/call":
        if message["params"]["name"] == "err":
            print(head + ', "error": {"code": -32000, "message": "no", "data": ' + dense + "}}", flush=True)
            continue
        log = '{"level": "error", "data": ' + dense + "}"
        print('{"jsonrpc": "2.0", "method": "notifications/message", "params": ' + log + "}", flush=True)
        result = {"content": [{"type": "text", "text": "done"}]}
    else:
        result = {}
    print(head + ', "result": ' + json.dumps(result) + "}", flush=True)
"#;

#[test]
fn log_lines_and_errors_of_tiny_values_are_cut_and_take_little_memory() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let file = folder.path().join("gladhand.toml");
    std::fs::write(folder.path().join("dense.py"), DENSE).expect("the folder is ours");
    let script = folder.path().join("dense.py");
    std::fs::write(&file, format!("[upstreams.h]\ncommand = ['python3', '{}']\n", script.display()))
        .expect("it is ours");
    let mut process = Process::start(configured(&file, &["serve"]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    for (id, tool) in [(1, "h__log"), (2, "h__err")] {
        process.send(&mcp_call(id, tool, "{}"));
        loop {
            let line = process.line();
            assert!(line.len() < 70_000, "{} bytes: {}", line.len(), &line[..100]);
            let message: Value = serde_json::from_str(&line).expect("JSON");
            let is_dense = line.contains(r#""","","""#);
            assert!(!is_dense || line.contains("… (cut)"), "{}", &line[line.len() - 100..]);
            if message["id"] == id {
                break;
            }
        }
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap_or_default();
    let peak =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(peak.is_none_or(|peak| peak < 250 * 1024), "{peak:?} kB were used at most");
}

/// A program that repeats every line, after a first one of millions of matches.
const MATCHES: &str =
    "import sys\nprint(('cust' + '-1 ') * 300000, flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)";

#[test]
fn a_recording_has_no_secret_in_repeated_members_and_many_matches_cost_little() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let file = folder.path().join("recording.jsonl");
    let mut command = gladhand();
    command.arg("record").arg(&file).args(["--mask", "cust-[0-9]+", "--", "python3", "-c", MATCHES]);
    command.env("OWN_TOKEN", "known-secret-4711");
    let mut process = Process::start(command);
    assert_eq!(process.line().len(), 7 * 300_000, "what passes is not changed");
    process.send(r#"{"a":"known-secret-4711","a":"x","\u0061":"known-secret-471\u0031","password":["hush-4711"]}"#);
    process.line();
    assert_eq!(process.finish().0, 0);
    let text = std::fs::read_to_string(&file).expect("it was recorded");
    assert_eq!(text.matches("***").count(), 300_000 + 2 * 3, "of {} bytes", text.len());
    assert!(!text.contains("known-secret") && !text.contains("hush-4711") && !text.contains("cust-1 "));
}

#[test]
fn a_file_that_claims_to_be_a_part_of_a_recording_makes_no_command_wait() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let file = folder.path().join("recording.jsonl");
    let forged = "{\"ms\":1,\"session\":\"a\",\"from\":\"\\nerror: run curl\"}";
    let header = r#"{"gladhand_recording":1,"version":"0","started_ms":1}"#;
    std::fs::write(&file, format!("{header}\n{forged}\n")).expect("the folder is ours");
    let pipe = folder.path().join("recording.jsonl.1");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it starts").success());
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("recording.jsonl.2")).expect("the folder is ours");
    let output = gladhand().arg("show").arg(&file).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(":2:") && !told.contains("\nerror:"), "{told}");
    let output = gladhand().arg("show").arg(&pipe).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a regular file"), "{output:?}");
}

#[test]
fn the_report_of_a_dense_recording_takes_little_memory() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let file = folder.path().join("recording.jsonl");
    let dense = format!("[{}0]", r#"{"":0},"#.repeat(2 << 20));
    let header = r#"{"gladhand_recording":1,"version":"0","started_ms":1}"#;
    std::fs::write(&file, format!("{header}\n{{\"ms\":1,\"from\":\"client\",\"message\":{dense}}}\n"))
        .expect("it is ours");
    // A tree of this message takes about 1 GiB.
    let limited = format!("ulimit -v {}; exec \"$@\"", 900 * 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limited, "sh"]).arg(gladhand().get_program()).arg("show").arg(&file).arg("--json");
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains(&dense), "{} bytes", report.len());
    assert_eq!(json!(report.lines().count()), 1);
}
