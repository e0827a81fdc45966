//! The clients: those of others, run by the scripts of the matrix, and our own in every tongue.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::servers::Server;
use super::verdict::{Tongue, Verdict};
use super::{Cell, Pair, Seen, ours};
use crate::installed::{node, python, run};
use crate::matrix::servers::Step;
use crate::matrix::versions;

const HANDSHAKE: Tongue = Tongue::Handshake("2025-11-25");

/// A client of others.
pub(crate) struct Theirs {
    /// Its name, with its version and its mode.
    pub(crate) name: String,
    /// Its script.
    pub(crate) words: Vec<OsString>,
    /// The mode in which it opens.
    pub(crate) mode: &'static str,
    /// The protocol that it speaks with us.
    pub(super) tongue: Tongue,
}

/// A client.
pub(super) struct Client {
    /// Its name, with its version and its mode.
    pub(super) name: String,
    /// The protocol that it speaks with us.
    pub(super) tongue: Tongue,
    kind: Kind,
}

enum Kind {
    /// A script, with the mode in which it opens.
    Theirs(Vec<OsString>, &'static str),
    Ours,
}

/// The clients of others.
pub(crate) fn theirs() -> Vec<Theirs> {
    let ts_v1 = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/sdk");
    let ts_v2 = versions::npm("TypeScript SDK", "npm", "@modelcontextprotocol/client");
    let py_v1 = versions::python("Python SDK", "py1", "mcp");
    let py_v2 = versions::python("Python SDK", "py2", "mcp");
    let fastmcp = versions::python("FastMCP", "pyservers", "fastmcp");
    let (ts_v2_words, py_v2_words) = (node("matrix/ts-v2-client.mjs"), python("py2", "matrix/py_v2_client.py"));
    let fastmcp_words = python("pyservers", "matrix/fastmcp_client.py");
    let theirs = [
        (&ts_v1, node("matrix/ts-v1-client.mjs"), "default", HANDSHAKE),
        (&ts_v2, ts_v2_words.clone(), "default", HANDSHAKE),
        (&ts_v2, ts_v2_words, "auto", Tongue::Stateless),
        (&py_v1, python("py1", "matrix/py_v1_client.py"), "default", HANDSHAKE),
        (&py_v2, py_v2_words.clone(), "legacy", HANDSHAKE),
        (&py_v2, py_v2_words, "auto", Tongue::Stateless),
        (&fastmcp, fastmcp_words.clone(), "legacy", HANDSHAKE),
        (&fastmcp, fastmcp_words, "auto", Tongue::Stateless),
    ];
    let named = |(name, words, mode, tongue): (&String, _, _, _)| {
        let name = format!("{name} ({mode})");
        Theirs { name, words, mode, tongue }
    };
    theirs.map(named).into()
}

pub(super) fn all() -> Vec<Client> {
    let theirs = theirs().into_iter().map(|Theirs { name, words, mode, tongue }| {
        let kind = Kind::Theirs(words, mode);
        Client { name, tongue, kind }
    });
    let handshakes = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"].map(Tongue::Handshake);
    let others = [Tongue::Stateless, Tongue::A2e, Tongue::Loaf, Tongue::Fluxloop];
    let ours = handshakes.into_iter().chain(others).map(|tongue| {
        let dialect = if tongue.is_mcp() { "mcp@" } else { "" };
        Client { name: format!("gladhand ({dialect}{})", tongue.name()), tongue, kind: Kind::Ours }
    });
    theirs.chain(ours).collect()
}

impl Client {
    /// Whether it can talk to a server without a bridge. Clients of others that begin without a handshake can fall back to it.
    pub(super) fn can_talk_to(&self, server: &Server) -> bool {
        let falls_back = matches!(self.kind, Kind::Theirs(..)) && self.tongue == Tongue::Stateless;
        self.tongue.is_of_the_era_of(server.tongue) || falls_back && server.tongue.is_mcp()
    }

    /// Takes a pair through its session.
    pub(super) fn meet(&self, pair: &Pair<'_>) -> Seen {
        let bridge = Bridge::between(pair);
        match &self.kind {
            Kind::Ours => ours::session(pair, &bridge),
            Kind::Theirs(words, mode) => {
                let mut steps = pair.server.steps.to_json();
                if matches!(pair.verdict(Cell::Cancel), Verdict::Absent(_)) {
                    steps.as_object_mut().expect("steps").remove("cancel");
                }
                let plan = json!({
                    "transport": pair.way.name(),
                    "mode": mode,
                    "target": bridge.target(),
                    "form": {"name": "ada"},
                    "server": bridge.server(),
                    "proof": pair.server.steps.cancel.1.words,
                    "steps": steps,
                });
                let mut words = words.clone();
                words.push(plan.to_string().into());
                let printed = run(&words).json;
                let judged = |cell: Cell| {
                    let seen = printed.get(cell.name())?;
                    let is_good = is_as_expected(cell, seen, pair.server, self.tongue);
                    Some((cell, if is_good { Ok(()) } else { Err(seen.to_string()) }))
                };
                Cell::ALL.into_iter().filter_map(judged).collect()
            }
        }
    }
}

/// Whether what a script saw in a cell is what it must see.
fn is_as_expected(cell: Cell, seen: &Value, server: &Server, tongue: Tongue) -> bool {
    let steps = &server.steps;
    let says = |seen: &Value, step: &Step| seen.as_str().is_some_and(|text| text.contains(step.words));
    let asks = |step: &Option<Step>| step.as_ref().is_some_and(|step| says(seen, step));
    match cell {
        Cell::Open => seen == tongue.name(),
        Cell::List => seen == true,
        Cell::Call => says(seen, &steps.call),
        Cell::Progress => {
            let reports: Vec<f64> = seen.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            reports.len() > 1 && reports.windows(2).all(|pair| pair[0] < pair[1])
        }
        Cell::Cancel => *seen == json!({"cancelled": true, "proven": true}),
        Cell::Error => seen["failed"] == true && says(&seen["afterwards"], &steps.call),
        Cell::Elicit => asks(&steps.elicit),
        Cell::Sample => asks(&steps.sample),
        Cell::Change => *seen == json!({"before": false, "told": true, "after": true}),
        Cell::Dies => seen["lost"] != server.repeats && says(&seen["afterwards"], &steps.call),
    }
}
