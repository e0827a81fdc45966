//! A configuration file of another folder: what it names is looked for from there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::commands::text;
use super::{Setting, call, opened, tools};

/// A folder with a file, and next to it the files that it names.
fn elsewhere(setting: &Setting) -> String {
    let folder = setting.path().join("conf");
    std::fs::create_dir_all(folder.join("work")).expect("it can be written");
    let program = Value::from(env!("CARGO_BIN_EXE_gladhand"));
    let script = format!("#!/bin/sh\nexec {program} serve --config /dev/null\n");
    for place in ["server", "work/server"] {
        write_program(&folder.join(place), &script);
    }
    let play = r#"#!/bin/sh
while read -r line; do
  case "$line" in *close*) exit 0;; esac
  printf '{"id": 1, "obs": {"state": {"folder": "%s"}}}\n' "$PWD"
done
"#;
    write_program(&folder.join("play"), play);
    let config = "\
[a2e]
roots = ['work']
env = { commands = { here = ['./play'] } }
[audit]
file = 'audit.jsonl'
[upstreams.a]
command = './server'
[upstreams.b]
command = './server'
cwd = 'work'
";
    std::fs::write(folder.join("g.toml"), config).expect("it can be written");
    folder.join("g.toml").display().to_string()
}

fn write_program(place: &Path, script: &str) {
    std::fs::write(place, script).expect("it can be written");
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o700)).expect("it can be written");
}

#[test]
fn everything_that_a_file_names_is_found_from_its_folder() {
    let setting = Setting::new("");
    let file = elsewhere(&setting);
    for named in [file.as_str(), "conf/g.toml"] {
        let output = setting.run(&["config", "check", named]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        let (code, report) = setting.json(&["doctor", "--json", "--config", named]);
        assert_eq!((code, &report["healthy"]), (Some(0), &json!(true)), "{report:#}");
    }
    let mut process = opened(setting.gladhand(&["serve", "-v", "--config", "conf/g.toml"]));
    let all = tools(&mut process);
    assert!(["a__echo", "b__echo"].iter().all(|name| all.iter().any(|tool| tool == name)), "{all:?}");
    let echoed = call(&mut process, "a__echo", &json!({ "message": "tea" }));
    assert_eq!(echoed["result"]["content"][0]["text"], "tea", "{echoed}");
    let (code, _, errors) = process.finish();
    assert_eq!(code, 0, "{errors}");
    assert!(setting.path().join("conf/audit.jsonl").exists() && !setting.path().join("audit.jsonl").exists());
}

#[test]
fn an_environment_program_is_found_next_to_the_file_and_runs_in_the_first_root() {
    let setting = Setting::new("");
    elsewhere(&setting);
    let command = setting.gladhand(&["serve", "--dialect", "a2e", "--config", "conf/g.toml"]);
    let mut process = crate::support::Process::start(command);
    process.ask(r#"{"type":"handshake/req","id":"h","agent_id":"ann","agent_caps":["env"]}"#);
    let seen = process.ask(r#"{"type":"env/reset/req","id":"r","env_name":"here"}"#);
    let folder = seen["obs"]["state"]["folder"].as_str().unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(Path::new(folder).canonicalize().unwrap(), setting.path().join("conf/work").canonicalize().unwrap());
}

#[test]
fn config_check_reports_mistakes_that_prevent_a_start_with_their_places() {
    let setting = Setting::new(
        "[authorization]\nresource = 'me'\n\n[[authorization.issuers]]\nissuer = 'http://as.example'\n\n\
         [[authorization.issuers]]\nissuer = 'https://as.example'\njwks_url = 'https://as.example/keys'\n\
         jwks_file = 'keys.json'\n",
    );
    let output = setting.run(&["config", "check"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let expected = [
        (":2:1: error: ", "authorization.resource: expected a URL"),
        (
            ":5:1: error: ",
            "authorization.issuers#1.issuer: http://as.example/ is not an address to send credentials to",
        ),
        (":10:1: error: ", "authorization.issuers#2.jwks_file: the keys are either at `jwks_url` or in `jwks_file`"),
    ];
    let served = setting.gladhand(&["serve", "--http", "127.0.0.1:0"]).output().expect("it starts");
    assert_eq!(served.status.code(), Some(2));
    let refused = text(&served.stderr);
    for (place, message) in expected {
        assert!(told.contains(&format!("gladhand.toml{place}{message}")), "{told}");
        assert!(refused.contains(message), "{refused}");
    }
    // Without its keys, a server starts and accepts no token of the issuer.
    setting.write(
        "[authorization]\nresource = 'https://me.example/mcp'\n[[authorization.issuers]]\n\
         issuer = 'https://as.example'\njwks_file = 'keys.json'\n",
    );
    let output = setting.run(&["config", "check"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("gladhand.toml:5:1: warning: authorization.issuers#1.jwks_file: "), "{told}");
}

#[test]
fn the_check_reads_no_file_that_a_project_names() {
    let setting = Setting::new(
        "[authorization]\nresource = 'https://me.example/mcp'\n[[authorization.issuers]]\n\
         issuer = 'https://as.example'\njwks_file = 'pipe'\n",
    );
    let made = std::process::Command::new("mkfifo").arg(setting.path().join("pipe")).status().expect("it starts");
    assert!(made.success());
    let mut command = setting.gladhand(&["config", "check"]);
    command.env_remove("GLADHAND_CONFIG").env("XDG_CONFIG_HOME", setting.path().join("config"));
    let told = text(&command.output().expect("it starts").stdout);
    assert!(told.contains("authorization.issuers: not used"), "{told}");
    assert!(!told.contains("jwks_file"), "nothing is said about the file: {told}");
}
