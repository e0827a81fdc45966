//! Builds the request body of a chat completion from a round.

use gladhand_core::wire::RawValue;
use serde::Serialize;

use crate::exchange::trimmed;
use crate::request_parts::{outcome, schema, seal};
use crate::{HistoryItem, Round};

/// The request body. Members that the service does not support are omitted.
#[derive(Debug, Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    /// The thinking effort, in the form of OpenRouter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include_reasoning: Option<bool>,
    /// The thinking effort, in the form of all other servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<Routing<'a>>,
}

#[derive(Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Reasoning {
    pub(super) effort: &'static str,
    pub(super) exclude: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Routing<'a> {
    pub(super) order: [&'a str; 1],
    pub(super) allow_fallbacks: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum ChatMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_details: Option<&'a RawValue>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Debug, Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Debug, Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: FunctionCall<'a>,
}

#[derive(Debug, Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Debug, Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Box<RawValue>,
}

impl<'a> Body<'a> {
    /// Builds the members that every service supports.
    pub(super) fn of(round: &'a Round) -> Self {
        let instructions = Some(round.instructions.as_str()).filter(|text| !text.is_empty());
        let has_tools = !round.tools.is_empty();
        Self {
            model: &round.model,
            messages: instructions
                .map(|content| ChatMessage::System { content })
                .into_iter()
                .chain(round.history.iter().map(message))
                .collect(),
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            tools: round
                .tools
                .iter()
                .map(|tool| Tool {
                    r#type: "function",
                    function: Function { name: &tool.name, description: &tool.description, parameters: schema(tool) },
                })
                .collect(),
            tool_choice: has_tools.then_some("auto"),
            parallel_tool_calls: has_tools.then_some(false),
            reasoning: None,
            include_reasoning: None,
            reasoning_effort: None,
            provider: None,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text and raw JSON are always JSON")
    }
}

fn message(item: &HistoryItem) -> ChatMessage<'_> {
    match item {
        HistoryItem::User { text, images } if images.is_empty() => ChatMessage::User { content: Content::Text(text) },
        HistoryItem::User { text, images } => {
            let pictures = images.iter().map(|url| Part::ImageUrl { image_url: ImageUrl { url } });
            let parts = std::iter::once(Part::Text { text }).chain(pictures).collect();
            ChatMessage::User { content: Content::Parts(parts) }
        }
        HistoryItem::Assistant { text, calls } => ChatMessage::Assistant {
            content: trimmed(text),
            tool_calls: calls
                .iter()
                .map(|call| ToolCall {
                    id: &call.call_id,
                    r#type: "function",
                    function: FunctionCall { name: &call.name, arguments: call.input.get() },
                })
                .collect(),
            reasoning_details: seal(calls),
        },
        HistoryItem::Result { call_id, output, error, .. } => {
            ChatMessage::Tool { tool_call_id: call_id, content: outcome(output, error.as_deref()) }
        }
    }
}
