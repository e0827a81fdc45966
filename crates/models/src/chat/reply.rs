//! Reads the reply of a chat completion, as an event stream or as one document.

use gladhand_core::wire::RawValue;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::debug_fields::DebugFields;
use crate::events::Events;
use crate::exchange::{Exchange, arguments, payload, thought_beginning, trimmed};
use crate::web::failed;
use crate::{ModelError, Piece, RoundResult, Segment, Usage, WantedCall};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    id: Value,
    created: Value,
    model: Value,
    #[serde(deserialize_with = "null_as_default")]
    choices: Vec<Choice>,
    usage: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    delta: Option<MessageContent>,
    message: Option<MessageContent>,
    finish_reason: Option<String>,
}

/// Message content: a delta or the whole message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MessageContent {
    content: Value,
    reasoning: Option<String>,
    /// Servers that run open models use this name for `reasoning`.
    reasoning_content: Option<String>,
    reasoning_details: Option<Vec<Value>>,
    tool_calls: Option<Vec<CallPart>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CallPart {
    index: Option<u64>,
    id: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    function: FunctionPart,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionPart {
    name: Option<String>,
    arguments: Value,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(default)]
struct Tokens {
    #[serde(deserialize_with = "null_as_default")]
    prompt_tokens: u64,
    #[serde(deserialize_with = "null_as_default")]
    completion_tokens: u64,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self { input_tokens: tokens.prompt_tokens, output_tokens: tokens.completion_tokens }
    }
}

/// The parts of a reply received so far, merged.
#[derive(Debug, Default)]
struct MergedReply {
    id: Value,
    created: Value,
    model: Value,
    answer: String,
    thought: String,
    details: Vec<Value>,
    calls: Vec<Call>,
    finish_reason: Option<String>,
    usage: Option<Tokens>,
}

/// A tool call that is still being received.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// Reads a reply that arrives as an event stream.
pub(super) async fn read_stream(exchange: &mut Exchange<'_>, mut events: Events) -> Result<RoundResult, ModelError> {
    let mut sum = MergedReply::default();
    while let Some(data) = exchange.next(&mut events).await? {
        if data.trim() == "[DONE]" {
            break;
        }
        let chunk: Chunk = exchange.read(data.as_bytes())?;
        if let Some(error) = &chunk.error {
            return Err(failed(format!("{} stream failed: {}", exchange.name(), exchange.clean(&message(error)))));
        }
        for detail in chunk.details() {
            exchange.keep(detail)?;
        }
        let piece = sum.take(chunk);
        exchange.check_calls(sum.calls.len())?;
        exchange.deliver(piece).await;
    }
    if sum.finish_reason.is_none() {
        return Err(failed(format!("{} stream ended before the reply was complete.", exchange.name())));
    }
    exchange.debug("response_raw", |fields| fields.and("response", &sum.to_value())).await;
    Ok(sum.into_round_result(exchange).await)
}

/// Reads a reply that arrives as one document.
pub(super) async fn read_document(exchange: &mut Exchange<'_>, body: &[u8]) -> Result<RoundResult, ModelError> {
    let chunk: Chunk = exchange.read(body)?;
    if let Some(error) = &chunk.error {
        let message = exchange.clean(&message(error));
        return Err(match error["code"].as_u64().and_then(|code| u16::try_from(code).ok()) {
            Some(status @ 400..=599) => ModelError::Status { status, message },
            _ => failed(format!("{} request failed: {message}", exchange.name())),
        });
    }
    exchange.debug("response_raw", |fields| fields.and("response", &payload(body))).await;
    let words = chunk.choices.into_iter().next().and_then(|choice| choice.message).unwrap_or_default();
    exchange.check_calls(words.tool_calls.as_ref().map_or(0, Vec::len))?;
    let thought = words.thought();
    let thought = trimmed(&thought);
    if !thought.is_empty() {
        let segments = vec![Segment::Thought(thought.to_owned())];
        exchange.deliver(Piece { segments, thoughts: vec![thought.to_owned()] }).await;
    }
    exchange.answer(trimmed(&words.answer())).await;
    let calls = words.tool_calls.into_iter().flatten().map(Call::from).collect();
    let details = words.reasoning_details.unwrap_or_default();
    Ok(MergedReply { calls, details, usage: chunk.usage, ..MergedReply::default() }.into_round_result(exchange).await)
}

impl Chunk {
    /// Reasoning details, which are sent back to the service unread.
    fn details(&self) -> impl Iterator<Item = &Value> {
        let words = self.choices.iter().filter_map(|choice| choice.delta.as_ref().or(choice.message.as_ref()));
        words.flat_map(|words| words.reasoning_details.iter().flatten())
    }
}

impl MessageContent {
    fn thought(&self) -> String {
        if let Some(thought) = self.reasoning.as_ref().or(self.reasoning_content.as_ref()) {
            return thought.clone();
        }
        let summaries = self.reasoning_details.iter().flatten().filter_map(|detail| detail["summary"].as_str());
        summaries.collect::<Vec<_>>().join("\n")
    }

    fn answer(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part["text"].as_str().map(trimmed)).collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }
}

