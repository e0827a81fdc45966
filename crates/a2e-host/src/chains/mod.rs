//! The capability `chains`: one request runs a small graph of nodes (a2e §16).
//!
//! Nodes call tools and skills and start processes through the hub on behalf of the client that sent the chain. The
//! same rules apply to them as to the client's own calls. If the client cancels the request, the chain stops, and so
//! does the process that it waits for.

mod expression;
mod running;
mod walker;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gladhand_core::operations::{CapabilityCall, Failure, Outcome, Party};
use gladhand_core::wire::{Members, RawValue, json};
use gladhand_hub::{Answer, CapabilityProvider, Context, Features, Portion, Portions, Provider};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::grants::{self, Programs};
use crate::reply;
use gladhand_system::random_hex;
use running::Runner;
use walker::{Next, Report, TIMEOUT_MESSAGE, Walker};

/// Limits of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainSettings {
    /// Maximum number of nodes in a chain.
    pub nodes: usize,
    /// Maximum number of items in a map node.
    pub items: usize,
    /// Maximum size in bytes of a chain, of the input of one node, and of all outputs together.
    pub bytes: usize,
    /// Maximum duration of a chain. A longer `timeout` in the request is reduced to this.
    pub max_duration: Duration,
}

impl Default for ChainSettings {
    fn default() -> Self {
        Self { nodes: 1000, items: 10_000, bytes: 4 * 1024 * 1024, max_duration: Duration::from_secs(3600) }
    }
}

/// Runs chains.
#[derive(Debug)]
pub struct Chains {
    settings: ChainSettings,
    /// Bytes that the outputs of all running chains take in memory.
    memory: Arc<Portions>,
}

impl Chains {
    /// Creates the provider with these limits.
    pub fn new(settings: ChainSettings) -> Self {
        Self { settings, memory: Portions::lasting(MAX_TOTAL_BYTES, 0) }
    }
}

/// Maximum memory of the outputs of all running chains, in bytes. Parties share it.
const MAX_TOTAL_BYTES: usize = 256 * 1024 * 1024;

/// Timeout in seconds of a chain whose `timeout` is not positive.
const DEFAULT_TIMEOUT: u64 = 300;

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Request {
    chain_id: Option<String>,
    nodes: Vec<Box<RawValue>>,
    entry_node: String,
    initial_input: Map<String, Value>,
    streaming: bool,
    #[serde(deserialize_with = "crate::integer")]
    timeout: i64,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            chain_id: None,
            nodes: Vec::new(),
            entry_node: String::new(),
            initial_input: Map::new(),
            streaming: true,
            timeout: 0,
        }
    }
}

#[derive(Debug, Serialize)]
struct Response {
    chain_id: String,
    #[serde(flatten)]
    report: Report,
    duration_ms: u64,
}

impl Provider for Chains {
    fn name(&self) -> &str {
        "chains"
    }

    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }
}

impl CapabilityProvider for Chains {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["chains"]
    }

    fn open_capabilities(&self) -> Vec<&'static str> {
        grants::open("chains", Programs::None)
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        self.begin(call, context).unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }
}

impl Chains {
    fn begin(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        let settings = self.settings;
        if call.message.get().len() > settings.bytes {
            let message = format!("the chain is larger than {} bytes", settings.bytes);
            let named = Members::of(&call.message).and_then(|chain| chain.str("chain_id").map(Cow::into_owned));
            let report = Report::broken("chain_error", message);
            return Ok(Answer::Now(respond(named.unwrap_or_else(random_hex::<4>), report, Duration::ZERO)));
        }
        let request: Request = call.read()?;
        let gone = || Failure::of_capability("runtime_error", "the hub is gone, so the nodes of a chain cannot run");
        let hub = context.notifier.hub().ok_or_else(gone)?;
        let memory = self.memory.portion(context.terms.party.unwrap_or(Party(0)));
        let runner = Runner::new(hub, call.into_owned(), context, request.streaming);
        Ok(Answer::later(async move {
            let began = Instant::now();
            let chain_id = request.chain_id.clone().unwrap_or_else(random_hex::<4>);
            let report = walk(request, (settings, memory), runner).await;
            respond(chain_id, report, began.elapsed())
        }))
    }
}

fn respond(chain_id: String, report: Report, took: Duration) -> Outcome {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    reply(&Response { chain_id, report, duration_ms })
}

/// The timeout of a chain.
fn timeout_of(timeout: i64, settings: ChainSettings) -> Duration {
    let timeout = u64::try_from(timeout).ok().filter(|timeout| *timeout > 0).unwrap_or(DEFAULT_TIMEOUT);
    Duration::from_secs(timeout).min(settings.max_duration)
}

async fn walk(request: Request, (settings, memory): (ChainSettings, Portion), runner: Runner) -> Report {
    let deadline = tokio::time::Instant::now() + timeout_of(request.timeout, settings);
    let walker = Walker::new(&request.nodes, &request.entry_node, request.initial_input, (settings, memory));
    let mut walker = match walker {
        Ok(walker) => walker,
        Err(report) => return *report,
    };
    let mut events = Events { runner: &runner, sent: 0 };
    loop {
        match walker.next(tokio::time::Instant::now() >= deadline) {
            Next::Finished(report) => return report,
            Next::Run(job) => {
                let node = job.node.clone();
                events.tell(&node, "start", &Value::Null, "").await;
                let Ok(outcome) = tokio::time::timeout_at(deadline, runner.run(job, deadline)).await else {
                    events.tell(&node, "error", &Value::Null, TIMEOUT_MESSAGE).await;
                    return Report::broken("timeout", TIMEOUT_MESSAGE);
                };
                match walker.ended(outcome) {
                    Ok(output) => events.tell(&node, "done", &output, "").await,
                    Err(error) => events.tell(&node, "error", &Value::Null, &error).await,
                }
                // A chain of tools that answer at once must not block other tasks.
                tokio::task::yield_now().await;
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    kind: &'a str,
    data: Map<String, Value>,
    seq: u64,
    node_id: &'a str,
    phase: &'a str,
    output: &'a Value,
    error: &'a str,
}

/// Sends the events of a chain to its client.
struct Events<'a> {
    runner: &'a Runner,
    sent: u64,
}

impl Events<'_> {
    async fn tell(&mut self, node: &str, phase: &str, output: &Value, error: &str) {
        let (kind, data, seq) = ("status", Map::new(), self.sent);
        self.sent += 1;
        let event = Event { kind, data, seq, node_id: node, phase, output, error };
        self.runner.tell("chain/event", json::to_raw(&event)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_timeout_is_five_minutes_and_the_limit_caps_it() {
        let settings = ChainSettings { max_duration: Duration::from_secs(1000), ..ChainSettings::default() };
        assert_eq!(
            [0, -5, 7, 1001, i64::MAX].map(|timeout| timeout_of(timeout, settings).as_secs()),
            [300, 300, 7, 1000, 1000]
        );
    }
}
