//! The interface between the agent and model providers.
//!
//! A turn consists of rounds. Each round is one request with the whole conversation so far. While the model
//! generates, the provider delivers pieces of thoughts and of the answer. At the end it returns the tool calls that
//! the model needs before the next round.

use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::wire::RawValue;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// A model provider: one account at one service.
#[async_trait]
pub trait Models: Send + Sync {
    /// The name of the provider in options and settings: `openrouter`, `anthropic`, `local` …
    fn provider(&self) -> &str;

    /// The available models, in display order.
    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError>;

    /// Runs one round. Pieces are passed to `listener` in the order of arrival, without delay and without merging; a
    /// slow listener slows down reading. If `cancel` is cancelled, the round soon ends with
    /// [`ModelError::Cancelled`], even while it waits for the first byte.
    async fn round(
        &self,
        round: &Round,
        listener: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<RoundResult, ModelError>;
}

gladhand_core::debug_as_name!(Models);

/// Receives the pieces of a reply as they arrive.
#[async_trait]
pub trait Listener: Send {
    /// Receives one piece of the model's output.
    async fn piece(&mut self, piece: Piece);

    /// Receives debug data: the request, the raw reply, a retry. It contains no secrets.
    async fn debug(&mut self, stage: &'static str, data: Box<RawValue>);

    /// Whether debug data is wanted. If not, [`Listener::debug`] need not be called.
    fn wants_debug(&self) -> bool {
        true
    }
}

/// A model that can be selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelOption {
    /// The id of the model at its provider.
    pub id: String,
    /// The name of the provider.
    pub provider: String,
    /// The display name.
    pub label: String,
    /// The description shown to users.
    pub description: String,
    /// The thinking levels that the model supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_thinking_levels: Option<Vec<Thinking>>,
    /// The thinking level used if none is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_thinking_level: Option<Thinking>,
    /// The providers that can run the model, if this provider routes requests to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_providers: Option<Vec<String>>,
    /// The size of the context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window_tokens: Option<u64>,
}

/// How much a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Thinking {
    /// Thinking is off.
    Off,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// A medium amount.
    Medium,
    /// Much.
    High,
    /// The maximum.
    XHigh,
}

/// The content of one request.
#[derive(Debug, Clone)]
pub struct Round {
    /// The number of the request within its turn, starting at 1.
    pub number: u32,
    /// The id of the turn, for providers that need one.
    pub turn: String,
    /// The id of the model.
    pub model: String,
    /// The thinking level.
    pub thinking: Thinking,
    /// The provider that runs the model, if this provider routes requests to others.
    pub routing: Option<String>,
    /// The system prompt.
    pub instructions: String,
    /// The conversation so far, oldest first, including earlier rounds of this turn.
    pub history: Vec<HistoryItem>,
    /// The tools that the model can call. Empty if the model must answer in text.
    pub tools: Arc<[ToolOffer]>,
}

/// One item of a conversation.
#[derive(Debug, Clone)]
pub enum HistoryItem {
    /// A message of the user.
    User {
        /// The text.
        text: String,
        /// The images, as data URLs.
        images: Vec<String>,
    },
    /// A message of the model.
    Assistant {
        /// The text; can be empty.
        text: String,
        /// The tool calls that the model requested.
        calls: Vec<WantedCall>,
    },
    /// The result of a tool call.
    Result {
        /// The id of the call.
        call_id: String,
        /// The tool name that the model used.
        name: String,
        /// The output of the tool.
        output: Box<RawValue>,
        /// The error message, if the call failed.
        error: Option<String>,
    },
}

/// A tool as described to a model.
#[derive(Debug, Clone)]
pub struct ToolOffer {
    /// A name that every provider accepts: letters, digits, `_` and `-`, at most 64 characters.
    pub name: String,
    /// The description of the tool.
    pub description: String,
    /// The input schema (JSON Schema).
    pub schema: Box<RawValue>,
}

/// A tool call that the model requested.
#[derive(Debug, Clone)]
pub struct WantedCall {
    /// The id from the provider, or a generated one.
    pub call_id: String,
    /// The tool name that the model used.
    pub name: String,
    /// The arguments: a JSON object; `{}` if the model wrote anything else.
    pub input: Box<RawValue>,
    /// Opaque data that the provider requires back with the call, such as a signature of the thoughts.
    pub seal: Option<Box<RawValue>>,
}

/// One piece of the model's output. Segments that arrive together stay in one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// The segments, in order of arrival.
    pub segments: Vec<Segment>,
    /// If thoughts are streamed: the beginning of the current thought. Otherwise: the complete thoughts of this
    /// piece.
    pub thoughts: Vec<String>,
}

/// Part of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "text", rename_all = "lowercase")]
pub enum Segment {
    /// Text of a thought.
    Thought(String),
    /// Text of the answer.
    Answer(String),
}

/// The result of a round.
#[derive(Debug, Clone, Default)]
pub struct RoundResult {
    /// The tool calls to run before the next round. If empty, the answer is complete.
    pub calls: Vec<WantedCall>,
    /// Token usage, if the provider reports it.
    pub usage: Option<Usage>,
}

/// Token usage of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

/// Why a round or a catalogue request failed. Clients of the agent see these texts.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    /// The caller cancelled the request.
    #[error("Request was aborted.")]
    Cancelled,
    /// The service could not be reached.
    #[error("Connection error.")]
    Unreachable,
    /// The service responded with an error status.
    #[error("{status} {message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The message in the response.
        message: String,
    },
    /// Any other failure, as text for users.
    #[error("{0}")]
    Failed(String),
}
