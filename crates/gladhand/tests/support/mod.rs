//! A built program as a child process that a test talks to line by line.
//!
//! Every wait has a bound, so a hang is a failed test and never a stuck one.
#![allow(dead_code, unreachable_pub, reason = "each test target includes this module and uses another part of it")]

#[cfg(unix)]
pub mod terminal;
#[cfg(unix)]
pub mod user;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The built `gladhand`, with an environment of its own: no user configuration, no token.
pub fn gladhand() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gladhand"));
    quiet_environment(&mut command);
    command
}

/// A built example of this crate.
pub fn example(name: &str) -> Command {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_gladhand")).parent().expect("a folder").join("examples");
    let program = folder.join(name);
    assert!(
        program.exists(),
        "{} is not built: `cargo build --examples`, or `cargo test` for all tests",
        program.display()
    );
    let mut command = Command::new(program);
    quiet_environment(&mut command);
    command
}

fn quiet_environment(command: &mut Command) {
    for name in ["GLADHAND_CONFIG", "GLADHAND_DATA_DIR", "GLADHAND_LOG", "GLADHAND_A2E_TOKEN", "GLADHAND_PASSPHRASE"] {
        command.env_remove(name);
    }
    let nowhere = std::env::temp_dir().join("gladhand-tests-have-no-home");
    command.env("HOME", &nowhere).env("XDG_CONFIG_HOME", &nowhere).env("XDG_DATA_HOME", &nowhere);
}

/// A running child with its three channels.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<Vec<u8>>,
}

impl Process {
    /// Starts `gladhand serve` with more arguments.
    pub fn serve(arguments: &[&str]) -> Self {
        let mut command = gladhand();
        command.arg("serve").args(arguments);
        Self::start(command)
    }

    /// Starts a command.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("could not start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let (line_sender, lines) = channel();
        let stdout = child.stdout.take().expect("piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if line_sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (error_sender, errors) = channel();
        let mut stderr = child.stderr.take().expect("piped");
        std::thread::spawn(move || {
            let mut all = Vec::new();
            let _ = stderr.read_to_end(&mut all);
            let _ = error_sender.send(all);
        });
        Self { child, stdin, lines, errors }
    }

    /// Writes one line.
    pub fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Writes bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the child reads");
        stdin.flush().expect("the child reads");
    }

    /// Writes bytes as they are, if it still reads.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(bytes).and_then(|()| stdin.flush()).is_ok())
    }

    /// The next line it wrote.
    pub fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no line came: {error}; stderr: {}", self.stderr_so_far()),
        }
    }

    /// The next line, as JSON.
    pub fn value(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
    }

    /// Writes one line and returns the next line it wrote, as JSON.
    pub fn ask(&mut self, line: &str) -> Value {
        self.send(line);
        self.value()
    }

    /// The next line if one comes in time.
    pub fn line_within(&mut self, time: Duration) -> Option<String> {
        self.lines.recv_timeout(time).ok()
    }

    /// Closes its stdin.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("it is running");
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Closes its stdin, waits for its end, and returns its status, the lines left over and its stderr.
    pub fn finish(mut self) -> (i32, Vec<String>, String) {
        self.close();
        let status = self.wait();
        let rest = self.lines.iter().collect();
        let errors = self.errors.recv_timeout(PATIENCE).unwrap_or_default();
        (status.code().unwrap_or(-1), rest, String::from_utf8_lossy(&errors).into_owned())
    }

    /// All lines that are left, once it has ended.
    pub fn rest(&mut self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn stderr_so_far(&mut self) -> String {
        let _ = self.child.kill();
        let errors = self.errors.recv_timeout(Duration::from_secs(2)).unwrap_or_default();
        String::from_utf8_lossy(&errors).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `initialize` of a handshake-era MCP client, with id 0.
pub fn mcp_initialize(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"test","version":"1"}}}}}}"#
    )
}

/// `notifications/initialized`.
pub const MCP_INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A `tools/call` of a handshake-era MCP client.
pub fn mcp_call(id: u64, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

/// A `gladhand serve` with an open MCP session.
pub fn mcp_session(arguments: &[&str]) -> Process {
    let mut process = Process::serve(arguments);
    let result = process.ask(&mcp_initialize("2025-11-25"));
    assert_eq!(result["result"]["protocolVersion"], "2025-11-25", "{result}");
    process.send(MCP_INITIALIZED);
    process
}

/// Compares a text with `tests/snapshots/<name>`; with `GLADHAND_BLESS` set, writes it there instead.
pub fn assert_snapshot(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("GLADHAND_BLESS").is_some() {
        std::fs::write(&path, text).expect("the folder is there");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let first = expected.lines().zip(text.lines()).find(|(expected, got)| expected != got);
    assert!(
        expected == text,
        "{name} is not as it was; the first line that differs: {first:#?}\nall of it:\n{text}\n(GLADHAND_BLESS=1 accepts it)"
    );
}

/// The text with every run of 32 hex digits replaced.
pub fn without_random_names(text: &str) -> String {
    let mut shown = String::new();
    let mut run = String::new();
    for character in text.chars().chain(['\0']) {
        if character.is_ascii_hexdigit() {
            run.push(character);
            continue;
        }
        shown.push_str(if run.len() == 32 { "<random>" } else { &run });
        run.clear();
        if character != '\0' {
            shown.push(character);
        }
    }
    shown
}

/// The text with the number behind each of these JSON members replaced by 0.
pub fn without_numbers(text: &str, members: &[&str]) -> String {
    let mut shown = text.to_owned();
    for member in members {
        let name = format!("\"{member}\":");
        let mut from = 0;
        while let Some(at) = shown[from..].find(&name) {
            let begin = from + at + name.len();
            let rest = &shown[begin..];
            let length = rest.find(|c: char| !c.is_ascii_digit() && !".eE+-".contains(c)).unwrap_or(rest.len());
            shown.replace_range(begin..begin + length, "0");
            from = begin;
        }
    }
    shown
}
