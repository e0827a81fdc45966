//! The servers behind the bridge, and what each has for a client to try.

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use super::Cell;
use super::verdict::Tongue;
use crate::installed::{GLADHAND, node, peers, python};
use crate::matrix::habits::Habits;
use crate::matrix::servers::Step;
use crate::matrix::versions;

const HANDSHAKE: Tongue = Tongue::Handshake("2025-11-25");

const FIXED: &str = "The server never changes its tools.";

/// A server.
pub(super) struct Server {
    /// Its name, with its version.
    pub(super) name: String,
    /// The protocol that it speaks with us.
    pub(super) tongue: Tongue,
    /// How it is started.
    pub(super) words: Vec<OsString>,
    pub(super) steps: Steps,
    /// The cells that do not work with any client, and the reasons.
    pub(super) absent: Vec<(Cell, &'static str)>,
    /// Whether it says that its tools may be called twice, so that a call that was lost is made again.
    pub(super) repeats: bool,
    /// Whether it speaks one era of MCP and no other, so that every client meets it in every run.
    pub(super) is_strict: bool,
}

/// The tool calls for each cell.
pub(super) struct Steps {
    pub(super) call: Step,
    /// Reports progress.
    pub(super) progress: Option<Step>,
    /// Takes its time until it is given up, and what then shows that it was.
    pub(super) cancel: (Step, Step),
    pub(super) error: Step,
    pub(super) elicit: Option<Step>,
    pub(super) sample: Option<Step>,
    /// Makes a tool `grown`.
    pub(super) change: Option<Step>,
    /// Takes its time until the server is killed.
    pub(super) linger: Step,
}

impl Steps {
    fn of(habits: Habits, change: Option<Step>) -> Self {
        let cancel = habits.cancel.expect("it has a tool that takes its time");
        // Some dialects show results as data, in which quotes are escaped.
        let plain = "grüezi 🤝";
        let call = Step { arguments: json!({"message": plain}), words: plain, ..habits.call };
        Self {
            error: Step { arguments: json!({}), ..call.clone() },
            call,
            progress: habits.progress,
            linger: cancel.0.clone(),
            cancel,
            elicit: habits.elicit,
            sample: habits.sample,
            change,
        }
    }

    /// The tools that `gladhand serve` has in every dialect.
    fn toolbox() -> Self {
        let step = |tool, arguments: Value, words| Step { tool, arguments, words };
        let linger = step("wait", json!({"ms": 60_000, "steps": 600}), "");
        Self {
            call: step("echo", json!({"message": "grüezi"}), "grüezi"),
            progress: Some(step("wait", json!({"ms": 300, "steps": 3}), "")),
            // Who cannot be told to stop is waited for, where answers come in the order of the questions.
            cancel: (
                step("wait", json!({"ms": 2500, "steps": 25}), ""),
                step("echo", json!({"message": "still here"}), "still here"),
            ),
            error: step("echo", json!({}), ""),
            elicit: None,
            sample: None,
            change: None,
            linger,
        }
    }

    /// As the scripts of the clients read them.
    pub(super) fn to_json(&self) -> Value {
        let (cancel, proof) = &self.cancel;
        let named = [
            ("call", Some(&self.call)),
            ("progress", self.progress.as_ref()),
            ("cancel", Some(cancel)),
            ("proof", Some(proof)),
            ("error", Some(&self.error)),
            ("elicit", self.elicit.as_ref()),
            ("sample", self.sample.as_ref()),
            ("change", self.change.as_ref()),
            ("linger", Some(&self.linger)),
        ];
        let there = named.into_iter().filter_map(|(name, step)| {
            step.map(|step| (name.to_owned(), json!({"tool": step.tool, "arguments": step.arguments})))
        });
        Value::Object(there.collect::<Map<_, _>>())
    }
}

pub(super) fn all() -> Vec<Server> {
    let stdio = |mut words: Vec<OsString>, more: &[&str]| {
        words.push("stdio".into());
        words.extend(more.iter().map(OsString::from));
        words
    };
    let matrix = |change| Steps::of(Habits::ours(), change);
    let grow = || Some(Step { tool: "grow", arguments: json!({}), words: "grown" });
    let of = |name: String, tongue, words, steps: Steps, reason: Option<&'static str>, is_strict| {
        let absent = reason.map(|reason| (Cell::Change, reason)).into_iter().collect();
        Server { name, tongue, words, steps, absent, repeats: false, is_strict }
    };
    let ts_v1 = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/sdk");
    let ts_v2 = versions::npm("TypeScript SDK, stateless only,", "npm", "@modelcontextprotocol/server");
    let everything = peers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let everything_name = versions::npm("server-everything", "npm", "@modelcontextprotocol/server-everything");
    let mut servers = vec![
        of(ts_v1, HANDSHAKE, stdio(node("matrix/ts-v1-server.mjs"), &[]), matrix(grow()), None, true),
        of(ts_v2, Tongue::Stateless, stdio(node("matrix/ts-v2-server.mjs"), &["modern"]), matrix(grow()), None, true),
        of(
            versions::python("Python SDK", "py1", "mcp"),
            HANDSHAKE,
            stdio(python("py1", "matrix/py_v1_server.py"), &[]),
            matrix(grow()),
            None,
            false,
        ),
        of(
            versions::python("FastMCP", "pyservers", "fastmcp"),
            Tongue::Both,
            stdio(python("pyservers", "matrix/fastmcp_server.py"), &[]),
            matrix(None),
            Some(FIXED),
            false,
        ),
        of(
            versions::rmcp(),
            Tongue::Both,
            stdio(vec![peers().join("cargo/release/rmcp-matrix").into()], &[]),
            matrix(None),
            Some(FIXED),
            false,
        ),
        of(
            everything_name,
            HANDSHAKE,
            stdio(vec![peers().join("bin/node").into(), everything.into()], &[]),
            Steps::of(Habits::everything(), None),
            Some(FIXED),
            false,
        ),
    ];
    let everything = servers.last_mut().expect("it was just put there");
    everything.repeats = true;
    everything.steps.linger.arguments = json!({"duration": 2, "steps": 8});
    for tongue in [Tongue::A2e, Tongue::Loaf, Tongue::Fluxloop] {
        let words = [GLADHAND, "serve", "--dialect", tongue.name()].map(OsString::from).to_vec();
        let name = format!("gladhand serve, {}", tongue.name());
        servers.push(of(name, tongue, words, Steps::toolbox(), Some(FIXED), false));
    }
    servers
}
