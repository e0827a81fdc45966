//! Calls to an upstream: how they are written, and what their answers mean.
//!
//! A list is asked for page by page, with bounds, and answered once with all tools. Members that
//! the neutral model does not know are carried along.

use std::collections::HashSet;

use gladhand_operations::{Content, Failure, FailureKind, Operation, Outcome, Reply, Tool, ToolResult};
use gladhand_wire::json::{self, Kind, RawValue};
use gladhand_wire::{Members, rpc};

use super::meta::PROGRESS_TOKEN;

/// Beyond these a list is not believed.
const MAX_PAGES: usize = 1000;
const MAX_TOOLS: usize = 100_000;

/// What a request in flight asked for.
#[derive(Debug)]
pub(super) enum Asked {
    /// A tool's result.
    Tool {
        /// Its name, for the answer that there is none.
        name: String,
    },
    /// A page of the list of tools.
    Tools(Pages),
}

/// A list as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Pages {
    tools: Vec<Tool>,
    /// The cursor of the page that was asked for; `None` for the first.
    cursor: Option<String>,
    /// All cursors so far: a server that repeats one would be asked forever.
    seen: HashSet<String>,
}

/// What follows from an answer.
#[derive(Debug)]
pub(super) enum Step {
    Done(Outcome),
    NextPage(Asked),
}

