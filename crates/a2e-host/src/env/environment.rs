//! What an environment is, and what an episode of one.

use std::fmt;

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use serde_json::{Map, Value};

use super::pushing::Pushes;

/// A JSON object.
pub type Object = Map<String, Value>;

/// Something that episodes can be played in.
#[async_trait]
pub trait Environment: fmt::Debug + Send + Sync {
    /// What `env_name` calls it.
    fn name(&self) -> &str;

    /// What can be done in it, and what is seen of it.
    fn space(&self) -> Space;

    /// Begins an episode. What changes by itself is told through `pushes`.
    async fn reset(&self, reset: Reset, pushes: Pushes) -> Result<(Box<dyn Episode>, Seen), Failure>;

    /// What to do in a state that no episode is known to be in; none if it is no state of this environment.
    fn plan_from(&self, _state: &Object) -> Option<Vec<Value>> {
        None
    }
}

/// A game that is being played. When it is dropped, everything that belongs to it goes.
#[async_trait]
pub trait Episode: fmt::Debug + Send {
    /// Does something.
    async fn step(&mut self, action: &Object) -> Result<Seen, Failure>;

    /// A picture of it; none if it cannot be had in this mode. `json` is the state for who has no other.
    async fn render(&mut self, _mode: &str) -> Result<Option<Value>, Failure> {
        Ok(None)
    }

    /// What to do next, in its own state or in another.
    async fn plan(&mut self, _state: Option<&Object>) -> Result<Vec<Value>, Failure> {
        Ok(Vec::new())
    }

    /// It is not played any more.
    async fn close(&mut self) {}
}

/// How an episode begins.
#[derive(Debug, Clone, Default)]
pub struct Reset {
    /// What chance is made of; the same seed makes the same episode.
    pub seed: Option<i64>,
    /// What the environment is told beside that.
    pub options: Object,
}

/// What is seen after a reset or a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// How everything stands.
    pub state: Object,
    /// What the last step was worth.
    pub reward: f64,
    /// It is over.
    pub done: bool,
    /// It is over because there is an end to everything, not because anything was reached.
    pub truncated: bool,
    /// More of the last step.
    pub info: Object,
    /// More of the episode.
    pub metadata: Object,
}

/// What can be done in an environment, and what is seen of it: two JSON Schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// What an action is.
    pub actions: Value,
    /// What a state is.
    pub states: Value,
}

/// An environment does not know such an action.
pub(super) fn unknown_action(why: impl Into<String>) -> Failure {
    Failure::of_capability("unknown_action", why)
}

/// An environment does not begin such an episode.
pub(super) fn reset_denied(why: impl Into<String>) -> Failure {
    Failure::of_capability("reset_denied", why)
}

/// The word that says what an action is: `action_type`, or `type` for short.
pub(super) fn word(action: &Object) -> Option<&str> {
    action.get("action_type").or_else(|| action.get("type"))?.as_str()
}

/// An option that is a whole number in a range, or its usual value.
pub(super) fn option(
    options: &Object,
    name: &str,
    usual: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, Failure> {
    let Some(given) = options.get(name).filter(|given| !given.is_null()) else { return Ok(usual) };
    let whole = given.as_u64().or_else(|| given.as_f64().filter(|number| number.fract() == 0.0).map(|n| n as u64));
    whole.filter(|number| range.contains(number)).ok_or_else(|| {
        reset_denied(format!("option {name:?} is a whole number from {} to {}", range.start(), range.end()))
    })
}
