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

/// The output of a server up to a line that contains this, while its input stays open.
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
fn fluxloop_clients_get_repository_tools_and_other_clients_only_if_enabled() {
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
fn a_workflow_reports_progress_in_every_dialect_that_has_progress() {
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
fn missing_configured_folders_are_reported() {
    let shop = shop();
    let named = "[repository]\nroots = [\"gone\"]\n[agent]\nroots = [\"nowhere\"]\n";
    std::fs::write(shop.path().join("other.toml"), named).unwrap();
    let checked = run(shop.path(), &["config", "check", "--config", "other.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
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
fn repo_commands_show_evidence_and_print_an_applicable_plan() {
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
    assert!(plan.contains("\"target\":\"mcp-server\""), "an application gets an MCP endpoint: {plan}");
    let refused = run(shop.path(), &["repo", "plan", "--target", "gladhand", "--framework", "fastapi"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("only MCP servers can be registered"), "{refused:?}");
    let answer = printed(&run(shop.path(), &["repo", "faq", "How do I put a server behind a client?"]));
    assert!(answer.contains(".md:"), "{answer}");
    let missing = run(shop.path(), &["repo", "analyze", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("does not exist"), "{missing:?}");
}

/// The answers to lines, each as JSON.
fn values(folder: &Path, lines: &[&str]) -> Vec<Value> {
    answers(folder, lines).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_missing_parameter_is_a_tool_error_that_names_it_and_its_type() {
    let shop = shop();
    let ask = |tool: &str, params: &str| {
        let line = format!(r#"{{"type":"request","id":"1","tool":"{tool}","params":{params}}}"#);
        values(shop.path(), &[&line]).remove(0)["error"].take()
    };
    for (tool, params, message, param, expected) in [
        ("faq", "{}", "query is required", "query", "string"),
        ("faq", "null", "query is required", "query", "string"),
        ("faq", r#"{"query":null}"#, "query is required", "query", "string"),
        ("faq", r#"{"query":"  "}"#, "query is required", "query", "string"),
        ("generate_integration_steps", "{}", "framework is required", "framework", "string"),
        ("propose_edit_plan", r#"{"framework":""}"#, "framework is required", "framework", "string"),
        ("validate_edit_plan", "{}", "plan must be an object", "plan", "object"),
        ("echo", "{}", "message: required", "message", "string"),
    ] {
        let error = ask(tool, params);
        assert_eq!((&error["code"], &error["message"]), (&"tool_error".into(), &message.into()), "{tool} {params}");
        let details = &error["details"];
        assert_eq!((&details["missing_param"], &details["expected"]), (&param.into(), &expected.into()), "{error}");
    }
    assert!(ask("propose_edit_plan", "{}")["details"]["valid_frameworks"].to_string().contains("\"fastapi\""));
    for (tool, params, param, expected) in [
        ("faq", r#"{"query":5}"#, "query", "string"),
        ("faq", r#"{"query":"a","topK":"b"}"#, "topK", "integer"),
        ("analyze_repository", r#"{"root":[]}"#, "root", "string"),
        ("analyze_repository", r#"{"globs":"a"}"#, "globs", "array"),
        ("detect_frameworks", r#"{"repository_profile":[]}"#, "repository_profile", "object"),
    ] {
        let error = ask(tool, params);
        assert_eq!(error["code"], "invalid_payload", "{tool} {params}");
        assert_eq!(error["details"], serde_json::json!({ "param": param, "expected": expected }), "{tool} {params}");
    }
}

#[test]
fn a_file_as_root_gives_the_empty_profile() {
    let shop = shop();
    let said = values(
        shop.path(),
        &[
            r#"{"type":"request","id":"1","tool":"analyze_repository","params":{"root":"main.py"}}"#,
            r#"{"type":"request","id":"2","tool":"detect_frameworks","params":{"root":"main.py"}}"#,
            r#"{"type":"request","id":"3","tool":"run_integration_workflow","params":{"root":"main.py"}}"#,
        ],
    );
    let profile = &said[0]["result"];
    for list in ["languages", "packageManagers", "entryPoints", "frameworkCandidates"] {
        assert_eq!(profile[list], serde_json::json!([]), "{profile}");
    }
    assert_eq!(profile["riskFlags"], serde_json::json!(["missing_entrypoint"]));
    assert_eq!((&profile["stats"]["files"], &profile["stats"]["loc"]), (&0.into(), &0.into()));
    assert!(profile["warnings"][0].as_str().unwrap().contains("is a file"), "{profile}");
    assert_eq!(said[1]["result"]["frameworks"], serde_json::json!([]));
    assert_eq!(said[2]["result"]["profile"]["entryPoints"], serde_json::json!([]), "{}", said[2]);
}

#[test]
fn the_tools_of_the_page_come_first_in_every_list() {
    let shop = shop();
    let page = [
        "handshake",
        "faq",
        "analyze_repository",
        "detect_frameworks",
        "generate_integration_steps",
        "propose_edit_plan",
        "validate_edit_plan",
        "run_integration_workflow",
    ];
    let said = values(
        shop.path(),
        &[
            r#"{"type":"handshake","id":"1"}"#,
            r#"{"type":"request","id":"2","tool":"nosuch"}"#,
            r#"{"tool":"handshake"}"#,
        ],
    );
    let names = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
    assert_eq!(names(&said[0]["result"]["capabilities"]["tools"])[..8], page);
    assert_eq!(names(&said[1]["error"]["details"]["availableTools"])[..8], page);
    let shipped = names(&said[2]["result"]["data"]["capabilities"]);
    assert!(page[1..].iter().all(|name| shipped[..7].iter().any(|one| one == name)), "{shipped:?}");
    assert_eq!(shipped[0], "analyze_repository", "as the shipped server lists them");
}

#[test]
fn a_plan_without_a_target_registers_an_mcp_server() {
    let shop = shop();
    std::fs::write(shop.path().join("pyproject.toml"), "[project]\nname = \"shop\"\ndependencies = [\"fastmcp\"]\n")
        .unwrap();
    std::fs::write(
        shop.path().join("main.py"),
        "from fastmcp import FastMCP\n\nmcp = FastMCP(\"shop\")\n\nif __name__ == \"__main__\":\n    mcp.run()\n",
    )
    .unwrap();
    let words = |more: &[&'static str]| printed(&run(shop.path(), &[&["repo", "plan"], more].concat()));
    std::fs::remove_file(shop.path().join("gladhand.toml")).unwrap();
    let plan = words(&[]);
    assert!(plan.contains("target: gladhand, framework: fastmcp"), "{plan}");
    assert!(plan.contains("[upstreams.shop]"), "{plan}");
    let plan = words(&["--framework", "fastmcp"]);
    assert!(plan.contains("target: gladhand"), "{plan}");
}

#[test]
fn the_index_variables_of_fluxloop_select_the_indexed_folder() {
    let shop = shop();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transcripts/fluxloop/index-docs/chunks.jsonl");
    let index = shop.path().join("index");
    std::fs::create_dir(&index).unwrap();
    std::fs::copy(recorded, index.join("chunks.jsonl")).unwrap();
    // Only the index counts in its folder.
    std::fs::write(index.join("stray.md"), "# Integrate FastAPI\n\nHow do I integrate FastAPI? Integrate FastAPI!\n")
        .unwrap();
    let ask = |name: &str, path: &Path, line: &str| -> Value {
        let mut command = Command::new(GLADHAND);
        command
            .current_dir(shop.path())
            .env("GLADHAND_CONFIG", "gladhand.toml")
            .env("GLADHAND_DATA_DIR", shop.path().join("data"))
            .env(name, path)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        serde_json::from_str(&printed(&child.wait_with_output().unwrap())).unwrap()
    };
    let faq = r#"{"type":"request","id":"1","tool":"faq","params":{"query":"How do I integrate FastAPI?"}}"#;
    for (name, path) in [
        ("MCP_INDEX_PATH", index.clone()),
        ("MCP_INDEX_PATH", index.join("chunks.jsonl")),
        ("FLUXLOOP_MCP_INDEX_DIR", index.clone()),
    ] {
        let answer = ask(name, &path, faq);
        let result = &answer["result"];
        assert!(result["answer"].as_str().unwrap().contains("app.include_router(widget_router)"), "{name}: {answer}");
        let first = serde_json::json!({"path": "docs/guides/fastapi.md", "section": "FastAPI recipe", "line": 1});
        let mut cited = result["citations"][0].clone();
        cited.as_object_mut().unwrap().remove("score");
        assert_eq!(cited, first, "{name}: {answer}");
    }
    let workflow = r#"{"type":"request","id":"1","tool":"run_integration_workflow","params":{"root":".","question":"Which error code means that a widget was not found?"}}"#;
    let answer = ask("FLUXLOOP_MCP_INDEX_DIR", &index, workflow);
    let documents = answer["result"]["llm_inputs"]["rag_documents"].as_array().unwrap();
    let asked = documents.iter().find(|document| document["topic"] == "user-question").expect("the index has it");
    assert_eq!(asked["path"], "docs/reference/errors.md", "{asked}");
    assert!(asked["excerpt"].as_str().unwrap().contains("| W200 | widget not found |"), "{asked}");
    std::fs::write(index.join("chunks.jsonl"), "broken\n").unwrap();
    for (path, message) in [(Path::new("nowhere"), "could not open folder"), (&index, "has no readable chunk")] {
        let answer = ask("MCP_INDEX_PATH", path, faq);
        assert_eq!(answer["error"]["code"], "tool_error", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(message), "{answer}");
    }
}

#[test]
fn an_empty_folder_is_reported_once_as_without_framework() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = printed(&run(folder.path(), &["repo", "frameworks", "."]));
    assert_eq!(found.trim_end().lines().count(), 1, "{found}");
    assert!(found.contains("No supported frameworks detected"), "{found}");
}
