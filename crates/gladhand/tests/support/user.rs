//! A user of this machine, whose running processes find each other.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{MCP_INITIALIZED, PATIENCE, Process, gladhand, mcp_initialize};

/// A user of this machine, with a runtime folder.
pub struct User(TempDir);

impl User {
    pub fn new() -> Self {
        let user = Self(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(user.at("runtime")).expect("a folder");
        user
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn run_folder(&self) -> PathBuf {
        self.at("runtime/gladhand/run")
    }

    /// `gladhand` with a data folder.
    pub fn gladhand(&self, data: &str) -> Command {
        let mut command = gladhand();
        command.env("XDG_RUNTIME_DIR", self.at("runtime")).env("XDG_DATA_HOME", self.at("home"));
        command.env("GLADHAND_DATA_DIR", self.at(data)).current_dir(self.0.path());
        command
    }

    /// A session with a server of its own that has a data folder.
    pub fn session(&self, data: &str, arguments: &[&str]) -> Process {
        let mut command = self.gladhand(data);
        command.args(arguments);
        let mut process = Process::start(command);
        process.ask(&mcp_initialize("2025-06-18"));
        process.send(MCP_INITIALIZED);
        process
    }

    /// The report of `ps --json`, from a third data folder.
    pub fn ps(&self) -> Vec<Value> {
        let output = self.gladhand("elsewhere").args(["ps", "--json"]).output().expect("it starts");
        serde_json::from_slice(&output.stdout).expect("a list")
    }

    pub fn until(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let all = self.ps();
            if is_so(&all) {
                return all;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {all:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
