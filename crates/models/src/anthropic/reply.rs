//! Reads the event stream of an Anthropic message.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::events::Events;
use crate::exchange::{Exchange, arguments, thought_beginning};
use crate::web::failed;
use crate::{ModelError, Piece, RoundResult, Segment, Usage, WantedCall};

/// The maximum number of content blocks in one message.
const MAX_BLOCKS: usize = 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    r#type: String,
    index: u64,
    message: Value,
    content_block: Value,
    delta: Delta,
    usage: Value,
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// A content block that is still being received.
#[derive(Debug)]
struct Block {
    index: u64,
    value: Value,
    /// The text received so far: the answer, a thought, or the arguments of a call.
    text: String,
}

/// Reads events until the message is complete.
pub(super) async fn read_stream(exchange: &mut Exchange<'_>, mut events: Events) -> Result<RoundResult, ModelError> {
    let mut message = Value::Null;
    let mut blocks: Vec<Block> = Vec::new();
    let mut stop_reason = None;
    let mut usage = Usage::default();
    while let Some(data) = exchange.next(&mut events).await? {
        let event: Event = exchange.read(data.as_bytes())?;
        match event.r#type.as_str() {
            "message_start" => {
                usage = counted(usage, &event.message["usage"]);
                message = event.message;
            }
            "content_block_start" if blocks.len() < MAX_BLOCKS => {
                let (index, value) = (event.index, event.content_block);
                exchange.keep(&value)?;
                // Usually empty, but the block may already start with text.
                let (text, thought) = (value["text"].as_str(), value["thinking"].as_str());
                let delta =
                    Delta { text: text.map(str::to_owned), thinking: thought.map(str::to_owned), ..Delta::default() };
                blocks.push(Block { index, value, text: String::new() });
                let piece = blocks.last_mut().map(|block| block.grow(delta)).unwrap_or_default();
                exchange.deliver(piece).await;
            }
            "content_block_start" => return Err(failed("Anthropic sent more than 1024 content blocks.")),
            "content_block_delta" => {
                let block = blocks.iter_mut().rev().find(|block| block.index == event.index);
                let piece = block.map(|block| block.grow(event.delta)).unwrap_or_default();
                exchange.deliver(piece).await;
            }
            "message_delta" => {
                stop_reason = event.delta.stop_reason.or(stop_reason);
                usage = counted(usage, &event.usage);
            }
            "message_stop" => break,
            "error" => {
                let text = event.error["message"].as_str().unwrap_or("unknown error");
                return Err(failed(format!("Anthropic stream failed: {}", exchange.clean(text))));
            }
            _ => {}
        }
    }
    let Some(stop_reason) = stop_reason else {
        return Err(failed("Anthropic stream ended before the message was complete."));
    };
    for call in blocks.iter().filter(|block| block.is_call()) {
        exchange.keep_text(&call.text)?;
    }
    if message.is_object() {
        message["content"] = blocks.iter().map(Block::to_value).collect();
        message["stop_reason"] = json!(stop_reason);
    }
    exchange.debug("response_raw", |fields| fields.and("response", &message)).await;
    let calls = calls(exchange, &blocks).await;
    exchange.check_calls(calls.len())?;
    Ok(RoundResult { calls, usage: Some(usage) })
}

impl Block {
    /// Appends a delta, and returns the part of it that the listener receives.
    fn grow(&mut self, delta: Delta) -> Piece {
        let mut piece = Piece::default();
        if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
            self.text.push_str(&text);
            piece.segments.push(Segment::Answer(text));
        }
        if let Some(thought) = delta.thinking.filter(|thought| !thought.is_empty()) {
            self.text.push_str(&thought);
            piece.thoughts = vec![thought_beginning(&self.text)];
            piece.segments.push(Segment::Thought(thought));
        }
        if let Some(signature) = delta.signature.filter(|_| self.value.is_object()) {
            let before = self.value["signature"].as_str().unwrap_or_default();
            self.value["signature"] = json!(format!("{before}{signature}"));
        }
        self.text.push_str(delta.partial_json.as_deref().unwrap_or_default());
        piece
    }

    fn is_thought(&self) -> bool {
        self.value["type"] == "thinking" || self.value["type"] == "redacted_thinking"
    }

    fn is_call(&self) -> bool {
        self.value["type"] == "tool_use"
    }

    /// The block as one JSON value.
    fn to_value(&self) -> Value {
        let mut value = self.value.clone();
        match value["type"].as_str() {
            Some("text") => value["text"] = json!(self.text),
            Some("thinking") => value["thinking"] = json!(self.text),
            Some("tool_use") => {
                value["input"] = serde_json::from_str(&self.text).unwrap_or_else(|_| value["input"].take())
            }
            _ => {}
        }
        value
    }

    /// The arguments of a call. They usually arrive as deltas; otherwise `content_block_start` already contained
    /// them.
    fn arguments(&self) -> String {
        if self.text.is_empty() { self.value["input"].to_string() } else { self.text.clone() }
    }
}

/// Collects the tool calls. The thoughts that led to them are sent back with the first call.
async fn calls(exchange: &mut Exchange<'_>, blocks: &[Block]) -> Vec<WantedCall> {
    let uses: Vec<&Block> = blocks.iter().filter(|block| block.is_call()).collect();
    if !uses.is_empty() {
        let raw: Value = uses.iter().map(|block| block.to_value()).collect();
        exchange.debug("tool_calls", |fields| fields.and("functionCalls", &raw)).await;
    }
    let thoughts: Vec<Value> = blocks.iter().filter(|block| block.is_thought()).map(Block::to_value).collect();
    let seal = (!thoughts.is_empty())
        .then(|| serde_json::value::to_raw_value(&thoughts).expect("a JSON value can be serialized"));
    let wanted = uses.iter().enumerate().map(|(at, block)| {
        let name = block.value["name"].as_str().unwrap_or_default();
        let id = block.value["id"].as_str().filter(|id| !id.is_empty());
        WantedCall {
            call_id: id.map_or_else(|| exchange.generated_id(name, at), str::to_owned),
            name: name.to_owned(),
            input: arguments(&block.arguments()),
            seal: seal.clone().filter(|_| at == 0),
        }
    });
    wanted.collect()
}

/// Merges token counts. The service sends them twice; later counts are totals, not increments.
fn counted(before: Usage, reported: &Value) -> Usage {
    let count = |name: &str| reported[name].as_u64();
    let cached =
        ["cache_creation_input_tokens", "cache_read_input_tokens"].iter().filter_map(|name| count(name)).sum::<u64>();
    Usage {
        input_tokens: count("input_tokens").map_or(before.input_tokens, |tokens| tokens + cached),
        output_tokens: count("output_tokens").unwrap_or(before.output_tokens),
    }
}
