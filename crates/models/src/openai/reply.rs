//! Reads the event stream of an OpenAI response.

use gladhand_core::javascript;
use serde::Deserialize;
use serde_json::Value;

use crate::events::Events;
use crate::exchange::{Exchange, MAX_CALLS, arguments, thought_beginning};
use crate::web::failed;
use crate::{ModelError, Piece, RoundResult, Segment, Usage, WantedCall};

/// An event. Most kinds are ignored, so no member is required.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    r#type: String,
    delta: Value,
    item_id: Value,
    summary_index: Value,
    item: Value,
    response: Value,
    message: Value,
    error: Value,
}

/// The result of one stream.
#[derive(Debug, Default)]
pub(super) struct StreamResult {
    /// Whether the service marked the response as complete.
    pub(super) is_complete: bool,
    /// The text of the answer received so far.
    pub(super) answer: String,
    /// The response object as the service sent it last.
    snapshot: Value,
    /// The items that the service marked as done.
    done: Vec<Value>,
}

/// A thought that is still being received.
#[derive(Debug, Default)]
struct Thought {
    item: Value,
    part: Value,
    text: String,
}

/// Reads events until the stream ends.
pub(super) async fn read_stream(
    exchange: &mut Exchange<'_>,
    mut events: Events,
    turn_state: Option<String>,
) -> Result<StreamResult, ModelError> {
    let mut result = StreamResult::default();
    let mut thought = Thought::default();
    let (mut count, mut thought_length) = (0u64, 0);
    while let Some(data) = exchange.next(&mut events).await? {
        if data.trim() == "[DONE]" {
            break;
        }
        let event: Event = exchange.read(data.as_bytes())?;
        count += 1;
        match event.r#type.as_str() {
            "response.created" => result.snapshot = event.response,
            "response.output_text.delta" => {
                let words = event.delta.as_str().unwrap_or_default();
                result.answer.push_str(words);
                exchange.answer(words).await;
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                thought_length += event.delta.as_str().map_or(0, javascript::length);
                exchange.deliver(thought.grow(event)).await;
            }
            "response.output_item.done" => {
                exchange.keep(&event.item)?;
                result.done.push(event.item);
            }
            // An `incomplete` response reached a length limit. Nothing more will follow, so it counts as complete.
            "response.completed" | "response.incomplete" => {
                result.snapshot = event.response;
                result.is_complete = true;
            }
            "error" => return Err(stream_error(exchange, "stream", &event.message, &event.error)),
            "response.failed" => {
                return Err(stream_error(exchange, "response", &Value::Null, &event.response["error"]));
            }
            _ => {}
        }
    }
    if result.snapshot.is_null() {
        return Err(failed("OpenAI stream ended without a response snapshot."));
    }
    let rest = result.text().strip_prefix(&result.answer).map(str::to_owned).unwrap_or_default();
    exchange
        .debug("response_raw", |fields| {
            let fields = fields.and("response", &result.snapshot).and("outputItemsDone", &result.done);
            fields.and("completedEventSeen", &result.is_complete)
        })
        .await;
    exchange
        .debug("response_stream_summary", |fields| {
            fields
                .and("eventCount", &count)
                .and("outputDeltaChars", &javascript::length(&result.answer))
                .and("reasoningDeltaChars", &thought_length)
                .and("responseId", &result.snapshot["id"])
                .and("turnStateToken", &turn_state)
        })
        .await;
    result.answer.push_str(&rest);
    exchange.answer(rest).await;
    Ok(result)
}

impl StreamResult {
    /// The status of the response.
    pub(super) fn status(&self) -> Value {
        self.snapshot["status"].clone()
    }

    /// Whether the model requested tool calls.
    pub(super) fn wants_calls(&self) -> bool {
        !self.calls().is_empty()
    }

    /// Ends the round.
    pub(super) async fn into_round_result(self, exchange: &mut Exchange<'_>) -> Result<RoundResult, ModelError> {
        let calls = self.calls();
        exchange.check_calls(calls.len())?;
        if !calls.is_empty() {
            exchange.debug("tool_calls", |fields| fields.and("functionCalls", &calls)).await;
        }
        let wanted = calls.iter().enumerate().map(|(at, item)| {
            let name = item["name"].as_str().unwrap_or_default();
            WantedCall {
                call_id: id(item).map_or_else(|| exchange.generated_id(name, at), str::to_owned),
                name: name.to_owned(),
                input: arguments(item["arguments"].as_str().unwrap_or_default()),
                seal: None,
            }
        });
        let calls = wanted.collect();
        let tokens = &self.snapshot["usage"];
        let usage = tokens["input_tokens"].as_u64().map(|input_tokens| Usage {
            input_tokens,
            output_tokens: tokens["output_tokens"].as_u64().unwrap_or_default(),
        });
        Ok(RoundResult { calls, usage })
    }

    /// The tool calls that the model requested, each once: first those in the response object, then those that only
    /// the stream contained. Collecting stops after [`MAX_CALLS`] + 1, which is enough for the caller to refuse the
    /// reply.
    fn calls(&self) -> Vec<&Value> {
        let mut calls: Vec<&Value> = Vec::new();
        let listed = self.snapshot["output"].as_array().into_iter().flatten();
        for item in listed.chain(&self.done).filter(|item| item["type"] == "function_call") {
            if id(item).is_none() || calls.iter().all(|call| id(call) != id(item)) {
                calls.push(item);
            }
            if calls.len() > MAX_CALLS {
                break;
            }
        }
        calls
    }

    /// The whole answer from the response object, or else from the items of the stream.
    fn text(&self) -> String {
        let text = |items: &[Value]| -> String {
            let messages = items.iter().filter(|item| item["type"] == "message");
            let parts = messages.flat_map(|item| item["content"].as_array().into_iter().flatten());
            parts.filter(|part| part["type"] == "output_text").filter_map(|part| part["text"].as_str()).collect()
        };
        let listed = self.snapshot["output"].as_array().map(|items| text(items)).unwrap_or_default();
        if listed.is_empty() { text(&self.done) } else { listed }
    }
}

impl Thought {
    /// Appends a delta. A thought continues while the item id stays the same.
    fn grow(&mut self, event: Event) -> Piece {
        let words = event.delta.as_str().unwrap_or_default();
        if words.is_empty() {
            return Piece::default();
        }
        if self.item != event.item_id {
            self.text.clear();
        } else if self.part != event.summary_index {
            self.text.push_str("\n\n");
        }
        (self.item, self.part) = (event.item_id, event.summary_index);
        self.text.push_str(words);
        Piece { segments: vec![Segment::Thought(words.to_owned())], thoughts: vec![thought_beginning(&self.text)] }
    }
}

fn id(item: &Value) -> Option<&str> {
    item["call_id"].as_str().filter(|id| !id.is_empty())
}

fn stream_error(exchange: &Exchange<'_>, kind: &str, message: &Value, error: &Value) -> ModelError {
    let message = message.as_str().or_else(|| error["message"].as_str()).unwrap_or("unknown error");
    failed(format!("OpenAI {kind} failed: {}", exchange.clean(message)))
}
