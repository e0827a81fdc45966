//! Converts tools, results and failures between the neutral model and Fluxloop.

use gladhand_core::Order as _;
use gladhand_core::operations::{Content, Failure, FailureKind, Outcome, Reply, Tool, ToolResult};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};
use serde::Serialize;

use super::envelope::{Error, Form, HANDSHAKE};

/// The tools of the published page in its order, then those that the shipped server added (§§3, 9).
const ORDER: [&str; 12] = [
    "faq",
    "analyze_repository",
    "detect_frameworks",
    "generate_integration_steps",
    "propose_edit_plan",
    "validate_edit_plan",
    "run_integration_workflow",
    "collect_repo_profile",
    "fetch_integration_context",
    "fetch_base_input_context",
    "fetch_experiment_context",
    "fetch_insight_context",
];

/// The names of the tools without `handshake`, which we add ourselves. Fluxloop's tools come first, in the order of the
/// form.
pub(super) fn names(tools: &[Tool], form: Form) -> Vec<&str> {
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).filter(|name| *name != HANDSHAKE).collect();
    names.order_by_key(|name| match ORDER.iter().position(|known| known == name) {
        // The shipped server swaps the first two.
        Some(place @ (0 | 1)) if form == Form::Shipped => 1 - place,
        place => place.unwrap_or(ORDER.len()),
    });
    names
}

/// A tool's result as an object, the only form of a result in Fluxloop.
pub(super) fn object(result: &ToolResult) -> Box<RawValue> {
    #[derive(Serialize)]
    struct Data<'a> {
        data: &'a RawValue,
    }
    #[derive(Serialize)]
    struct Text<'a> {
        text: &'a RawValue,
    }
    #[derive(Serialize)]
    struct Blocks {
        content: Vec<Box<RawValue>>,
    }
    match (&result.structured, result.content.as_slice()) {
        (Some(structured), _) if Kind::of(structured) == Kind::Object => structured.clone(),
        (Some(structured), _) => json::to_raw(&Data { data: structured }),
        (None, [Content::Text(text)]) => json::to_raw(&Text { text }),
        (None, blocks) if blocks.iter().all(|block| matches!(block, Content::Text(_))) => {
            json::to_raw(&Text { text: &json::to_raw(&result.joined_text()) })
        }
        (None, blocks) => json::to_raw(&Blocks { content: blocks.iter().map(block).collect() }),
    }
}

fn block(content: &Content) -> Box<RawValue> {
    #[derive(Serialize)]
    struct TextBlock<'a> {
        r#type: &'static str,
        text: &'a RawValue,
    }
    match content {
        Content::Text(text) => json::to_raw(&TextBlock { r#type: "text", text }),
        Content::Block(block) => block.clone(),
    }
}

/// The error for a failure that the tool reports itself.
pub(super) fn reported(result: &ToolResult) -> Error {
    let error = Error::new("tool_error", result.joined_text());
    match &result.structured {
        Some(details) if Kind::of(details) == Kind::Object => error.with(details),
        _ => error,
    }
}

/// The error for a failed call, except for an unknown tool.
pub(super) fn failed(failure: &Failure) -> Error {
    #[derive(Serialize)]
    struct Param<'a> {
        param: &'a str,
        problem: &'a str,
    }
    #[derive(Serialize)]
    struct Reason {
        reason: &'static str,
    }
    let message = failure.message.as_str();
    match failure.kind {
        FailureKind::ToolFailed | FailureKind::InvalidArguments if failure.data.is_some() => {
            // A missing parameter is a tool error; a parameter of the wrong type is an invalid payload (§6.2).
            let is_missing =
                || failure.data.as_deref().and_then(Members::of).is_some_and(|data| data.has("missing_param"));
            let is_of_tool = failure.kind == FailureKind::ToolFailed || is_missing();
            Error::new(if is_of_tool { "tool_error" } else { "invalid_payload" }, message).with(&failure.data)
        }
        FailureKind::ToolFailed => Error::new("tool_error", message),
        FailureKind::Busy => Error::new("busy", message),
        FailureKind::InvalidArguments => {
            let error = Error::new("invalid_payload", message);
            match message.split_once(": ") {
                Some((param, problem)) if !param.contains(' ') => error.with(&Param { param, problem }),
                _ => error,
            }
        }
        kind => Error::new("internal_error", message).with(&Reason { reason: kind.word() }),
    }
}

