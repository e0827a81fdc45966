//! Builds the request body of an Anthropic message from a round.

use gladhand_core::wire::RawValue;
use serde::Serialize;

use super::Mode;
use crate::exchange::trimmed;
use crate::request_parts::{outcome, picture, schema, seal};
use crate::{HistoryItem, Round, Thinking};

/// The maximum length of an answer in tokens, without thoughts. The oldest models that are still available allow
/// only [`OLDEST_MAX_ANSWER`].
const MAX_ANSWER: u32 = 8192;
const OLDEST_MAX_ANSWER: u32 = 4096;

/// The user message inserted when the history starts with a summary. The API requires that the user speaks first.
const SUMMARY_PREAMBLE: &str = "(Earlier messages are summarised below.)";

#[derive(Debug, Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<System<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thought>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    messages: Vec<MessageParam<'a>>,
}

/// The system prompt. It is the same in each round, as are the tools before it, so the request asks the service to
/// cache it.
#[derive(Debug, Serialize)]
struct System<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: CacheControl,
}

#[derive(Debug, Serialize)]
struct CacheControl {
    r#type: &'static str,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Box<RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Thought {
    Enabled { budget_tokens: u32 },
    Adaptive { display: &'static str },
}

#[derive(Debug, Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageParam<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Ours(OurBlock<'a>),
    /// A block exactly as the model wrote it.
    Theirs(&'a RawValue),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OurBlock<'a> {
    Text { text: &'a str },
    Image { source: Source<'a> },
    ToolUse { id: &'a str, name: &'a str, input: &'a RawValue },
    ToolResult { tool_use_id: &'a str, content: String, is_error: bool },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

/// The request body of a round.
pub(super) fn body(round: &Round) -> Vec<u8> {
    let mode = Mode::of(&round.model);
    let is_on = round.thinking != Thinking::Off;
    let budget = if is_on && mode == Mode::Budget { budget(round.thinking) } else { 0 };
    let mut messages: Vec<MessageParam<'_>> = Vec::new();
    for item in &round.history {
        let (role, content) = blocks(item);
        match messages.last_mut() {
            // Roles must alternate, and all tool results of one round must be in one message.
            Some(last) if last.role == role => last.content.extend(content),
            _ if content.is_empty() => {}
            _ => messages.push(MessageParam { role, content }),
        }
    }
    if messages.first().is_some_and(|first| first.role == "assistant") {
        let content = vec![Block::Ours(OurBlock::Text { text: SUMMARY_PREAMBLE })];
        messages.insert(0, MessageParam { role: "user", content });
    }
    let instructions = Some(round.instructions.as_str()).filter(|text| !text.is_empty());
    let longest = match mode {
        Mode::Never if round.model.starts_with("claude-3-5") => MAX_ANSWER,
        Mode::Never => OLDEST_MAX_ANSWER,
        Mode::Budget => MAX_ANSWER + budget,
        // Thoughts count towards this limit, and the client cannot set how many tokens they use.
        Mode::Effort => 4 * MAX_ANSWER,
    };
    let body = Body {
        model: &round.model,
        max_tokens: longest,
        stream: true,
        system: instructions
            .map(|text| System { r#type: "text", text, cache_control: CacheControl { r#type: "ephemeral" } })
            .into_iter()
            .collect(),
        tools: round
            .tools
            .iter()
            .map(|tool| Tool { name: &tool.name, description: &tool.description, input_schema: schema(tool) })
            .collect(),
        thinking: match mode {
            Mode::Budget if is_on => Some(Thought::Enabled { budget_tokens: budget }),
            Mode::Effort if is_on => Some(Thought::Adaptive { display: "summarized" }),
            _ => None,
        },
        output_config: (is_on && mode == Mode::Effort).then(|| OutputConfig { effort: effort(round.thinking) }),
        messages,
    };
    serde_json::to_vec(&body).expect("text and raw JSON are always JSON")
}

fn budget(thinking: Thinking) -> u32 {
    match thinking {
        Thinking::Off | Thinking::Minimal => 1024,
        Thinking::Low => 2048,
        Thinking::Medium => 6144,
        Thinking::High => 12_288,
        Thinking::XHigh => 20_480,
    }
}

fn effort(thinking: Thinking) -> &'static str {
    match thinking {
        Thinking::Off | Thinking::Minimal | Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High | Thinking::XHigh => "high",
    }
}

fn blocks(item: &HistoryItem) -> (&'static str, Vec<Block<'_>>) {
    match item {
        HistoryItem::User { text, images } => {
            let pictures = images.iter().map(|url| OurBlock::Image {
                source: match picture(url) {
                    Some((media_type, data)) => Source::Base64 { media_type, data },
                    None => Source::Url { url },
                },
            });
            ("user", words(text).chain(pictures).map(Block::Ours).collect())
        }
        HistoryItem::Assistant { text, calls } => {
            // Thoughts come first and unchanged, because the service verifies the signatures in them.
            let thoughts: Vec<&RawValue> =
                seal(calls).and_then(|seal| serde_json::from_str(seal.get()).ok()).unwrap_or_default();
            let uses =
                calls.iter().map(|call| OurBlock::ToolUse { id: &call.call_id, name: &call.name, input: &call.input });
            let ours = words(text).chain(uses).map(Block::Ours);
            ("assistant", thoughts.into_iter().map(Block::Theirs).chain(ours).collect())
        }
        HistoryItem::Result { call_id, output, error, .. } => {
            let content = outcome(output, error.as_deref());
            let result = OurBlock::ToolResult { tool_use_id: call_id, content, is_error: error.is_some() };
            ("user", vec![Block::Ours(result)])
        }
    }
}

/// The text as a block, unless it is empty: the API rejects empty text blocks.
fn words(text: &str) -> impl Iterator<Item = OurBlock<'_>> {
    Some(trimmed(text)).filter(|text| !text.is_empty()).map(|text| OurBlock::Text { text }).into_iter()
}
