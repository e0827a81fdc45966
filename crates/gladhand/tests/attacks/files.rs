//! File tools of the agent: secrets and system files are not read without approval.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::approval::{Listening, Stage, ask_agent};
use crate::support::Process;

/// A text that must not reach the model.
const SECRET: &str = "correct-horse-battery-staple";

/// A stage with secrets around the workspace and links to them in it. The model wants these tools called.
fn stage(calls: &[(&str, Value)]) -> Stage {
    let stage = Stage::new("", calls);
    for folder in
        ["home/.ssh", "home/.aws", "home/.config/gladhand", "home/project", "data/agent", "work/deep", "work/.git"]
    {
        std::fs::create_dir_all(stage.at(folder)).expect("the folder is there");
    }
    for file in [
        "home/.ssh/config",
        "home/.aws/credentials",
        "home/.config/gladhand/gladhand.toml",
        "home/project/notes",
        "data/agent/chat",
        "work/.env",
        "work/server.pem",
        "work/deep/id_ed25519",
        "work/.git/config",
        "work/terraform.tfstate",
        "work/.bash_history",
    ] {
        std::fs::write(stage.at(file), format!("{SECRET}\n")).expect("the folder is there");
    }
    std::fs::write(stage.at("work/plain"), "nothing to hide\n").expect("the folder is there");
    for (link, target) in [
        ("environ", "/proc/self/environ".into()),
        ("fds", "/dev/fd".into()),
        ("stdin", "/dev/stdin".into()),
        ("root", "/proc/self/root".into()),
        ("keys", stage.at("home/.ssh")),
        ("above", stage.at("")),
    ] {
        symlink(target, stage.at("work").join(link)).expect("the folder is there");
    }
    std::fs::hard_link(stage.at("home/.ssh/config"), stage.at("work/twin")).expect("one file system");
    stage
}

/// A path of the workspace.
fn here(path: &str) -> String {
    format!("<WORK>/{path}")
}

#[test]
fn no_secret_is_read_by_any_path_without_approval() {
    let mut calls = vec![("read_file", json!({"file_path": here("plain")}))];
    let direct = ["/proc/self/environ", "/proc/thread-self/environ", "/proc/self/cwd/../home/.ssh/config", "/dev/fd/0"];
    calls.extend(direct.map(|path| ("read_file", json!({"file_path": path}))));
    for path in [
        "environ",
        "stdin",
        "root/proc/self/environ",
        "fds/../environ",
        "keys/config",
        "twin",
        ".env",
        "server.pem",
        "deep/id_ed25519",
        ".git/config",
        "terraform.tfstate",
        ".bash_history",
        "above/home/.ssh/config",
        "above/home/.aws/credentials",
        "above/home/.config/gladhand/gladhand.toml",
        "above/home/project/notes",
        "above/data/agent/chat",
        "../home/project/notes",
        "deep/../../home/.ssh/config",
    ] {
        calls.push(("read_file", json!({"file_path": here(path)})));
        calls.push(("read_file", json!({"file_path": here(path), "mode": "indentation"})));
    }
    for path in [".", "..", "/", "~", "above", "keys", "above/home", "twin", "server.pem", "/proc/self/root"] {
        calls.push(("grep_files", json!({"pattern": "correct-horse", "path": path})));
        calls.push(("glob_files", json!({"pattern": "**/*", "path": path})));
    }
    for path in ["keys", "above/home/.ssh", "/proc/self/fd", "/dev/fd"] {
        calls.push(("list_dir", json!({"dir_path": if path.starts_with('/') { path.to_owned() } else { here(path) }})));
    }
    let moved = "*** Begin Patch\n*** Update File: twin\n*** Move to: copy\n@@\n-x\n+y\n*** End Patch";
    calls.push(("apply_patch", json!({"input": moved})));
    let stage = stage(&calls);
    let mut command = stage.gladhand(&["chat", "-p", "go"]);
    let output = command.env("A_KEY_OF_THE_USER", SECRET).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = stage.results();
    assert_eq!(told.len(), calls.len());
    assert!(told[0].contains("nothing to hide"), "the workspace is read: {}", told[0]);
    for (told, call) in told.iter().zip(&calls) {
        assert!(!told.contains(SECRET), "{call:?}: {told}");
    }
    let globbed = told.iter().zip(&calls).filter(|(_, call)| call.0 == "glob_files");
    for (told, call) in globbed {
        assert!(!told.contains("credentials"), "{call:?}: {told}");
    }
    assert!(!stage.sent().contains(SECRET), "nothing of it reached the model");
}

