//! Converts a tool's result to `ToolResult` and back (a2e §§9.2, 9.3).
//!
//! A structured result is written as `data`, a single text as `data.value`, several blocks as `data.content`. Content
//! that a structured result does not repeat goes into an additional member `content`. Two peers that know this member
//! lose nothing, and other peers ignore it.

use std::time::Duration;

use gladhand_core::operations::{Content, ToolResult};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};

use super::fields::{integer_of, text_of};
use super::message::{Object, write_list};

/// Members that the neutral result does not have. They are kept in its `extra` if they carry information.
const OWN: [&str; 4] = ["summary", "truncated", "exit_code", "error_code"];
/// Members that are generated for each result.
const MADE: [&str; 7] = ["success", "tool_name", "data", "error", "duration_ms", "events", "content"];
const FAILED: &str = "tool_execution_error";

/// Writes a `ToolResult`.
pub(super) fn write_result(out: &mut Vec<u8>, name: &str, result: &ToolResult, took: Duration) {
    let structured = result.structured.as_deref();
    let extra = |name: &str| result.extra.iter().find(|(key, _)| key == name).map(|(_, raw)| &**raw);
    let own = |name: &str, is_fit: fn(&RawValue) -> bool| extra(name).filter(|raw| is_fit(raw)).map(RawValue::get);
    let is_string = |raw: &RawValue| Kind::of(raw) == Kind::String;
    let exit_code = structured.and_then(Members::of).and_then(|data| data.raw("exit_code"));
    let exit_code = extra("exit_code").or(exit_code).and_then(integer_of);
    let error = result.failed.then(|| result.joined_text());
    let mut object = Object::open(out)
        .with("success", &!result.failed)
        .with("tool_name", name)
        .written("data", |out| write_data(out, result))
        .raw("summary", own("summary", |_| true).unwrap_or("null"))
        .raw("truncated", own("truncated", |raw| Kind::of(raw) == Kind::Bool).unwrap_or("false"))
        .with("exit_code", &exit_code)
        .with("error", &error);
    object = match own("error_code", is_string) {
        Some(code) if result.failed => object.raw("error_code", code),
        _ => object.with("error_code", &result.failed.then_some(FAILED)),
    };
    object = object.with("duration_ms", &u64::try_from(took.as_millis()).unwrap_or(u64::MAX)).raw("events", "[]");
    if has_more_than_data(result) {
        object = object.written("content", |out| write_list(out, &result.content, write_block));
    }
    for (name, raw) in &result.extra {
        if !OWN.contains(&name.as_str()) && !MADE.contains(&name.as_str()) {
            object = object.raw(name, raw.get());
        }
    }
    object.close();
}

/// Reads a `ToolResult`.
pub(super) fn read_result(raw: &RawValue) -> Result<ToolResult, &'static str> {
    let members = Members::of(raw).ok_or("the result is not an object")?;
    let failed = match members.raw("success").map(RawValue::get) {
        Some("true") => false,
        Some("false") => true,
        _ => return Err("the result has no valid `success`"),
    };
    let data = members.some("data");
    let mut result = match data {
        Some(data) => read_data(data, failed),
        None => ToolResult::default(),
    };
    if let Some(content) = members.raw("content").and_then(read_blocks) {
        result.content = content;
    } else if failed {
        let error = members.raw("error").filter(|raw| Kind::of(raw) == Kind::String);
        let text = error.map_or_else(|| json::to_raw("the tool failed and did not say why"), ToOwned::to_owned);
        result.content = vec![Content::Text(text)];
    }
    result.failed = failed;
    let says_something = |name: &str, raw: &RawValue| match name {
        "truncated" => raw.get() == "true",
        "error_code" => raw.get() != "null" && raw.get() != r#""tool_execution_error""#,
        name => raw.get() != "null" && !MADE.contains(&name),
    };
    let extra = members.iter().filter(|(name, raw)| says_something(name, raw));
    result.extra = extra.map(|(name, raw)| (name.to_owned(), raw.to_owned())).collect();
    Ok(result)
}

fn write_data(out: &mut Vec<u8>, result: &ToolResult) {
    match (&result.structured, result.content.as_slice()) {
        (Some(data), _) if Kind::of(data) == Kind::Object => out.extend_from_slice(data.get().as_bytes()),
        (Some(data), _) => Object::open(out).raw("value", data.get()).close(),
        (None, _) if result.failed => out.extend_from_slice(b"null"),
        (None, []) => Object::open(out).raw("value", "null").close(),
        (None, [Content::Text(text)]) => Object::open(out).raw("value", text.get()).close(),
        (None, blocks) => {
            Object::open(out).written("content", |out| write_list(out, blocks, write_block)).close();
        }
    }
}

/// Whether the result has content that neither `data` nor `error` contains.
fn has_more_than_data(result: &ToolResult) -> bool {
    match (&result.structured, result.content.as_slice()) {
        (_, []) => false,
        (_, [Content::Text(_)]) if result.failed => false,
        (Some(data), [Content::Text(text)]) => text_of(text).is_none_or(|text| text != data.get()),
        (Some(_), _) => true,
        (None, _) => result.failed,
    }
}

fn read_data(data: &RawValue, failed: bool) -> ToolResult {
    let members = match Members::of(data) {
        Some(members) => members,
        None if Kind::of(data) == Kind::String => {
            return ToolResult { content: vec![Content::Text(data.to_owned())], ..ToolResult::default() };
        }
        None => return ToolResult::text(data.get()),
    };
    if members.len() == 1 && !failed {
        if let Some(value) = members.raw("value") {
            match Kind::of(value) {
                Kind::String => {
                    return ToolResult { content: vec![Content::Text(value.to_owned())], ..ToolResult::default() };
                }
                Kind::Null => return ToolResult::default(),
                _ => {}
            }
        }
        if let Some(content) = members.raw("content").and_then(read_blocks) {
            return ToolResult { content, ..ToolResult::default() };
        }
    }
    ToolResult::structured(data.to_owned())
}

fn write_block(out: &mut Vec<u8>, block: &Content) {
    match block {
        Content::Text(text) => Object::open(out).with("type", "text").raw("text", text.get()).close(),
        Content::Block(raw) => out.extend_from_slice(raw.get().as_bytes()),
    }
}

/// The content blocks, if every item is one.
fn read_blocks(raw: &RawValue) -> Option<Vec<Content>> {
    let items = values::items(raw.get()).ok()?;
    let blocks = items.into_iter().map(|item| {
        let members = Members::of(item)?;
        let kind = members.str("type")?;
        match members.raw("text").filter(|text| Kind::of(text) == Kind::String) {
            Some(text) if kind == "text" && members.len() == 2 => Some(Content::Text(text.to_owned())),
            _ => Some(Content::Block(item.to_owned())),
        }
    });
    blocks.collect()
}
