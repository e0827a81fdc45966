//! The servers, and the trials for each of them. Those of `peers/ordinary` are written with the usual calls of their
//! SDKs; the others are not ours at all, except for the small program around rmcp. A server that offers HTTP is met
//! over HTTP too.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::installed::{node, peers, python};
use crate::matrix::listening::Listening;
use crate::matrix::{Transport, versions};

/// A server on one transport.
pub(super) struct Server {
    /// Its name, with its version.
    pub(super) name: String,
    /// How it is talked to.
    pub(super) transport: Transport,
    /// Its program, with arguments that it gets on every transport.
    words: Vec<OsString>,
    manner: Manner,
    /// Whether it speaks the handshake era.
    pub(super) has_handshake: bool,
    /// The trials, in this order: a name, the action, and its parameters.
    pub(super) trials: Vec<Value>,
}

/// How a server is told its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It has stdio only, and needs not be told.
    Stdio,
    /// It takes `http PORT`, and `stdio` or nothing.
    Arguments { stdio: Option<&'static str> },
    /// It takes `stdio` or `streamableHttp`, and the port in the environment.
    Environment,
}

/// A server that can be reached, until this is dropped.
pub(super) struct Running {
    /// The words of its command, or its URL.
    pub(super) place: Place,
    _listening: Option<Listening>,
}

/// Where a server is.
pub(super) enum Place {
    Command(Vec<String>),
    Url(String),
}

impl Place {
    /// For a client.
    pub(super) fn target(&self) -> Value {
        match self {
            Self::Command(words) => json!(words),
            Self::Url(url) => json!(url),
        }
    }
}

impl Server {
    /// Makes it reachable. A server that listens is a process of its own each time, since some keep what is done to them.
    pub(super) fn start(&self) -> Running {
        if self.transport == Transport::Stdio {
            let stdio = match self.manner {
                Manner::Stdio => None,
                Manner::Arguments { stdio } => stdio,
                Manner::Environment => Some("stdio"),
            };
            let plain = |word: &OsString| word.to_str().expect("paths are UTF-8").to_owned();
            let words = self.words.iter().map(plain).chain(stdio.map(str::to_owned)).collect();
            return Running { place: Place::Command(words), _listening: None };
        }
        let listening = match self.manner {
            Manner::Environment => Listening::by_environment(&self.words, self.transport),
            Manner::Arguments { .. } | Manner::Stdio => Listening::by_arguments(&self.words, self.transport),
        };
        Running { place: Place::Url(listening.url(self.transport)), _listening: Some(listening) }
    }
}

pub(super) fn all() -> Vec<Server> {
    let with = |mut words: Vec<OsString>, more: &[&str]| {
        words.extend(more.iter().map(OsString::from));
        words
    };
    let ts_v2 = |name: &str| versions::npm(name, "npm", "@modelcontextprotocol/server");
    let everything = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let by_arguments = Manner::Arguments { stdio: None };
    let servers = [
        (
            versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/sdk"),
            node("ordinary/ts-v1-server.mjs"),
            by_arguments,
            ordinary(&["greet"]),
        ),
        (ts_v2("TypeScript SDK"), node("ordinary/ts-v2-server.mjs"), by_arguments, ordinary(&["greet", "greet_now"])),
        (
            ts_v2("TypeScript SDK, stateless only,"),
            with(node("ordinary/ts-v2-server.mjs"), &["modern"]),
            by_arguments,
            ordinary(&["greet"]),
        ),
        (
            versions::python("Python SDK", "py1", "mcp"),
            python("py1", "ordinary/py_v1_server.py"),
            by_arguments,
            ordinary(&["greet"]),
        ),
        (
            versions::python("Python SDK", "py2", "mcp"),
            python("py2", "ordinary/py_v2_server.py"),
            by_arguments,
            ordinary(&["greet", "greet_first"]),
        ),
        (
            versions::python("FastMCP", "pyservers", "fastmcp"),
            python("pyservers", "ordinary/fastmcp_server.py"),
            by_arguments,
            ordinary(&["greet"]),
        ),
        (
            versions::rmcp(),
            vec![peers().join("cargo/release/rmcp-matrix").into()],
            Manner::Arguments { stdio: Some("stdio") },
            of_rmcp(),
        ),
        (
            versions::npm("server-everything", "npm", "@modelcontextprotocol/server-everything"),
            vec![peers().join("bin/node").into(), everything.into()],
            Manner::Environment,
            of_everything(),
        ),
        (
            versions::python("mcp-server-git", "pyservers", "mcp-server-git"),
            vec![peers().join("pyservers/bin/mcp-server-git").into()],
            Manner::Stdio,
            of_git(),
        ),
    ];
    let on_each = |(name, words, manner, trials): (String, Vec<OsString>, Manner, Vec<Value>)| {
        let on = |transport| Server {
            has_handshake: !name.contains("stateless only"),
            name: name.clone(),
            transport,
            words: words.clone(),
            manner,
            trials: trials.clone(),
        };
        let transports: &[_] =
            if manner == Manner::Stdio { &[Transport::Stdio] } else { &[Transport::Stdio, Transport::Http] };
        transports.iter().copied().map(on).collect::<Vec<_>>()
    };
    servers.into_iter().flat_map(on_each).collect()
}

