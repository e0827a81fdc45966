//! A place where commands of the pages run: a home, a folder to work in, and stand-ins for everything that they start or reach.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use gladhand_models::scripted::{Reply, Route, Script, ScriptedProvider};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::{MCP_INITIALIZED, PATIENCE, Process, gladhand, mcp_initialize};

/// A server of the handshake era, with what the commands on the pages ask of it.
const EVERYTHING: &str = include_str!("stand-ins/everything.sh");
/// The parts of Cargo that the pages name. It builds nothing.
const CARGO: &str = include_str!("stand-ins/cargo.sh");

/// Stand-ins, by the names under which the pages start them.
const PROGRAMS: [(&str, &str); 6] = [
    ("npx", EVERYTHING),
    ("my-old-server", EVERYTHING),
    ("my-server", "#!/bin/sh\nexec gladhand serve\n"),
    ("my-a2e-host", "#!/bin/sh\nexec gladhand serve --dialect a2e\n"),
    ("git", "#!/bin/sh\necho '+ a parrot'\n"),
    ("cargo", CARGO),
];

/// Servers elsewhere that the pages name.
const ELSEWHERE: &str = "https://example.org/mcp";

/// The texts about a model server that is found by a variable, and about one at its usual place. No test listens at
/// usual places.
const BY_VARIABLE: &str = "the server that the variable GLADHAND_OLLAMA_BASE names";
const BY_ITSELF: &str = "the ollama server on this machine";

/// The place. Everything in it ends with it.
pub(crate) struct Stage {
    folder: TempDir,
    /// `gladhand bridge --http` in front of the stand-in, in place of a server elsewhere.
    server: Service,
    provider: ScriptedProvider,
    _runtime: Runtime,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let bin = folder.path().join("bin");
        for name in ["bin", "work", "home/.cursor"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("there is room for a folder");
        }
        symlink(env!("CARGO_BIN_EXE_gladhand"), bin.join("gladhand")).expect("a link");
        for (name, script) in PROGRAMS {
            std::fs::write(bin.join(name), script).expect("there is room for a file");
            std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).expect("it is ours");
        }
        std::fs::write(folder.path().join("work/question.txt"), "parrots\n").expect("there is room for a file");
        std::fs::write(folder.path().join("work/session.ndjson"), recording()).expect("there is room for a file");
        let known = r#"{"mcpServers": {"everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything@2026.7.4"]}}}"#;
        std::fs::write(folder.path().join("home/.cursor/mcp.json"), known).expect("there is room for a file");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let provider = runtime.block_on(ScriptedProvider::start(models("qwen3"))).expect("a free port");
        let mut bridge = gladhand();
        bridge.args(["bridge", "--http", "127.0.0.1:0", "--"]).arg(bin.join("my-old-server"));
        let server = Service::start(bridge);
        Self { folder, server, provider, _runtime: runtime }
    }

    /// The folder that commands work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A command line, in a shell. With `model`, a model server is found on this machine.
    pub(crate) fn shell(&self, line: &str, model: bool) -> Command {
        let line = line.replace(ELSEWHERE, &format!("http://{}/mcp", self.server.address));
        let mut command = Command::new("sh");
        let (home, bin) = (self.folder.path().join("home"), self.folder.path().join("bin"));
        command.args(["-c", &line]).current_dir(self.work()).stdin(Stdio::null());
        command.env_clear().env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_DATA_HOME", home.join(".local"));
        let base = if model { format!("{}/v1", self.provider.origin()) } else { String::new() };
        command.env("GLADHAND_OLLAMA_BASE", base).env("GLADHAND_LLAMACPP_BASE", "");
        command.env("REPOSITORY", crate::pages::repository());
        command
    }

    /// Writes the user's own configuration.
    pub(crate) fn configure(&self, config: &str) {
        let folder = self.folder.path().join("home/.config/gladhand");
        std::fs::create_dir_all(&folder).expect("there is room for a folder");
        std::fs::write(folder.join("gladhand.toml"), config).expect("there is room for a file");
    }

    /// Runs a command line to its end. Returns its exit code, and what it wrote to stdout and stderr.
    pub(crate) fn run(&self, mut command: Command) -> (Option<i32>, String) {
        let output = self.folder.path().join("output");
        let file = std::fs::File::create(&output).expect("there is room for a file");
        command.stdout(file.try_clone().expect("a second handle")).stderr(file);
        let mut child = command.spawn().expect("it starts");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is our child") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                child.kill().expect("it is our child");
                break child.wait().expect("it is our child");
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let written = std::fs::read_to_string(output).expect("text");
        (status.code(), written.replace(BY_VARIABLE, BY_ITSELF))
    }
}

/// A recording of a client that lists the tools of our own server.
fn recording() -> String {
    let mut server = Process::serve(&[]);
    let mut lines = vec![json!({"gladhand_recording": 1, "version": "0.1.0", "started_ms": 0}).to_string()];
    let mut record = |from: &str, line: &str| {
        let ms = lines.len();
        lines.push(format!(r#"{{"ms":{ms},"session":"client-1","from":"{from}","dialect":"mcp","message":{line}}}"#));
    };
    for request in [&mcp_initialize("2025-11-25"), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#] {
        record("client", request);
        record("server", &server.ask(request).to_string());
        if request.contains("initialize") {
            server.send(MCP_INITIALIZED);
            record("client", MCP_INITIALIZED);
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A server of models that has one, and always the same answer.
fn models(id: &str) -> Script {
    let listed = Reply::json(&json!({"object": "list", "data": [{"id": id, "object": "model"}]}));
    let delta = |delta: serde_json::Value, finish: Option<&str>| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let said = [delta(json!({"content": "Polly."}), None), delta(json!({}), Some("stop")), json!("[DONE]")];
    let route =
        |path: &str, reply| Route { method: None, path: path.to_owned(), replies: Vec::new(), otherwise: Some(reply) };
    Script { routes: vec![route("/v1/models", listed), route("/v1/chat/completions", Reply::events(&said))] }
}

/// A process that listens over HTTP.
pub(crate) struct Service {
    child: Child,
    pub(crate) address: String,
}

impl Service {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.split_once("listening on http://")?.1.to_owned()));
        let url = url.unwrap_or_else(|| panic!("{command:?} does not listen"));
        // It must never wait for us to read its log.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: url.split('/').next().unwrap_or_default().to_owned() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
