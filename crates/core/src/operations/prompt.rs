//! Prompts, and the completion of their arguments.

use crate::wire::{RawValue, json};
use serde::{Deserialize, Serialize};

use crate::operations::member_order::MemberOrder;
use crate::operations::tool::Content;

/// A prompt that can be filled in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prompt {
    /// The name by which a client requests it.
    pub name: String,
    /// The display name, if there is one.
    pub title: Option<String>,
    /// The purpose, for people and models.
    pub description: Option<String>,
    /// Its arguments, in order.
    pub arguments: Vec<PromptArgument>,
    /// Members of the definition that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    #[serde(default)]
    pub order: MemberOrder,
}

impl Prompt {
    /// A prompt without arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: Some(description.into()),
            arguments: Vec::new(),
            extra: Vec::new(),
            order: MemberOrder::default(),
        }
    }

    /// The same prompt with one more required argument.
    pub fn argument(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let (name, description) = (name.into(), Some(description.into()));
        let (extra, order) = (Vec::new(), MemberOrder::default());
        self.arguments.push(PromptArgument { name, description, required: true, extra, order });
        self
    }
}

/// An argument of a prompt. Its value is a string.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// The meaning of the argument.
    pub description: Option<String>,
    /// Whether the argument is required.
    pub required: bool,
    /// Members of the definition that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    #[serde(default)]
    pub order: MemberOrder,
}

/// A filled-in prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptResult {
    /// The purpose of the prompt.
    pub description: Option<String>,
    /// Its messages: objects with `role` and `content`.
    pub messages: Vec<Box<RawValue>>,
    /// Members that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    pub order: MemberOrder,
}

impl PromptResult {
    /// A prompt with one text message of the user.
    pub fn text(text: &str) -> Self {
        Self::default().saying("user", &Content::text(text))
    }

    /// The same prompt with one more message: its role (`user`, `assistant`) and its content.
    pub fn saying(mut self, role: &str, content: &Content) -> Self {
        self.messages.push(json::to_raw(&PromptMessage { role, content: &content.to_block() }));
        self
    }
}

#[derive(Serialize)]
struct PromptMessage<'a> {
    role: &'a str,
    content: &'a RawValue,
}

/// Suggested values for an argument.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Values that match the typed text, best first.
    pub values: Vec<String>,
    /// The total number of matching values, if known.
    pub total: Option<u64>,
    /// Whether there are more values than those in the list.
    pub has_more: Option<bool>,
    /// Members that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
}
