//! `gladhand serve --http` with a configuration that a test changes while it runs.
#![allow(dead_code, reason = "each module of attacks uses another part of it")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Connection;
use crate::project_files::at_terminal;
use crate::support::{PATIENCE, gladhand};

/// A `ping` of MCP.
pub(crate) const PING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;

/// The built program with a configuration file of its own.
pub(crate) struct Server {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) url: String,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts it at a free port.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_at("127.0.0.1:0", config, &[])
    }

    /// Starts it at an address, with more arguments.
    pub(crate) fn start_at(address: &str, config: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gladhand.toml");
        std::fs::write(&file, config).expect("it can be written");
        let mut command = gladhand();
        command.args(["serve", "--http", address, "--config"]).arg(&file).args(arguments);
        command.current_dir(folder.path()).env("GLADHAND_DATA_DIR", folder.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut seen = String::new();
        let url = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "it ended: {seen}");
            if let Some((_, url)) = line.trim_end().split_once("listening on ") {
                break url.to_owned();
            }
            seen.push_str(&line);
        };
        let log = Arc::new(Mutex::new(seen));
        let written = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                written.lock().expect("no reader panics").push_str(&(line + "\n"));
            }
        });
        Self { child, folder, url, log }
    }

    /// Puts another configuration in place, which the program finds within a second.
    pub(crate) fn reconfigure(&self, config: &str) {
        let beside = self.folder.path().join("gladhand.toml.new");
        std::fs::write(&beside, config).expect("it can be written");
        std::fs::rename(beside, self.folder.path().join("gladhand.toml")).expect("it can be renamed");
    }

    /// The user trusts its configuration as it is now.
    pub(crate) fn trust(&self) {
        let mut command = gladhand();
        command.args(["config", "trust"]).arg(self.folder.path().join("gladhand.toml"));
        command.current_dir(self.folder.path()).env("GLADHAND_DATA_DIR", self.folder.path().join("data"));
        at_terminal(command, &["y"]);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let address = self.url.split("//").nth(1).and_then(|rest| rest.split('/').next());
        address.and_then(|address| address.parse().ok()).expect("an address")
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no writer panics").clone()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that no one reports.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A session of A2E with its stream, opened with a token in the handshake.
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) stream: Connection,
}

impl Agent {
    /// Opens a session; `headers` go with every request.
    pub(crate) fn open(server: &Server, headers: &[(&str, &str)], token: &str) -> Self {
        let mut agent = Self::unopened(server, headers);
        let handshake = json!({"a2e": "1.0", "type": "handshake/req", "id": "h", "agent_id": "tester",
            "agent_caps": ["tools"], "auth_token": token});
        assert_eq!(agent.send(server, headers, &handshake), 200);
        let opened = agent.hear().expect("an answer");
        assert_eq!(opened["ok"], true, "{opened}");
        agent
    }

    /// Opens a session that has not shaken hands.
    pub(crate) fn unopened(server: &Server, headers: &[(&str, &str)]) -> Self {
        let opened = server.connect().ask("POST", "/session", headers, "");
        assert_eq!(opened.status, 200, "{opened:?}");
        let id = opened.json()["session_id"].as_str().expect("an id").to_owned();
        let mut stream = server.connect();
        stream.send("GET", "/stream", &with(headers, &[("X-Session-Id", &id)]), "");
        assert_eq!(stream.head().status, 200);
        Self { id, stream }
    }

    /// Sends a message; the status of the answer.
    pub(crate) fn send(&self, server: &Server, headers: &[(&str, &str)], message: &Value) -> u16 {
        let headers = with(headers, &[("X-Session-Id", &self.id)]);
        server.connect().ask("POST", "/send", &headers, &message.to_string()).status
    }

    /// The next message; none at the end of the stream.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        self.stream.event().map(|event| event.json())
    }
}

/// Headers and more headers.
pub(crate) fn with<'h>(headers: &[(&'h str, &'h str)], more: &[(&'h str, &'h str)]) -> Vec<(&'h str, &'h str)> {
    headers.iter().chain(more).copied().collect()
}
