//! The kind of a call, which determines how its answer is parsed.

use gladhand_core::negotiation::Side;
use gladhand_core::operations::{Failure, FailureKind, Operation, Outcome, Reply};
use gladhand_core::wire::{Members, RawValue, json};

use super::pages::Pages;
use super::{results, visits};
use crate::mcp::capabilities;
use crate::mcp::errors::MISSING_CLIENT_CAPABILITY;

/// The kind of a call.
#[derive(Debug)]
pub(super) enum CallKind {
    /// A tool call, with the tool's name.
    Tool { name: String },
    /// A list, with the pages so far.
    List(Pages),
    /// The contents of a resource, with its URI.
    Contents { uri: String },
    /// A subscription to a resource, with its URI.
    Watch { uri: String },
    /// A prompt, with its name.
    Prompt { name: String },
    /// The completion of an argument.
    Completion,
}

impl CallKind {
    pub(super) fn of(operation: &Operation<'_>) -> Self {
        if let Some(pages) = Pages::of(operation) {
            return Self::List(pages);
        }
        match operation {
            Operation::CallTool(tool) => Self::Tool { name: tool.name.clone().into_owned() },
            Operation::ReadResource(uri) => Self::Contents { uri: uri.clone().into_owned() },
            Operation::Watch(uri) => Self::Watch { uri: uri.clone().into_owned() },
            Operation::GetPrompt(prompt) => Self::Prompt { name: prompt.name.clone().into_owned() },
            _ => Self::Completion,
        }
    }

    /// Parses a complete result. The pages of lists are handled elsewhere.
    pub(super) fn outcome(&self, members: &Members<'_>) -> Outcome {
        match self {
            Self::Tool { .. } => results::tool_result(members).map(Reply::Tool),
            Self::Contents { .. } => results::contents(members).map(Reply::Contents),
            Self::Prompt { .. } => results::prompt_result(members).map(Reply::Prompt),
            Self::Completion => results::completion(members).map(Reply::Completion),
            Self::Watch { .. } | Self::List(_) => Ok(Reply::Done),
        }
    }

    /// The failure for an error of the upstream. The upstream's error object is kept as data.
    pub(super) fn failure(&self, error: &RawValue) -> Failure {
        let members = Members::of(error).unwrap_or_default();
        let message = members.str("message").unwrap_or_default();
        let code: Option<i32> = members.raw("code").and_then(|code| code.get().parse().ok());
        let data = members.object("data");
        let reason = data.as_ref().and_then(|data| data.str("reason"));
        let names_uri = || data.as_ref().is_some_and(|data| data.has("uri"));
        if let (Some(MISSING_CLIENT_CAPABILITY), Some(capability)) = (code, data.as_ref().and_then(required)) {
            return Failure { message: message.into_owned(), ..Failure::missing_capability(&capability) };
        }
        let pages =
            visits::pages(error).into_iter().filter_map(|page| Some(Members::of(page)?.str("url")?.into_owned()));
        let pages = pages.collect::<Vec<_>>().join(", ");
        let failure = match (self, code, reason.as_deref()) {
            (Self::Tool { name }, Some(-32602), _) if reports_unknown("tool", &message) => Failure::unknown_tool(name),
            (Self::Prompt { name }, Some(-32602), _) if reports_unknown("prompt", &message) => {
                Failure::unknown_prompt(name)
            }
            (Self::Contents { uri } | Self::Watch { uri }, Some(-32002), _) => Failure::unknown_resource(uri),
            (Self::Contents { uri } | Self::Watch { uri }, Some(-32602), _) if names_uri() => {
                Failure::unknown_resource(uri)
            }
            (_, Some(-32603), Some("busy")) => Failure::new(FailureKind::Busy, message),
            (_, Some(-32603), Some("timed_out")) => Failure::new(FailureKind::TimedOut, message),
            (_, Some(-32603), Some("stopping")) => Failure::new(FailureKind::Stopping, message),
            (_, Some(-32603), Some("upstream_lost")) => Failure::new(FailureKind::UpstreamLost, message),
            _ if !pages.is_empty() => results::upstream_error(format!("{message} (visit first: {pages})")),
            _ if message.is_empty() => results::upstream_error("the upstream answered with an error"),
            _ => results::upstream_error(message),
        };
        // The method or its parameters are wrong. A retry would fail too.
        let is_lasting = matches!(code, Some(-32602 | -32601));
        Failure { data: Some(error.to_owned()), is_lasting, ..failure }
    }
}

/// Whether the message of a `-32602` says that there is no such item: servers have no separate code for it.
fn reports_unknown(item: &str, message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains(item) && (message.contains("unknown") || message.contains("not found"))
}

/// The client capability that an upstream requires.
fn required(data: &Members<'_>) -> Option<String> {
    let declared = capabilities::declared(Side::Client, &data.object("requiredCapabilities")?).ok()?;
    // A part sorts after its capability and is more specific.
    declared.into_keys().next_back().map(|capability| capability.0.into_owned())
}

/// The kind of a result. `Err` for an unknown kind.
pub(super) fn result_kind<'a>(members: &Members<'a>) -> Result<ResultKind, &'a RawValue> {
    let Some(kind) = members.raw("resultType") else { return Ok(ResultKind::Complete) };
    match json::string(kind).as_deref() {
        Some("complete") => Ok(ResultKind::Complete),
        Some("input_required") => Ok(ResultKind::InputRequired),
        Some("task") => Ok(ResultKind::Task),
        _ => Err(kind),
    }
}

/// The kind of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultKind {
    /// The call has ended.
    Complete,
    /// The upstream asks questions, or asks for a repetition.
    InputRequired,
    /// The call became a task.
    Task,
}
