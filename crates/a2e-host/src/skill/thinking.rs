//! Whoever carries out the skills that are prompts.

use std::fmt;

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use gladhand_hub::SessionId;
use serde_json::Value;
use tokio::sync::mpsc;

/// Somebody who does what a prompt says: a model, or an agent with one.
#[async_trait]
pub trait Thinker: fmt::Debug + Send + Sync {
    /// Does what the prompt says, and gives what it came to. What is said on the way is put into `tokens`, and becomes
    /// events. This is dropped when the skill's time is over or its caller has left.
    async fn think(&self, thought: Thought, tokens: mpsc::Sender<String>) -> Result<String, Failure>;
}

/// What is to be thought about.
#[derive(Debug, Clone)]
pub struct Thought {
    /// The session that the skill was called in.
    pub session: SessionId,
    /// The name of the skill.
    pub skill: String,
    /// What to do.
    pub prompt: String,
    /// The tools that the skill names, in its own words.
    pub tools: Vec<Value>,
    /// How many turns it may take, if the skill says so.
    pub max_turns: Option<u64>,
}
