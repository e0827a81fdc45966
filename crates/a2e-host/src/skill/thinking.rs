//! The interface to the model or agent that executes prompt skills.

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use gladhand_hub::SessionId;
use serde_json::Value;
use tokio::sync::mpsc;

/// Executes prompts: a model, or an agent with one.
#[async_trait]
pub trait Thinker: Send + Sync {
    /// Executes the prompt and returns the final text. Intermediate text goes to `tokens` and becomes events. The
    /// future is dropped when the skill times out or the client's session ends.
    async fn think(&self, thought: Thought, tokens: mpsc::Sender<String>) -> Result<String, Failure>;
}

gladhand_core::debug_as_name!(Thinker);

/// A prompt to execute.
#[derive(Debug, Clone)]
pub struct Thought {
    /// The session that called the skill.
    pub session: SessionId,
    /// The name of the skill.
    pub skill: String,
    /// The prompt.
    pub prompt: String,
    /// The tools that the skill names, as it names them.
    pub tools: Vec<Value>,
    /// Maximum number of turns, if the skill has one.
    pub max_turns: Option<u64>,
}
