//! The traits that an environment and its episodes implement.

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use serde_json::{Map, Value};

use super::pushes::Pushes;

/// A JSON object.
pub type Object = Map<String, Value>;

/// A kind of world in which episodes run.
#[async_trait]
pub trait Environment: Send + Sync {
    /// The name of the environment, as in `env_name`.
    fn name(&self) -> &str;

    /// The schemas of actions and states.
    fn space(&self) -> Space;

    /// Starts an episode. The environment reports its own changes through `pushes`.
    async fn reset(&self, reset: Reset, pushes: Pushes) -> Result<(Box<dyn Episode>, Observation), Failure>;

    /// Suggests actions for a state that belongs to no episode; `None` if it is not a state of this environment.
    fn plan_from(&self, _state: &Object) -> Option<Vec<Value>> {
        None
    }
}

gladhand_core::debug_as_name!(Environment);

/// A running episode. Dropping it releases everything that belongs to it.
#[async_trait]
pub trait Episode: Send {
    /// Performs an action.
    async fn step(&mut self, action: &Object) -> Result<Observation, Failure>;

    /// Renders the episode; `None` if it does not support this mode. For `json` the caller then falls back to the
    /// state.
    async fn render(&mut self, _mode: &str) -> Result<Option<Value>, Failure> {
        Ok(None)
    }

    /// Suggests the next actions, in the current state or in `state`.
    async fn plan(&mut self, _state: Option<&Object>) -> Result<Vec<Value>, Failure> {
        Ok(Vec::new())
    }

    /// Closes the episode.
    async fn close(&mut self) {}
}

gladhand_core::debug_as_name!(Episode);

/// How an episode starts.
#[derive(Debug, Clone, Default)]
pub struct Reset {
    /// The seed for random numbers; the same seed makes the same episode.
    pub seed: Option<i64>,
    /// Further options of the environment.
    pub options: Object,
}

/// The observation after a reset or a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// The state.
    pub state: Object,
    /// The reward of the last step.
    pub reward: f64,
    /// The episode is over.
    pub done: bool,
    /// The episode is over because of a step limit, not because the goal was reached.
    pub truncated: bool,
    /// More about the last step.
    pub info: Object,
    /// More about the episode.
    pub metadata: Object,
}

/// The JSON Schemas of actions and states.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// The schema of an action.
    pub actions: Value,
    /// The schema of a state.
    pub states: Value,
}

/// The error for an action that the environment does not know.
pub(super) fn unknown_action(why: impl Into<String>) -> Failure {
    Failure::of_capability("unknown_action", why)
}

/// The error for an episode that cannot be started.
pub(super) fn reset_denied(why: impl Into<String>) -> Failure {
    Failure::of_capability("reset_denied", why)
}

/// The name of an action: `action_type`, or `type` for short.
pub(super) fn word(action: &Object) -> Option<&str> {
    action.get("action_type").or_else(|| action.get("type"))?.as_str()
}

/// Reads an integer option in a range, or returns its default.
pub(super) fn option(
    options: &Object,
    name: &str,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, Failure> {
    let Some(given) = options.get(name).filter(|given| !given.is_null()) else { return Ok(default) };
    let whole = given.as_u64().or_else(|| given.as_f64().filter(|number| number.fract() == 0.0).map(|n| n as u64));
    whole.filter(|number| range.contains(number)).ok_or_else(|| {
        reset_denied(format!("option {name:?} must be a whole number from {} to {}", range.start(), range.end()))
    })
}
