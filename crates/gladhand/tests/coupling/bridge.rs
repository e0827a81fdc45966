//! A bridge in front of a scripted server, and a client of either era that talks to it line by line.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Process, example, gladhand};

pub(crate) const STATELESS: &str = "2026-07-28";
pub(crate) const HANDSHAKE: &str = "2025-11-25";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Handshake,
    Stateless,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Handshake, Self::Stateless];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Stateless => "stateless",
        }
    }
}

/// A scripted server that is to be started, and what it wrote down.
pub(crate) struct Script {
    folder: tempfile::TempDir,
    words: Vec<String>,
}

impl Script {
    pub(crate) fn of(era: Era, habits: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = example("scripted").get_program().to_str().expect("text").to_owned();
        let log = folder.path().join("log").to_str().expect("text").to_owned();
        let mut words = vec![program, log, era.name().to_owned()];
        words.extend(habits.iter().map(|habit| (*habit).to_owned()));
        Self { folder, words }
    }

    /// `gladhand bridge` in front of it.
    pub(crate) fn bridge(&self, options: &[&str]) -> Command {
        let mut command = gladhand();
        command.arg("bridge").args(options).arg("--").args(&self.words);
        command.env("GLADHAND_DATA_DIR", self.folder.path().join("data"));
        command
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The messages that it was sent, by all processes together.
    pub(crate) fn received(&self) -> Vec<Value> {
        self.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The messages that it received with one method.
    pub(crate) fn requests(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// The protocol violations that it found in its input.
    pub(crate) fn objections(&self) -> Vec<String> {
        self.log().lines().filter(|line| line.starts_with("violation")).map(str::to_owned).collect()
    }

    /// The ids of all processes that were started.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.log().lines().filter_map(|line| line.strip_prefix("start ")?.parse().ok()).collect()
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never was so that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there, and more than a zombie.
pub(crate) fn is_alive(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// A client that talks to a bridge on its standard input and output, and answers what it is asked.
pub(crate) struct Client {
    pub(crate) process: Process,
    pub(crate) script: Script,
    era: Era,
    capabilities: Value,
    next: u64,
    /// Notifications that came.
    pub(crate) heard: Vec<Value>,
    /// The methods of questions that came, in either form.
    pub(crate) asked: Vec<String>,
    /// Further members of `_meta`.
    pub(crate) meta: Value,
    /// The version that it asks for in a handshake.
    version: &'static str,
    /// The answer to its handshake.
    pub(crate) opened: Value,
}

/// Who the client says it is.
pub(crate) fn client_info() -> Value {
    json!({"name": "test", "version": "1", "title": "Test", "icons": [{"src": "https://example.org/icon.png"}]})
}

/// Everything that a client can be asked.
pub(crate) fn everything() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {"listChanged": true}})
}

impl Client {
    /// A client of one era in front of a server of one era.
    pub(crate) fn open(era: Era, server: Era) -> Self {
        Self::with(era, Script::of(server, &[]), everything(), &[])
    }

    pub(crate) fn with(era: Era, script: Script, capabilities: Value, options: &[&str]) -> Self {
        Self::speaking(era, None, script, capabilities, options)
    }

    /// A client that asks for a version in its handshake.
    pub(crate) fn speaking(
        era: Era,
        version: Option<&'static str>,
        script: Script,
        capabilities: Value,
        options: &[&str],
    ) -> Self {
        let process = Process::start(script.bridge(options));
        let (heard, asked) = (Vec::new(), Vec::new());
        let (version, meta, opened) = (version.unwrap_or(HANDSHAKE), json!({}), Value::Null);
        let mut client = Self { process, script, era, version, capabilities, next: 0, heard, asked, meta, opened };
        if era == Era::Handshake {
            let (info, version) = (client_info(), client.version);
            let params = json!({"protocolVersion": version, "capabilities": client.capabilities, "clientInfo": info});
            let opened = client.request("initialize", params);
            assert_eq!(opened["result"]["protocolVersion"], version, "{opened}");
            client.opened = opened["result"].clone();
            client.process.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        }
        client
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        let mut meta = self.meta.clone();
        if self.era == Era::Stateless {
            meta["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS);
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] = client_info();
        }
        if meta.as_object().is_some_and(|meta| !meta.is_empty()) {
            params["_meta"] = meta;
        }
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.process.send(&request.to_string());
        self.next
    }

    /// Sends a request, answers questions, and returns what it came to.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params.clone());
        let answer = self.answer_to(id);
        if answer["result"]["resultType"] != "input_required" {
            return answer;
        }
        let mut again = params;
        again["requestState"] = answer["result"]["requestState"].clone();
        let requests = answer["result"]["inputRequests"].as_object().expect("questions").clone();
        again["inputResponses"] = requests
            .into_iter()
            .map(|(key, asked)| {
                let method = asked["method"].as_str().expect("a method").to_owned();
                let result = reply(&method);
                self.asked.push(method);
                (key, result)
            })
            .collect();
        self.request(method, again)
    }

    /// The answer to a request that was sent; what comes before it is heard, and questions are answered.
    pub(crate) fn answer_to(&mut self, id: u64) -> Value {
        loop {
            let message = self.process.value();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.hear(message);
        }
    }

    /// Waits for a notification, wherever it is among those that came.
    pub(crate) fn hear_of(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.heard.iter().position(|heard| heard["method"] == method) {
                return self.heard.remove(at);
            }
            let message = self.process.value();
            self.hear(message);
        }
    }

    fn hear(&mut self, message: Value) {
        match (message.get("id"), message["method"].as_str()) {
            (Some(id), Some(method)) => {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": reply(method)});
                self.asked.push(method.to_owned());
                self.process.send(&answer.to_string());
            }
            _ => self.heard.push(message),
        }
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns what it says.
    pub(crate) fn text(&mut self, tool: &str) -> String {
        let answer = self.call(tool, json!({"message": "grüezi"}));
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {answer}")).to_owned()
    }

    /// The names of the tools.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
        tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.process.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Ends the session; the server must have had nothing to object to.
    pub(crate) fn close(self) {
        let (code, rest, stderr) = self.process.finish();
        assert_eq!((code, rest), (0, Vec::new()), "{stderr}");
        assert_eq!(self.script.objections(), Vec::<String>::new());
    }
}

/// The client's answer to a question.
pub(crate) fn reply(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({"action": "accept", "content": {"name": "ada"}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Bern"}})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///home/ada"}]}),
        other => panic!("nobody answers {other}"),
    }
}
