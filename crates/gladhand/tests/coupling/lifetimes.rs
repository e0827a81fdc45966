//! Processes: servers that cannot be started, that die, that stay, and what becomes of them when we are killed.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bridge::{Client, Era, Script, everything, is_alive, until};
use crate::support::{MCP_INITIALIZED, Process, gladhand, mcp_call, mcp_initialize};

fn kill(process: i32) {
    kill_process(Pid::from_raw(process).expect("a process id"), Signal::KILL).expect("it is running");
}

#[test]
fn a_server_that_cannot_be_started_is_a_clear_error_in_lists_and_calls() {
    let folder = tempfile::tempdir().unwrap();
    for (command, why) in
        [(&["/no/such/server"][..], "No such file"), (&["sh", "-c", "echo no database >&2; exit 1"], "no database")]
    {
        let mut bridge = gladhand();
        bridge.args(["bridge", "--"]).args(command).env("GLADHAND_DATA_DIR", folder.path());
        let command = command[0];
        let mut process = Process::start(bridge);
        let opened = process.ask(&mcp_initialize("2025-11-25"));
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
        process.send(MCP_INITIALIZED);
        let listed = process.ask(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let message = listed["error"]["message"].as_str().unwrap_or_else(|| panic!("{listed}"));
        assert!(message.contains(command), "{message} does not say who");
        assert!(message.contains(why), "{message} does not say why");
        let called = process.ask(&mcp_call(2, "echo", "{}"));
        assert!(called["error"]["message"].as_str().is_some_and(|message| message.contains(command)), "{called}");
        assert_eq!(process.finish().0, 4, "whoever started the bridge hears of it too");
    }
}

#[test]
fn a_server_that_is_killed_in_a_call_costs_that_call_and_is_started_again() {
    for (era, server) in [(Era::Handshake, Era::Handshake), (Era::Stateless, Era::Stateless)] {
        let mut client = Client::open(era, server);
        let first: i32 = client.text("pid").parse().unwrap();
        client.meta = json!({"progressToken": 5});
        let id = client.send("tools/call", json!({"name": "linger", "arguments": {}}));
        client.hear_of("notifications/progress");
        kill(first);
        let lost = client.answer_to(id);
        let message = lost["error"]["message"].as_str().unwrap_or_else(|| panic!("{lost}"));
        assert!(!message.is_empty());
        let second: i32 = client.text("pid").parse().unwrap();
        assert_ne!(first, second);
        assert_eq!(client.text("ask"), "Hello, ada!", "its session is what it was");
        client.close();
    }
}

#[test]
fn a_server_that_leaves_in_a_call_costs_that_call_and_is_started_again() {
    for (era, server) in [(Era::Handshake, Era::Stateless), (Era::Stateless, Era::Handshake)] {
        let mut client = Client::open(era, server);
        let lost = client.call("die", json!({}));
        assert!(lost["error"]["code"].is_i64(), "{lost}");
        assert_eq!(client.text("echo"), "grüezi");
        client.close();
    }
}

#[test]
fn a_question_that_is_open_when_its_server_dies_is_taken_back_and_its_call_ends() {
    let mut client = Client::open(Era::Handshake, Era::Handshake);
    let server: i32 = client.text("pid").parse().unwrap();
    let id = client.send("tools/call", json!({"name": "ask", "arguments": {}}));
    let question = client.process.value();
    assert_eq!(question["method"], "elicitation/create");
    kill(server);
    let lost = client.answer_to(id);
    assert!(lost.get("error").is_some() || lost["result"]["isError"] == true, "{lost}");
    assert_eq!(client.text("ask"), "Hello, ada!");
    assert_eq!(client.script.objections(), Vec::<String>::new());
}

#[test]
fn a_server_that_does_not_leave_by_itself_is_ended() {
    let mut client = Client::with(Era::Handshake, Script::of(Era::Handshake, &["stays"]), everything(), &[]);
    let server: i32 = client.text("pid").parse().unwrap();
    client.close();
    until("the server is gone", || !is_alive(server));
}

#[test]
fn calls_under_way_are_answered_when_the_client_closes_its_end() {
    let mut client = Client::open(Era::Handshake, Era::Handshake);
    assert_eq!(client.text("echo"), "grüezi");
    let id = client.send("tools/call", json!({"name": "echo", "arguments": {"message": "last"}}));
    let (code, rest, stderr) = client.process.finish();
    let answers: Vec<Value> = rest.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [answer] = answers.as_slice() else { panic!("{answers:?} {stderr}") };
    assert_eq!((code, &answer["id"], &answer["result"]["content"][0]["text"]), (0, &json!(id), &json!("last")));
}

/// A bridge to a server that starts others: a child of it, one that leaves its group, and one that leaves its group, its
/// parent and its environment behind.
struct Family {
    process: Process,
    folder: tempfile::TempDir,
    _script: Script,
}

impl Family {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = Script::of(Era::Handshake, &["stays"]);
        let bridge = script.bridge(&[]);
        let server: Vec<_> = bridge.get_args().skip_while(|word| *word != "--").skip(1).collect();
        let shell = r#"
            sleep 600 & echo $! >> "$0"
            setsid sh -c 'echo $$ >> "$0"; exec sleep 600' "$0" &
            setsid env -i /bin/sh -c '(/bin/sh -c "echo \$\$ >> \"\$0\"; exec /bin/sleep 600" "$0" &)' "$0" &
            echo $$ >> "$0"; exec "$@""#;
        let mut command: Command = gladhand();
        command.args(["bridge", "--", "sh", "-c", shell]).arg(folder.path().join("ids")).args(server);
        command.env("GLADHAND_DATA_DIR", folder.path());
        let mut process = Process::start(command);
        let opened = process.ask(&mcp_initialize("2025-11-25"));
        assert_eq!(opened["result"]["serverInfo"]["name"], "scripted-handshake", "{opened}");
        let family = Self { process, folder, _script: script };
        // The era was asked for in a process of its own, perhaps.
        until("all have started", || family.members().iter().filter(|id| is_alive(**id)).count() >= 4);
        family
    }

    fn members(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.folder.path().join("ids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn is_gone(&self) -> bool {
        self.members().iter().all(|id| !is_alive(*id))
    }
}

#[test]
fn a_killed_bridge_leaves_no_descendant() {
    let family = Family::start();
    family.process.signal(Signal::KILL);
    until("nobody is left", || family.is_gone());
}

#[test]
fn a_bridge_that_exits_has_ended_all_its_descendants() {
    let family = Family::start();
    let (members, folder) = (family.members(), family.folder);
    assert_eq!(family.process.finish().0, 0);
    assert!(members.iter().all(|id| !is_alive(*id)), "we leave last");
    drop(folder);
}
