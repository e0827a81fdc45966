//! One subagent: its configuration, its state, and the task that it works on.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::{AgentCall, AgentEvent, Party};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Members, RawValue};
use gladhand_hub::{Answer, Portion, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use super::MultiAgentSettings;
use super::agent_connection::{AgentConnection, agent_reply};
use crate::owner::Owner;

/// Maximum length of a summary, in characters. The summary is the first line of the answer.
const SUMMARY: usize = 200;

/// Maximum number of tool names in a result.
const TOOLS: usize = 1000;

/// The events of a subagent's session.
type Events = mpsc::UnboundedReceiver<AgentEvent>;

/// The status of a subagent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Ready,
    Running,
    Completed,
    Failed,
    Terminated,
}

/// The status of a subagent, and the result of its last task.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) status: Status,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
}

/// The configuration with which a subagent was spawned.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    pub(super) name: String,
    role: String,
    pub(super) model: String,
    system_prompt: Option<String>,
    capabilities: Vec<String>,
    memory_scope: &'static str,
    tool_scope: &'static str,
    max_steps: u32,
    timeout_seconds: u64,
    metadata: Box<RawValue>,
}

/// The memory that a subagent takes in addition to the text of its description, approximately.
const SUBAGENT_BYTES: usize = 2048;

impl Config {
    pub(super) fn new(
        name: String,
        role: String,
        model: String,
        max_steps: u32,
        timeout_seconds: u64,
        metadata: Box<RawValue>,
    ) -> Self {
        Self {
            name,
            role,
            model,
            max_steps,
            timeout_seconds,
            metadata,
            system_prompt: None,
            capabilities: Vec::new(),
            // A subagent remembers its own conversation, and the agent's policy limits its tools.
            memory_scope: "isolated",
            tool_scope: "restricted",
        }
    }

    /// The memory that a subagent takes until it is forgotten, approximately.
    pub(super) fn bytes(&self) -> usize {
        let Self { name, role, model, metadata, .. } = self;
        SUBAGENT_BYTES + name.len() + role.len() + model.len() + metadata.get().len()
    }
}

/// A subagent in a list.
#[derive(Debug, Serialize)]
pub(super) struct Description<'a> {
    subagent_id: &'a str,
    name: &'a str,
    status: Status,
    /// The agent at the other end of the session, which is also the root.
    parent_agent_id: &'a str,
    root_agent_id: &'a str,
    depth: u32,
    config: &'a Config,
}

/// A task.
#[derive(Debug, Deserialize)]
pub(super) struct Task {
    task_name: String,
    instruction: String,
    #[serde(default)]
    success_criteria: Vec<String>,
}

/// A subagent.
#[derive(Debug)]
pub(super) struct Subagent {
    pub(super) id: String,
    /// The session that spawned it.
    pub(super) session: SessionId,
    /// The party of that session's client.
    pub(super) party: Option<Party>,
    config: Config,
    /// The share of the descriptions of all subagents that this one takes.
    pub(super) description: Portion,
    /// The agent that spawned it.
    parent: Owner,
    state: watch::Sender<State>,
    resources: Mutex<Resources>,
}

/// The resources that a subagent has until it is terminated.
#[derive(Debug, Default)]
struct Resources {
    connection: Option<Arc<AgentConnection>>,
    /// The task that follows the running turn.
    follower: Option<AbortHandle>,
}

impl Subagent {
    pub(super) fn new(
        id: String,
        (session, party): (SessionId, Option<Party>),
        (config, description): (Config, Portion),
        parent: Owner,
        connection: AgentConnection,
    ) -> Self {
        let ready = State { status: Status::Ready, result: None, error: None };
        Self {
            id,
            session,
            party,
            config,
            description,
            parent,
            state: watch::Sender::new(ready),
            resources: Mutex::new(Resources { connection: Some(Arc::new(connection)), follower: None }),
        }
    }

