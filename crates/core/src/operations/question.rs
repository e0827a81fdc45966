//! What somebody who answers a call may ask its caller while it runs.

use crate::wire::{RawValue, json};

use crate::operations::failure::Failure;

/// Names one question of one session on this side. Never on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuestionId(pub u64);

/// A question to the caller, asked while its call runs.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its name among the questions of one call, where the dialect names them; made up if it has none.
    pub key: Option<String>,
    /// What is asked for.
    pub kind: QuestionKind,
    /// How it is asked: a raw JSON object, in the words of MCP (`message`, `requestedSchema`, `messages` …).
    pub params: Box<RawValue>,
}

/// What can be asked of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// A person's answer: a form, or a page to visit.
    Elicit,
    /// What the caller's model says.
    Sample,
    /// Which folders the caller works in.
    Roots,
}

impl QuestionKind {
    /// What a caller must have declared to be asked.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation",
            Self::Sample => "sampling",
            Self::Roots => "roots",
        }
    }
}

impl Question {
    /// Asks a person to fill in a form: what for, and the JSON Schema of the answer.
    pub fn form(message: &str, schema: &serde_json::Value) -> Self {
        Self::elicit(&serde_json::json!({"mode": "form", "message": message, "requestedSchema": schema}))
    }

    /// Asks a person, in the words of `elicitation/create`.
    pub fn elicit(params: &serde_json::Value) -> Self {
        Self { key: None, kind: QuestionKind::Elicit, params: json::to_raw(params) }
    }

    /// Asks the caller's model, in the words of `sampling/createMessage`.
    pub fn sample(params: &serde_json::Value) -> Self {
        Self { key: None, kind: QuestionKind::Sample, params: json::to_raw(params) }
    }

    /// Asks for the caller's folders.
    pub fn roots() -> Self {
        Self { key: None, kind: QuestionKind::Roots, params: json::raw("{}".to_owned()) }
    }

    /// The same question under a name.
    pub fn named(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// What came back: the raw result (`{"action":"accept","content":{…}}` and the like), or why there is none.
pub type Answered = Result<Box<RawValue>, Failure>;
