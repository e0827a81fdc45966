//! Tools and their results.

use std::sync::Arc;

use crate::operations::member_order::MemberOrder;
use crate::wire::{Members, RawValue, json};
use serde::{Deserialize, Serialize};

/// The definition of a tool, independent of dialect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tool {
    /// The name by which it is called.
    pub name: String,
    /// The display name, if there is one.
    pub title: Option<String>,
    /// The description, for people and models.
    pub description: String,
    /// The JSON Schema of its arguments: an object schema.
    pub input_schema: Box<RawValue>,
    /// The JSON Schema of its structured result, if it has one.
    pub output_schema: Option<Box<RawValue>>,
    /// Keywords for search.
    pub tags: Vec<String>,
    /// Not in plain lists, only found by search (A2E's deferred tools).
    pub deferred: bool,
    /// Whether the tool can run as a task.
    pub tasks: TaskSupport,
    /// Members of the definition that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    #[serde(default)]
    pub order: MemberOrder,
    /// Whether a provider of this process guarantees that the tool changes nothing. Annotations of an upstream are only
    /// claims. This flag therefore never comes from the wire and is not stored.
    #[serde(skip)]
    pub vouched_read_only: bool,
    /// The origin of the tool. The hub sets it when it lists the tool. It never comes from the wire and is not stored.
    #[serde(skip)]
    pub origin: Option<Arc<Origin>>,
}

/// The origin of a tool, and the names that policy rules can use for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The provider of the tool.
    pub upstream: String,
    /// The provider's name for the tool.
    pub own: String,
    /// All names of the tool, each once.
    pub names: Vec<KnownName>,
    /// Whether its provider gives up a name that another provider wants.
    pub yields: bool,
}

/// One name of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownName {
    /// The name itself.
    pub name: String,
    /// Whether the configuration ensures that no other provider has a tool of this name.
    pub is_exclusive: bool,
}

/// Whether a tool can run as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TaskSupport {
    /// The tool never runs as a task.
    #[default]
    Forbidden,
    /// The caller decides.
    Optional,
    /// The tool only runs as a task.
    Required,
}

impl Tool {
    /// A tool with a name, a description and a schema, and defaults for the rest.
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
            order: MemberOrder::default(),
            vouched_read_only: false,
            origin: None,
        }
    }
}

impl Tool {
    /// A tool without arguments.
    pub fn plain(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(name, description, json::raw(r#"{"type":"object","properties":{}}"#.to_owned()))
    }

    /// The same tool with this JSON Schema for its arguments, an object schema.
    pub fn taking(self, input_schema: &serde_json::Value) -> Self {
        Self { input_schema: json::to_raw(input_schema), ..self }
    }

    /// The same tool with this JSON Schema for its structured result.
    pub fn returning(self, output_schema: &serde_json::Value) -> Self {
        Self { output_schema: Some(json::to_raw(output_schema)), ..self }
    }

    /// The same tool with a further member of its definition, as MCP spells it (`annotations`, `icons` …).
    pub fn with(mut self, name: impl Into<String>, value: &serde_json::Value) -> Self {
        self.extra.push((name.into(), json::to_raw(value)));
        self
    }

    /// The same tool, marked by its provider as one that changes nothing.
    pub fn vouched_read_only(self) -> Self {
        Self { vouched_read_only: true, ..self }
    }

    /// The same tool with this task support.
    pub fn as_task(self, tasks: TaskSupport) -> Self {
        Self { tasks, ..self }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, Default)]
pub struct ToolResult {
    /// Content blocks, in order.
    pub content: Vec<Content>,
    /// The structured result, if the tool has one.
    pub structured: Option<Box<RawValue>>,
    /// Whether the tool ran and reports a failure itself.
    pub failed: bool,
    /// Members that the neutral model does not know, carried unchanged.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// The order of its members, as the server wrote them.
    pub order: MemberOrder,
}

impl ToolResult {
    /// A result with one text block.
    pub fn text(text: &str) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// A result with these blocks.
    pub fn of(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// A structured result, with a text copy for peers that show only text.
    pub fn structured(data: Box<RawValue>) -> Self {
        Self { content: vec![Content::text(data.get())], structured: Some(data), ..Self::default() }
    }

    /// A failure that the tool reports itself, so that the model can react to it.
    pub fn failure(text: &str) -> Self {
        Self { failed: true, ..Self::text(text) }
    }

    /// All text blocks, joined by line breaks.
    pub fn joined_text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text(raw) => Some(json::string(raw).map_or_else(|| raw.get().to_owned(), Into::into)),
            // Text with further members, such as annotations, is a block, but still text.
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
    /// Text, as the raw JSON string of the wire. This avoids unescaping it and escaping it again.
    Text(Box<RawValue>),
    /// Any other block: an object with a `type` (`image`, `audio`, `resource`, `resource_link` …).
    Block(Box<RawValue>),
}

impl Content {
    /// A text block.
    pub fn text(text: &str) -> Self {
        Self::Text(json::to_raw(text))
    }

    /// An image, given in base64.
    pub fn image(mime_type: &str, base64: &str) -> Self {
        Self::block(&serde_json::json!({"type": "image", "data": base64, "mimeType": mime_type}))
    }

    /// Audio, given in base64.
    pub fn audio(mime_type: &str, base64: &str) -> Self {
        Self::block(&serde_json::json!({"type": "audio", "data": base64, "mimeType": mime_type}))
    }

    /// An embedded text resource.
    pub fn resource(uri: &str, mime_type: &str, text: &str) -> Self {
        let resource = serde_json::json!({"uri": uri, "mimeType": mime_type, "text": text});
        Self::block(&serde_json::json!({"type": "resource", "resource": resource}))
    }

    /// A link to a resource.
    pub fn link(uri: &str, name: &str) -> Self {
        Self::block(&serde_json::json!({"type": "resource_link", "uri": uri, "name": name}))
    }

    /// Any other block, as MCP spells it: an object with a `type`.
    pub fn block(block: &serde_json::Value) -> Self {
        Self::Block(json::to_raw(block))
    }

    /// The whole block in MCP's form, also for text.
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
    fn text_blocks_with_further_members_are_joined_too() {
        let block = |text: &str| Content::Block(json::raw(text.to_owned()));
        let annotated = block(r#"{"type":"text","text":"b\u0021","annotations":{}}"#);
        let content = vec![Content::text("a"), annotated, block(r#"{"type":"image","text":"no"}"#), block("7")];
        assert_eq!(ToolResult { content, ..ToolResult::default() }.joined_text(), "a\nb!");
    }
}