impl From<CallPart> for Call {
    fn from(part: CallPart) -> Self {
        let arguments = match part.function.arguments {
            Value::String(text) => text,
            Value::Null => String::new(),
            // Some servers send the object itself instead of a string.
            value => value.to_string(),
        };
        Self {
            index: part.index,
            id: part.id.unwrap_or_default(),
            name: part.function.name.unwrap_or_default(),
            arguments,
        }
    }
}

impl MergedReply {
    /// Merges a chunk, and returns the part of it that the listener receives.
    fn take(&mut self, chunk: Chunk) -> Piece {
        for (ours, theirs) in
            [(&mut self.id, chunk.id), (&mut self.created, chunk.created), (&mut self.model, chunk.model)]
        {
            if ours.is_null() {
                *ours = theirs;
            }
        }
        self.usage = chunk.usage.or(self.usage);
        let mut piece = Piece::default();
        for choice in chunk.choices {
            self.finish_reason = choice.finish_reason.or_else(|| self.finish_reason.take());
            let Some(words) = choice.delta.or(choice.message) else { continue };
            let (thought, answer) = (words.thought(), words.answer());
            if !thought.is_empty() {
                self.thought.push_str(&thought);
                piece.thoughts = vec![thought_beginning(&self.thought)];
                piece.segments.push(Segment::Thought(thought));
            }
            if !answer.is_empty() {
                self.answer.push_str(&answer);
                piece.segments.push(Segment::Answer(answer));
            }
            words.reasoning_details.into_iter().flatten().for_each(|detail| self.add_detail(detail));
            words.tool_calls.into_iter().flatten().for_each(|part| self.add_call(part.into()));
        }
        piece
    }

    /// Appends part of a call to the call it belongs to: the one with the same index, unless the part has a
    /// different id.
    fn add_call(&mut self, part: Call) {
        let is_same = |call: &Call| match part.index {
            Some(_) => call.index == part.index && (part.id.is_empty() || call.id.is_empty() || call.id == part.id),
            None => part.id.is_empty() || call.id == part.id,
        };
        match self.calls.iter_mut().rev().find(|call| is_same(call)) {
            Some(call) => {
                call.arguments.push_str(&part.arguments);
                if call.id.is_empty() {
                    call.id = part.id;
                }
                if call.name.is_empty() {
                    call.name = part.name;
                }
            }
            None => self.calls.push(part),
        }
    }

    /// Merges reasoning details, which are sent back unread. Text of the same block is appended; all other members
    /// are replaced.
    fn add_detail(&mut self, detail: Value) {
        let Value::Object(detail) = detail else { return };
        let last = self.details.last_mut().and_then(Value::as_object_mut);
        match last.filter(|last| last.get("type") == detail.get("type") && last.get("index") == detail.get("index")) {
            Some(last) => {
                for (name, value) in detail {
                    match (last.get_mut(&name), value) {
                        (_, Value::Null) => {}
                        (Some(Value::String(text)), Value::String(more))
                            if matches!(name.as_str(), "text" | "summary" | "data") =>
                        {
                            text.push_str(&more);
                        }
                        (_, value) => drop(last.insert(name, value)),
                    }
                }
            }
            None => self.details.push(Value::Object(detail)),
        }
    }

    /// The merged reply in the form of a reply that was not streamed.
    fn to_value(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.answer});
        if !self.thought.is_empty() {
            message["reasoning"] = json!(self.thought);
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls.iter().map(Call::fields).collect::<Vec<_>>());
        }
        let mut whole = json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "finish_reason": self.finish_reason, "message": message}],
        });
        if let Some(usage) = self.usage {
            whole["usage"] = json!(usage);
        }
        whole
    }

    /// Ends the round.
    async fn into_round_result(self, exchange: &mut Exchange<'_>) -> RoundResult {
        if !self.calls.is_empty() {
            let calls = || self.calls.iter().map(Call::fields).collect::<Vec<_>>();
            exchange.debug("tool_calls", |fields| fields.and("functionCalls", &calls())).await;
        }
        let mut seal = (!self.details.is_empty()).then(|| raw(&self.details));
        let calls = self.calls.into_iter().enumerate().map(|(at, call)| WantedCall {
            call_id: if call.id.is_empty() { exchange.generated_id(&call.name, at) } else { call.id },
            input: arguments(&call.arguments),
            name: call.name,
            seal: seal.take(),
        });
        RoundResult { calls: calls.collect(), usage: self.usage.map(Usage::from) }
    }
}

impl Call {
    /// The call in the form that the service uses.
    fn fields(&self) -> DebugFields {
        let function = DebugFields::default().and("name", &self.name).and("arguments", &self.arguments);
        DebugFields::default().and("id", &self.id).and("type", &"function").and("function", &function)
    }
}

/// Reads a member that some servers omit and others set to null.
fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn raw(details: &[Value]) -> Box<RawValue> {
    serde_json::value::to_raw_value(details).expect("a JSON value can be serialized")
}

/// The message of an error in a reply.
fn message(error: &Value) -> String {
    error["message"].as_str().or(error.as_str()).map_or_else(|| error.to_string(), str::to_owned)
}
