//! The repository tools through every dialect, and on the command line.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

use std::path::Path;
use std::process::{Command, Output};

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
    command.current_dir(folder).env("GLADHAND_DATA_DIR", folder.join("data")).args(words);
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

#[test]
fn fluxloop_has_its_tools_when_it_is_asked_for_by_name_and_others_when_they_are_configured() {
    let shop = shop();
    std::fs::remove_file(shop.path().join("gladhand.toml")).unwrap();
    let tools = |words: &[&str]| printed(&run(shop.path(), &[&["tools", "--"], words].concat()));
    assert!(tools(&[GLADHAND, "serve", "--dialect", "fluxloop"]).contains("analyze_repository"));
    assert!(!tools(&[GLADHAND, "serve"]).contains("analyze_repository"));
}

#[test]
fn the_command_line_shows_the_evidence_and_plans_what_can_be_applied() {
    let shop = shop();
    let found = printed(&run(shop.path(), &["repo", "frameworks", "."]));
    assert!(found.starts_with("FastAPI 0.115.0"), "{found}");
    assert!(found.contains("main.py:1  from fastapi import FastAPI"), "{found}");
    let profile: Value = serde_json::from_str(&printed(&run(shop.path(), &["repo", "analyze", "--json"]))).unwrap();
    assert_eq!(profile["languages"][0], "python");
    let plan = printed(&run(shop.path(), &["repo", "plan", "--json"]));
    std::fs::write(shop.path().join("plan.json"), &plan).unwrap();
    assert!(printed(&run(shop.path(), &["repo", "validate", "--plan", "plan.json"])).starts_with("valid"), "{plan}");
    std::fs::write(shop.path().join("main.py"), "print('something else')\n").unwrap();
    let verdict = run(shop.path(), &["repo", "validate", "--plan", "plan.json"]);
    assert_eq!(verdict.status.code(), Some(1), "{verdict:?}");
    let answer = printed(&run(shop.path(), &["repo", "faq", "How do I put a server behind a client?"]));
    assert!(answer.contains(".md:"), "{answer}");
    let missing = run(shop.path(), &["repo", "analyze", "nowhere"]);
    assert_eq!(missing.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("does not exist"), "{missing:?}");
}
