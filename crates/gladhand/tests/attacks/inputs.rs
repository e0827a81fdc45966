//! Input of models, peers and clones that is costly or fatal to parse, and folders that a peer chooses.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::approval::{Listening, Stage, ask_agent_in};

/// Braces in braces: a parser that calls itself for each overflows its stack, which ends the process.
fn nested() -> String {
    format!("{}a{}", "{".repeat(60_000), "}".repeat(60_000))
}

fn write(stage: &Stage, path: &str, text: &str) {
    let path = stage.at("work").join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
    std::fs::write(path, text).expect("the folder is there");
}

#[test]
fn no_nested_glob_of_a_model_or_of_a_clone_ends_the_process() {
    let (shallow, deep) = (format!("{}a{}", "{".repeat(500), "}".repeat(500)), nested());
    let mut calls = Vec::new();
    for pattern in [shallow.as_str(), deep.as_str()] {
        calls.push(("glob_files", json!({"pattern": pattern})));
        calls.push(("grep_files", json!({"pattern": "x", "include": pattern})));
        calls.push(("analyze_repository", json!({"root": "<WORK>", "globs": [pattern]})));
    }
    for _ in 0..2 {
        calls.push(("glob_files", json!({"pattern": "*"})));
        calls.push(("grep_files", json!({"pattern": "needle"})));
        calls.push(("analyze_repository", json!({"root": "<WORK>"})));
    }
    let stage = Stage::new("[repository]\nenabled = true", &calls);
    write(&stage, "found.md", "needle\n");
    write(&stage, "sub/.gitignore", &deep);
    write(&stage, "other/.ignore", &deep);
    write(&stage, "package.json", &json!({"name": "x", "workspaces": [deep]}).to_string());
    write(&stage, "Cargo.toml", &format!("[workspace]\nmembers = ['{deep}']\n"));
    write(&stage, "pnpm-workspace.yaml", &format!("packages:\n  - '{deep}'\n"));
    write(&stage, "pyproject.toml", &format!("[tool.uv.workspace]\nmembers = ['{deep}']\n"));
    let told = stage.chat(&[]);
    assert_eq!(told.len(), calls.len(), "{told:?}");
    for told in &told[..6] {
        assert!(told.contains("the glob is longer than") || told.contains("nested more than"), "{told}");
    }
    assert!(told[6].contains("found.md") && told[7].contains("found.md"), "the rest is found: {told:?}");
    // Also if the folder above the root has the file.
    write(&stage, "../.gitignore", &deep);
    assert!(stage.gladhand(&["repo", "analyze"]).output().expect("it starts").status.success());
}

#[test]
fn a_source_file_that_is_costly_to_parse_does_not_hang_an_analysis() {
    let stage = Stage::new("", &[]);
    write(&stage, "setup.py", &"(".repeat(500_000));
    let begun = Instant::now();
    assert!(stage.gladhand(&["repo", "analyze"]).output().expect("it starts").status.success());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// Services are often started in `/`, and every folder is below it.
#[test]
fn a_server_that_was_started_in_the_root_directory_makes_no_folder_of_a_peer_a_workspace() {
    let config = "[agent]\ntools = true\n[[authorization.tokens]]\nname = 'ann'\ntoken = 'of-ann-0123456789'\n";
    let asked = |launched_in: &dyn Fn(&Stage) -> std::path::PathBuf| {
        let stage = Stage::new(config, &[("read_file", json!({"file_path": "<WORK>/diary"}))]);
        write(&stage, "diary", "dear diary\n");
        let mut command: Command = stage.gladhand(&["serve", "--http", "127.0.0.1:0"]);
        command.current_dir(launched_in(&stage));
        let folder: Value = json!(stage.at("work"));
        ask_agent_in(&Listening::start(command), &stage, "of-ann-0123456789", &json!({"cwd": folder}))[0].clone()
    };
    let told = asked(&|stage| stage.at("work"));
    assert!(told.contains("dear diary"), "the folder of the server is a workspace: {told}");
    let told = asked(&|_| "/".into());
    assert!(!told.contains("dear diary") && told.contains("outside of the workspace"), "{told}");
}

/// Opening a pipe waits for a writer.
#[test]
fn a_pipe_in_the_data_folder_makes_no_command_wait() {
    let stage = Stage::new("[policy]\npin = 'stop'\n", &[]);
    for file in ["data/pins.json", "data/eras.json", "data/secrets.sealed"] {
        std::fs::create_dir_all(stage.at("data")).expect("the folder is ours");
        let made = Command::new("mkfifo").arg(stage.at("").join(file)).status().expect("it starts");
        assert!(made.success());
    }
    for arguments in [&["tools"][..], &["secret", "list"]] {
        let mut child = stage.gladhand(arguments).stdout(std::process::Stdio::null()).spawn().expect("it starts");
        let begun = Instant::now();
        while child.try_wait().expect("it is ours").is_none() {
            let is_late = begun.elapsed() > Duration::from_secs(60);
            if is_late {
                child.kill().expect("it is ours");
            }
            assert!(!is_late, "{arguments:?} waits");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
