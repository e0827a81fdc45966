//! `gladhand check` and `gladhand probe` on real servers: each keeps the MUST rules, or shows its known defects.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::installed::{GLADHAND, node, peers, python};

/// A server, the MUST rules that it breaks, and SHOULD rules that it is known to break.
struct Case {
    name: &'static str,
    server: Vec<OsString>,
    must: &'static [&'static str],
    should: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let everything = "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let everything = vec![peers().join("bin/node").into(), peers().join(everything).into(), "stdio".into()];
    let rmcp = vec![peers().join("cargo/release/rmcp-echo").into()];
    vec![
        Case {
            name: "server-everything",
            server: everything,
            must: &[],
            should: &["mcp.call.unknown-tool-code", "mcp.pages.bad-cursor", "mcp.read.unknown-code"],
        },
        Case {
            name: "TypeScript SDK 1",
            server: node("servers/ts-v1.mjs"),
            must: &[],
            should: &["mcp.call.unknown-tool-code"],
        },
        Case {
            name: "TypeScript SDK 2",
            server: node("servers/ts-v2.mjs"),
            must: &[],
            should: &["mcp.pages.bad-cursor"],
        },
        Case {
            // It answers unknown methods with -32602, and reports an unreadable line in a log message without `logging`.
            name: "Python SDK 1",
            server: python("py1", "servers/py_v1.py"),
            must: &["mcp.error.unknown-method", "mcp.gate.log-messages"],
            should: &["mcp.gate.logging-closed"],
        },
        Case {
            name: "Python SDK 2",
            server: python("py2", "servers/py_v2.py"),
            must: &[],
            should: &["mcp.pages.bad-cursor"],
        },
        Case {
            // Its default handler answers lists that were not declared with empty results.
            name: "rmcp",
            server: rmcp,
            must: &[],
            should: &["mcp.gate.resources-closed", "mcp.gate.prompts-closed", "mcp.gate.completion-closed"],
        },
    ]
}

fn report(command: &str, options: &[&str], server: &[OsString]) -> Value {
    let mut gladhand = Command::new(GLADHAND);
    gladhand.arg(command).args(options).arg("--json").arg("--").args(server);
    let nowhere = std::env::temp_dir().join("gladhand-tests-have-no-home");
    gladhand.env("HOME", &nowhere).env("XDG_CONFIG_HOME", &nowhere).env("XDG_DATA_HOME", &nowhere);
    let output = gladhand.stdin(Stdio::null()).output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"))
}

#[test]
fn reference_servers_keep_the_rules_or_show_their_known_defects() {
    for case in cases() {
        let report = report("check", &["--server", "--timeout", "20"], &case.server);
        let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{}: {report:#}", case.name));
        let broken = |level: &str| {
            let broken = checks.iter().filter(|check| check["level"] == level && check["verdict"] == "broken");
            broken.map(|check| check["id"].as_str().expect("a name")).collect::<Vec<_>>()
        };
        assert_eq!(broken("must"), case.must, "{}: {report:#}", case.name);
        for rule in case.should {
            assert!(broken("should").contains(rule), "{}: {rule} is not among {:?}", case.name, broken("should"));
        }
        assert!(report["kept"].as_u64().is_some_and(|kept| kept >= 60), "{}: {}", case.name, report["kept"]);
    }
}

#[test]
fn a_probe_lists_the_revisions_that_a_real_server_accepts() {
    let server = &cases()[0].server;
    let report = report("probe", &[], server);
    let accepted = report["clients"].as_array().expect("clients").iter().filter(|client| client["opened"] == true);
    let accepted: Vec<_> = accepted.map(|client| client["asked_version"].as_str().expect("a version")).collect();
    assert_eq!(accepted, ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], "{report:#}");
    assert_eq!(report["unknown_versions"][0]["version"], "2025-11-25", "{report:#}");
    let tools = report["clients"][1]["lists"][0]["count"].as_u64();
    assert!(tools.is_some_and(|tools| tools > 5), "{report:#}");
    let codes: Vec<_> = report["oddities"].as_array().expect("oddities").iter().map(|odd| &odd["code"]).collect();
    assert!(codes.iter().any(|code| *code == "serves_before_initialize"), "{codes:?}");
}
