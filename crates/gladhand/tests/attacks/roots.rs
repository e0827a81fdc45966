//! Roots: a client over a network must not choose which folders of this machine a file server serves.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::Connection;
use crate::support::{example, gladhand};

/// The answer that a server behind `bridge --http` gets from a client that names a folder as its root.
fn heard(root: &Path, options: &[&str]) -> String {
    heard_of(&json!({"uri": format!("file://{}", root.display()), "name": "mine"}).to_string(), options)
}

/// The same for a root as it stands in the answer.
fn heard_of(root: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = gladhand();
    command.args(["bridge", "--http", "127.0.0.1:0"]).args(options).arg("--");
    command.arg(example("scripted").get_program()).arg(folder.path().join("log")).arg("handshake");
    command.env("GLADHAND_DATA_DIR", folder.path().join("data"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program is built");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    let url = lines.find_map(|line| Some(line.split_once("listening on ")?.1.to_owned())).expect("it listens");
    // It must never wait for us to read its log.
    std::thread::spawn(move || lines.for_each(drop));
    let address = url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address");
    let mut connection = Connection::open(address);
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "c", "version": "1"},
    });
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let session = connection.post(&[], &initialize).header("mcp-session-id").expect("a session").to_owned();
    let headers = [("Mcp-Session-Id", session.as_str())];
    connection.post(&headers, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "roots", "arguments": {}}});
    connection.send_post(&headers, &call.to_string());
    connection.head();
    let mut events = std::iter::from_fn(|| connection.event()).filter(|event| !event.data.is_empty());
    let question: Value = events.next().expect("a question").json();
    assert_eq!(question["method"], "roots/list");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[{root}]}}}}"#, question["id"]);
    Connection::open(address).post(&headers, &answer);
    let outcome: Value = events.next().expect("an answer").json();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    outcome["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{outcome}")).to_owned()
}

#[test]
fn a_client_over_http_names_no_folder_of_this_machine_unless_the_operator_allows_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let base = std::fs::canonicalize(folder.path()).expect("it is there");
    let (allowed, other) = (base.join("allowed"), base.join("other"));
    std::fs::create_dir_all(allowed.join("inner")).expect("a folder");
    std::fs::create_dir_all(&other).expect("a folder");
    std::os::unix::fs::symlink(&other, allowed.join("link")).expect("a link");
    assert_eq!(heard(&other, &[]), "nowhere");
    let options = ["--client-root", allowed.to_str().expect("text")];
    assert_eq!(heard(&allowed.join("inner"), &options), format!("file://{}", allowed.join("inner").display()));
    for outside in [other, allowed.join("link"), allowed.join("../other"), "/".into()] {
        assert_eq!(heard(&outside, &options), "nowhere", "{}", outside.display());
    }
    for unreadable in [r#"{"uri":"file:///","name":"\ud800"}"#, r#"{"uri":"file:///","x":1e999}"#] {
        assert_eq!(heard_of(unreadable, &options), "nowhere", "{unreadable}");
    }
}