/// A result in the shipped server's form: a citation is a path instead of an object.
pub(super) fn citing_by_path(result: &RawValue) -> Option<Box<RawValue>> {
    let members = Members::of(result)?;
    let cited = values::items(members.raw("citations")?.get()).ok()?;
    let mut paths: Vec<String> = Vec::with_capacity(cited.len());
    for citation in cited {
        let path = Members::of(citation)?.str("path")?.into_owned();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let paths = json::to_raw(&paths);
    let mut text = String::from("{");
    for (name, value) in members.iter() {
        let value = if name == "citations" { &*paths } else { value };
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(json::to_raw(&name).get());
        text.push(':');
        text.push_str(value.get());
    }
    text.push('}');
    Some(json::raw(text))
}

/// Parses a result: the reverse of [`object`].
pub(super) fn read_result(result: &RawValue) -> ToolResult {
    let members = Members::of(result).unwrap_or_default();
    if members.len() == 1 {
        if let Some(text) = members.raw("text").filter(|raw| Kind::of(raw) == Kind::String) {
            return ToolResult { content: vec![Content::Text(text.to_owned())], ..ToolResult::default() };
        }
        let blocks = members.raw("content").and_then(|raw| values::items(raw.get()).ok());
        if let Some(content) = blocks.and_then(|blocks| blocks.into_iter().map(read_block).collect()) {
            return ToolResult { content, ..ToolResult::default() };
        }
    }
    ToolResult::structured(result.to_owned())
}

fn read_block(raw: &RawValue) -> Option<Content> {
    let members = Members::of(raw)?;
    Some(match (members.str("type")?.as_ref(), members.raw("text")) {
        ("text", Some(text)) if Kind::of(text) == Kind::String => Content::Text(text.to_owned()),
        _ => Content::Block(raw.to_owned()),
    })
}

/// Parses the error object of a call.
pub(super) fn read_error(error: &RawValue) -> Outcome {
    let error = Members::of(error).unwrap_or_default();
    let message = error.raw("message").map_or_else(|| "an error without a message".to_owned(), words);
    let reason = error.object("details").and_then(|details| details.str("reason"));
    let kind = match error.str("code").as_deref() {
        Some("tool_error") => return Ok(Reply::Tool(ToolResult::failure(&message))),
        Some("tool_not_found" | "unknown_tool") => FailureKind::UnknownTool,
        Some("invalid_payload") => FailureKind::InvalidArguments,
        Some("busy") => FailureKind::Busy,
        Some("internal_error") => {
            let reported_kind = KINDS.into_iter().find(|kind| Some(kind.word()) == reason.as_deref());
            reported_kind.unwrap_or(FailureKind::UpstreamError)
        }
        _ => FailureKind::UpstreamError,
    };
    Err(Failure { data: error.some("details").map(ToOwned::to_owned), ..Failure::new(kind, message) })
}

/// A peer's message. In one case, the shipped server sends an object.
pub(super) fn words(raw: &RawValue) -> String {
    json::string(raw).map_or_else(|| raw.get().to_owned(), |text| text.into_owned())
}

/// The kinds that are sent as `details.reason`.
const KINDS: [FailureKind; 7] = [
    FailureKind::Denied,
    FailureKind::Cancelled,
    FailureKind::TimedOut,
    FailureKind::Stopping,
    FailureKind::UpstreamLost,
    FailureKind::UpstreamError,
    FailureKind::Internal,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_convert_to_objects_and_back() {
        let image = r#"{"type":"image","data":"","mimeType":"image/png"}"#;
        let with = |content| ToolResult { content, ..ToolResult::default() };
        let block = || Content::Block(json::raw(image.to_owned()));
        for (result, expected, comes_back) in [
            (ToolResult::text("hi"), r#"{"text":"hi"}"#.to_owned(), true),
            (with(vec![Content::text("a"), Content::text("b")]), r#"{"text":"a\nb"}"#.to_owned(), false),
            (with(vec![block()]), format!(r#"{{"content":[{image}]}}"#), true),
            (
                with(vec![Content::text("a"), block()]),
                format!(r#"{{"content":[{{"type":"text","text":"a"}},{image}]}}"#),
                true,
            ),
            (ToolResult::structured(json::raw(r#"{"n":1.0}"#.into())), r#"{"n":1.0}"#.to_owned(), true),
            (ToolResult::structured(json::raw("[1]".into())), r#"{"data":[1]}"#.to_owned(), false),
            (with(Vec::new()), r#"{"text":""}"#.to_owned(), false),
        ] {
            let object = object(&result);
            assert_eq!(object.get(), expected);
            if comes_back {
                assert_eq!(format!("{:?}", read_result(&object)), format!("{result:?}"));
            }
        }
    }

    #[test]
    fn the_tools_of_the_page_come_first_in_the_order_of_each_form() {
        let tools =
            ["echo", "fetch_insight_context", "detect_frameworks", "handshake", "analyze_repository", "faq", "a"]
                .map(|name| Tool::plain(name, ""));
        let page = ["faq", "analyze_repository", "detect_frameworks", "fetch_insight_context", "echo", "a"];
        let shipped = ["analyze_repository", "faq", "detect_frameworks", "fetch_insight_context", "echo", "a"];
        assert_eq!(names(&tools, Form::Page), page);
        assert_eq!(names(&tools, Form::Shipped), shipped);
    }

    #[test]
    fn an_invalid_argument_names_the_parameter() {
        let json = |failure| json::to_raw(&failed(&failure)).get().to_owned();
        assert_eq!(
            json(Failure::invalid_argument("message", "required")),
            r#"{"code":"invalid_payload","message":"message: required","details":{"param":"message","problem":"required"}}"#
        );
        assert_eq!(
            json(Failure::missing_argument("query", "string")),
            r#"{"code":"tool_error","message":"query: required","details":{"missing_param":"query","param":"query","expected":"string"}}"#
        );
        assert_eq!(
            json(Failure::new(FailureKind::InvalidArguments, "not like this: no")),
            r#"{"code":"invalid_payload","message":"not like this: no"}"#
        );
        assert_eq!(
            json(Failure::new(FailureKind::Stopping, "we are stopping")),
            r#"{"code":"internal_error","message":"we are stopping","details":{"reason":"stopping"}}"#
        );
    }
}
