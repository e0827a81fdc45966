//! Questions that a provider can ask the caller while it works on a call.

use crate::wire::{RawValue, json};

use crate::operations::failure::Failure;

/// Identifies one question of one session on our side. It never appears on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QuestionId(pub u64);

/// A question to the caller during its call.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its key among the questions of one call, if the dialect names them. Otherwise a key is generated.
    pub key: Option<String>,
    /// The kind of question.
    pub kind: QuestionKind,
    /// The parameters of the question: a raw JSON object as in MCP (`message`, `requestedSchema`, `messages` …).
    pub params: Box<RawValue>,
}

/// The kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionKind {
    /// Ask the user: a form, or a page to visit.
    Elicit,
    /// Ask the caller's model for a message.
    Sample,
    /// Ask the caller for its working folders.
    Roots,
}

impl QuestionKind {
    /// The capability that a caller must have declared.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation",
            Self::Sample => "sampling",
            Self::Roots => "roots",
        }
    }
}

impl Question {
    /// Asks the user to fill in a form: the text of the question, and the JSON Schema of the answer.
    pub fn form(message: &str, schema: &serde_json::Value) -> Self {
        Self::elicit(&serde_json::json!({"mode": "form", "message": message, "requestedSchema": schema}))
    }

    /// Asks the user, with the parameters of `elicitation/create`.
    pub fn elicit(params: &serde_json::Value) -> Self {
        Self { key: None, kind: QuestionKind::Elicit, params: json::to_raw(params) }
    }

    /// Asks the caller's model, with the parameters of `sampling/createMessage`.
    pub fn sample(params: &serde_json::Value) -> Self {
        Self { key: None, kind: QuestionKind::Sample, params: json::to_raw(params) }
    }

    /// Asks for the caller's working folders.
    pub fn roots() -> Self {
        Self { key: None, kind: QuestionKind::Roots, params: json::raw("{}".to_owned()) }
    }

    /// The same question with a key.
    pub fn named(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// The answer to a question: the raw result (`{"action":"accept","content":{…}}` and the like), or the failure.
pub type Answered = Result<Box<RawValue>, Failure>;
