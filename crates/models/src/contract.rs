//! What the agent asks of a model, and what it hears.
//!
//! A turn is made of rounds. Each round is one request: everything said so far goes in, pieces of thought and answer come
//! out while they are made, and at the end the tool calls that the model wants answered before the next round.

use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::wire::RawValue;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// Somebody who has models: one account at one service.
#[async_trait]
pub trait Models: std::fmt::Debug + Send + Sync {
    /// What it is called in options and settings: `openrouter`, `anthropic`, `local` …
    fn provider(&self) -> &str;

    /// The models that it has, in the order in which they are to be shown.
    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError>;

    /// Runs one round. Pieces go to `hear` in the order in which they came, without delay and without being merged; a
    /// slow listener slows the reading down. When `cancel` is cancelled it ends soon with [`ModelError::Cancelled`], also
    /// while it waits for the first byte.
    async fn round(
        &self,
        round: &Round,
        hear: &mut (dyn Listener + '_),
        cancel: &CancellationToken,
    ) -> Result<Heard, ModelError>;
}

/// Hears pieces as they come.
#[async_trait]
pub trait Listener: Send {
    /// One piece of the provider's output.
    async fn piece(&mut self, piece: Piece);

    /// Something worth knowing for whoever looks for a fault: the request, the raw reply, a retry. Secrets are not in it.
    async fn debug(&mut self, stage: &'static str, data: Box<RawValue>);

    /// Whether anybody looks for a fault; if not, [`Listener::debug`] need not be told anything.
    fn is_curious(&self) -> bool {
        true
    }
}

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelOption {
    /// Its id at its provider.
    pub id: String,
    /// Who has it.
    pub provider: String,
    /// For people.
    pub label: String,
    /// For people.
    pub description: String,
    /// How much it may be told to think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_thinking_levels: Option<Vec<Thinking>>,
    /// How much it thinks unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_thinking_level: Option<Thinking>,
    /// Who may run it, where the provider passes requests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_providers: Option<Vec<String>>,
    /// How many tokens it takes in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window_tokens: Option<u64>,
}

/// How much a model is to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Thinking {
    /// Not at all.
    Off,
    /// As little as possible.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Even more.
    XHigh,
}

/// Everything that one request is made of.
#[derive(Debug, Clone)]
pub struct Round {
    /// Counts the requests of a turn, from 1.
    pub number: u32,
    /// Names the turn at providers that want to know.
    pub turn: String,
    /// The id of the model.
    pub model: String,
    /// How much it is to think.
    pub thinking: Thinking,
    /// Who is to run it, where the provider passes requests on.
    pub routing: Option<String>,
    /// What it is told before everything else.
    pub instructions: String,
    /// Everything said so far, oldest first, this turn's earlier rounds included.
    pub said: Vec<Said>,
    /// What it may call; empty when it is to answer in words.
    pub tools: Arc<[ToolOffer]>,
}

/// One thing that was said.
#[derive(Debug, Clone)]
pub enum Said {
    /// By the user.
    User {
        /// In words.
        text: String,
        /// In pictures: data URLs.
        images: Vec<String>,
    },
    /// By the model.
    Assistant {
        /// In words; may be empty.
        text: String,
        /// What it wanted to be called.
        calls: Vec<WantedCall>,
    },
    /// By a tool.
    Result {
        /// Which call it answers.
        call_id: String,
        /// The name that the model used.
        name: String,
        /// What came out.
        output: Box<RawValue>,
        /// Why it failed, if it did.
        error: Option<String>,
    },
}

/// A tool as a model is told of it.
#[derive(Debug, Clone)]
pub struct ToolOffer {
    /// A name that every provider takes: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it takes: a JSON Schema.
    pub schema: Box<RawValue>,
}

/// A call that a model wants.
#[derive(Debug, Clone)]
pub struct WantedCall {
    /// The provider's id, or one that was made up.
    pub call_id: String,
    /// The name that the model used.
    pub name: String,
    /// A JSON object; `{}` where the model wrote something else.
    pub input: Box<RawValue>,
    /// What the provider wants back unread with the call (a signature of its thoughts).
    pub seal: Option<Box<RawValue>>,
}

/// One piece of a provider's output: what arrived together stays together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// What came, in order.
    pub segments: Vec<Segment>,
    /// The beginning of the thought so far, where thoughts come in pieces; else the whole thoughts of this piece.
    pub thoughts: Vec<String>,
}

/// Part of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "text", rename_all = "lowercase")]
pub enum Segment {
    /// What the model thinks.
    Thought(String),
    /// What it says.
    Answer(String),
}

/// How a round ended.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// What the model wants called before it goes on. None: the answer is complete.
    pub calls: Vec<WantedCall>,
    /// What it cost, where the provider says so.
    pub usage: Option<Usage>,
}

/// What a round cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
}

/// Why a round or a catalogue could not be had. The texts are what clients of the agent see.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    /// It was told to stop.
    #[error("Request was aborted.")]
    Cancelled,
    /// Nobody answered.
    #[error("Connection error.")]
    Unreachable,
    /// The service answered with a status that is none of success.
    #[error("{status} {message}")]
    Status {
        /// The status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// Everything else, in words that people understand.
    #[error("{0}")]
    Failed(String),
}