/// A trial; `more` has what it needs.
fn trial(name: &str, done: &str, more: Value) -> Value {
    let mut trial = json!({"name": name, "do": done});
    if let (Some(trial), Value::Object(more)) = (trial.as_object_mut(), more) {
        trial.extend(more);
    }
    trial
}

fn call(name: &str, tool: &str, arguments: Value) -> Value {
    trial(name, "call", json!({"tool": tool, "arguments": arguments}))
}

/// A call in whose middle the client is asked something of a kind.
fn asking(name: &str, tool: &str, arguments: Value, kind: &str) -> Value {
    trial(name, "call", json!({"tool": tool, "arguments": arguments, "asks": kind}))
}

/// The trials for every server.
fn introduction() -> Vec<Value> {
    ["open", "identity", "capabilities"].map(|name| trial(name, name, json!({}))).to_vec()
}

/// The trials for the servers of `peers/ordinary`; each of the tools elicits in another way.
fn ordinary(eliciting: &[&str]) -> Vec<Value> {
    let reference = json!({"type": "ref/prompt", "name": "travel"});
    let template = json!({"type": "ref/resource", "uri": "city://{name}"});
    let mut trials = introduction();
    trials.extend([
        trial("list", "tools", json!({})),
        call("call", "echo", json!({"message": "grüezi"})),
        trial("error", "call", json!({"tool": "echo", "fails": true})),
        trial("progress", "call", json!({"tool": "count", "reports": true})),
        trial("log before a level is set", "log", json!({"tool": "note", "lines": 4})),
        trial("log", "log", json!({"tool": "note", "lines": 1, "level": "error"})),
        asking("sample", "think", json!({}), "sample"),
        asking("roots", "where", json!({}), "roots"),
        call("client", "whoami", json!({})),
        trial("resources", "resources", json!({})),
        trial("templates", "templates", json!({})),
        trial("read", "read", json!({"uri": "story://one"})),
        trial("read by template", "read", json!({"uri": "city://Bern"})),
        trial("subscribe", "watch", json!({"uri": "story://one", "tool": "touch"})),
        trial("prompts", "prompts", json!({})),
        trial("prompt", "prompt", json!({"prompt": "travel", "arguments": {"city": "Bern"}})),
        trial("complete", "complete", json!({"ref": reference, "argument": {"name": "city", "value": "B"}})),
        trial("complete a template", "complete", json!({"ref": template, "argument": {"name": "name", "value": "B"}})),
        trial("change", "change", json!({"tool": "grow"})),
        trial("cancel", "cancel", json!({"tool": "linger", "proof": "lingered"})),
    ]);
    trials.extend(eliciting.iter().map(|tool| asking(&format!("elicit by {tool}"), tool, json!({}), "elicit")));
    trials
}

