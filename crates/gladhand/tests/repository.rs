//! The repository tools through every dialect, and on the command line.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use serde_json::Value;

const GLADHAND: &str = env!("CARGO_BIN_EXE_gladhand");

/// A small application, and a configuration that offers the tools.
fn shop() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("pyproject.toml", "[project]\nname = \"shop\"\nversion = \"1\"\ndependencies = [\"fastapi==0.115.0\"]\n");
    write(
        "main.py",
        "from fastapi import FastAPI\n\napp = FastAPI()\n\n\n@app.get(\"/\")\ndef home():\n    return {}\n",
    );
    write("gladhand.toml", "[repository]\nenabled = true\n");
    folder
}

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(GLADHAND);
    command
        .current_dir(folder)
        .env("GLADHAND_CONFIG", "gladhand.toml")
        .env("GLADHAND_DATA_DIR", folder.join("data"))
        .args(words);
    command.output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn frameworks_are_detected_through_every_dialect() {
    let shop = shop();
    let root = format!("root={}", shop.path().display());
    for dialect in ["mcp@2025-11-25", "mcp@2026-07-28", "a2e", "loaf", "fluxloop"] {
        let words = ["call", "detect_frameworks", &root, "--as", dialect, "--json", "--", GLADHAND, "serve"];
        let answer: Value = serde_json::from_str(&printed(&run(shop.path(), &words))).unwrap();
        let text = answer.to_string();
        assert!(text.contains("\"fastapi\""), "{dialect}: {answer:#}");
        assert!(text.contains("main.py"), "{dialect}: the evidence names the file: {answer:#}");
    }
}

/// A server in this folder that was told these lines, and where it hears more.
fn told(folder: &Path, lines: &[&str]) -> (Child, ChildStdin) {
    let mut command = Command::new(GLADHAND);
    command
        .current_dir(folder)
        .env("GLADHAND_CONFIG", "gladhand.toml")
        .env("GLADHAND_DATA_DIR", folder.join("data"))
        .arg("serve");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(format!("{}\n", lines.join("\n")).as_bytes()).expect("it reads");
    (child, stdin)
}

/// Everything that a server answers to lines.
fn answers(folder: &Path, lines: &[&str]) -> String {
    let (child, _) = told(folder, lines);
    printed(&child.wait_with_output().expect("it ends"))
}

/// What a server says up to a line with this in it, while it could be told more.
fn said_until(sign: &str, folder: &Path, lines: &[&str]) -> Vec<String> {
    let (mut child, stdin) = told(folder, lines);
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        said.push(line.expect("UTF-8"));
        if said.last().is_some_and(|line| line.contains(sign)) {
            break;
        }
    }
    drop(stdin);
    assert!(
        child.wait().expect("it ends").success() && said.last().is_some_and(|line| line.contains(sign)),
        "{said:#?}"
    );
    said
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const A2E_HANDSHAKE: &str =
    r#"{"a2e":"1.0","type":"handshake/req","id":"1","ts":1.5,"agent_id":"c","agent_caps":["tools"],"auth_token":""}"#;
const LOAF_HANDSHAKE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake"}"#;

