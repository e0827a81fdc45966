//! `gladhand loss`: what clients gain and lose with a live server through the bridge.
#![cfg(unix)]

mod support;

use std::process::{Command, Output};

use serde_json::{Value, json};
use support::gladhand;
use unicode_width::UnicodeWidthStr as _;

/// An MCP server that knows 2025-06-18 only, and has tools and log lines.
const OLD: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"old","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}' ;;
    *'"id"'*) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"Method not found"}}' ;;
  esac
done"#;

fn loss(arguments: &[&str], script: Option<&str>) -> Command {
    let mut command = gladhand();
    command.arg("loss").args(arguments).env_remove("COLUMNS");
    if let Some(script) = script {
        command.args(["--", "sh", "-c", script]);
    }
    command
}

fn report(output: &Output) -> Value {
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}\n{errors}"))
}

fn client<'r>(report: &'r Value, dialect: &str, version: &str) -> &'r Value {
    let clients = report["clients"].as_array().expect("an array").iter();
    let mut named = clients.filter(|client| client["dialect"] == dialect && client["asked_version"] == version);
    named.next().unwrap_or_else(|| panic!("no {dialect}@{version} in {report:#}"))
}

fn has(list: &Value, feature: &str) -> bool {
    list.as_array().expect("an array").iter().any(|name| name == feature)
}

#[test]
fn clients_that_a_server_does_not_know_gain_its_features_through_the_bridge() {
    let folder = tempfile::tempdir().unwrap();
    let output = loss(&["--json"], Some(OLD)).env("GLADHAND_DATA_DIR", folder.path()).output().unwrap();
    let report = report(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert!(has(&report["server_features"], "tools") && has(&report["server_features"], "logging"), "{report:#}");
    for (dialect, version) in [("mcp", "2026-07-28"), ("a2e", "1.0"), ("loaf", "1.0.0"), ("fluxloop", "0.1.0")] {
        let client = client(&report, dialect, version);
        let opened = (&client["direct"]["opened"], &client["bridge"]["opened"]);
        assert_eq!(opened, (&json!(false), &json!(true)), "{client:#}");
        assert!(has(&client["gains"], "tools"), "{client:#}");
    }
    // The server knows its own revision: nothing changes, and no tool is missing.
    let known = client(&report, "mcp", "2025-06-18");
    assert!(!has(&known["loses"], "tools") && !has(&known["gains"], "tools"), "{known:#}");
    assert_eq!(known["lists"], json!([]), "{known:#}");
    // A2E has no log lines, and the reason is given.
    let agent = client(&report, "a2e", "1.0");
    let logging = agent["unavailable"].as_array().unwrap().iter().find(|entry| entry["feature"] == "logging");
    assert_eq!(logging.unwrap()["reason"], "not_in_dialect", "{agent:#}");
}

#[test]
fn one_client_can_be_compared_with_chosen_capabilities() {
    let folder = tempfile::tempdir().unwrap();
    let run = |declare: &str| {
        let arguments = ["--json", "--only", "mcp@2025-06-18", "--declare", declare];
        let output = loss(&arguments, Some(OLD)).env("GLADHAND_DATA_DIR", folder.path()).output().unwrap();
        let report = report(&output);
        assert_eq!(report["clients"].as_array().unwrap().len(), 1, "{report:#}");
        report["clients"][0]["direct"]["features"].clone()
    };
    assert!(has(&run("elicitation"), "elicitation"));
    assert!(!has(&run("roots"), "elicitation"));
    let output = loss(&["--declare", "nosuch"], Some(OLD)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && errors.contains("known names: roots"), "{errors}");
}

#[test]
fn the_comparison_fits_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for columns in [60, 80] {
        let mut command = loss(&["--only", "a2e"], Some(OLD));
        command.env("GLADHAND_DATA_DIR", folder.path()).env("COLUMNS", columns.to_string());
        let page = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(page.contains("gains") && page.contains("never"), "{page}");
        // The script of the server has long words, which are broken too.
        let widest = page.lines().max_by_key(|line| line.width()).unwrap_or_default();
        assert!(widest.width() <= columns, "{columns}: {widest}");
    }
}

#[test]
fn a_server_that_ends_at_once_leaves_nothing_to_compare() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = loss(&["--json", "--timeout", "10"], Some("exit 3"));
    let output = command.env("GLADHAND_DATA_DIR", folder.path()).output().unwrap();
    let report = report(&output);
    assert_eq!((output.status.code(), &report["error"]["exit"]), (Some(4), &json!(4)), "{report:#}");
}
