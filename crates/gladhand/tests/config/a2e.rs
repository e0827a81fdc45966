//! Mistakes in the settings of A2E, or in the things that they name: `check` and `doctor` report them, and agents are
//! still served as far as possible.

use serde_json::{Value, json};

use super::commands::text;
use super::{Setting, answer, call, ours};
use crate::support::Process;

const WRONG: &str = "\
[a2e]
max_parallel = 0
roots = [
  '/',
  'no-such-folder',
  'gladhand.toml',
]
[a2e.proc]
allowed = ['sh', 'no-such-program']
[a2e.env.commands]
counter = ['sh']
chess = ['./gladhand.toml']
[[a2e.toolkits]]
name = 'k'
tools = ['echo']
[[a2e.toolkits]]
name = 'k'
tools = ['echo']
";

#[test]
fn config_check_reports_wrong_values_and_missing_files_with_their_lines() {
    let setting = Setting::new(WRONG);
    let output = setting.run(&["config", "check"]);
    let here = setting.path().canonicalize().unwrap();
    let here = here.display();
    let expected = format!(
        "\
gladhand.toml:2:1: error: a2e.max_parallel: must be from 1 to 100000
gladhand.toml:11:1: error: a2e.env.commands.counter: `counter` is an environment of our own: choose another name
gladhand.toml:17:1: error: a2e.toolkits#2.name: an earlier toolkit is called `k` already
gladhand.toml:5:3: warning: a2e.roots#2: there is no folder {here}/no-such-folder: make it, or name another
gladhand.toml:6:3: warning: a2e.roots#3: {here}/gladhand.toml is no folder: make it, or name another
gladhand.toml:9:18: warning: a2e.proc.allowed#2: `no-such-program` is not on the PATH: install it, or write where it is
gladhand.toml:12:1: warning: a2e.env.commands.chess: {here}/gladhand.toml cannot be run: make it executable, or name another
3 errors, 4 warnings
"
    );
    assert_eq!((text(&output.stdout), output.status.code()), (expected, Some(2)));
}

#[test]
fn the_doctor_reports_broken_capabilities_with_advice() {
    let setting = Setting::new(WRONG);
    damage(&setting);
    let (code, report) = setting.json(&["doctor", "--json"]);
    assert_eq!((code, &report["healthy"]), (Some(1), &json!(false)));
    let broken = |about: &str| -> Vec<Value> {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.filter(|one| one["about"] == about && one["state"] == "broken").cloned().collect()
    };
    assert_eq!(broken("configuration").len(), 3, "{report:#}");
    for about in ["a2e.roots#2", "a2e.roots#3", "a2e.proc.allowed#2", "a2e.env.commands.chess", "database"] {
        let [finding] = &broken(about)[..] else { panic!("{about}: {report:#}") };
        assert!(finding["advice"].is_string(), "{finding}");
    }
    let file = setting.path().join("data/gladhand.db");
    let expected = format!("no  database: {} is damaged or not a database", file.display());
    let drawn = text(&setting.run(&["doctor"]).stdout);
    assert!(drawn.contains(&expected) && drawn.contains("move"), "{drawn}");
}

/// Puts something else in the place of the database.
fn damage(setting: &Setting) {
    std::fs::create_dir(setting.path().join("data")).expect("it can be written");
    std::fs::write(setting.path().join("data/gladhand.db"), "dear diary, ".repeat(500)).expect("it can be written");
}

#[test]
fn a_damaged_database_leaves_working_memory_and_is_explained_in_the_log_alone() {
    let setting = Setting::new("");
    damage(&setting);
    let mut process = Process::start(setting.gladhand(&["serve", "--dialect", "a2e"]));
    let hello = r#"{"type":"handshake/req","id":"h","agent_id":"ann","agent_caps":["memory"]}"#;
    assert_eq!(process.ask(hello)["ok"], true);
    let memory = process.ask(r#"{"type":"memory/init/req","id":"i"}"#)["memory_id"].clone();
    let store = |tier: &str| {
        let entry = json!({"key": {"k": tier}, "content": 1, "tier": tier});
        json!({"type": "memory/store/req", "id": tier, "memory_id": memory, "entries": [entry]}).to_string()
    };
    assert_eq!(process.ask(&store("working"))["type"], "memory/store/resp");
    let asked = json!({"type": "memory/retrieve/req", "id": "r", "memory_id": memory, "tier": "working"}).to_string();
    assert_eq!(process.ask(&asked)["total"], 1);
    let refused = process.ask(&store("semantic"));
    assert_eq!(
        (&refused["type"], &refused["code"], &refused["message"], &refused["retryable"], &refused["capability_name"]),
        (&json!("error"), &json!("runtime_error"), &json!("the database is damaged"), &json!(false), &json!("memory"))
    );
    let (_, _, log) = process.finish();
    let file = setting.path().join("data/gladhand.db").display().to_string();
    assert!(log.contains(&file) && log.contains("away to start with an empty database"), "{log}");
}

#[test]
fn an_a2e_upstream_gets_the_configured_agent_id() {
    let speaking = |name: &str, more: &str| format!("{}speak = 'a2e'\n{more}", ours(name));
    let setting = Setting::new(&(speaking("a", "agent_id = 'research'\n") + &speaking("b", "")));
    let mut process = setting.session();
    for (tool, name) in [("a__agreement", "research"), ("b__agreement", "gladhand")] {
        let told = call(&mut process, tool, &json!({}));
        let told = told["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let told: Value = serde_json::from_str(told).unwrap();
        assert_eq!(told["peer"]["name"], name, "{told}");
    }
    setting.write("[upstreams.a]\ncommand = 'x'\nspeak = 'mcp'\nagent_id = 'research'\n[upstreams.b]\ncommand = 'x'\nagent_id = ''\n");
    let told = text(&setting.run(&["config", "check"]).stdout);
    assert!(
        told.contains("gladhand.toml:4:1: error: upstreams.a.agent_id: `agent_id` is sent only to A2E hosts"),
        "{told}"
    );
    assert!(told.contains("gladhand.toml:7:1: error: upstreams.b.agent_id: an id must not be empty"), "{told}");
    let list = answer(&mut process, r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#);
    assert!(list["result"].is_object(), "what is wrong changes nothing: {list}");
}
