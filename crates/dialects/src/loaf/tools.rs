//! Tools in loaf's form, in both directions: the list (`loaf` §11.6), the result of a call (§16.1), and our additional
//! events for running calls.

use gladhand_core::operations::{
    Content, Failure, FailureKind, Level, Log, Outcome, Progress, Reply, Tool, ToolResult,
};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};
use serde::Serialize;

use super::errors::OVERLOADED;
use super::opening::words;
use crate::MAX_TOOLS;

/// The result of `tools.list`, sorted by name.
pub(super) fn list(tools: &[Tool]) -> impl Serialize {
    #[derive(Serialize)]
    struct Entry<'a> {
        name: &'a str,
        description: &'a str,
        input_schema: &'a RawValue,
    }
    #[derive(Serialize)]
    struct List<'a> {
        tools: Vec<Entry<'a>>,
    }
    let mut entries: Vec<_> = tools
        .iter()
        .map(|tool| Entry { name: &tool.name, description: &tool.description, input_schema: &tool.input_schema })
        .collect();
    entries.sort_by_cached_key(|entry| order_of(entry.name));
    List { tools: entries }
}

/// The ASCII characters in the order of the Unicode root collation, before case is compared.
const COLLATION: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz";

/// The rank of each ASCII character. Those that the collation does not have come after all others of it.
const RANKS: [u32; 128] = {
    let (mut ranks, mut at) = ([0; 128], 0);
    while at < 128 {
        ranks[at] = (COLLATION.len() + at) as u32;
        at += 1;
    }
    at = 0;
    while at < COLLATION.len() {
        ranks[COLLATION.as_bytes()[at] as usize] = at as u32;
        at += 1;
    }
    ranks
};

/// The place of a name in the reference's order: case is only a tie-breaker, with lowercase first. It is made once per
/// name, because long names with equal beginnings are compared often.
fn order_of(name: &str) -> (Vec<u32>, Vec<bool>) {
    let rank = |character: char| {
        let small = u32::from(character.to_ascii_lowercase());
        RANKS.get(small as usize).copied().unwrap_or(COLLATION.len() as u32 + small)
    };
    (name.chars().map(rank).collect(), name.chars().map(|character| character.is_ascii_uppercase()).collect())
}

/// The result of a tool as `{ok, output, error?}`.
#[derive(Serialize)]
pub(super) struct Returned {
    ok: bool,
    output: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Returned {
    /// A result, which can be a failure that the tool reports itself.
    pub(super) fn of(result: &ToolResult) -> Self {
        let error = result.failed.then(|| result.joined_text());
        Self { ok: !result.failed, output: output(result), error }
    }

    /// A failure of the tool. loaf reports it inside the result.
    pub(super) fn threw(tool: &str, failure: &Failure) -> Self {
        #[derive(Serialize)]
        struct Threw<'a> {
            tool: &'a str,
            status: &'static str,
        }
        let output = json::to_raw(&Threw { tool, status: "error" });
        Self { ok: false, output, error: Some(failure.message.clone()) }
    }
}

fn output(result: &ToolResult) -> Box<RawValue> {
    if let Some(structured) = &result.structured {
        return structured.clone();
    }
    let raw = |content: &Content| match content {
        Content::Text(raw) | Content::Block(raw) => raw.clone(),
    };
    match result.content.as_slice() {
        [] => RawValue::NULL.to_owned(),
        [only] => raw(only),
        several => json::to_raw(&several.iter().map(raw).collect::<Vec<_>>()),
    }
}

/// The payload of `tool.progress`.
#[derive(Serialize)]
pub(super) struct ProgressPayload<'a> {
    request_id: &'a RawValue,
    progress: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

impl<'a> ProgressPayload<'a> {
    /// The progress of the call of a request.
    pub(super) fn new(request_id: &'a RawValue, progress: &'a Progress) -> Self {
        Self {
            request_id,
            progress: Number(progress.progress),
            total: progress.total.map(Number),
            message: progress.message.as_deref(),
        }
    }
}

/// A number in JavaScript's format: without `.0` after whole numbers.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if self.0.fract() == 0.0 && self.0.abs() < EXACT {
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53, as just checked")]
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}

/// The payload of `tool.log`.
#[derive(Serialize)]
pub(super) struct LogPayload<'a> {
    request_id: &'a RawValue,
    level: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logger: Option<&'a str>,
    data: &'a RawValue,
}

impl<'a> LogPayload<'a> {
    /// A log line of the call of a request.
    pub(super) fn new(request_id: &'a RawValue, log: &'a Log) -> Self {
        Self { request_id, level: log.level.word(), logger: log.logger.as_deref(), data: &log.data }
    }
}

/// Parses a progress payload.
pub(super) fn read_progress(payload: &Members<'_>) -> Option<Progress> {
    let number = |name: &str| payload.raw(name).and_then(|raw| raw.get().parse::<f64>().ok());
    Some(Progress {
        progress: number("progress")?,
        total: number("total"),
        message: payload.str("message").map(|text| text.into_owned()),
    })
}

/// Parses a log payload.
pub(super) fn read_log(payload: &Members<'_>) -> Option<Log> {
    let level = Level::from_word(&payload.str("level")?)?;
    let logger = payload.str("logger").map(|text| text.into_owned());
    Some(Log::from_upstream(level, logger, payload.raw("data")?.to_owned()))
}

