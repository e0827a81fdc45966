//! A host of A2E in a folder of its own, and agents that open it over HTTP or on standard streams.

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Connection;
use crate::support::{PATIENCE, Process, gladhand};

/// A folder with a configuration and data, that a host is started in.
pub(crate) struct Prepared {
    folder: TempDir,
}

impl Prepared {
    /// A folder with this configuration.
    pub(crate) fn new(configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("gladhand.toml"), configuration).expect("it can be written");
        Self { folder }
    }

    /// The folder, as the system calls it.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there")
    }

    /// The command that serves what is configured here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gladhand();
        command.current_dir(self.folder.path()).args(["serve", "--config", "gladhand.toml", "--data-dir", "data"]);
        command.args(arguments).env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
        command
    }

    /// Serves one agent on standard streams.
    pub(crate) fn on_streams(&self) -> Process {
        Process::start(self.command(&["--dialect", "a2e"]))
    }

    /// Serves over HTTP, at a free port.
    pub(crate) fn listen(&self, arguments: &[&str]) -> Host {
        let mut command = self.command(&["--http", "127.0.0.1:0"]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut log = String::new();
        let address = loop {
            let from = log.len();
            assert!(stderr.read_line(&mut log).expect("text") > 0, "it ended: {log}");
            if let Some((_, url)) = log[from..].trim_end().split_once("listening on ") {
                break url.split('/').nth(2).and_then(|address| address.parse().ok()).expect("an address");
            }
        };
        Host { child, address, stderr, log }
    }
}

/// A host that listens, until it is dropped.
pub(crate) struct Host {
    child: Child,
    address: std::net::SocketAddr,
    stderr: BufReader<ChildStderr>,
    log: String,
}

impl Host {
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it is running");
    }

    /// Ends it in order, and returns everything that it wrote to its error output.
    pub(crate) fn finish(mut self) -> String {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while self.child.try_wait().expect("it is our child").is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        self.stderr.read_to_string(&mut self.log).expect("text");
        std::mem::take(&mut self.log)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent with a session over HTTP and its stream.
pub(crate) struct Agent {
    bearer: String,
    session: String,
    sending: Connection,
    stream: Connection,
    asked: u32,
}

impl Agent {
    /// An agent whose requests have no token.
    pub(crate) fn open(host: &Host) -> Self {
        Self::with_bearer(host, "")
    }

    /// An agent whose requests have a token.
    pub(crate) fn with_bearer(host: &Host, bearer: &str) -> Self {
        let bearer = format!("Bearer {bearer}");
        let authorization = ("Authorization", bearer.as_str());
        let mut sending = host.connect();
        let opened = sending.ask("POST", "/session", &[authorization], "");
        assert_eq!(opened.status, 200, "{opened:?}");
        let session = opened.json()["session_id"].as_str().expect("an id").to_owned();
        let mut stream = host.connect();
        stream.send("GET", "/stream", &[authorization, ("X-Session-Id", &session)], "");
        assert_eq!(stream.head().status, 200);
        Self { bearer, session, sending, stream, asked: 0 }
    }

    /// The answer to a handshake.
    pub(crate) fn shake_hands(&mut self, agent: &str, capabilities: &[&str], token: &str) -> Value {
        self.ask(json!({"type": "handshake/req", "agent_id": agent, "agent_caps": capabilities, "auth_token": token}))
    }

    /// The answer to a request; events are passed over.
    pub(crate) fn ask(&mut self, mut request: Value) -> Value {
        self.asked += 1;
        let id = format!("r{}", self.asked);
        request["id"] = json!(id);
        let headers = [("Authorization", self.bearer.as_str()), ("X-Session-Id", &self.session)];
        let sent = self.sending.ask("POST", "/send", &headers, &request.to_string());
        assert_eq!(sent.status, 200, "{request}: {sent:?}");
        loop {
            let heard = self.stream.event().expect("the stream goes on").json();
            let is_event = heard["type"].as_str().is_some_and(|kind| kind.ends_with("/event"));
            if heard["req_id"] == json!(id) && !is_event {
                return heard;
            }
        }
    }
}

/// A memory of an agent, and what is found in it.
pub(crate) fn remembered(mut ask: impl FnMut(Value) -> Value, store: Option<(&str, &str)>) -> Vec<Value> {
    let memory = ask(json!({"type": "memory/init/req"}))["memory_id"].clone();
    if let Some((tier, content)) = store {
        let entries = json!([{"key": {"k": tier}, "content": content, "tier": tier}]);
        let stored = ask(json!({"type": "memory/store/req", "memory_id": memory, "entries": entries}));
        assert_eq!(stored["type"], "memory/store/resp", "{stored}");
    }
    let found = ask(json!({"type": "memory/retrieve/req", "memory_id": memory}));
    let entries = found["entries"].as_array().unwrap_or_else(|| panic!("{found}"));
    entries.iter().map(|entry| entry["content"].clone()).collect()
}

/// Asks on standard streams; events are passed over.
pub(crate) fn ask(process: &mut Process, mut request: Value) -> Value {
    request["id"] = json!("r");
    process.send(&request.to_string());
    loop {
        let heard = process.value();
        if !heard["type"].as_str().is_some_and(|kind| kind.ends_with("/event")) {
            return heard;
        }
    }
}

/// A file with a text.
pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    std::fs::write(path, text).expect("it can be written");
}
