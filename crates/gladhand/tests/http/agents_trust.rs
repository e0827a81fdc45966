//! A2E over HTTP: whose a session is, what they may call, and what is written down of it.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{Agent, PING, call, handshake};
use crate::client::Connection;
use crate::server::Program;
use crate::support::{Process, gladhand};

const TOKENS: &str = "[authorization]\n\
    tool_scopes = { wait = ['slow'] }\n\
    tokens = [{ name = 'ann', token = 'open-sesame' }, { name = 'bob', token = 'open-barley', scopes = [] }]\n";

/// Sends with a bearer token.
fn ask(connection: &mut Connection, bearer: &str, path: &str, session: &str, body: &str) -> (u16, Value) {
    let bearer = format!("Bearer {bearer}");
    let response = connection.ask("POST", path, &[("Authorization", &bearer), ("X-Session-Id", session)], body);
    (response.status, serde_json::from_str(&response.body).unwrap_or_default())
}

#[test]
fn an_agent_session_belongs_to_its_token_and_enforces_scopes() {
    let (program, _folder) = Program::configured(TOKENS);
    let mut connection = program.connect();
    assert_eq!(connection.ask("POST", "/session", &[], "").status, 401);
    assert_eq!(connection.ask("GET", "/health", &[], "").status, 200);
    let open = |connection: &mut Connection, bearer: &str| {
        let (status, opened) = ask(connection, bearer, "/session", "", "");
        assert_eq!(status, 200, "{opened}");
        opened["session_id"].as_str().unwrap().to_owned()
    };
    let (ann, bob) = (open(&mut connection, "open-sesame"), open(&mut connection, "open-barley"));
    assert_eq!(ask(&mut connection, "open-barley", "/send", &ann, PING).0, 404, "it is another's");
    let waits = [
        call("w", "wait", &json!({"ms": 1})),
        json!({"type": "chain/req", "id": "c", "nodes": [{"node_id": "a", "kind": "tool", "name": "wait"}]})
            .to_string(),
        r#"{"type":"tool/call/req","id":"w","tool_name":"echo","tool_name":"wait","arguments":{}}"#.to_owned(),
    ];
    for wait in &waits {
        assert_eq!(ask(&mut connection, "open-sesame", "/send", &ann, wait).0, 200, "{wait}");
        assert_eq!(ask(&mut connection, "open-barley", "/send", &bob, wait).0, 403, "{wait}");
    }
    assert_eq!(ask(&mut connection, "open-barley", "/send", &bob, &call("e", "echo", &json!({}))).0, 200);
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    assert!(!text.contains("hush") && !text.contains("a secret"), "{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn calls_over_every_transport_are_one_line_each_in_the_audit_file() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let config =
        format!("[a2e]\ntokens = ['hush']\n[audit]\nfile = '{}'\nmax_bytes = 1100\nkeep = 2\n", audit.display());
    let calls = [
        call("c1", "echo", &json!({"message": "a secret"})),
        call("c2", "nothing", &json!({})),
        call("c3", "wait", &json!({"ms": 1})),
    ];
    // Over HTTP.
    let (mut program, place) = Program::configured(&config);
    let mut agent = Agent::unopened(|| program.connect());
    assert_eq!(agent.ask(&handshake(&["tools"], "hush"))["ok"], true);
    for call in &calls {
        agent.ask(call);
    }
    program.signal(Signal::TERM);
    program.wait();
    // On stdin and stdout, into the same file.
    let mut command = gladhand();
    command.args(["serve", "--dialect", "a2e", "--config"]).arg(place.path().join("gladhand.toml"));
    let mut process = Process::start(command);
    assert_eq!(process.ask(&handshake(&["tools"], "hush"))["ok"], true);
    for call in &calls {
        process.ask(call);
    }
    assert_eq!(process.finish().0, 0);
    let (older, newer) = (lines(&folder.path().join("audit.jsonl.1")), lines(&audit));
    assert!(!older.is_empty() && !newer.is_empty(), "a full file was moved aside");
    let seen = [older, newer].concat();
    let told = |line: &Value| {
        let took = line["duration_ms"].as_f64().is_some_and(|took| took >= 0.0);
        let sizes = line["bytes_in"].as_u64().is_some() && line["bytes_out"].as_u64().is_some();
        assert!(took && sizes && line["session"].is_u64() && line["time"].is_string(), "{line}");
        ["client", "dialect", "operation", "tool", "outcome"].map(|name| line[name].as_str().unwrap().to_owned())
    };
    let expected = [("echo", "ok"), ("nothing", "unknown_tool"), ("wait", "ok")];
    let expected = expected.map(|(tool, outcome)| ["tester", "a2e", "tool", tool, outcome].map(str::to_owned));
    assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), [expected.clone(), expected].concat());
}
