//! Tools and what they return.

use std::sync::Arc;

use crate::wire::{Members, RawValue, json};
use serde::{Deserialize, Serialize};

/// A tool as every dialect can show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tool {
    /// The name under which it is called.
    pub name: String,
    /// A name for people, where there is one.
    pub title: Option<String>,
    /// What it does, for people and models.
    pub description: String,
    /// JSON Schema of its arguments: an object schema.
    pub input_schema: Box<RawValue>,
    /// JSON Schema of its structured data, where it has some.
    pub output_schema: Option<Box<RawValue>>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Left out of plain lists, found by search (A2E's deferred tools).
    pub deferred: bool,
    /// Whether it can be had as a task: something to come back for.
    pub tasks: TaskSupport,
    /// Members of its definition that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// Whether a provider of this process vouches that the tool changes nothing. Annotations of an upstream are only claims, so
    /// this comes from no wire and is not remembered.
    #[serde(skip)]
    pub vouched_read_only: bool,
    /// Where it comes from. The hub sets this when it lists the tool; it comes from no wire and is not remembered.
    #[serde(skip)]
    pub origin: Option<Arc<Origin>>,
}

/// Where a tool comes from, and the names by which a rule can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The provider that has it.
    pub upstream: String,
    /// What the provider calls it.
    pub own: String,
    /// The names that it is known by, each once.
    pub names: Vec<KnownName>,
    /// Whether its provider gives way where another provider wants a name.
    pub yields: bool,
}

/// A name that a tool is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownName {
    /// The name.
    pub name: String,
    /// Whether the configuration rules out that a tool of another provider has this name too.
    pub is_exclusive: bool,
}

/// Whether a tool can be had as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// If the caller likes.
    Optional,
    /// Only so.
    Required,
}

impl Tool {
    /// A tool with a name, a description and a schema, and nothing unusual.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Box<RawValue>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema,
            output_schema: None,
            tags: Vec::new(),
            deferred: false,
            tasks: TaskSupport::Forbidden,
            extra: Vec::new(),
            vouched_read_only: false,
            origin: None,
        }
    }
}

impl Tool {
    /// A tool that takes no arguments.
    pub fn plain(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, description, json::raw(r#"{"type":"object","properties":{}}"#.to_owned()))
    }

    /// The same tool with arguments: their JSON Schema, an object schema.
    pub fn taking(self, input_schema: &serde_json::Value) -> Self {
        Self { input_schema: json::to_raw(input_schema), ..self }
    }

    /// The same tool with structured data: its JSON Schema.
    pub fn returning(self, output_schema: &serde_json::Value) -> Self {
        Self { output_schema: Some(json::to_raw(output_schema)), ..self }
    }

    /// The same tool with a further member of its definition, as MCP spells it (`annotations`, `icons` …).
    pub fn with(mut self, name: impl Into<String>, value: &serde_json::Value) -> Self {
        self.extra.push((name.into(), json::to_raw(value)));
        self
    }

    /// The same tool, of which its provider vouches that it changes nothing.
    pub fn vouched_read_only(self) -> Self {
        Self { vouched_read_only: true, ..self }
    }

    /// The same tool, to be had as a task.
    pub fn as_task(self, tasks: TaskSupport) -> Self {
        Self { tasks, ..self }
    }
}

/// What a tool returned.
#[derive(Debug, Clone, Default)]
pub struct ToolResult {
    /// Content blocks, in order.
    pub content: Vec<Content>,
    /// Structured data, where the tool has some.
    pub structured: Option<Box<RawValue>>,
    /// Whether the tool ran and reports a failure of its own.
    pub failed: bool,
    /// Members that the neutral model does not know, carried untouched.
    pub extra: Vec<(String, Box<RawValue>)>,
}

impl ToolResult {
    /// One block of text.
    pub fn text(text: &str) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// These blocks.
    pub fn of(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// Structured data, and the same as text for peers that show only text.
    pub fn structured(data: Box<RawValue>) -> Self {
        Self { content: vec![Content::text(data.get())], structured: Some(data), ..Self::default() }
    }

    /// A failure that the tool reports itself: the model may be able to do something about it.
    pub fn failure(text: &str) -> Self {
        Self { failed: true, ..Self::text(text) }
    }

    /// All text blocks, one after the other on lines of their own.
    pub fn joined_text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text(raw) => Some(json::string(raw).map_or_else(|| raw.get().to_owned(), Into::into)),
            // Text that carries more than text (annotations, say) is a block, and still text.
            Content::Block(raw) => {
                let block = Members::of(raw).filter(|block| block.str("type").as_deref() == Some("text"))?;
                block.str("text").map(Into::into)
            }
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// One content block.
#[derive(Debug, Clone)]
pub enum Content {
    /// Text, as the raw JSON string it was written as, so that nobody unescapes it to escape it again.
    Text(Box<RawValue>),
    /// Any other block: an object with a `type` (`image`, `audio`, `resource`, `resource_link` …).
    Block(Box<RawValue>),
}

impl Content {
    /// A text block.
    pub fn text(text: &str) -> Self {
        Self::Text(json::to_raw(text))
    }

    /// A picture, given in base64.
    pub fn image(mime_type: &str, base64: &str) -> Self {
        Self::block(&serde_json::json!({"type": "image", "data": base64, "mimeType": mime_type}))
    }

    /// A sound, given in base64.
    pub fn audio(mime_type: &str, base64: &str) -> Self {
        Self::block(&serde_json::json!({"type": "audio", "data": base64, "mimeType": mime_type}))
    }

    /// A resource of text, itself.
    pub fn resource(uri: &str, mime_type: &str, text: &str) -> Self {
        let resource = serde_json::json!({"uri": uri, "mimeType": mime_type, "text": text});
        Self::block(&serde_json::json!({"type": "resource", "resource": resource}))
    }

    /// Where a resource is to be had.
    pub fn link(uri: &str, name: &str) -> Self {
        Self::block(&serde_json::json!({"type": "resource_link", "uri": uri, "name": name}))
    }

    /// Any other block, as MCP spells it: an object with a `type`.
    pub fn block(block: &serde_json::Value) -> Self {
        Self::Block(json::to_raw(block))
    }

    /// The whole block, text included, as MCP spells it.
    pub fn to_block(&self) -> Box<RawValue> {
        match self {
            Self::Text(text) => json::raw(format!(r#"{{"type":"text","text":{}}}"#, text.get())),
            Self::Block(block) => block.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_joined_also_where_it_carries_more_than_text() {
        let block = |text: &str| Content::Block(json::raw(text.to_owned()));
        let annotated = block(r#"{"type":"text","text":"b\u0021","annotations":{}}"#);
        let content = vec![Content::text("a"), annotated, block(r#"{"type":"image","text":"no"}"#), block("7")];
        assert_eq!(ToolResult { content, ..ToolResult::default() }.joined_text(), "a\nb!");
    }
}
