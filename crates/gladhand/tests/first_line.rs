//! `printf '<first line>\n' | gladhand serve`, for each dialect and revision, and for every line that
//! is no opening: what is answered, and that the next line can still open a session.
#![cfg(unix)]

mod support;

use std::fmt::Write;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use support::{assert_snapshot, gladhand, without_numbers, without_random_names};

const MODES: [&str; 5] = ["auto", "mcp", "a2e", "loaf", "fluxloop"];

/// The output of `gladhand serve` for exactly this input.
fn answers(mode: &str, input: &[u8]) -> Vec<String> {
    let mut child = gladhand()
        .args(["serve", "--dialect", mode])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).expect("it reads"));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("everything was read");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

fn answer(line: &str) -> Value {
    let answers = answers("auto", format!("{line}\n").as_bytes());
    assert_eq!(answers.len(), 1, "{answers:?}");
    serde_json::from_str(&answers[0]).expect("JSON")
}

/// An opening of each dialect, and a member of its answer that no other dialect has.
const OPENINGS: [(&str, &str, &str); 6] = [
    (
        "mcp",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        "/result/protocolVersion",
    ),
    (
        "mcp",
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        "/result/supportedVersions",
    ),
    (
        "a2e",
        r#"{"a2e":"1.0","type":"handshake/req","id":"1","ts":1.5,"agent_id":"c","agent_caps":["tools"],"auth_token":""}"#,
        "/accepted_caps",
    ),
    ("loaf", r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake"}"#, "/result/server_name"),
    ("fluxloop", r#"{"type":"handshake","id":"1"}"#, "/result/capabilities/tools"),
    ("fluxloop", r#"{"tool":"handshake","id":1}"#, "/result/data/capabilities"),
];

#[test]
fn the_first_line_decides_the_dialect_and_the_revision() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let line = support::mcp_initialize(revision);
        let result = json!({
            "protocolVersion": revision,
            "capabilities": {"logging": {}, "tools": {}},
            "serverInfo": {"name": "gladhand", "version": env!("CARGO_PKG_VERSION")},
        });
        assert_eq!(answer(&line), json!({"jsonrpc": "2.0", "id": 0, "result": result}));
    }
    for (dialect, line, member) in OPENINGS {
        let answer = answer(line);
        assert!(answer.pointer(member).is_some(), "{dialect}: {answer}");
    }
}

#[test]
fn an_inline_request_of_the_stateless_revision_needs_no_opening() {
    let line = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let info =
        json!({"io.modelcontextprotocol/serverInfo": {"name": "gladhand", "version": env!("CARGO_PKG_VERSION")}});
    let result = json!({"content": [{"type": "text", "text": "hi"}], "resultType": "complete", "_meta": info});
    assert_eq!(answer(line), json!({"jsonrpc": "2.0", "id": "x", "result": result}));
}

#[test]
fn a_first_line_may_come_in_pieces() {
    for (dialect, opening, member) in OPENINGS {
        // Also in the middle of a character.
        let line = opening.replace(r#""id":1"#, r#""id":"é""#).replace(r#""id":"1""#, r#""id":"é""#);
        let cut = line.find('é').unwrap() + 1;
        let mut process = support::Process::serve(&[]);
        process.send_bytes(&line.as_bytes()[..cut]);
        assert_eq!(process.line_within(std::time::Duration::from_millis(30)), None);
        process.send_bytes(&line.as_bytes()[cut..]);
        process.send_bytes(b"\n");
        let answer = process.value();
        let id = answer.get("req_id").unwrap_or_else(|| &answer["id"]);
        assert_eq!((answer.pointer(member).is_some(), id), (true, &json!("é")), "{dialect}: {answer}");
    }
}

/// Lines that open nothing, or not for certain.
fn odd_lines() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("garbage", text("garbage")),
        ("nothing but blanks", text("\n   \n\t")),
        ("an empty list", text("[]")),
        ("a list of one message", text(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#)),
        ("an empty object", text("{}")),
        ("a number", text("42")),
        ("null", text("null")),
        ("an object of nobody", text(r#"{"id":1}"#)),
        ("a method of nobody", text(r#"{"jsonrpc":"2.0","id":1,"method":"unheard/of"}"#)),
        ("a type of nobody", text(r#"{"type":"nope","id":"p"}"#)),
        ("a reply", text(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
        ("type and tool", text(r#"{"type":"request","tool":"echo","params":{"message":"hi"},"id":"1"}"#)),
        ("type and jsonrpc", text(r#"{"jsonrpc":"2.0","type":"handshake","id":1,"method":"ping"}"#)),
        ("a byte-order mark and a ping", text("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}")),
        ("a carriage return behind a ping", text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r")),
        ("a NUL in a text", b"{\"jsonrpc\":\"2.0\",\"id\":\"\0\",\"method\":\"ping\"}".to_vec()),
        ("an escaped NUL", text(r#"{"jsonrpc":"2.0","id":"\u0000","method":"ping"}"#)),
        ("bytes that are not UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}".to_vec()),
        ("two objects", text(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}"#)),
        ("NaN", text(r#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#)),
        ("half a surrogate pair", text(r#"{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}"#)),
        ("129 levels", format!("{}1{}", "[".repeat(129), "]".repeat(129)).into_bytes()),
        ("128 levels", format!("{}1{}", "[".repeat(128), "]".repeat(128)).into_bytes()),
        ("17 MiB", vec![b'x'; 17 * 1024 * 1024]),
    ]
}

#[test]
fn odd_first_lines_have_a_defined_answer_in_every_mode() {
    let mut page = String::new();
    for (name, line) in odd_lines() {
        writeln!(page, "## {name}").unwrap();
        for mode in MODES {
            let mut input = line.clone();
            input.push(b'\n');
            for answer in answers(mode, &input) {
                let answer = without_numbers(&without_random_names(&answer), &["ts", "uptime_seconds"]);
                writeln!(page, "{mode:8} {answer}").unwrap();
            }
        }
        page.push('\n');
    }
    assert_snapshot("first_lines.txt", &page);
}

#[test]
fn an_odd_line_leaves_the_door_open_for_every_dialect() {
    for (name, line) in odd_lines() {
        // These lines belong to one dialect for certain, so they decide it.
        if [
            "a byte-order mark and a ping",
            "a carriage return behind a ping",
            "an escaped NUL",
            "half a surrogate pair",
        ]
        .contains(&name)
            || name.starts_with("type and")
        {
            continue;
        }
        for (dialect, opening, member) in OPENINGS {
            let mut input = line.clone();
            input.extend_from_slice(format!("\n{opening}\n").as_bytes());
            let answers = answers("auto", &input);
            let last: Value = serde_json::from_str(answers.last().unwrap()).unwrap();
            assert!(last.pointer(member).is_some(), "{dialect} after {name}: {last}");
        }
    }
}

#[test]
fn a_pinned_dialect_answers_every_opening_in_its_own_words() {
    for mode in &MODES[1..] {
        for (dialect, opening, member) in OPENINGS {
            let answers = answers(mode, format!("{opening}\n").as_bytes());
            assert_eq!(answers.len(), 1, "{mode} {opening}");
            let answer: Value = serde_json::from_str(&answers[0]).unwrap();
            assert_eq!(answer.pointer(member).is_some(), dialect == *mode, "{mode}: {answer}");
            let is_rpc = answer.get("jsonrpc").is_some();
            assert_eq!(is_rpc, ["mcp", "loaf"].contains(mode), "{mode}: {answer}");
        }
    }
}
