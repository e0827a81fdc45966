//! The current state of an episode, and the pushes that report changes which no request caused.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::operations::{CapabilityEvent, Failure};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{RawValue, json, values};
use gladhand_hub::{Caller, Portion};
use serde::Deserialize;
use serde_json::{Value, json};

use super::environment::{Object, Observation};

/// The current state of an episode.
#[derive(Debug)]
pub(super) struct EpisodeState {
    pub(super) steps: u64,
    pub(super) state: Object,
    pub(super) done: bool,
    pub(super) truncated: bool,
    pub(super) metadata: Object,
    /// Whether it has started. Before that, the client does not know the episode.
    has_started: bool,
    records: VecDeque<Box<RawValue>>,
    recorded: usize,
    bounds: Bounds,
    /// The share of the memory of all episodes that this one uses.
    memory: Portion,
}

/// Limits of the data kept for an episode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum size of a state, in bytes of JSON.
    pub(super) state: usize,
    /// Maximum number of recorded steps.
    pub(super) records: usize,
    /// Maximum size of the records, in bytes of JSON.
    pub(super) recorded: usize,
}

impl EpisodeState {
    /// The state of an episode that has not started.
    pub(super) fn with(bounds: Bounds, memory: Portion) -> Self {
        Self {
            steps: 0,
            state: Object::new(),
            done: false,
            truncated: false,
            metadata: Object::new(),
            has_started: false,
            records: VecDeque::new(),
            recorded: 0,
            bounds,
            memory,
        }
    }

    /// Stores the first observation.
    pub(super) fn begin(&mut self, seen: &Observation) -> Result<(), Failure> {
        self.check(&seen.state, &seen.metadata)?;
        self.has_started = true;
        self.show(seen);
        Ok(())
    }

    /// Counts and records a step.
    pub(super) fn advance(&mut self, action: &Object, seen: &Observation) -> Result<(), Failure> {
        self.check(&seen.state, &seen.metadata)?;
        self.steps += 1;
        let record = json::to_raw(&json!({
            "step_num": self.steps,
            "state": self.state,
            "action": action,
            "reward": seen.reward,
            "next_state": seen.state,
            "done": seen.done,
            "truncated": seen.truncated,
            "ts": crate::now(),
        }));
        self.recorded += record.get().len();
        self.records.push_back(record);
        while self.records.len() > self.bounds.records || self.recorded > self.bounds.recorded {
            let Some(oldest) = self.records.pop_front() else { break };
            self.recorded -= oldest.get().len();
        }
        self.show(seen);
        Ok(())
    }

    /// The newest records, oldest first.
    pub(super) fn records(&self, max: usize) -> impl Iterator<Item = &RawValue> {
        self.records.iter().skip(self.records.len().saturating_sub(max)).map(|record| &**record)
    }

    fn show(&mut self, seen: &Observation) {
        self.state.clone_from(&seen.state);
        self.metadata.clone_from(&seen.metadata);
        (self.done, self.truncated) = (seen.done || self.done, seen.truncated);
    }

    /// Whether there is room for a state. If so, the episode uses the memory for it from now on.
    fn check(&mut self, state: &Object, metadata: &Object) -> Result<(), Failure> {
        let (state, metadata) = (text(state), text(metadata));
        let (size, max) = (state.get().len().max(metadata.get().len()), self.bounds.state);
        let refused = |message: String| Err(Failure::of_capability("runtime_error", message));
        if size > max {
            return refused(format!("the environment's state of {size} bytes is over the limit of {max}"));
        }
        let before = self.memory.amount();
        let needed = values::memory_of(state.get()) + values::memory_of(metadata.get()) + self.recorded;
        if !self.memory.resize(needed) && needed > before {
            self.memory.resize(before);
            return refused("the episodes of this client use too much memory; close one first".to_owned());
        }
        Ok(())
    }
}

/// An object as JSON.
pub(super) fn text(object: &Object) -> Box<RawValue> {
    json::to_raw(object)
}