#[test]
fn a_read_outside_of_the_workspace_runs_once_a_person_allows_it() {
    let stage = stage(&[
        ("read_file", json!({"file_path": here("keys/config")})),
        ("read_file", json!({"file_path": here("above/home/.aws/credentials")})),
        ("read_file", json!({"file_path": "/proc/self/environ"})),
    ]);
    let mut command = stage.gladhand(&["serve", "--dialect", "loaf"]);
    command.env("A_KEY_OF_THE_USER", SECRET);
    let mut client = Process::start(command);
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake","params":{"approvals":true}}"#);
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"session.create","params":{}}"#);
    let session = until(&mut client, |line| line["id"] == 2)["result"]["session_id"].clone();
    let send =
        json!({"jsonrpc": "2.0", "id": 3, "method": "session.send", "params": {"session_id": session, "text": "go"}});
    client.send(&send.to_string());
    for (id, place) in [(4, "home/.ssh/config"), (5, "home/.aws/credentials")] {
        let asked = until(&mut client, |line| line["params"]["type"] == "session.approval.requested");
        let asked = &asked["params"]["payload"];
        assert_eq!(asked["reason"], format!("{} may hold secrets", stage.at(place).display()));
        // `always` covers this file and no other.
        let params = json!({"session_id": session, "call_id": asked["call_id"], "allow": true, "always": true});
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session.approve", "params": params}).to_string());
    }
    until(&mut client, |line| line["params"]["type"] == "session.completed");
    let told = stage.results();
    assert!(told[0].contains(SECRET) && told[1].contains(SECRET), "{told:?}");
    #[cfg(target_os = "linux")]
    assert!(told[2].contains("is private") && !told[2].contains(SECRET), "approval does not cover it: {told:?}");
}

/// The first line that is meant.
fn until(client: &mut Process, is_meant: impl Fn(&Value) -> bool) -> Value {
    loop {
        let line = client.value();
        if is_meant(&line) {
            return line;
        }
    }
}

#[test]
fn an_approval_names_the_reason_of_each_place() {
    let add = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    let stage = stage(&[
        ("read_file", json!({"file_path": here("above/home/project/notes")})),
        ("apply_patch", json!({"input": add(".husky/pre-commit")})),
        ("read_file", json!({"file_path": here(".git/config")})),
    ]);
    let mut client = Process::start(stage.gladhand(&["serve", "--dialect", "loaf"]));
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"rpc.handshake","params":{"approvals":true}}"#);
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"session.create","params":{}}"#);
    let session = until(&mut client, |line| line["id"] == 2)["result"]["session_id"].clone();
    let send =
        json!({"jsonrpc": "2.0", "id": 3, "method": "session.send", "params": {"session_id": session, "text": "go"}});
    client.send(&send.to_string());
    for (id, place, why) in [
        (4, "home/project/notes", "is outside of the workspace"),
        (5, "work/.husky/pre-commit", "decides which programs run"),
        (6, "work/.git/config", "may hold secrets"),
    ] {
        let asked = until(&mut client, |line| line["params"]["type"] == "session.approval.requested");
        let asked = &asked["params"]["payload"];
        assert_eq!(asked["reason"], format!("{} {why}", stage.at(place).display()));
        let params = json!({"session_id": session, "call_id": asked["call_id"], "allow": false});
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session.approve", "params": params}).to_string());
    }
    until(&mut client, |line| line["params"]["type"] == "session.completed");
    assert!(!stage.at("work/.husky").exists());
}

/// Two tokens, an audit file and keys of an issuer, all in the workspace.
const SERVED: &str = "[agent]
tools = true
allow = ['reads', 'writes', 'faq']
[repository]
enabled = true
[audit]
file = 'audit.jsonl'
[authorization]
resource = 'https://gladhand.example/mcp'
[[authorization.issuers]]
issuer = 'https://issuer.example'
jwks_file = 'keys.json'
[[authorization.tokens]]
name = 'alice'
token = 'alice-token-0123456789'
[[authorization.tokens]]
name = 'bob'
token = 'correct-horse-battery-staple'
";

