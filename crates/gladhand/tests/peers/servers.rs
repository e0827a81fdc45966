//! `gladhand open` opens real servers in every revision that they speak, and says why where they do not.
//!
//! The expected results were read off the servers themselves, so a mistake that both of our sides share shows here.

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::installed::{GLADHAND, node, peers, python, run};

const HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const STATELESS: &str = "2026-07-28";

#[test]
fn server_everything_opens_in_the_handshake_era_only() {
    let script = "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let server = [peers().join("bin/node").into(), peers().join(script).into(), "stdio".into()];
    for revision in HANDSHAKE {
        let mut agreed = vec!["logging", "prompts", "resources", "tools"];
        let mut not_yet = vec!["completions", "tasks"];
        if revision >= "2025-03-26" {
            agreed.push(not_yet.remove(0));
        }
        if revision >= "2025-11-25" {
            agreed.push(not_yet.remove(0));
        }
        agreed.sort_unstable();
        let mut expected = opened(revision, "mcp-servers/everything", &agreed);
        expected["not_in_this_version"] = json!(not_yet);
        assert_eq!(open(revision, &server), expected);
    }
    assert_eq!(open(STATELESS, &server), refused("-32601"));
}

#[test]
fn the_first_typescript_server_opens_in_the_handshake_era_only() {
    let server = node("servers/ts-v1.mjs");
    for revision in HANDSHAKE {
        assert_eq!(open(revision, &server), opened(revision, "ts-v1", &["tools"]));
    }
    assert_eq!(open(STATELESS, &server), refused("-32601"));
}

#[test]
fn the_current_typescript_server_opens_in_both_eras() {
    let server = node("servers/ts-v2.mjs");
    for revision in HANDSHAKE.into_iter().chain([STATELESS]) {
        assert_eq!(open(revision, &server), opened(revision, "ts-v2", &["tools"]));
    }
}

#[test]
fn a_stateless_only_server_refuses_the_handshake() {
    let mut server = node("servers/ts-v2.mjs");
    server.push("modern".into());
    assert_eq!(open(STATELESS, &server), opened(STATELESS, "ts-v2", &["tools"]));
    for revision in HANDSHAKE {
        assert_eq!(open(revision, &server), refused("-32022"));
    }
}

#[test]
fn the_first_python_server_opens_in_the_handshake_era_only() {
    let server = python("py1", "servers/py_v1.py");
    for revision in HANDSHAKE {
        let expected = opened(revision, "py-v1", &["experimental", "prompts", "resources", "tools"]);
        assert_eq!(open(revision, &server), expected);
    }
    assert_eq!(open(STATELESS, &server), refused("-32602"));
}

#[test]
fn the_current_python_server_opens_in_both_eras() {
    let server = python("py2", "servers/py_v2.py");
    for revision in HANDSHAKE.into_iter().chain([STATELESS]) {
        assert_eq!(open(revision, &server), opened(revision, "py-v2", &["prompts", "resources", "tools"]));
    }
}

#[test]
fn the_rmcp_server_opens_in_both_eras_in_each_of_its_configurations() {
    for configuration in [None, Some("single"), Some("pipes"), Some("single-pipes")] {
        let mut server: Vec<OsString> = vec![peers().join("cargo/release/rmcp-echo").into()];
        server.extend(configuration.map(Into::into));
        for revision in HANDSHAKE.into_iter().chain([STATELESS]) {
            assert_eq!(open(revision, &server), opened(revision, "rmcp", &["tools"]), "{configuration:?}");
        }
    }
}

/// A session with this server, in the revision that was asked for.
fn opened(revision: &str, server: &str, agreed: &[&str]) -> Value {
    let sent = match revision {
        STATELESS => json!(["server/discover"]),
        _ => json!(["initialize", "notifications/initialized"]),
    };
    json!({
        "code": 0,
        "opened": true,
        "dialect": "mcp",
        "version": revision,
        "server": server,
        "agreed": agreed,
        "not_in_this_version": [],
        "sent": sent,
    })
}

/// No session, because the server answered with this error.
fn refused(code: &str) -> Value {
    json!({ "code": 3, "opened": false, "dialect": "mcp", "error": code })
}

/// Opens a server as an MCP client of a revision; what of the report must not vary.
fn open(revision: &str, server: &[OsString]) -> Value {
    let version = format!("mcp@{revision}");
    let mut command: Vec<OsString> = [GLADHAND, "open", "--as", &version, "--json", "--"].map(Into::into).to_vec();
    command.extend_from_slice(server);
    let printed = run(&command);
    let report = &printed.json;
    let messages = report["messages"].as_array().expect("a report has messages");
    if report["opened"] == false {
        let error = messages.iter().rev().find_map(|entry| entry["message"]["error"].get("code")).map(Value::to_string);
        let error = error.unwrap_or_else(|| report["refusal"].to_string());
        return json!({ "code": printed.code, "opened": false, "dialect": report["dialect"], "error": error });
    }
    // Parts (`tools.listChanged`) are left out: whether a server sends such notices is not what opens it.
    let terms = |wanted: &dyn Fn(&Value) -> bool| {
        let terms = report["agreement"]["terms"].as_array().expect("an agreement has terms").iter();
        let terms = terms.filter(|term| term["owner"] == "server" && wanted(term));
        let mut names: Vec<&str> = terms.filter_map(|term| term["capability"].as_str()).collect();
        names.retain(|name| !name.contains('.'));
        names.sort_unstable();
        json!(names)
    };
    // Once open, a server may ask things of its own, which we then answer: only our own messages count.
    let sent =
        messages.iter().filter(|entry| entry["from"] == "client").filter_map(|entry| entry["message"].get("method"));
    json!({
        "code": printed.code,
        "opened": report["opened"],
        "dialect": report["dialect"],
        "version": report["version"],
        "server": report["agreement"]["server"]["name"],
        "agreed": terms(&|term| term["verdict"] == "agreed"),
        "not_in_this_version": terms(&|term| term["why"] == "not_in_this_version"),
        "sent": sent.collect::<Vec<_>>(),
    })
}