impl Asked {
    pub(super) fn by(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::CallTool(tool) => Self::Tool { name: tool.name.clone().into_owned() },
            _ => Self::Tools(Pages::default()),
        }
    }

    /// Writes the request. The progress token is our id, so that one number finds the call.
    pub(super) fn write(
        &self,
        wire: &mut Vec<u8>,
        id: u64,
        arguments: Option<&RawValue>,
        wants_progress: bool,
        envelope: &str,
    ) {
        wire.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        json::write(wire, &id);
        let mut separator: &[u8] = b"";
        match self {
            Self::Tool { name } => {
                wire.extend_from_slice(br#","method":"tools/call","params":{"name":"#);
                json::write(wire, name);
                wire.extend_from_slice(br#","arguments":"#);
                wire.extend_from_slice(arguments.map_or("{}", RawValue::get).as_bytes());
                separator = b",";
            }
            Self::Tools(pages) => {
                wire.extend_from_slice(br#","method":"tools/list","params":{"#);
                if let Some(cursor) = &pages.cursor {
                    wire.extend_from_slice(br#""cursor":"#);
                    json::write(wire, cursor);
                    separator = b",";
                }
            }
        }
        if wants_progress || !envelope.is_empty() {
            wire.extend_from_slice(separator);
            wire.extend_from_slice(br#""_meta":{"#);
            wire.extend_from_slice(envelope.as_bytes());
            if wants_progress {
                wire.extend_from_slice(if envelope.is_empty() { b"" } else { b"," });
                json::write(wire, PROGRESS_TOKEN);
                wire.push(b':');
                json::write(wire, &id);
            }
            wire.push(b'}');
        }
        wire.push(b'}');
        rpc::finish(wire);
    }

    pub(super) fn answered(self, outcome: Result<Option<&RawValue>, &RawValue>) -> Step {
        let members = match outcome {
            Err(error) => return Step::Done(Err(self.failure(error))),
            Ok(result) => match result.and_then(Members::of) {
                Some(members) => members,
                None => return Step::Done(Err(upstream_error("the upstream's result is no object"))),
            },
        };
        if let Some(failure) = incomplete(&members) {
            return Step::Done(Err(failure));
        }
        match self {
            Self::Tool { .. } => Step::Done(tool_result(&members)),
            Self::Tools(pages) => pages.continued(&members),
        }
    }

    /// What an error of the upstream means to the caller; its own words stay with it.
    fn failure(&self, error: &RawValue) -> Failure {
        let members = Members::of(error).unwrap_or_default();
        let message = members.str("message").unwrap_or_default();
        let code = members.raw("code").map(RawValue::get);
        let reason = members.object("data").and_then(|data| data.str("reason"));
        let kind = match (code, reason.as_deref()) {
            (Some("-32602"), _) if matches!(self, Self::Tool { .. }) && names_no_tool(&message) => {
                FailureKind::UnknownTool
            }
            (Some("-32603"), Some("busy")) => FailureKind::Busy,
            (Some("-32603"), Some("timed_out")) => FailureKind::TimedOut,
            (Some("-32603"), Some("stopping")) => FailureKind::Stopping,
            (Some("-32603"), Some("upstream_lost")) => FailureKind::UpstreamLost,
            _ => FailureKind::UpstreamError,
        };
        let message = match (kind, self) {
            (FailureKind::UnknownTool, Self::Tool { name }) => format!("unknown tool: {name}"),
            _ if message.is_empty() => "the upstream answered with an error".to_owned(),
            _ => message.into_owned(),
        };
        Failure { data: Some(error.to_owned()), ..Failure::new(kind, message) }
    }
}

/// Whether the message of a `-32602` says that there is no such tool: servers have no code for it.
fn names_no_tool(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("tool") && (message.contains("unknown") || message.contains("not found"))
}

impl Pages {
    fn continued(mut self, members: &Members<'_>) -> Step {
        let Some(page) = members.raw("tools").and_then(array) else {
            return Step::Done(Err(upstream_error("the upstream's list has no `tools`")));
        };
        self.tools.extend(page.into_iter().filter_map(tool));
        let Some(next) = members.str("nextCursor") else {
            return Step::Done(Ok(Reply::Tools(self.tools.into())));
        };
        if !self.seen.insert(next.clone().into_owned()) {
            return Step::Done(Err(upstream_error("the upstream's list of tools goes in a circle")));
        }
        if self.seen.len() >= MAX_PAGES || self.tools.len() >= MAX_TOOLS {
            return Step::Done(Err(upstream_error("the upstream's list of tools does not end")));
        }
        self.cursor = Some(next.into_owned());
        Step::NextPage(Asked::Tools(self))
    }
}

/// A tool as the upstream defines it; `None` without a name, since nobody could call it.
fn tool(raw: &RawValue) -> Option<Tool> {
    let members = Members::of(raw)?;
    let mut tool = Tool::new(members.str("name")?, "", json::raw(r#"{"type":"object"}"#.to_owned()));
    for (name, value) in members.iter() {
        match name {
            "name" => {}
            "title" => tool.title = json::string(value).map(Into::into),
            "description" => tool.description = json::string(value).unwrap_or_default().into_owned(),
            "inputSchema" if Kind::of(value) == Kind::Object => tool.input_schema = value.to_owned(),
            "inputSchema" => {}
            "outputSchema" => tool.output_schema = Some(value.to_owned()).filter(|_| Kind::of(value) != Kind::Null),
            _ => tool.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    Some(tool)
}

fn tool_result(members: &Members<'_>) -> Outcome {
    let mut result = ToolResult::default();
    for (name, value) in members.iter() {
        match name {
            "content" => match array(value) {
                Some(blocks) => result.content = blocks.into_iter().map(content).collect(),
                None => return Err(upstream_error("the upstream's `content` is no array")),
            },
            "structuredContent" => result.structured = Some(value.to_owned()).filter(|_| Kind::of(value) != Kind::Null),
            "isError" => result.failed = value.get() == "true",
            "resultType" => {}
            _ => result.extra.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok(Reply::Tool(result))
}

/// A block. Text with nothing beside it is text; anything else keeps all of its members.
fn content(raw: &RawValue) -> Content {
    let text = Members::of(raw).filter(|block| block.len() == 2 && block.str("type").as_deref() == Some("text"));
    match text.and_then(|block| block.raw("text")) {
        Some(text) if Kind::of(text) == Kind::String => Content::Text(text.to_owned()),
        _ => Content::Block(raw.to_owned()),
    }
}

fn array(raw: &RawValue) -> Option<Vec<&RawValue>> {
    if Kind::of(raw) != Kind::Array {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}

/// Why a result is not the end of the call, where it says that it is something else.
fn incomplete(members: &Members<'_>) -> Option<Failure> {
    let kind = members.raw("resultType")?;
    match json::string(kind).as_deref() {
        Some("complete") => None,
        Some("input_required") => {
            let requests = members.object("inputRequests").unwrap_or_default();
            let asked: Vec<_> = requests
                .iter()
                .filter_map(|(_, request)| Members::of(request).and_then(|request| request.str("method")))
                .collect();
            let asked = if asked.is_empty() { "nothing that it names".to_owned() } else { asked.join(", ") };
            Some(upstream_error(format!("the upstream asks for input that this session cannot give: {asked}")))
        }
        _ => Some(upstream_error(format!("the upstream's result is of an unknown type: {}", kind.get()))),
    }
}

fn upstream_error(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::UpstreamError, message)
}