#[test]
fn no_file_in_force_is_read_or_written_by_a_model() {
    let names = ["gladhand.toml", "audit.jsonl", "audit.jsonl.1", "audit.jsonl.12", "keys.json"];
    let links = ["soft", "hard", "hard-audit"];
    let mut calls = vec![("read_file", json!({"file_path": here("plain")}))];
    calls.extend(names.iter().chain(&links).map(|name| ("read_file", json!({"file_path": here(name)}))));
    calls.push(("grep_files", json!({"pattern": "correct-horse", "path": "."})));
    calls.push(("grep_files", json!({"pattern": "correct-horse", "path": "gladhand.toml"})));
    let change = "*** Begin Patch\n*** Update File: gladhand.toml\n@@\n-tools = true\n+approve = 'all'\n*** End Patch";
    let moved = change.replace("\n@@", "\n*** Move to: copy\n@@");
    calls.extend([change, &moved].map(|patch| ("apply_patch", json!({"input": patch}))));
    calls.push(("faq", json!({"query": "correct horse battery staple token", "docs": "."})));
    let stage = stage(&calls);
    let work = |path: &str| stage.at("work").join(path);
    let write = |file: &str, text: &str| std::fs::write(work(file), text).expect("the folder is there");
    write("gladhand.toml", SERVED);
    for file in ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.12"] {
        write(file, &format!("{SECRET}\n"));
    }
    write("keys.json", &json!({"keys": [], "note": SECRET}).to_string());
    symlink(work("gladhand.toml"), work("soft")).expect("the folder is there");
    std::fs::hard_link(work("gladhand.toml"), work("hard")).expect("one file system");
    std::fs::hard_link(work("audit.jsonl.1"), work("hard-audit")).expect("one file system");
    let before = std::fs::read(work("gladhand.toml")).expect("it is there");
    let mut command = stage.gladhand(&["serve", "--config", "gladhand.toml", "--http", "127.0.0.1:0"]);
    command.env_remove("GLADHAND_CONFIG");
    let told = ask_agent(&Listening::start(command), &stage, "alice-token-0123456789");
    assert_eq!(told.len(), calls.len(), "{told:?}");
    assert!(told[0].contains("nothing to hide"), "the workspace is read: {}", told[0]);
    for (told, call) in told.iter().zip(&calls) {
        assert!(!told.contains(SECRET), "{call:?}: {told}");
    }
    for (told, name) in told[1..].iter().zip(names) {
        assert!(told.contains("is private"), "{name}: {told}");
    }
    assert!(!stage.sent().contains(SECRET), "nothing of it reached the model");
    assert_eq!(std::fs::read(work("gladhand.toml")).ok(), Some(before), "nothing of it was changed");
}

/// Files that agents, editors and runtimes read as instructions, tools or settings. None is an instruction, a tool or a setting
/// of ours, unless it is trusted.
#[test]
fn no_file_of_a_folder_is_an_instruction_a_tool_or_a_setting() {
    let stage = Stage::new("", &[("run_js", json!({"code": "console.log('ran')", "runtime": "node"}))]);
    let instructions = [
        "AGENT.md",
        "AGENTS.md",
        "AGENTS.override.md",
        "CLAUDE.md",
        "CLAUDE.local.md",
        "GEMINI.md",
        "QWEN.md",
        ".cursorrules",
        ".rules",
        ".windsurfrules",
        ".goosehints",
        ".github/copilot-instructions.md",
        ".agents/AGENTS.md",
        ".agents/prompts/go.md",
        ".agents/commands/go.md",
        ".agents/skills/go/SKILL.md",
        ".claude/skills/go/SKILL.md",
        ".claude/agents/go.md",
        ".gladhand/instructions.md",
        ".gladhand/skills/go/SKILL.md",
        "skills/go/SKILL.md",
        "SKILL.md",
    ];
    let text = format!("---\nname: go\ndescription: {SECRET}\n---\n{SECRET}\n");
    let tool = format!(
        "require('fs').writeFileSync('{}', ''); module.exports = {{ name: 'go', description: '{SECRET}', run() {{}} }};",
        stage.at("mark").display()
    );
    let tools = [".agents/tools/go.cjs", ".gladhand/tools/go.cjs", "tools/go.cjs", "agent/tools/go.cjs"];
    let settings = [
        (".env", "GLADHAND_COMPATIBLE_BASE=http://127.0.0.1:1/v1\nNODE_OPTIONS=--require ./tools/go.cjs\n"),
        (".mcp.json", r#"{"mcpServers": {"go": {"command": "node", "args": ["tools/go.cjs"]}}}"#),
        (".vscode/mcp.json", r#"{"servers": {"go": {"command": "node", "args": ["tools/go.cjs"]}}}"#),
        (".npmrc", "node-options=--require ./tools/go.cjs\n"),
        ("bunfig.toml", "preload = ['./tools/go.cjs']\n"),
        ("gladhand.toml", "[upstreams.go]\ncommand = ['node', 'tools/go.cjs']\n"),
        (".gladhand.toml", "[upstreams.go]\ncommand = ['node', 'tools/go.cjs']\n"),
        (".gladhand/gladhand.toml", "[upstreams.go]\ncommand = ['node', 'tools/go.cjs']\n"),
    ];
    let all = instructions.iter().map(|name| (*name, text.as_str()));
    for (name, text) in all.chain(tools.iter().map(|name| (*name, tool.as_str()))).chain(settings) {
        let path = stage.at("work").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    }
    let mut command = stage.gladhand(&["chat", "-p", "do $go and @go", "--approve", "all"]);
    // The files of the user and of the project, instead of a named one.
    command.env_remove("GLADHAND_CONFIG");
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stage.results()[0].contains("ran"), "{:?}", stage.results());
    assert!(!stage.sent().contains(SECRET), "{}", stage.sent());
    assert!(!stage.at("mark").exists(), "no code of the folder ran");
}
