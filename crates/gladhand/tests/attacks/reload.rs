//! Reload: a changed file cannot widen what a running process does until it is trusted.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::project_files::{Clone, at_terminal};
use crate::support::{MCP_INITIALIZED, PATIENCE, Process, mcp_initialize};

/// An upstream that receives a folder as an argument, as a file server does.
fn upstream(name: &str, folder: &Path) -> String {
    let program = env!("CARGO_BIN_EXE_gladhand");
    let script = format!("exec '{program}' serve --config /dev/null");
    format!("[upstreams.{name}]\ncommand = ['sh', '-c', {}, {:?}]\n", Value::from(script), folder)
}

fn session(clone: &Clone) -> Process {
    let mut process = Process::start(clone.gladhand(&["serve", "-v"]));
    process.ask(&mcp_initialize("2025-11-25"));
    process.send(MCP_INITIALIZED);
    process
}

fn tools(process: &mut Process) -> Vec<String> {
    process.send(r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#);
    loop {
        let message = process.value();
        if message["id"] == 8 {
            let tools = message["result"]["tools"].as_array().expect("a list").iter();
            return tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect();
        }
    }
}

/// Waits until the tools of these upstreams are the ones on offer.
fn upstreams_become(process: &mut Process, expected: &[&str]) {
    let begun = Instant::now();
    loop {
        let found = tools(process);
        let upstreams: Vec<_> = found.iter().filter_map(|tool| tool.strip_suffix("__echo")).collect();
        if upstreams == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{upstreams:?} instead of {expected:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_change_that_a_tool_could_have_written_narrows_at_once_and_widens_when_trusted() {
    let clone = Clone::with("");
    std::fs::remove_file(clone.path("project/gladhand.toml")).expect("it is there");
    // The user's own file lies in a folder that one of its upstreams receives as an argument.
    let own = "config/gladhand/gladhand.toml";
    let (a, b, evil) = ["a", "b", "evil"].map(|name| upstream(name, &clone.path("config"))).into();
    clone.write(own, &(a.clone() + &b));
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a", "b"]);
    // One change adds an upstream and removes another: only the second half applies.
    clone.write(own, &(a.clone() + &evil));
    upstreams_become(&mut process, &["a"]);
    // An upstream that removes itself from the file has still written it: the next change is not trusted either. The rule
    // shows that the change was read.
    clone.write(own, "[upstreams]\n");
    upstreams_become(&mut process, &[]);
    clone.write(own, &(evil.clone() + "[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n"));
    let begun = Instant::now();
    while tools(&mut process).contains(&"wait".to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "the change is not read");
        std::thread::sleep(Duration::from_millis(50));
    }
    upstreams_become(&mut process, &[]);
    let path = clone.path(own).into_os_string().into_string().expect("UTF-8");
    let screen = at_terminal(clone.gladhand(&["config", "trust", &path]), &["y"]);
    assert!(screen.contains("starts    evil"), "{screen}");
    upstreams_become(&mut process, &["evil"]);
    let (_, _, log) = process.finish();
    assert!(log.contains("could have been written by a tool of this process"), "{log}");
    assert_eq!(log.matches("the configuration is applied: no change waits for trust any more").count(), 1, "{log}");
}

#[test]
fn an_upstream_without_folder_arguments_may_also_have_written_the_file() {
    let clone = Clone::with("");
    std::fs::remove_file(clone.path("project/gladhand.toml")).expect("it is there");
    let own = "config/gladhand/gladhand.toml";
    // The file server finds its folder in a variable that every program has.
    let program = env!("CARGO_BIN_EXE_gladhand");
    let a = format!("[upstreams.a]\ncommand = ['{program}', 'serve', '--config', '/dev/null']\n");
    let evil = a.replace("upstreams.a", "upstreams.evil");
    clone.write(own, &a);
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a"]);
    clone.write(own, &(a.clone() + &evil + "[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n"));
    let begun = Instant::now();
    while tools(&mut process).contains(&"wait".to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "the change is not read");
        std::thread::sleep(Duration::from_millis(50));
    }
    upstreams_become(&mut process, &["a"]);
    let path = clone.path(own).into_os_string().into_string().expect("UTF-8");
    at_terminal(clone.gladhand(&["config", "trust", &path]), &["y"]);
    upstreams_become(&mut process, &["a", "evil"]);
    let (_, _, log) = process.finish();
    assert!(log.contains(&format!("the rest after `gladhand config trust {path}` or a restart")), "{log}");
}

#[test]
fn a_stricter_rule_applies_at_once_although_its_file_is_not_trusted() {
    let clone = Clone::with("");
    std::fs::remove_file(clone.path("project/gladhand.toml")).expect("it is there");
    let own = "config/gladhand/gladhand.toml";
    let a = upstream("a", &clone.path("config"));
    let rule = "[[policy.rules]]\ntools = ['a__wait']\neffect = 'deny'\n";
    clone.write(own, &(a.clone() + rule));
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a"]);
    assert!(!tools(&mut process).contains(&"a__wait".to_owned()));
    // The old rule is gone from the file and stays in force; the new one is added to it.
    clone.write(own, &(a + "[[policy.rules]]\ntools = ['a__echo']\neffect = 'deny'\n"));
    upstreams_become(&mut process, &[]);
    assert!(!tools(&mut process).contains(&"a__wait".to_owned()));
}

#[test]
fn a_project_file_that_changes_while_it_is_used_adds_nothing() {
    let clone = Clone::with("");
    let (a, evil) = ["a", "evil"].map(|name| upstream(name, &clone.path("nowhere"))).into();
    clone.write("project/gladhand.toml", &a);
    clone.trust(&["y"]);
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a"]);
    clone.write("project/gladhand.toml", &(a + &evil + "[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n"));
    let begun = Instant::now();
    while tools(&mut process).contains(&"wait".to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "the new rule does not apply");
        std::thread::sleep(Duration::from_millis(50));
    }
    upstreams_become(&mut process, &["a"]);
    clone.trust(&["y"]);
    upstreams_become(&mut process, &["a", "evil"]);
}

#[test]
fn a_project_that_is_revoked_or_removed_loses_its_upstreams_at_once() {
    let clone = Clone::with("");
    let a = upstream("a", &clone.path("nowhere"));
    let rule = "[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n";
    clone.write("project/gladhand.toml", &(a + rule));
    clone.trust(&["y"]);
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a"]);
    let revoke = clone.gladhand(&["config", "trust", "--revoke"]).output().expect("it starts");
    assert!(revoke.status.success());
    upstreams_become(&mut process, &[]);
    clone.trust(&["y"]);
    upstreams_become(&mut process, &["a"]);
    // A tool that removes the file takes its upstreams away, and not its rules.
    std::fs::remove_file(clone.path("project/gladhand.toml")).expect("it is there");
    upstreams_become(&mut process, &[]);
    assert!(!tools(&mut process).contains(&"wait".to_owned()));
}

#[test]
fn a_tool_that_can_write_records_of_trust_cannot_trust_its_own_change() {
    let clone = Clone::with("");
    std::fs::remove_file(clone.path("project/gladhand.toml")).expect("it is there");
    let own = "config/gladhand/gladhand.toml";
    // The upstream receives a folder that contains the configuration and the data folder.
    let (a, evil) = ["a", "evil"].map(|name| upstream(name, &clone.path("."))).into();
    clone.write(own, &a);
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a"]);
    let rule = "[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n";
    clone.write(own, &(a + &evil + rule));
    let path = clone.path(own).into_os_string().into_string().expect("UTF-8");
    at_terminal(clone.gladhand(&["config", "trust", &path]), &["y"]);
    let begun = Instant::now();
    while tools(&mut process).contains(&"wait".to_owned()) {
        assert!(begun.elapsed() < PATIENCE, "the change is not read");
        std::thread::sleep(Duration::from_millis(50));
    }
    upstreams_become(&mut process, &["a"]);
}

#[test]
fn a_tool_that_can_write_records_of_trust_cannot_bring_a_project_file() {
    let clone = Clone::with("");
    let (project, own) = ("project/gladhand.toml", "config/gladhand/gladhand.toml");
    let (a, evil) = ["a", "evil"].map(|name| upstream(name, &clone.path("."))).into();
    clone.write(own, &a);
    for is_there in [false, true] {
        match is_there {
            true => clone.write(project, "# Not trusted.\n"),
            false => std::fs::remove_file(clone.path(project)).expect("it is there"),
        }
        let mut process = session(&clone);
        upstreams_become(&mut process, &["a"]);
        clone.write(project, &format!("{evil}[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n"));
        clone.trust(&["y"]);
        let begun = Instant::now();
        while tools(&mut process).contains(&"wait".to_owned()) {
            assert!(begun.elapsed() < PATIENCE, "the project file is not read");
            std::thread::sleep(Duration::from_millis(50));
        }
        upstreams_become(&mut process, &["a"]);
        let revoke = clone.gladhand(&["config", "trust", "--revoke"]).output().expect("it starts");
        assert!(revoke.status.success());
    }
}

#[test]
fn a_project_file_that_becomes_unreadable_loses_its_upstreams_and_keeps_its_rules() {
    let clone = Clone::with("");
    let a = upstream("a", &clone.path("nowhere"));
    let rule = "[[policy.rules]]\ntools = ['wait']\neffect = 'deny'\n";
    clone.write("project/gladhand.toml", &(a + rule));
    clone.trust(&["y"]);
    let mut process = session(&clone);
    upstreams_become(&mut process, &["a"]);
    std::fs::write(clone.path("project/gladhand.toml"), b"\xff").expect("it can be written");
    upstreams_become(&mut process, &[]);
    assert!(!tools(&mut process).contains(&"wait".to_owned()));
    drop(process);
    // The next process finds the file changed, and the rules as they were trusted.
    assert!(!tools(&mut session(&clone)).contains(&"wait".to_owned()));
}