/// Reports changes of one episode that no request caused. The state is updated before the client is
/// notified.
#[derive(Debug, Clone)]
pub struct Pushes {
    episode: String,
    episode_state: Arc<Mutex<EpisodeState>>,
    caller: Arc<dyn Caller>,
}

/// A change that no request caused.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Push {
    /// The kind: `observation`, `tool_result`, `status` or `error`.
    pub event_type: String,
    /// The reason for the change.
    pub reason: String,
    /// The action that caused it, if any.
    pub action_id: Option<String>,
    /// The members of the state that have changed.
    pub delta: Object,
    /// The reward, if any.
    pub reward: Option<f64>,
    /// More about the reward.
    pub reward_info: Object,
    /// Whether the episode is over.
    pub terminal: bool,
}

impl Default for Push {
    fn default() -> Self {
        Self {
            event_type: "observation".to_owned(),
            reason: String::new(),
            action_id: None,
            delta: Object::new(),
            reward: None,
            reward_info: Object::new(),
            terminal: false,
        }
    }
}

impl Pushes {
    pub(super) fn of(episode: String, episode_state: Arc<Mutex<EpisodeState>>, caller: Arc<dyn Caller>) -> Self {
        Self { episode, episode_state, caller }
    }

    /// Updates the state and notifies the client. A change that makes the state too large is reported as an error
    /// instead.
    pub fn push(&self, mut push: Push) {
        let mut episode_state = lock(&self.episode_state);
        let mut state = episode_state.state.clone();
        state.extend(push.delta.clone());
        let metadata = episode_state.metadata.clone();
        if let Err(failure) = episode_state.check(&state, &metadata) {
            let event_type = "error".to_owned();
            push = Push { event_type, reason: failure.message, terminal: push.terminal, ..Push::default() };
        } else {
            episode_state.state = state;
        }
        episode_state.done |= push.terminal;
        let fields = json::to_raw(&json!({
            "episode_id": self.episode,
            "step_id": episode_state.steps,
            "action_id": push.action_id,
            "event_type": push.event_type,
            "reason": push.reason,
            "delta": push.delta,
            "reward": push.reward,
            "reward_info": push.reward_info,
            "terminal": push.terminal,
        }));
        self.caller.push(CapabilityEvent { kind: "env/state/push", request: None, fields });
    }

    /// Ends the episode with an error. Nothing is reported if it has not started or is over already.
    pub(super) fn fail(&self, why: &str) {
        let episode_state = lock(&self.episode_state);
        if episode_state.has_started && !episode_state.done {
            drop(episode_state);
            let (event_type, reason) = ("error".to_owned(), why.to_owned());
            self.push(Push { event_type, reason, terminal: true, ..Push::default() });
        }
    }

    /// Waits until the client has read enough of the pushes. An environment that pushes a lot must call this.
    pub async fn keeping_up(&self) {
        match self.caller.keeping_up() {
            Some(behind) => behind.await,
            // Let other tasks run.
            None => tokio::task::coop::consume_budget().await,
        }
    }
}

/// Locks the state.
pub(super) fn lock(episode_state: &Mutex<EpisodeState>) -> MutexGuard<'_, EpisodeState> {
    episode_state.lock().unpoisoned()
}

/// The observation of a state, with the reward and time of the step.
pub(super) fn observation(
    episode: &str,
    episode_state: &EpisodeState,
    reward: f64,
    created_at: f64,
    info: Option<&Object>,
) -> Value {
    let mut observation = json!({
        "episode_id": episode,
        "step_num": episode_state.steps,
        "state": episode_state.state,
        "done": episode_state.done,
        "truncated": episode_state.truncated,
        "reward": reward,
        "created_at": created_at,
        "metadata": episode_state.metadata,
    });
    if let Some(info) = info {
        observation["info"] = Value::Object(info.clone());
    }
    observation
}
