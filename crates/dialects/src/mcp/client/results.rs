//! Parses the results of an upstream. Members that the neutral model does not know are kept.

use gladhand_core::operations::{
    Completion, Content, Contents, Failure, FailureKind, Prompt, PromptArgument, PromptResult, Resource, TaskSupport,
    Template, Tool, ToolResult,
};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Members, values};

use super::super::member_order::{self, is_of_response, order_of};

/// A tool definition of the upstream. `None` without a name, since no client could call it.
pub(super) fn tool(raw: &RawValue) -> Option<Tool> {
    let members = Members::of(raw)?;
    let mut tool = Tool::new(members.str("name")?, "", json::raw(r#"{"type":"object"}"#.to_owned()));
    for (name, value) in members.iter() {
        match name {
            "name" => {}
            "title" => tool.title = text(value),
            "description" => tool.description = text(value).unwrap_or_default(),
            "inputSchema" if Kind::of(value) == Kind::Object => tool.input_schema = value.to_owned(),
            "inputSchema" => {}
            "outputSchema" => tool.output_schema = present(value),
            "execution" => {
                tool.tasks = task_support(value);
                // The other members have no meaning here, but belong to the definition.
                if has_more_than_task_support(value) {
                    tool.extra.push((name.to_owned(), value.to_owned()));
                }
            }
            _ => tool.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    tool.order = order_of(&members, &member_order::TOOL);
    Some(tool)
}

fn task_support(execution: &RawValue) -> TaskSupport {
    match Members::of(execution).and_then(|members| members.str("taskSupport")).as_deref() {
        Some("required") => TaskSupport::Required,
        Some("optional") => TaskSupport::Optional,
        _ => TaskSupport::Forbidden,
    }
}

fn has_more_than_task_support(execution: &RawValue) -> bool {
    let is_known = |name: &str, value: &RawValue| {
        name == "taskSupport" && [r#""required""#, r#""optional""#, r#""forbidden""#].contains(&value.get())
    };
    !Members::of(execution).is_some_and(|members| members.iter().all(|(name, value)| is_known(name, value)))
}

/// A resource. `None` without a URI.
pub(super) fn resource(raw: &RawValue) -> Option<Resource> {
    let members = Members::of(raw)?;
    let mut resource = Resource::new(members.str("uri")?, "", "");
    resource.description = None;
    for (name, value) in members.iter() {
        match name {
            "uri" => {}
            "name" => resource.name = text(value).unwrap_or_default(),
            "title" => resource.title = text(value),
            "description" => resource.description = text(value),
            "mimeType" => resource.mime_type = text(value),
            _ => resource.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    resource.order = order_of(&members, &member_order::RESOURCE);
    Some(resource)
}

/// A template. `None` without a pattern.
pub(super) fn template(raw: &RawValue) -> Option<Template> {
    let members = Members::of(raw)?;
    let mut template = Template::new(members.str("uriTemplate")?, "", "");
    template.description = None;
    for (name, value) in members.iter() {
        match name {
            "uriTemplate" => {}
            "name" => template.name = text(value).unwrap_or_default(),
            "title" => template.title = text(value),
            "description" => template.description = text(value),
            "mimeType" => template.mime_type = text(value),
            _ => template.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    template.order = order_of(&members, &member_order::TEMPLATE);
    Some(template)
}

/// A prompt. `None` without a name.
pub(super) fn prompt(raw: &RawValue) -> Option<Prompt> {
    let members = Members::of(raw)?;
    let mut prompt = Prompt::new(members.str("name")?, "");
    prompt.description = None;
    for (name, value) in members.iter() {
        match name {
            "name" => {}
            "title" => prompt.title = text(value),
            "description" => prompt.description = text(value),
            "arguments" => prompt.arguments = array(value).into_iter().flatten().filter_map(argument).collect(),
            _ => prompt.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    prompt.order = order_of(&members, &member_order::PROMPT);
    Some(prompt)
}

fn argument(raw: &RawValue) -> Option<PromptArgument> {
    let members = Members::of(raw)?;
    let name = members.str("name")?.into_owned();
    let order = order_of(&members, &member_order::ARGUMENT);
    let mut argument = PromptArgument { name, description: None, required: false, extra: Vec::new(), order };
    for (name, value) in members.iter() {
        match name {
            "name" => {}
            "description" => argument.description = text(value),
            "required" => argument.required = value.get() == "true",
            _ => argument.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    Some(argument)
}

/// The result of a tool.
pub(super) fn tool_result(members: &Members<'_>) -> Result<ToolResult, Failure> {
    let order = order_of(members, &member_order::TOOL_RESULT);
    let mut result = ToolResult { order, ..ToolResult::default() };
    for (name, value) in members.iter() {
        match name {
            "content" => match array(value) {
                Some(blocks) => result.content = blocks.into_iter().map(content).collect(),
                None => return Err(upstream_error("the upstream's `content` is not an array")),
            },
            "structuredContent" => result.structured = present(value),
            "isError" => result.failed = value.get() == "true",
            _ => carry(&mut result.extra, name, value),
        }
    }
    Ok(result)
}

/// The contents of a resource.
pub(super) fn contents(members: &Members<'_>) -> Result<Contents, Failure> {
    let parts = members.raw("contents").and_then(array);
    let parts = parts.ok_or_else(|| upstream_error("the upstream's result has no `contents`"))?;
    let (parts, order) =
        (parts.into_iter().map(ToOwned::to_owned).collect(), order_of(members, &member_order::CONTENTS));
    let mut contents = Contents { parts, order, ..Contents::default() };
    for (name, value) in members.iter().filter(|(name, _)| *name != "contents") {
        carry(&mut contents.extra, name, value);
    }
    Ok(contents)
}

/// A filled-in prompt.
pub(super) fn prompt_result(members: &Members<'_>) -> Result<PromptResult, Failure> {
    let messages = members.raw("messages").and_then(array);
    let messages = messages.ok_or_else(|| upstream_error("the upstream's prompt has no `messages`"))?;
    let messages = messages.into_iter().map(ToOwned::to_owned).collect();
    let order = order_of(members, &member_order::PROMPT_RESULT);
    let mut result = PromptResult { messages, order, ..PromptResult::default() };
    for (name, value) in members.iter() {
        match name {
            "messages" => {}
            "description" => result.description = text(value),
            _ => carry(&mut result.extra, name, value),
        }
    }
    Ok(result)
}

/// The suggested values of an argument.
pub(super) fn completion(members: &Members<'_>) -> Result<Completion, Failure> {
    let inner = members.object("completion");
    let inner = inner.ok_or_else(|| upstream_error("the upstream's result has no `completion`"))?;
    let mut completion = Completion::default();
    for (name, value) in inner.iter() {
        match name {
            "values" => completion.values = array(value).into_iter().flatten().filter_map(text).collect(),
            "total" => completion.total = value.get().parse().ok(),
            "hasMore" => completion.has_more = value.get().parse().ok(),
            _ => completion.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok(completion)
}

/// Keeps a member that the neutral model does not know, unless it describes the response itself.
fn carry(extra: &mut Vec<(String, Box<RawValue>)>, name: &str, value: &RawValue) {
    if !is_of_response(name) {
        extra.push((name.to_owned(), value.to_owned()));
    }
}

/// A content block. A block with nothing but text becomes text; any other block keeps all its members.
fn content(raw: &RawValue) -> Content {
    let is_text = |block: &Members<'_>| block.str("type").as_deref() == Some("text");
    // The type is written first, so a block with another order stays a block.
    let begins_with_type = |block: &Members<'_>| block.iter().next().is_some_and(|(name, _)| name == "type");
    let text = Members::of(raw).filter(|block| block.len() == 2 && begins_with_type(block) && is_text(block));
    match text.and_then(|block| block.raw("text")) {
        Some(text) if Kind::of(text) == Kind::String => Content::Text(text.to_owned()),
        _ => Content::Block(raw.to_owned()),
    }
}

/// The items of an array. `None` if the value is not an array.
pub(super) fn array(raw: &RawValue) -> Option<Vec<&RawValue>> {
    if Kind::of(raw) != Kind::Array {
        return None;
    }
    values::items(raw.get()).ok()
}

fn text(raw: &RawValue) -> Option<String> {
    json::string(raw).map(Into::into)
}

fn present(raw: &RawValue) -> Option<Box<RawValue>> {
    Some(raw.to_owned()).filter(|_| Kind::of(raw) != Kind::Null)
}

/// The failure for an invalid answer of the upstream.
pub(super) fn upstream_error(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::UpstreamError, message)
}
