//! Builds the request body of an OpenAI response from a round.

use gladhand_core::Order as _;
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue};
use serde::Serialize;
use serde_json::Value;

use crate::exchange::trimmed;
use crate::request_parts::schema;
use crate::{HistoryItem, Round, Thinking};

#[derive(Debug, Serialize)]
struct Body<'a> {
    model: &'a str,
    instructions: &'a str,
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    input: Vec<Item<'a>>,
}

#[derive(Debug, Serialize)]
struct Reasoning {
    effort: &'static str,
}

#[derive(Debug, Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Box<RawValue>,
    strict: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message { role: &'static str, content: Content<'a> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: Output<'a> },
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
    InputText { text: &'a str },
    InputImage { image_url: &'a str },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(String),
    Raw(&'a RawValue),
}

/// The request body of a round. `before` is the answer text received before the stream was interrupted.
pub(super) fn body(round: &Round, before: &str) -> Vec<u8> {
    let has_tools = !round.tools.is_empty();
    let mut input = Vec::with_capacity(round.history.len() + 1);
    for item in &round.history {
        push(&mut input, item);
    }
    push_words(&mut input, before);
    let body = Body {
        model: &round.model,
        instructions: &round.instructions,
        store: false,
        stream: true,
        tools: round
            .tools
            .iter()
            .map(|tool| Tool {
                r#type: "function",
                name: &tool.name,
                description: &tool.description,
                parameters: schema(tool),
                strict: false,
            })
            .collect(),
        tool_choice: has_tools.then_some("auto"),
        parallel_tool_calls: has_tools.then_some(false),
        reasoning: super::catalogue::can_think(&round.model).then(|| Reasoning { effort: effort(round.thinking) }),
        input,
    };
    serde_json::to_vec(&body).expect("text and raw JSON are always JSON")
}

fn effort(thinking: Thinking) -> &'static str {
    match thinking {
        Thinking::Off => "none",
        Thinking::Minimal => "minimal",
        Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High => "high",
        Thinking::XHigh => "xhigh",
    }
}

fn push<'a>(input: &mut Vec<Item<'a>>, item: &'a HistoryItem) {
    match item {
        HistoryItem::User { text, images } if images.is_empty() => {
            input.push(Item::Message { role: "user", content: Content::Text(text) });
        }
        HistoryItem::User { text, images } => {
            let pictures = images.iter().map(|image_url| Part::InputImage { image_url });
            let parts = std::iter::once(Part::InputText { text }).chain(pictures).collect();
            input.push(Item::Message { role: "user", content: Content::Parts(parts) });
        }
        HistoryItem::Assistant { text, calls } => {
            push_words(input, text);
            input.extend(calls.iter().map(|call| Item::FunctionCall {
                call_id: &call.call_id,
                name: &call.name,
                arguments: call.input.get(),
            }));
        }
        HistoryItem::Result { call_id, output, error, .. } => {
            input.push(Item::FunctionCallOutput { call_id, output: tool_output(output, error.as_deref()) });
        }
    }
}

fn push_words<'a>(input: &mut Vec<Item<'a>>, text: &'a str) {
    let text = trimmed(text);
    if !text.is_empty() {
        input.push(Item::Message { role: "assistant", content: Content::Text(text) });
    }
}

/// The output of a tool: text and images unchanged, anything else as JSON text with sorted members.
fn tool_output<'a>(output: &'a RawValue, error: Option<&str>) -> Output<'a> {
    match Kind::of(output) {
        Kind::Null => Output::Text(error.unwrap_or_default().to_owned()),
        Kind::Array if is_content(output) => Output::Raw(output),
        _ => match serde_json::from_str(output.get()) {
            Ok(Value::String(text)) => Output::Text(text),
            Ok(value) => Output::Text(sorted(&value).to_string()),
            // The JSON is nested too deeply to parse, so it is sent unchanged.
            Err(_) => Output::Text(output.get().to_owned()),
        },
    }
}

fn is_content(output: &RawValue) -> bool {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(output.get()) else { return false };
    let is_part = |item: &&RawValue| {
        Members::of(item)
            .and_then(|members| members.str("type").map(|kind| matches!(&*kind, "input_text" | "input_image")))
    };
    !items.is_empty() && items.iter().all(|item| is_part(item) == Some(true))
}

/// A copy with sorted members. The result does not depend on the map type of `serde_json`.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            members.order_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_outputs_are_text_images_or_sorted_json() {
        for (output, error, expected) in [
            (r#""plain \"text\"""#, None, r#""plain \"text\"""#),
            ("null", Some("it broke"), r#""it broke""#),
            ("null", None, r#""""#),
            (r#"{"b":1,"a":{"d":[],"c":2}}"#, Some("ignored"), r#""{\"a\":{\"c\":2,\"d\":[]},\"b\":1}""#),
            (r#"[{"type":"input_text","text":"x"}]"#, None, r#"[{"type":"input_text","text":"x"}]"#),
            (r#"[{"type":"other"}]"#, None, r#""[{\"type\":\"other\"}]""#),
            ("[]", None, r#""[]""#),
            ("12", None, r#""12""#),
        ] {
            let raw = RawValue::from_string(output.to_owned()).unwrap();
            assert_eq!(serde_json::to_string(&tool_output(&raw, error)).unwrap(), expected);
        }
    }
}
