//! The smallest environment: count to five.

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use serde_json::json;

use super::environment::{Environment, Episode, Object, Observation, Reset, Space, word};
use super::pushes::Pushes;

/// The count that ends an episode.
const GOAL: u64 = 5;

/// Counts to five: `{"type": "inc"}` adds one, every other action adds nothing.
#[derive(Debug)]
pub struct Counter {
    name: String,
}

impl Counter {
    /// Creates a counter with this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

#[async_trait]
impl Environment for Counter {
    fn name(&self) -> &str {
        &self.name
    }

    fn space(&self) -> Space {
        let number = json!({"type": "integer", "minimum": 0});
        Space {
            actions: json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["inc", "noop"]}}}),
            states: json!({"type": "object", "properties": {"count": number, "step_num": number}}),
        }
    }

    async fn reset(&self, _: Reset, _: Pushes) -> Result<(Box<dyn Episode>, Observation), Failure> {
        let counting = Counting { count: 0, steps: 0 };
        let seen = counting.seen();
        Ok((Box::new(counting), seen))
    }
}

#[derive(Debug)]
struct Counting {
    count: u64,
    steps: u64,
}

#[async_trait]
impl Episode for Counting {
    async fn step(&mut self, action: &Object) -> Result<Observation, Failure> {
        self.steps += 1;
        if word(action) == Some("inc") {
            self.count += 1;
        }
        Ok(self.seen())
    }

    async fn plan(&mut self, _: Option<&Object>) -> Result<Vec<serde_json::Value>, Failure> {
        Ok((self.count..GOAL).map(|_| json!({"type": "inc"})).collect())
    }
}

impl Counting {
    fn seen(&self) -> Observation {
        let state = [("count".to_owned(), json!(self.count)), ("step_num".to_owned(), json!(self.steps))];
        let done = self.count >= GOAL;
        Observation { state: state.into_iter().collect(), reward: f64::from(done), done, ..Observation::default() }
    }
}
