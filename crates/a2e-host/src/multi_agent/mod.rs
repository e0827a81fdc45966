//! The capability `multi_agent`: subagents that work on their own tasks (a2e §19.1).
//!
//! A subagent is a session of this process's agent. It belongs to the client session that spawned it and ends with it.
//! The same agent of the same principal may also use it from another session. A delegated task runs by itself:
//! cancelling an `await` does not stop it.

mod agent_connection;
mod subagent;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gladhand_core::operations::{CapabilityCall, Failure, Outcome, Party};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::RawValue;
use gladhand_core::wire::json::{self, Kind};
use gladhand_hub::{
    Agent, Answer, CapabilityProvider, Context, Features, Portion, Portions, Provider, SessionId, SessionObserver,
    Settling, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::owner::Owner;
use crate::reply;
use agent_connection::AgentConnection;
use gladhand_system::random_hex;
use subagent::{Config, Description, Status, Subagent, Task};

/// Maximum size of the descriptions of all subagents, in bytes.
const MAX_DESCRIBED_BYTES: usize = 32 * 1024 * 1024;

/// Limits of subagents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiAgentSettings {
    /// Maximum number of live subagents of one session.
    pub max_per_session: usize,
    /// Maximum number of live subagents of all sessions together.
    pub max_total: usize,
    /// How many terminated subagents of one session are still listed.
    pub remembered: usize,
    /// Maximum number of steps (tool calls) of a task. A larger `max_steps` in the request is reduced to this.
    pub steps: u32,
    /// Maximum duration of a task.
    pub max_duration: Duration,
    /// Maximum size of a spawn request, in bytes.
    pub description: usize,
    /// Maximum size of a delegated task, in bytes.
    pub task: usize,
    /// Maximum size of the descriptions of all subagents, live or terminated, in bytes. Parties share it. Terminated
    /// subagents of a party are forgotten to make room.
    pub described_total: usize,
    /// Maximum size of a list, in bytes. Terminated subagents beyond it are left out, the oldest first.
    pub listed: usize,
    /// Maximum number of bytes kept of a subagent's answer.
    pub answer: usize,
}

impl Default for MultiAgentSettings {
    fn default() -> Self {
        Self {
            max_per_session: 16,
            max_total: 64,
            remembered: 64,
            steps: 200,
            max_duration: Duration::from_secs(600),
            description: 64 * 1024,
            task: 1024 * 1024,
            described_total: MAX_DESCRIBED_BYTES,
            listed: 4 * 1024 * 1024,
            answer: 1024 * 1024,
        }
    }
}

/// Provider of the capability `multi_agent`, with the agent of this process.
#[derive(Debug)]
pub struct MultiAgent {
    agent: Arc<dyn Agent>,
    settings: MultiAgentSettings,
    subagents: Arc<Subagents>,
}

impl MultiAgent {
    /// Creates the provider for this agent. Without an agent, do not offer the capability.
    pub fn new(agent: Arc<dyn Agent>, settings: MultiAgentSettings) -> Self {
        let descriptions = Portions::lasting(settings.described_total, 0);
        Self { agent, settings, subagents: Arc::new(Subagents { all: Mutex::default(), descriptions }) }
    }
}

/// All subagents, in the order in which they were spawned.
#[derive(Debug)]
struct Subagents {
    all: Mutex<Vec<Arc<Subagent>>>,
    /// The bytes of their descriptions.
    descriptions: Arc<Portions>,
}

impl Subagents {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Subagent>>> {
        self.all.lock().unpoisoned()
    }

    /// Counts the description of a subagent for a party. The oldest terminated subagents of the party make room.
    fn describe(&self, party: Option<Party>, config: &Config) -> Result<Portion, Failure> {
        let mut portion = self.descriptions.portion(party.unwrap_or(Party(0)));
        while !portion.resize(config.bytes()) {
            let forgotten = {
                let mut all = self.lock();
                let is_forgettable = |other: &Arc<Subagent>| other.party == party && other.is_terminated();
                all.iter().position(is_forgettable).map(|place| all.remove(place))
            };
            if forgotten.is_none() {
                // Retryable: other subagents may end.
                let message = "the descriptions of subagents take too much memory: terminate one";
                return Err(Failure::of_capability("runtime_error", message));
            }
        }
        Ok(portion)
    }

