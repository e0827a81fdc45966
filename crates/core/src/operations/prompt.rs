//! Prompts, and what their arguments could be.

use crate::wire::{RawValue, json};
use serde::{Deserialize, Serialize};

use crate::operations::tool::Content;

/// A prompt that can be filled in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prompt {
    /// The name under which it is asked for.
    pub name: String,
    /// A name for people, where there is one.
    pub title: Option<String>,
    /// What it is for, for people and models.
    pub description: Option<String>,
    /// Its arguments, in order.
    pub arguments: Vec<PromptArgument>,
    /// Members of its definition that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
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
        }
    }

    /// The same prompt with one more argument that must be given.
    pub fn argument(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        let (name, description) = (name.into(), Some(description.into()));
        self.arguments.push(PromptArgument { name, description, required: true, extra: Vec::new() });
        self
    }
}

/// An argument of a prompt. Its value is a string.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it means.
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: bool,
    /// Members of its definition that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}

/// A prompt, filled in.
#[derive(Debug, Clone, Default)]
pub struct PromptResult {
    /// What it is for.
    pub description: Option<String>,
    /// Its messages: objects with `role` and `content`.
    pub messages: Vec<Box<RawValue>>,
    /// Members that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}

impl PromptResult {
    /// One text that the user says.
    pub fn text(text: &str) -> Self {
        Self::default().saying("user", &Content::text(text))
    }

    /// The same with one more message: who says it (`user`, `assistant`), and what.
    pub fn saying(mut self, role: &str, content: &Content) -> Self {
        self.messages.push(json::to_raw(&Message { role, content: &content.to_block() }));
        self
    }
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a RawValue,
}

/// What an argument could be.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// Values that fit what was typed, the best first.
    pub values: Vec<String>,
    /// How many there are in all, if that is known.
    pub total: Option<u64>,
    /// Whether there are more than those given.
    pub has_more: Option<bool>,
    /// Members that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}