#[test]
fn whoever_speaks_fluxloop_has_its_tools_and_others_when_they_are_configured() {
    let shop = shop();
    let config = shop.path().join("gladhand.toml");
    std::fs::write(&config, "").unwrap();
    let has_them = |lines: &[&str]| answers(shop.path(), lines).contains("analyze_repository");
    let handshake = r#"{"type":"handshake","id":"1"}"#;
    assert!(has_them(&[handshake]));
    assert!(has_them(&[r#"{"tool":"handshake","id":1}"#]), "in the shipped form too");
    assert!(has_them(&["no JSON", handshake]), "whatever came before");
    assert!(has_them(&[r#"{"type":"request","id":"1","tool":"nothing"}"#]), "also without a handshake");
    let listed = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    assert!(!has_them(&[INITIALIZE, INITIALIZED, listed]));
    assert!(!has_them(&[A2E_HANDSHAKE, r#"{"a2e":"1.0","type":"tool/list/req","id":"2","ts":1.5}"#]));
    assert!(!has_them(&[LOAF_HANDSHAKE, r#"{"jsonrpc":"2.0","id":2,"method":"tools.list"}"#]));
    let tools = |words: &[&str]| printed(&run(shop.path(), &[&["tools", "--"], words].concat()));
    assert!(tools(&[GLADHAND, "serve", "--dialect", "fluxloop"]).contains("analyze_repository"));
    std::fs::write(&config, "[toolbox]\nenabled = false\n").unwrap();
    assert!(has_them(&[handshake]), "also where there is nothing else");
    std::fs::write(&config, "[repository]\nenabled = false\n").unwrap();
    assert!(!has_them(&[handshake]));
    std::fs::write(&config, "[repository]\nenabled = true\n").unwrap();
    assert!(has_them(&[INITIALIZE, INITIALIZED, listed]));
}

#[test]
fn a_workflow_tells_how_far_it_is_in_every_dialect_that_can() {
    let shop = shop();
    let mcp = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_integration_workflow","arguments":{"root":"."},"_meta":{"progressToken":"p"}}}"#;
    let loaf = r#"{"jsonrpc":"2.0","id":2,"method":"tools.call","params":{"name":"run_integration_workflow","arguments":{"root":"."}}}"#;
    let a2e = r#"{"a2e":"1.0","type":"tool/call/req","id":"2","ts":1.5,"tool_name":"run_integration_workflow","arguments":{"root":"."},"streaming":true}"#;
    let fluxloop = r#"{"type":"request","id":"2","tool":"run_integration_workflow","params":{"root":"."}}"#;
    let reports = |lines: &[&str], sign: &str| -> Vec<String> {
        said_until("\"edit_plan\"", shop.path(), lines).into_iter().filter(|line| line.contains(sign)).collect()
    };
    for (lines, sign) in [
        (&[INITIALIZE, INITIALIZED, mcp][..], "notifications/progress"),
        (&[LOAF_HANDSHAKE, loaf][..], "tool.progress"),
        (&[A2E_HANDSHAKE, a2e][..], "tool/event"),
    ] {
        let told = reports(lines, sign);
        for stage in ["listing files", "reading files", "detecting frameworks", "planning edits", "validating the plan"]
        {
            assert!(told.iter().any(|line| line.contains(stage)), "{sign}: {stage} is not among {told:#?}");
        }
    }
    assert_eq!(reports(&[A2E_HANDSHAKE, &a2e.replace("true", "false")], "tool/event"), Vec::<String>::new());
    assert_eq!(reports(&[fluxloop], "reading files"), Vec::<String>::new(), "Fluxloop has no words for it");
}

#[test]
fn folders_that_are_named_and_not_there_are_told() {
    let shop = shop();
    let named = "[repository]\nroots = [\"gone\"]\n[agent]\nroots = [\"nowhere\"]\n";
    std::fs::write(shop.path().join("other.toml"), named).unwrap();
    let checked = run(shop.path(), &["config", "check", "--config", "other.toml"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let told = String::from_utf8(checked.stdout).unwrap();
    let here = shop.path().canonicalize().unwrap().display().to_string();
    let missing = |place: &str, folder: &str| format!("{place}: there is no folder {here}/{folder}");
    assert!(told.contains(&missing("other.toml:2:10: warning: repository.roots#1", "gone")), "{told}");
    assert!(told.contains(&missing("other.toml:4:10: warning: agent.roots#1", "nowhere")), "{told}");
    let looked = run(shop.path(), &["doctor", "--config", "other.toml"]);
    assert_eq!(looked.status.code(), Some(1), "{looked:?}");
    let told = String::from_utf8(looked.stdout).unwrap();
    assert!(told.contains(&missing("repository.roots#1", "gone")), "{told}");
}

#[test]
fn the_command_line_shows_the_evidence_and_plans_what_can_be_applied() {
    let shop = shop();
    let found = printed(&run(shop.path(), &["repo", "frameworks", "."]));
    assert!(found.starts_with("FastAPI 0.115.0"), "{found}");
    assert!(found.contains("main.py:1  from fastapi import FastAPI"), "{found}");
    let mut lines: Vec<_> = found.lines().collect();
    lines.sort_unstable();
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "nothing is shown twice: {found}");
    let profile: Value = serde_json::from_str(&printed(&run(shop.path(), &["repo", "analyze", "--json"]))).unwrap();
    assert_eq!(profile["languages"][0], "python");
    let plan = printed(&run(shop.path(), &["repo", "plan", "--json"]));
    std::fs::write(shop.path().join("plan.json"), &plan).unwrap();
    assert!(printed(&run(shop.path(), &["repo", "validate", "--plan", "plan.json"])).starts_with("valid"), "{plan}");
    std::fs::write(shop.path().join("main.py"), "print('something else')\n").unwrap();
    let verdict = run(shop.path(), &["repo", "validate", "--plan", "plan.json"]);
    assert_eq!(verdict.status.code(), Some(1), "{verdict:?}");
    let refused = run(shop.path(), &["repo", "plan", "--target", "gladhand", "--framework", "fastapi"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only MCP servers can be registered"), "{refused:?}");
    let answer = printed(&run(shop.path(), &["repo", "faq", "How do I put a server behind a client?"]));
    assert!(answer.contains(".md:"), "{answer}");
    let missing = run(shop.path(), &["repo", "analyze", "nowhere"]);
    assert_eq!(missing.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("does not exist"), "{missing:?}");
}