    /// Fails if a session may not have one more subagent.
    fn check_limits(&self, place: SessionParty, settings: &MultiAgentSettings) -> Result<(), Failure> {
        check_limits(&self.lock(), place, settings)
    }

    fn add(&self, subagent: Arc<Subagent>, settings: &MultiAgentSettings) -> Result<(), Failure> {
        let mut subagents = self.lock();
        check_limits(&subagents, (subagent.session, subagent.party), settings)?;
        let is_remembered = |other: &Arc<Subagent>| other.session == subagent.session && other.is_terminated();
        let remembered = subagents.iter().filter(|other| is_remembered(other)).count();
        let mut excess = remembered.saturating_sub(settings.remembered);
        subagents.retain(|other| {
            let is_removed = excess > 0 && is_remembered(other);
            excess -= usize::from(is_removed);
            !is_removed
        });
        subagents.push(subagent);
        Ok(())
    }
}

/// A session and the party of its client.
type SessionParty = (SessionId, Option<Party>);

fn check_limits(
    subagents: &[Arc<Subagent>],
    (session, party): SessionParty,
    settings: &MultiAgentSettings,
) -> Result<(), Failure> {
    let live = || subagents.iter().filter(|subagent| !subagent.is_terminated());
    if live().filter(|subagent| subagent.session == session).count() >= settings.max_per_session {
        return Err(Failure::refused(format!(
            "the limit of {} subagents per session is reached: terminate one",
            settings.max_per_session
        )));
    }
    if !Usage::of(party, live().map(|subagent| (subagent.party, 1))).admits(settings.max_total) {
        // Retryable: subagents of other sessions may end.
        let message = format!("the limit of {} subagents is reached", settings.max_total);
        return Err(Failure::of_capability("runtime_error", message));
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Spawn {
    name: String,
    #[serde(default)]
    role: String,
    #[serde(default = "default_model")]
    model: String,
    #[serde(default = "default_steps", deserialize_with = "crate::integer")]
    max_steps: i64,
    /// An object, kept as text: as a tree it would take up to a hundred times as much memory.
    #[serde(default = "no_members")]
    metadata: Box<RawValue>,
}

fn no_members() -> Box<RawValue> {
    json::raw("{}".to_owned())
}

fn default_model() -> String {
    "default".to_owned()
}

fn default_steps() -> i64 {
    20
}

/// `multi_agent/list/resp`.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    subagents: Vec<Description<'a>>,
}

#[derive(Debug, Deserialize)]
struct Named {
    subagent_id: String,
}

#[derive(Debug, Deserialize)]
struct Delegate {
    subagent_id: String,
    #[serde(flatten)]
    task: Task,
}

impl Provider for MultiAgent {
    fn name(&self) -> &str {
        "multi_agent"
    }

    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn closing(&self) -> Option<Settling> {
        let all = std::mem::take(&mut *self.subagents.lock());
        Some(Box::pin(async move {
            for subagent in all {
                subagent.terminated().await;
            }
        }))
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl CapabilityProvider for MultiAgent {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["multi_agent"]
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        self.answer(&call, context).unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }
}

impl SessionObserver for MultiAgent {
    fn left(&self, session: SessionId) {
        self.subagents.lock().retain(|subagent| {
            let is_kept = subagent.session != session;
            if !is_kept {
                drop(subagent.terminate());
            }
            is_kept
        });
    }
}

impl MultiAgent {
    fn answer(&self, call: &CapabilityCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        Ok(match call.kind {
            "multi_agent/spawn" => return self.spawn(call, context),
            "multi_agent/delegate" => {
                if call.message.get().len() > self.settings.task {
                    let max = self.settings.task;
                    return Err(Failure::refused(format!("a task must not exceed {max} bytes")));
                }
                let Delegate { subagent_id, task } = call.read()?;
                let subagent = self.find(&subagent_id, context)?;
                let accepted = subagent.delegate(&task, self.settings);
                Answer::Now(reply(&json!({"accepted": accepted, "status": subagent.status()})))
            }
            "multi_agent/await" => {
                let Named { subagent_id } = call.read()?;
                let subagent = self.find(&subagent_id, context)?;
                Answer::later(async move {
                    let ended = subagent.ended().await;
                    reply(&json!({
                        "subagent_id": subagent_id, "status": ended.status, "result": ended.result, "error": ended.error,
                    }))
                })
            }
            "multi_agent/list" => Answer::Now(self.list(context)),
            "multi_agent/terminate" => {
                let Named { subagent_id } = call.read()?;
                let subagent = self.find(&subagent_id, context)?;
                Answer::later(async move {
                    subagent.terminated().await;
                    reply(&json!({"success": true, "subagent_id": subagent_id}))
                })
            }
            kind => return Err(Failure::refused(format!("{kind} is not a request of multi_agent"))),
        })
    }

    fn spawn(&self, call: &CapabilityCall<'_>, context: &Context<'_>) -> Result<Answer, Failure> {
        if call.message.get().len() > self.settings.description {
            return Err(Failure::refused(format!(
                "the description of a subagent must not exceed {} bytes",
                self.settings.description
            )));
        }
        let Spawn { name, role, model, max_steps, metadata } = call.read()?;
        if Kind::of(&metadata) != Kind::Object {
            return Err(Failure::refused("metadata must be an object"));
        }
        let session = context.caller.session();
        let place = (session, context.terms.party);
        self.subagents.check_limits(place, &self.settings)?;
        let max_steps = u32::try_from(max_steps.max(1)).unwrap_or(u32::MAX).min(self.settings.steps);
        let timeout_seconds = self.settings.max_duration.as_secs();
        let config = Config::new(name, role, model, max_steps, timeout_seconds, metadata);
        let description = self.subagents.describe(context.terms.party, &config)?;
        let (connection, parent) = (AgentConnection::new(&self.agent, context), Owner::of(context));
        let (subagents, settings) = (Arc::clone(&self.subagents), self.settings);
        Ok(Answer::later(async move {
            let connection = connection.open(&config.name, &config.model).await?;
            let subagent_id = format!("sub_{}", random_hex::<4>());
            let subagent =
                Arc::new(Subagent::new(subagent_id.clone(), place, (config, description), parent, connection));
            if let Err(failure) = subagents.add(Arc::clone(&subagent), &settings) {
                subagent.terminated().await;
                return Err(failure);
            }
            reply(&json!({"subagent_id": subagent_id, "status": Status::Ready}))
        }))
    }

    fn list(&self, context: &Context<'_>) -> Outcome {
        let (session, caller) = (context.caller.session(), Owner::of(context));
        let is_seen = |subagent: &&Arc<Subagent>| subagent.is_seen_by(session, &caller);
        let mut seen: Vec<_> = self.subagents.lock().iter().filter(is_seen).map(Arc::clone).collect();
        // Terminated ones fill the space that the others leave, the newest first.
        let size = |subagent: &Subagent| subagent.description.amount();
        let live: usize = seen.iter().filter(|subagent| !subagent.is_terminated()).map(|subagent| size(subagent)).sum();
        let mut left = self.settings.listed.saturating_sub(live);
        seen.reverse();
        seen.retain(|subagent| {
            let (is_live, rest) = (!subagent.is_terminated(), left.checked_sub(size(subagent)));
            left = if is_live { left } else { rest.unwrap_or(0) };
            is_live || rest.is_some()
        });
        seen.reverse();
        reply(&Listed { subagents: seen.iter().map(|subagent| subagent.describe()).collect() })
    }

    /// Finds a subagent by its id, if the caller may see it.
    fn find(&self, id: &str, context: &Context<'_>) -> Result<Arc<Subagent>, Failure> {
        let (session, caller) = (context.caller.session(), Owner::of(context));
        let subagents = self.subagents.lock();
        let found = subagents.iter().find(|subagent| subagent.id == id && subagent.is_seen_by(session, &caller));
        found.map(Arc::clone).ok_or_else(|| Failure::refused(format!("unknown subagent: {id}")))
    }
}