    fn resources(&self) -> MutexGuard<'_, Resources> {
        self.resources.lock().unpoisoned()
    }

    pub(super) fn status(&self) -> Status {
        self.state.borrow().status
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.status() == Status::Terminated
    }

    /// Whether the caller's session spawned it, or the same agent of the same principal did.
    pub(super) fn is_seen_by(&self, session: SessionId, caller: &Owner) -> bool {
        session == self.session || caller.is_proved_same(&self.parent)
    }

    /// The entry of a list.
    pub(super) fn describe(&self) -> Description<'_> {
        Description {
            subagent_id: &self.id,
            name: &self.config.name,
            status: self.status(),
            parent_agent_id: self.parent.agent(),
            root_agent_id: self.parent.agent(),
            depth: 0,
            config: &self.config,
        }
    }

    /// Starts a task. Returns false if another task is running or the subagent is terminated.
    pub(super) fn delegate(self: &Arc<Self>, task: &Task, settings: MultiAgentSettings) -> bool {
        let mut resources = self.resources();
        let Some(connection) = resources.connection.clone().filter(|_| self.status() != Status::Running) else {
            return false;
        };
        self.state.send_replace(State { status: Status::Running, result: None, error: None });
        let (subagent, text, name) = (Arc::clone(self), self.instruct(task), task.task_name.clone());
        // Listen before the call, so that no event before its answer is missed.
        let events = connection.listen();
        let task = tokio::spawn(async move { subagent.work(&connection, name, text, events, settings).await });
        resources.follower = Some(task.abort_handle());
        true
    }

    /// Waits until no task is running, and returns the state.
    pub(super) async fn ended(&self) -> State {
        let mut states = self.state.subscribe();
        let ended = states.wait_for(|state| state.status != Status::Running).await;
        // `self` owns the sender, so the channel cannot close.
        ended.map_or_else(|_| self.state.borrow().clone(), |state| state.clone())
    }

    /// Terminates the subagent. Its session is deleted in the background if the agent needs time for that.
    pub(super) fn terminate(&self) -> Option<JoinHandle<()>> {
        let Resources { connection, follower } = std::mem::take(&mut *self.resources());
        let before = self.state.send_replace(State { status: Status::Terminated, result: None, error: None });
        if let Some(follower) = follower {
            follower.abort();
        }
        let connection = connection?;
        if before.status == Status::Running {
            drop(connection.ask(AgentCall::Interrupt(connection.session().into())));
        }
        let deleted = connection.ask(AgentCall::Delete(connection.session().into()));
        let (Answer::Later(_), Ok(runtime)) = (&deleted, tokio::runtime::Handle::try_current()) else { return None };
        Some(runtime.spawn(async move {
            // A session that no longer exists counts as deleted.
            let _ = deleted.outcome().await;
            drop(connection);
        }))
    }

    /// Terminates the subagent, and waits until its session is deleted.
    pub(super) async fn terminated(&self) {
        if let Some(deleting) = self.terminate() {
            let _ = deleting.await;
        }
    }

    /// The prompt for a task.
    fn instruct(&self, task: &Task) -> String {
        let mut text = format!("You are the subagent {:?}.", self.config.name);
        // Writing to a string cannot fail.
        if !self.config.role.is_empty() {
            let _ = write!(text, " Your role: {}.", self.config.role.trim_end_matches('.'));
        }
        let _ = write!(text, "\n\nTask: {}\n\n{}", task.task_name, task.instruction);
        if !task.success_criteria.is_empty() {
            text.push_str("\n\nIt is done when:");
            for criterion in &task.success_criteria {
                let _ = write!(text, "\n- {criterion}");
            }
        }
        text
    }

    /// Runs a task to its end.
    async fn work(
        &self,
        connection: &AgentConnection,
        name: String,
        text: String,
        events: Events,
        settings: MultiAgentSettings,
    ) {
        let turn = self.turn(connection, text, events, settings.answer);
        let ended = match tokio::time::timeout(settings.max_duration, turn).await {
            Ok(ended) => ended,
            Err(_) => Err(format!("the task took longer than {} seconds", settings.max_duration.as_secs())),
        };
        if ended.is_err() {
            // Has no effect if the turn has already ended.
            let _ = connection.ask(AgentCall::Interrupt(connection.session().into())).outcome().await;
        }
        let state = match ended {
            Ok(TaskProgress { text, tools, .. }) => {
                let summary: String = text.trim().lines().next().unwrap_or_default().chars().take(SUMMARY).collect();
                let result = json!({"summary": summary, "text": text, "task_name": name, "tools": tools});
                State { status: Status::Completed, result: Some(result), error: None }
            }
            Err(error) => State { status: Status::Failed, result: None, error: Some(error) },
        };
        self.state.send_if_modified(|now| {
            let is_running = now.status == Status::Running;
            if is_running {
                *now = state;
            }
            is_running
        });
    }

    async fn turn(
        &self,
        connection: &AgentConnection,
        text: String,
        mut events: Events,
        max_bytes: usize,
    ) -> Result<TaskProgress, String> {
        let session = connection.session().into();
        let send = AgentCall::Send { session, text: text.into(), enqueue: true, images: Vec::new() };
        let sent = agent_reply(connection.ask(send)).await.map_err(|failure| failure.message)?;
        let turn = Members::of(&sent).and_then(|sent| sent.str("turn_id").map(String::from)).unwrap_or_default();
        let mut progress = TaskProgress::default();
        while let Some(event) = events.recv().await {
            let Some(payload) = Members::of(&event.payload) else { continue };
            // Skip events of an earlier turn that was stopped.
            if payload.str("turn_id").is_some_and(|of| of != turn) {
                continue;
            }
            if progress.add_event(event.kind, &payload, max_bytes)? {
                return Ok(progress);
            }
            if progress.steps > self.config.max_steps {
                return Err(format!("the task took more than {} steps", self.config.max_steps));
            }
        }
        Err("the agent is gone".to_owned())
    }
}

/// The events of a task, collected.
#[derive(Debug, Default)]
struct TaskProgress {
    text: String,
    tools: Vec<String>,
    steps: u32,
}

impl TaskProgress {
    /// Processes one event. Returns true at the end of the turn, or an error if the turn failed.
    fn add_event(&mut self, kind: &str, payload: &Members<'_>, max_bytes: usize) -> Result<bool, String> {
        match kind {
            "session.stream.chunk" => {
                let chunk = payload.object("chunk").and_then(|chunk| chunk.str("answerText")).unwrap_or_default();
                let remaining = max_bytes.saturating_sub(self.text.len());
                self.text.push_str(&chunk[..chunk.floor_char_boundary(remaining)]);
            }
            "session.tool.call.started" => {
                self.steps += 1;
                let call = payload.object("data").and_then(|data| data.object("call"));
                if let Some(name) = call.and_then(|call| call.str("name").map(String::from))
                    && self.tools.len() < TOOLS
                {
                    self.tools.push(name);
                }
            }
            "session.completed" => return Ok(true),
            "session.interrupted" => return Err("the task was interrupted".to_owned()),
            "session.error" => {
                return Err(payload.str("message").map_or_else(|| "the agent failed".to_owned(), Into::into));
            }
            _ => {}
        }
        Ok(false)
    }
}