/// The tools in the result of `tools.list`. Entries without a name are left out.
pub(super) fn read_list(result: &RawValue) -> Outcome {
    let entries = Members::of(result)
        .and_then(|result| result.raw("tools"))
        .and_then(|raw| values::items(raw.get()).ok())
        .ok_or_else(|| Failure::new(FailureKind::UpstreamError, "the result of `tools.list` contains no list"))?;
    if entries.len() > MAX_TOOLS {
        return Err(Failure::list_too_long("tools", MAX_TOOLS));
    }
    let tools = entries.into_iter().filter_map(|entry| {
        let entry = Members::of(entry)?;
        let schema = entry.raw("input_schema").filter(|raw| Kind::of(raw) == Kind::Object);
        Some(Tool::new(
            entry.str("name")?,
            entry.str("description").unwrap_or_default(),
            // A custom tool without a usable schema accepts any object.
            schema.map_or_else(|| json::raw(r#"{"type":"object"}"#.to_owned()), ToOwned::to_owned),
        ))
    });
    Ok(Reply::Tools(tools.collect()))
}

/// The outcome in the result of `tools.call`.
pub(super) fn read_returned(result: &RawValue) -> Outcome {
    let result = Members::of(result)
        .filter(|result| result.has("ok"))
        .ok_or_else(|| Failure::new(FailureKind::UpstreamError, "the result of `tools.call` has no `ok`"))?;
    let mut read = result.some("output").map(read_output).unwrap_or_default();
    if result.raw("ok").is_some_and(|ok| ok.get() == "true") {
        return Ok(Reply::Tool(read));
    }
    read.failed = true;
    if let Some(error) = result.some("error").map(words)
        && (read.structured.is_some() || read.joined_text() != error)
    {
        read.content = vec![Content::text(&error)];
    }
    Ok(Reply::Tool(read))
}

fn read_output(output: &RawValue) -> ToolResult {
    let block = |raw: &RawValue| match Kind::of(raw) {
        Kind::String => Some(Content::Text(raw.to_owned())),
        Kind::Object if Members::of(raw)?.str("type").is_some() => Some(Content::Block(raw.to_owned())),
        _ => None,
    };
    match Kind::of(output) {
        Kind::String => ToolResult { content: vec![Content::Text(output.to_owned())], ..ToolResult::default() },
        Kind::Array => {
            let items = values::items(output.get()).unwrap_or_default();
            match items.into_iter().map(block).collect::<Option<Vec<_>>>() {
                Some(content) if !content.is_empty() => ToolResult { content, ..ToolResult::default() },
                _ => ToolResult::structured(output.to_owned()),
            }
        }
        _ => ToolResult::structured(output.to_owned()),
    }
}

/// The failure in an error object.
pub(super) fn read_failure(error: &RawValue) -> Failure {
    let error = Members::of(error).unwrap_or_default();
    let data = error.object("data").unwrap_or_default();
    let reason = data.str("reason").unwrap_or_default();
    let kind = match (reason.as_ref(), data.str("field").as_deref()) {
        ("invalid_params", Some("arguments")) => FailureKind::InvalidArguments,
        ("overloaded", _) => FailureKind::Busy,
        _ if error.raw("code").is_some_and(|code| code.get() == OVERLOADED.to_string()) => FailureKind::Busy,
        (word, _) => KINDS.into_iter().find(|kind| kind.word() == word).unwrap_or(FailureKind::UpstreamError),
    };
    let message = error.raw("message").map_or_else(|| "an error without a message".to_owned(), words);
    Failure { data: error.raw("data").map(ToOwned::to_owned), ..Failure::new(kind, message) }
}

/// The kinds that are sent as `data.reason`.
const KINDS: [FailureKind; 9] = [
    FailureKind::UnknownTool,
    FailureKind::ToolFailed,
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
    fn names_sort_as_the_root_collation_has_them() {
        let mut names = vec!["beta", "Deep", "alpha", "a_b", "a1", "ab", "Alpha", "_x", "é", "a-b"];
        names.sort_by_cached_key(|name| order_of(name));
        assert_eq!(names, ["_x", "a_b", "a-b", "a1", "ab", "alpha", "Alpha", "beta", "Deep", "é"]);
    }

    #[test]
    fn many_names_with_long_equal_beginnings_are_sorted_soon() {
        let beginning = "~z".repeat(500);
        let tools: Vec<_> = (0..4000).rev().map(|number| Tool::plain(format!("{beginning}{number:04}"), "")).collect();
        let begun = std::time::Instant::now();
        let list = json::to_raw(&list(&tools));
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(list.get().find("0000\"") < list.get().find("3999\""));
    }

    #[test]
    fn results_take_the_shape_of_the_contract() {
        let block = |raw: &str| Content::Block(json::raw(raw.to_owned()));
        let image = r#"{"type":"image","data":"","mimeType":"image/png"}"#;
        let with = |content| ToolResult { content, ..ToolResult::default() };
        for (result, line) in [
            (ToolResult::text("hi"), r#"{"ok":true,"output":"hi"}"#.to_owned()),
            (with(Vec::new()), r#"{"ok":true,"output":null}"#.to_owned()),
            (with(vec![block(image)]), format!(r#"{{"ok":true,"output":{image}}}"#)),
            (with(vec![Content::text("a"), block(image)]), format!(r#"{{"ok":true,"output":["a",{image}]}}"#)),
            (ToolResult::structured(json::raw("{\"a\":1.0}".into())), r#"{"ok":true,"output":{"a":1.0}}"#.to_owned()),
            (ToolResult::failure("no"), r#"{"ok":false,"output":"no","error":"no"}"#.to_owned()),
        ] {
            assert_eq!(json::to_raw(&Returned::of(&result)).get(), line);
        }
    }
}
