//! The configuration file with real processes: many servers behind one endpoint, and everything around the file.

#[path = "../support/mod.rs"]
mod support;

mod a2e;
mod commands;
mod doctor;
mod moving;
#[cfg(unix)]
mod places;
mod reload;
mod upstreams;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use gladhand::config::{Grants, TrustStore};
use serde_json::{Value, json};
use support::{MCP_INITIALIZED, PATIENCE, Process, gladhand, mcp_call, mcp_initialize};
use tempfile::TempDir;

/// A folder with a configuration file and a data folder.
struct Setting {
    folder: TempDir,
}

impl Setting {
    fn new(config: &str) -> Self {
        let setting = Self { folder: tempfile::tempdir().expect("a folder") };
        setting.write(config);
        setting
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self) -> PathBuf {
        self.path().join("gladhand.toml")
    }

    /// Puts another file in the place of the old one, as editors do.
    fn write(&self, config: &str) {
        let beside = self.path().join("gladhand.toml.new");
        std::fs::write(&beside, config).expect("it can be written");
        std::fs::rename(beside, self.file()).expect("it can be renamed");
    }

    /// The same, for a change that widens something: the user trusts it before it is there.
    fn write_trusted(&self, config: &str) {
        let store = TrustStore::in_folder(Some(&self.path().join("data")));
        store.trust(&self.file(), config, Grants::default()).expect("it can be written");
        self.write(config);
    }

    fn gladhand(&self, arguments: &[&str]) -> Command {
        let mut command = gladhand();
        command.args(arguments).current_dir(self.path()).env("GLADHAND_DATA_DIR", self.path().join("data"));
        // A file that is named needs no trust.
        command.env("GLADHAND_CONFIG", "gladhand.toml");
        command
    }

    /// `gladhand serve` with an open MCP session.
    fn session(&self) -> Process {
        opened(self.gladhand(&["serve", "-v"]))
    }

    /// The same, with its log in a file that can be read meanwhile.
    fn session_logging_to(&self, log: &Path) -> Process {
        let plain = self.gladhand(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" serve -v 2> \"$1\""]).arg(plain.get_program()).arg(log);
        command.current_dir(self.path());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        opened(command)
    }
}

fn opened(command: Command) -> Process {
    let mut process = Process::start(command);
    let result = process.ask(&mcp_initialize("2025-11-25"));
    assert_eq!(result["result"]["protocolVersion"], "2025-11-25", "{result}");
    process.send(MCP_INITIALIZED);
    process
}

/// Polls until a condition holds.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// An upstream that is a `gladhand serve` of its own, under a name.
fn ours(name: &str) -> String {
    let program = Value::from(env!("CARGO_BIN_EXE_gladhand"));
    // Its own configuration is not that of the one in front.
    format!("[upstreams.{name}]\ncommand = [{program}, \"serve\", \"--config\", \"/dev/null\"]\n")
}

/// The answer to a request; notifications before it are skipped.
fn answer(process: &mut Process, request: &str) -> Value {
    let id = serde_json::from_str::<Value>(request).expect("JSON")["id"].clone();
    process.send(request);
    loop {
        let message = process.value();
        if message["id"] == id {
            return message;
        }
    }
}

fn call(process: &mut Process, tool: &str, arguments: &Value) -> Value {
    answer(process, &mcp_call(7, tool, &arguments.to_string()))
}

/// The names of all tools.
fn tools(process: &mut Process) -> Vec<String> {
    let list = answer(process, r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#);
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Waits until the list of tools is as it should be.
fn tools_become(process: &mut Process, is_right: impl Fn(&[String]) -> bool) -> Vec<String> {
    let mut all = Vec::new();
    wait_until("the list of tools changes", || {
        all = tools(process);
        is_right(&all)
    });
    all
}

fn echoed(message: &str) -> Value {
    json!([{ "type": "text", "text": message }])
}
