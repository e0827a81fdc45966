//! Walks along the nodes of a chain: decides which node runs next, and records the outputs (a2e §16.2).
//!
//! The walker runs nothing itself and reads no clock. It terminates for every graph, because no node is visited twice.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;
use std::vec;

use gladhand_core::wire::{RawValue, json, values};
use gladhand_hub::Portion;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::ChainSettings;
use super::expression::{PathData, Resolved, holds, resolve, resolve_text};

/// A node as the chain describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Node {
    node_id: String,
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    input: Map<String, Value>,
    #[serde(default)]
    input_map: Map<String, Value>,
    #[serde(default)]
    condition: String,
    #[serde(default)]
    true_node: String,
    #[serde(default)]
    false_node: String,
    #[serde(default)]
    items_path: String,
    #[serde(default)]
    map_node: String,
    #[serde(default)]
    next_node: String,
    #[serde(default = "abort")]
    on_error: String,
}

fn abort() -> String {
    "abort".to_owned()
}

/// One run of a node.
#[derive(Debug)]
pub(super) struct Job {
    /// The id of the node.
    pub(super) node: String,
    /// The kind of the node: `tool`, `skill`, `proc`, or an unknown kind.
    pub(super) kind: String,
    /// The name of the tool or skill.
    pub(super) name: String,
    /// The input, a JSON object, or why it could not be made.
    pub(super) input: Result<Box<RawValue>, String>,
}

/// The next step of a walk.
#[derive(Debug)]
pub(super) enum Next {
    /// Run this, then report the outcome with [`Walker::ended`].
    Run(Job),
    /// The chain has finished.
    Finished(Report),
}

/// The result of a chain: the members of `chain/resp` except the chain id and the duration.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) success: bool,
    pub(super) outputs: Outputs,
    pub(super) final_output: Value,
    pub(super) nodes_run: usize,
    pub(super) error: Option<ChainError>,
}

/// Why a chain failed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ChainError {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Report {
    /// A chain that failed without outputs, even if nodes have run.
    pub(super) fn broken(code: &'static str, message: impl Into<String>) -> Self {
        Self { error: Some(ChainError { code, message: message.into() }), ..Self::default() }
    }
}

/// The outputs of nodes, in the order in which the nodes first ended.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    entries: Vec<(String, Value)>,
    places: HashMap<String, usize>,
}

impl Outputs {
    fn get(&self, node: &str) -> Option<&Value> {
        self.places.get(node).map(|place| &self.entries[*place].1)
    }

    fn set(&mut self, node: &str, output: Value) {
        match self.places.get(node) {
            Some(place) => self.entries[*place].1 = output,
            None => {
                self.places.insert(node.to_owned(), self.entries.len());
                self.entries.push((node.to_owned(), output));
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Serialize for Outputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.entries.iter().map(|(node, output)| (node, output)))
    }
}

/// The data that nodes see: the initial input, overlaid with the outputs.
#[derive(Debug, Default)]
struct Context {
    input: Map<String, Value>,
    outputs: Outputs,
}

impl PathData for Context {
    fn named(&self, name: &str) -> Option<&Value> {
        self.outputs.get(name).or_else(|| self.input.get(name))
    }

    fn is_empty(&self) -> bool {
        self.input.is_empty() && self.outputs.len() == 0
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hidden = |name: &&String| self.outputs.places.contains_key(*name);
        let input = self.input.iter().filter(|(name, _)| !hidden(name));
        serializer.collect_map(self.outputs.entries.iter().map(|(name, output)| (name, output)).chain(input))
    }
}

/// The state of one chain.
#[derive(Debug)]
pub(super) struct Walker {
    nodes: HashMap<String, Node>,
    position: Position,
    context: Context,
    visited: HashSet<String>,
    /// The last node visited.
    last: String,
    has_failed: bool,
    settings: ChainSettings,
    /// How many more bytes of output may be kept.
    remaining_bytes: usize,
    /// The share of the memory of all chains that the outputs use.
    memory: Portion,
}

/// The position of a walk.
#[derive(Debug)]
enum Position {
    /// Before this node. The empty name is the end of the chain.
    Before(String),
    /// Inside a map node.
    Mapping(Mapping),
    /// This node is running.
    Running(String),
    /// The chain has failed.
    Over(Box<Report>),
}

#[derive(Debug)]
struct Mapping {
    node: String,
    items: vec::IntoIter<Value>,
    successes: Vec<Value>,
}

impl Walker {
    /// Starts at the node `entry`. Returns a report if the chain is invalid.
    pub(super) fn new(
        nodes: &[Box<RawValue>],
        entry: &str,
        input: Map<String, Value>,
        (settings, memory): (ChainSettings, Portion),
    ) -> Result<Self, Box<Report>> {
        if nodes.len() > settings.nodes {
            let message = format!("the chain has {} nodes, the limit is {}", nodes.len(), settings.nodes);
            return Err(Box::new(Report::broken("chain_error", message)));
        }
        let mut known = HashMap::new();
        for (place, node) in nodes.iter().enumerate() {
            let node: Node = values::read(node.get())
                .map_err(|error| Box::new(Report::broken("chain_error", format!("nodes[{place}]: {error}"))))?;
            known.insert(node.node_id.clone(), node);
        }
        if !known.contains_key(entry) {
            return Err(Box::new(Report::broken("bad_entry", "entry_node missing")));
        }
        Ok(Self {
            nodes: known,
            position: Position::Before(entry.to_owned()),
            context: Context { input, outputs: Outputs::default() },
            visited: HashSet::new(),
            last: String::new(),
            has_failed: false,
            settings,
            remaining_bytes: settings.bytes,
            memory,
        })
    }