fn of_rmcp() -> Vec<Value> {
    let mut trials = introduction();
    trials.extend([
        trial("list", "tools", json!({})),
        call("call", "echo", json!({"message": "grüezi"})),
        trial("error", "call", json!({"tool": "echo", "fails": true})),
        trial("progress", "call", json!({"tool": "count", "reports": true})),
        asking("elicit", "ask", json!({}), "elicit"),
        asking("sample", "think", json!({}), "sample"),
        trial("resources", "resources", json!({})),
        trial("read", "read", json!({"uri": "test://watched"})),
        trial("subscribe", "watch", json!({"uri": "test://watched", "tool": "touch"})),
        trial("prompts", "prompts", json!({})),
        trial("prompt", "prompt", json!({"prompt": "greeting", "arguments": {"name": "ada"}})),
        trial("cancel", "cancel", json!({"tool": "linger", "proof": "lingered"})),
    ]);
    trials
}

fn of_everything() -> Vec<Value> {
    let long = "trigger-long-running-operation";
    let resource = "demo://resource/dynamic/text/1";
    let reference = json!({"type": "ref/prompt", "name": "completable-prompt"});
    let template = json!({"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"});
    let page = json!({"url": "https://example.org/x", "message": "m", "elicitationId": "e1"});
    let mut trials = introduction();
    trials.extend([
        trial("list", "tools", json!({})),
        call("call", "echo", json!({"message": "grüezi"})),
        trial("error", "call", json!({"tool": "echo", "fails": true})),
        call("image", "get-tiny-image", json!({})),
        call("annotations", "get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        call("structured content", "get-structured-content", json!({"location": "Chicago"})),
        call("links", "get-resource-links", json!({"count": 2})),
        call("embedded resource", "get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})),
        trial("progress", "call", json!({"tool": long, "arguments": {"duration": 0.4, "steps": 4}, "reports": true})),
        asking("elicit", "trigger-elicitation-request", json!({}), "elicit"),
        asking("elicit by URL", "trigger-url-elicitation", page, "elicit"),
        asking("sample", "trigger-sampling-request", json!({"prompt": "x", "maxTokens": 5}), "sample"),
        call("roots", "get-roots-list", json!({})),
        trial("log", "log", json!({"tool": "toggle-simulated-logging", "lines": 1, "is_random": true})),
        trial("resources", "resources", json!({})),
        trial("templates", "templates", json!({})),
        trial("read", "read", json!({"uri": "demo://resource/static/document/features.md"})),
        trial("read by template", "read", json!({"uri": resource})),
        trial("subscribe", "watch", json!({"uri": resource, "tool": "toggle-subscriber-updates"})),
        trial("prompts", "prompts", json!({})),
        trial("prompt", "prompt", json!({"prompt": "args-prompt", "arguments": {"city": "Bern"}})),
        trial("complete", "complete", json!({"ref": reference, "argument": {"name": "department", "value": ""}})),
        trial(
            "complete a template",
            "complete",
            json!({"ref": template, "argument": {"name": "resourceId", "value": "1"}}),
        ),
        trial(
            "task",
            "task",
            json!({"tool": "simulate-research-query", "arguments": {"topic": "x", "ambiguous": false}}),
        ),
    ]);
    trials
}

/// It has tools and nothing else.
fn of_git() -> Vec<Value> {
    // A repository that two tests make at the same time fails for one of them.
    static MADE: OnceLock<()> = OnceLock::new();
    let repository = concat!(env!("CARGO_TARGET_TMPDIR"), "/direct-repository");
    MADE.get_or_init(|| {
        let made = Command::new("git").args(["init", "-q", repository]).status();
        assert!(made.is_ok_and(|status| status.success()), "git makes a repository");
    });
    let mut trials = introduction();
    trials.extend([
        trial("list", "tools", json!({})),
        call("call", "git_status", json!({"repo_path": repository})),
        trial("prompts", "prompts", json!({})),
        trial("resources", "resources", json!({})),
    ]);
    trials
}
