//! A server whose tools are described by a file: the other end of the golden tests.
//!
//! `fixture TOOLBOX.json [DIALECT]` serves, on stdin and stdout, tools that behave as the file says. A tool is
//! `{"name", "description", "input_schema", "tags"?, "deferred"?, "extra"?, "does"}`, where `does` is
//! one of the behaviours of [`Does`]. Nothing here knows a dialect; the tools of a recorded server
//! are thereby shown in any of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gladhand::Service;
use gladhand::authorization::unnamed_pass;
use gladhand_core::Secret;
use gladhand_core::operations::{
    Failure, FailureKind, Level, Log, Outcome, Progress, Reply, Tool, ToolCall, ToolResult,
};
use gladhand_core::wire::{RawValue, json};
use gladhand_dialects::REGISTRY;
use gladhand_hub::{Answer, Context, Hub, Provider};
use serde::Deserialize;
use serde_json::{Map, Value};

/// One tool of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    description: String,
    input_schema: Box<RawValue>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    deferred: bool,
    #[serde(default)]
    extra: BTreeMap<String, Box<RawValue>>,
    does: Does,
}

/// The behaviour of a tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Does {
    /// Returns this structured data.
    Returns(Box<RawValue>),
    /// Returns this text.
    Says(String),
    /// Returns `{"<argument>": its value}`; without the argument its arguments are wrong.
    Repeats(String),
    /// The same, with `null` for an argument that is not there.
    RepeatsIfAny(String),
    /// The behaviour of the product's `echo`, whose name it must have.
    Echoes,
    /// Returns the text that belongs to an argument, or reports that there is none.
    LooksUp { argument: String, entries: BTreeMap<String, String> },
    /// Sleeps for `ms` milliseconds, reporting progress this often; returns `{"slept_ms": ms}`.
    Sleeps(u32),
    /// Reports `n` steps and logs that it is done; returns `{"steps": n}`.
    Streams,
    /// Fails with the text of an argument.
    Throws(String),
    /// Returns an unsuccessful result with this text and these members of its own.
    Reports { text: String, extra: BTreeMap<String, Box<RawValue>> },
    /// Returns `{"peak": n}`: how many sleepers have slept at the same time.
    Counts,
}

#[derive(Debug)]
struct Toolbox {
    tools: Vec<Described>,
    sleepers: Arc<Sleepers>,
}

/// How many calls sleep now, and how many did at most.
#[derive(Debug, Default)]
struct Sleepers {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Provider for Toolbox {
    fn tools(&self) -> Vec<Tool> {
        let tools = self.tools.iter().map(|described| Tool {
            tags: described.tags.clone(),
            deferred: described.deferred,
            extra: described.extra.iter().map(|(name, raw)| (name.clone(), raw.clone())).collect(),
            ..Tool::new(&described.name, &described.description, described.input_schema.clone())
        });
        tools.collect()
    }

    fn call(&self, call: ToolCall<'_>, context: &Context<'_>) -> Answer {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == call.name) else {
            return Answer::Now(Err(Failure::unknown_tool(&call.name)));
        };
        let arguments: Map<String, Value> = serde_json::from_str(call.arguments.get()).unwrap_or_default();
        match &tool.does {
            Does::Returns(data) => Answer::Now(returned(data.clone())),
            Does::Says(text) => Answer::Now(Ok(Reply::Tool(ToolResult::text(text)))),
            Does::Repeats(name) => Answer::Now(match arguments.get(name) {
                Some(value) => returned(json::to_raw(&BTreeMap::from([(name, value)]))),
                None => Err(Failure::invalid_argument(name, "required")),
            }),
            Does::RepeatsIfAny(name) => {
                Answer::Now(returned(json::to_raw(&BTreeMap::from([(name, arguments.get(name))]))))
            }
            Does::Echoes => gladhand::providers::Toolbox.call(call, context),
            Does::LooksUp { argument, entries } => Answer::Now(match arguments.get(argument).and_then(Value::as_str) {
                Some(key) => Ok(Reply::Tool(match entries.get(key) {
                    Some(text) => ToolResult::text(text),
                    None => ToolResult::failure(&format!("{key}: no such thing")),
                })),
                None => Err(Failure::invalid_argument(argument, "required")),
            }),
            Does::Throws(name) => {
                let message = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
                Answer::Now(Err(Failure::new(FailureKind::ToolFailed, message)))
            }
            Does::Reports { text, extra } => {
                let extra = extra.iter().map(|(name, raw)| (name.clone(), raw.clone())).collect();
                Answer::Now(Ok(Reply::Tool(ToolResult { extra, ..ToolResult::failure(text) })))
            }
            Does::Counts => {
                let peak = self.sleepers.peak.load(Ordering::Relaxed);
                Answer::Now(returned(json::to_raw(&serde_json::json!({"peak": peak}))))
            }
            Does::Sleeps(reports) => {
                let (ms, reports) = (number(&arguments, "ms"), *reports);
                let (sleepers, reporter) = (self.sleepers.clone(), context.reporter());
                Answer::later(async move {
                    let now = sleepers.now.fetch_add(1, Ordering::Relaxed) + 1;
                    sleepers.peak.fetch_max(now, Ordering::Relaxed);
                    for step in 1..=reports {
                        tokio::time::sleep(Duration::from_millis(ms) / reports).await;
                        reporter.progress(progress(step, reports));
                    }
                    if reports == 0 {
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                    }
                    sleepers.now.fetch_sub(1, Ordering::Relaxed);
                    returned(json::to_raw(&serde_json::json!({"slept_ms": ms})))
                })
            }
            Does::Streams => {
                let steps = u32::try_from(number(&arguments, "n")).unwrap_or_default();
                let reporter = context.reporter();
                Answer::later(async move {
                    for step in 1..=steps {
                        let message = Some(format!("step {step}"));
                        reporter.progress(Progress { message, ..progress(step, steps) });
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    reporter.log(Log::new(Level::Info, None, json::to_raw("finished")));
                    returned(json::to_raw(&serde_json::json!({"steps": steps})))
                })
            }
        }
    }
}

fn returned(data: Box<RawValue>) -> Outcome {
    Ok(Reply::Tool(ToolResult::structured(data)))
}

fn number(arguments: &Map<String, Value>, name: &str) -> u64 {
    arguments.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn progress(step: u32, steps: u32) -> Progress {
    Progress { progress: step.into(), total: Some(steps.into()), message: None }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which toolbox? fixture TOOLBOX.json")?;
    let tools = serde_json::from_str(&fs_err::read_to_string(path)?)?;
    let hub = Hub::new(vec![Box::new(Toolbox { tools, sleepers: Arc::default() })])?;
    let token = std::env::var(gladhand::config::env::A2E_TOKEN).ok();
    let mut service =
        Service::new(hub).passes(token.into_iter().map(|token| unnamed_pass(Secret::new(token))).collect());
    if let Some(name) = std::env::args().nth(2) {
        service = service.pinned(REGISTRY.iter().find(|dialect| dialect.name == name).ok_or("no such dialect")?);
    }
    service.serve_stdio()?;
    Ok(())
}