    /// Returns the next step. `is_late` says whether the chain's deadline has passed. Must be called once for each run
    /// of a node, and once more.
    pub(super) fn next(&mut self, is_late: bool) -> Next {
        loop {
            let broken = |code, message: String| Next::Finished(Report::broken(code, message));
            match std::mem::replace(&mut self.position, Position::Before(String::new())) {
                Position::Over(report) => return Next::Finished(*report),
                Position::Before(end) if end.is_empty() => return Next::Finished(self.finish()),
                Position::Before(id) if self.visited.contains(&id) => {
                    return broken("chain_cycle", format!("cycle at {id}"));
                }
                _ if is_late => return broken("timeout", TIMEOUT_MESSAGE.to_owned()),
                Position::Before(id) => {
                    let Some(node) = self.nodes.get(&id) else {
                        return broken("chain_error", format!("unknown node {id:?}"));
                    };
                    self.visited.insert(id.clone());
                    self.last.clone_from(&id);
                    match node.kind.as_str() {
                        "branch" => match holds(&node.condition, &self.context) {
                            Ok(true) => self.position = Position::Before(node.true_node.clone()),
                            Ok(false) => self.position = Position::Before(node.false_node.clone()),
                            Err(problem) => return broken("chain_error", format!("{id}: {problem}")),
                        },
                        "map" => match self.items(node) {
                            Ok(items) => {
                                let (items, successes) = (items.into_iter(), Vec::new());
                                self.position = Position::Mapping(Mapping { node: id, items, successes });
                            }
                            Err(problem) => return broken("chain_error", format!("{id}: {problem}")),
                        },
                        _ => {
                            let job = self.job(node, self.input(node));
                            self.position = Position::Running(id);
                            return Next::Run(job);
                        }
                    }
                }
                Position::Mapping(mut mapping) => match mapping.items.next() {
                    Some(item) => {
                        let node = &self.nodes[&self.nodes[&mapping.node].map_node];
                        let job = self.job(node, bounded(&serde_json::json!({"item": item}), self.settings.bytes));
                        self.position = Position::Mapping(mapping);
                        return Next::Run(job);
                    }
                    None => self.map_ended(mapping),
                },
                // The caller asked for the next step without reporting the outcome of the last run. Count that run as
                // failed.
                running @ Position::Running(_) => {
                    self.position = running;
                    let _ = self.ended(Err("the node did not end".to_owned()));
                }
            }
        }
    }

    /// Takes the outcome of the last run. Returns the outcome to report in the event.
    pub(super) fn ended(&mut self, outcome: Result<Value, String>) -> Result<Value, String> {
        let outcome = outcome.and_then(|output| self.account_for(output));
        self.has_failed |= outcome.is_err();
        match &mut self.position {
            Position::Mapping(mapping) => {
                if let Ok(output) = &outcome {
                    let node = &self.nodes[&mapping.node].map_node;
                    self.context.outputs.set(node, output.clone());
                    mapping.successes.push(output.clone());
                }
            }
            Position::Running(id) => {
                let node = &self.nodes[id];
                let next = match (&outcome, node.on_error.as_str()) {
                    (Ok(_), _) | (Err(_), "skip") => Some(node.next_node.clone()),
                    (Err(_), "" | "abort") => None,
                    (Err(_), other) => Some(other.to_owned()),
                };
                self.context.outputs.set(id, outcome.clone().unwrap_or_default());
                self.position = match (next, &outcome) {
                    (Some(next), _) => Position::Before(next),
                    (None, outcome) => Position::Over(Box::new(self.aborted(outcome.as_ref().err()))),
                };
            }
            Position::Before(_) | Position::Over(_) => {}
        }
        outcome
    }

