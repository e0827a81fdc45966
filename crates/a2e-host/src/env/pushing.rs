//! How an episode stands, as everybody sees it, and how changes of it are told that nobody asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_core::operations::{CapabilityEvent, Failure};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::Caller;
use serde::Deserialize;
use serde_json::{Value, json};

use super::environment::{Object, Seen};

/// How an episode stands.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) steps: u64,
    pub(super) state: Object,
    pub(super) done: bool,
    pub(super) truncated: bool,
    pub(super) metadata: Object,
    /// Whether it has begun: before that, nobody knows of it.
    has_begun: bool,
    records: VecDeque<Box<RawValue>>,
    recorded: usize,
    bounds: Bounds,
}

/// How much is kept of an episode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How many bytes of JSON a state may have.
    pub(super) state: usize,
    /// How many steps are recorded.
    pub(super) records: usize,
    /// How many bytes of JSON the records may have.
    pub(super) recorded: usize,
}

impl Board {
    /// The board of an episode that has not begun.
    pub(super) fn with(bounds: Bounds) -> Self {
        Self {
            steps: 0,
            state: Object::new(),
            done: false,
            truncated: false,
            metadata: Object::new(),
            has_begun: false,
            records: VecDeque::new(),
            recorded: 0,
            bounds,
        }
    }

    /// The episode has begun.
    pub(super) fn begin(&mut self, seen: &Seen) -> Result<(), Failure> {
        self.check(&seen.state)?;
        self.has_begun = true;
        self.show(seen);
        Ok(())
    }

    /// A step was made: counts and records it.
    pub(super) fn advance(&mut self, action: &Object, seen: &Seen) -> Result<(), Failure> {
        self.check(&seen.state)?;
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
    pub(super) fn records(&self, most: usize) -> impl Iterator<Item = &RawValue> {
        self.records.iter().skip(self.records.len().saturating_sub(most)).map(|record| &**record)
    }

    fn show(&mut self, seen: &Seen) {
        self.state.clone_from(&seen.state);
        self.metadata.clone_from(&seen.metadata);
        (self.done, self.truncated) = (seen.done || self.done, seen.truncated);
    }

    fn check(&self, state: &Object) -> Result<(), Failure> {
        let (size, most) = (size(state), self.bounds.state);
        if size <= most {
            return Ok(());
        }
        let message = format!("the environment's state of {size} bytes is over the limit of {most}");
        Err(Failure::of_capability("runtime_error", message))
    }
}

/// How many bytes of JSON an object has.
pub(super) fn size(object: &Object) -> usize {
    json::to_raw(object).get().len()
}

/// Tells of changes of one episode that nobody asked for. They are on the board before they are told.
#[derive(Debug, Clone)]
pub struct Pushes {
    episode: String,
    board: Arc<Mutex<Board>>,
    caller: Arc<dyn Caller>,
}

/// A change that nobody asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Push {
    /// What it is: `observation`, `tool_result`, `status` or `error`.
    pub event_type: String,
    /// Why.
    pub reason: String,
    /// The action that it came of, if it came of one.
    pub action_id: Option<String>,
    /// The members of the state that have changed.
    pub delta: Object,
    /// What it is worth, if it is worth something.
    pub reward: Option<f64>,
    /// More of that.
    pub reward_info: Object,
    /// The episode is over.
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
    pub(super) fn of(episode: String, board: Arc<Mutex<Board>>, caller: Arc<dyn Caller>) -> Self {
        Self { episode, board, caller }
    }

    /// Puts a change on the board and tells it. One that makes the state too large is told as an error instead.
    pub fn push(&self, mut push: Push) {
        let mut board = lock(&self.board);
        let mut state = board.state.clone();
        state.extend(push.delta.clone());
        if let Err(failure) = board.check(&state) {
            let event_type = "error".to_owned();
            push = Push { event_type, reason: failure.message, terminal: push.terminal, ..Push::default() };
        } else {
            board.state = state;
        }
        board.done |= push.terminal;
        let fields = json::to_raw(&json!({
            "episode_id": self.episode,
            "step_id": board.steps,
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

    /// The episode is over because it broke. Nobody is told of one that has not begun or is over already.
    pub(super) fn broke(&self, why: &str) {
        let board = lock(&self.board);
        if board.has_begun && !board.done {
            drop(board);
            let (event_type, reason) = ("error".to_owned(), why.to_owned());
            self.push(Push { event_type, reason, terminal: true, ..Push::default() });
        }
    }

    /// Ends when the caller has read enough of what it was told. Whoever tells much waits for it.
    pub async fn keeping_up(&self) {
        match self.caller.keeping_up() {
            Some(behind) => behind.await,
            // Others have work to do, too.
            None => tokio::task::coop::consume_budget().await,
        }
    }
}

/// The board, for a moment.
pub(super) fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The observation that a board shows, with what a step was worth and when it is from.
pub(super) fn observation(episode: &str, board: &Board, reward: f64, created_at: f64, info: Option<&Object>) -> Value {
    let mut observation = json!({
        "episode_id": episode,
        "step_num": board.steps,
        "state": board.state,
        "done": board.done,
        "truncated": board.truncated,
        "reward": reward,
        "created_at": created_at,
        "metadata": board.metadata,
    });
    if let Some(info) = info {
        observation["info"] = Value::Object(info.clone());
    }
    observation
}
