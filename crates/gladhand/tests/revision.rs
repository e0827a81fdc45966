//! Which revision of MCP is spoken to a server: `-v` says it, names the server, and says why.
#![cfg(unix)]

mod support;

use std::process::{Command, Stdio};

use support::{MCP_INITIALIZED, Process, gladhand, mcp_initialize};

/// Our own server, which speaks both eras.
const BOTH: [&str; 2] = [env!("CARGO_BIN_EXE_gladhand"), "serve"];

/// A server that knows only the handshake.
const OLD: [&str; 3] = [
    "sh",
    "-c",
    r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
    *) [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  esac
done"#,
];

/// The command with `-v`, and a data folder in which nothing is remembered of any server.
fn verbose(arguments: &[&str], folder: &tempfile::TempDir) -> Command {
    let mut command = gladhand();
    command.arg("-v").args(arguments).env("GLADHAND_DATA_DIR", folder.path());
    command
}

/// The line about the choice, from the name of the upstream on.
fn choice(log: &str) -> &str {
    let line = log.lines().find(|line| line.contains("revision chosen")).unwrap_or_else(|| panic!("no line: {log}"));
    &line[line.find("upstream=").unwrap_or_else(|| panic!("no upstream: {line}"))..]
}

/// The text of the log line about the choice, for a server that is a command.
fn expected(server: &[&str], version: &str, why: &str) -> String {
    format!(r#"upstream="{}" dialect="mcp" version="{version}" why="{why}""#, server.join(" "))
}

/// The log of a command that runs to its end.
fn log_of(arguments: &[&str], server: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = verbose(arguments, &folder);
    let output = command.arg("--").args(server).stdin(Stdio::null()).output().expect("it starts");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_command_without_a_client_speaks_the_newest_revision() {
    let log = log_of(&["open"], &BOTH);
    assert_eq!(choice(&log), expected(&BOTH, "2026-07-28", "it is the newest revision"));
}

#[test]
fn a_command_with_a_person_speaks_the_newest_revision_with_a_handshake() {
    let log = log_of(&["call", "echo", "message=hi"], &BOTH);
    assert_eq!(choice(&log), expected(&BOTH, "2025-11-25", "a server can ask a person more in it"));
}

#[test]
fn a_server_of_the_other_era_is_spoken_to_in_its_own() {
    let log = log_of(&["open"], &OLD);
    let why = r#"version="2025-11-25" why="the server does not speak the era that suits the client best""#;
    assert!(choice(&log).ends_with(why), "{log}");
    assert!(choice(&log).starts_with("upstream=\"sh -c "), "{log}");
}

#[test]
fn a_revision_that_the_user_names_is_spoken() {
    let log = log_of(&["call", "--as", "mcp@2025-03-26", "echo", "message=hi"], &BOTH);
    assert_eq!(choice(&log), expected(&BOTH, "2025-03-26", "`--as` or `speak` asks for it"));
}

#[test]
fn a_client_before_a_bridge_is_served_in_its_own_revision() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = verbose(&["bridge", "--"], &folder);
    command.args(BOTH);
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-06-18"));
    process.send(MCP_INITIALIZED);
    process.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let (_, _, log) = process.finish();
    assert_eq!(choice(&log), expected(&BOTH[..1], "2025-06-18", "it is the client's own revision"));
}

#[test]
fn a_log_line_names_an_upstream_as_in_the_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gladhand.toml");
    let upstream = format!("[upstreams.notes]\ncommand = {BOTH:?}\n");
    std::fs::write(&file, upstream).expect("a configuration can be written");
    let mut command = verbose(&["serve", "--config"], &folder);
    command.arg(&file);
    let mut process = Process::start(command);
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    process.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let (_, _, log) = process.finish();
    assert_eq!(choice(&log), expected(&["notes"], "2025-11-25", "it is the client's own revision"));
}