    /// The report of a chain that a failed node aborts.
    fn aborted(&mut self, why: Option<&String>) -> Report {
        let outputs = std::mem::take(&mut self.context.outputs);
        let error = ChainError { code: "chain_node_error", message: why.cloned().unwrap_or_default() };
        Report { nodes_run: outputs.len(), outputs, error: Some(error), ..Report::default() }
    }

    fn finish(&mut self) -> Report {
        let outputs = std::mem::take(&mut self.context.outputs);
        let final_output = outputs.get(&self.last).cloned().unwrap_or_default();
        Report { success: !self.has_failed, nodes_run: outputs.len(), outputs, final_output, error: None }
    }

    fn map_ended(&mut self, mapping: Mapping) {
        self.position = Position::Before(self.nodes[&mapping.node].next_node.clone());
        self.context.outputs.set(&mapping.node, mapping.successes.into());
    }

    fn job(&self, node: &Node, input: Result<Box<RawValue>, String>) -> Job {
        Job { node: node.node_id.clone(), kind: node.kind.clone(), name: node.name.clone(), input }
    }

    /// Makes the input of a node.
    fn input(&self, node: &Node) -> Result<Box<RawValue>, String> {
        if node.input_map.is_empty() {
            return bounded(&node.input, self.settings.bytes);
        }
        bounded(&ResolvedInput { members: &node.input_map, context: &self.context }, self.settings.bytes)
    }

    /// The items of a map node.
    fn items(&self, node: &Node) -> Result<Vec<Value>, String> {
        if !self.nodes.contains_key(&node.map_node) {
            return Err(format!("unknown node {:?}", node.map_node));
        }
        let path = if node.items_path.is_empty() { "$" } else { &node.items_path };
        let items = match resolve_text(path, &self.context) {
            Resolved::Everything => vec![serde_json::to_value(&self.context).unwrap_or_default()],
            Resolved::Value(value) => match value.into_owned() {
                Value::Array(items) => items,
                other => vec![other],
            },
        };
        if items.len() > self.settings.items {
            return Err(format!("the map has {} items, the limit is {}", items.len(), self.settings.items));
        }
        Ok(items)
    }

    /// Accounts for an output. An output inside a map is kept twice.
    fn account_for(&mut self, output: Value) -> Result<Value, String> {
        let copies = if matches!(self.position, Position::Mapping(_)) { 2 } else { 1 };
        let size = bounded(&output, self.remaining_bytes / copies)
            .map_err(|_| format!("the outputs of the chain are larger than {} bytes", self.settings.bytes))?;
        self.remaining_bytes -= size.get().len() * copies;
        // The output is a tree, which is much larger than its text, and the report has one more copy of the last.
        if !self.memory.grow(values::memory_of(size.get()) * (copies + 1)) {
            return Err("the outputs of the running chains of this client take too much memory".to_owned());
        }
        Ok(output)
    }
}

/// The error message of a chain that exceeded its timeout.
pub(super) const TIMEOUT_MESSAGE: &str = "chain exceeded timeout";

/// An `input_map` with its paths resolved.
struct ResolvedInput<'a> {
    members: &'a Map<String, Value>,
    context: &'a Context,
}

impl Serialize for ResolvedInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Member<'a> {
            Everything(&'a Context),
            Value(Cow<'a, Value>),
        }
        serializer.collect_map(self.members.iter().map(|(name, value)| {
            let member = match resolve(value, self.context) {
                Resolved::Everything => Member::Everything(self.context),
                Resolved::Value(value) => Member::Value(value),
            };
            (name, member)
        }))
    }
}

/// Serializes a value as JSON of at most `limit` bytes.
fn bounded(value: &impl Serialize, limit: usize) -> Result<Box<RawValue>, String> {
    let mut text = Bounded { text: Vec::new(), limit };
    let too_large = |_| format!("the value is larger than {limit} bytes");
    serde_json::to_writer(&mut text, value).map_err(too_large)?;
    Ok(json::raw(String::from_utf8(text.text).unwrap_or_default()))
}

/// A writer that fails beyond `limit` bytes.
struct Bounded {
    text: Vec<u8>,
    limit: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
