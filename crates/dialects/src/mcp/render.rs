//! Results, errors and notices as this dialect writes them.
//!
//! Written straight into the buffer: payloads are raw JSON already. What a revision does not have
//! (structured output, titles, result types) is left out here and nowhere else.

use gladhand_accord::Peer;
use gladhand_operations::{Content, Failure, FailureKind, Log, Outcome, Progress, Reply, Tool, ToolResult};
use gladhand_wire::json::{self, Kind, RawValue};
use gladhand_wire::rpc::{self, code};
use gladhand_wire::{Id, Members};

use super::capabilities::declaration_of_menu;
use super::meta::{SERVER_INFO, SUBSCRIPTION_ID};
use super::pending::{Asked, InFlight};
use super::revision::{Revision, names};
use super::{cursor, errors};
use crate::side::Menu;

/// For how long a list may be kept without asking again: not at all, since it may change.
const CACHE_HINTS: &[u8] = br#","ttlMs":0,"cacheScope":"private""#;

/// What is the same in every answer of a server.
#[derive(Debug)]
pub(super) struct Renderer {
    server_info: String,
    capabilities: String,
    /// `,"resultType":"complete","_meta":{"…/serverInfo":{…}` up to where other `_meta` would go.
    complete: String,
}

impl Renderer {
    pub(super) fn new(identity: &Peer, menu: &Menu) -> Self {
        let server_info = json::to_raw(identity).get().to_owned();
        let complete = format!(r#","resultType":"complete","_meta":{{"{SERVER_INFO}":{server_info}"#);
        Self { server_info, capabilities: declaration_of_menu(menu), complete }
    }

    pub(super) fn initialize_result(&self, wire: &mut Vec<u8>, id: &Id, revision: Revision) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"protocolVersion":""#);
        wire.extend_from_slice(revision.as_str().as_bytes());
        wire.extend_from_slice(br#"","capabilities":"#);
        wire.extend_from_slice(self.capabilities.as_bytes());
        wire.extend_from_slice(br#","serverInfo":"#);
        wire.extend_from_slice(self.server_info.as_bytes());
        wire.push(b'}');
        rpc::finish(wire);
    }

    pub(super) fn discover_result(&self, wire: &mut Vec<u8>, id: &Id) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"supportedVersions":"#);
        json::write(wire, &names(Revision::STATELESS));
        wire.extend_from_slice(br#","capabilities":"#);
        wire.extend_from_slice(self.capabilities.as_bytes());
        wire.extend_from_slice(CACHE_HINTS);
        self.finish_result(wire, Revision::V2026_07_28, None);
    }

    /// The empty result that ends a subscription.
    pub(super) fn listen_result(&self, wire: &mut Vec<u8>, id: &Id) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"resultType":"complete","_meta":{""#);
        wire.extend_from_slice(SUBSCRIPTION_ID.as_bytes());
        wire.extend_from_slice(br#"":"#);
        wire.extend_from_slice(id.as_json().as_bytes());
        wire.extend_from_slice(br#",""#);
        wire.extend_from_slice(SERVER_INFO.as_bytes());
        wire.extend_from_slice(br#"":"#);
        wire.extend_from_slice(self.server_info.as_bytes());
        wire.extend_from_slice(b"}}");
        rpc::finish(wire);
    }

    /// Appends `,"_meta":{…}` that says who serves a result (2026-07-28).
    pub(super) fn about_server(&self, wire: &mut Vec<u8>) {
        wire.extend_from_slice(br#","_meta":{""#);
        wire.extend_from_slice(SERVER_INFO.as_bytes());
        wire.extend_from_slice(br#"":"#);
        wire.extend_from_slice(self.server_info.as_bytes());
        wire.push(b'}');
    }

    /// The answer to a call.
    pub(super) fn outcome(&self, wire: &mut Vec<u8>, call: &InFlight, outcome: Outcome, page_size: usize) {
        let (id, revision) = (&call.to.id, call.revision);
        match (outcome, call.asked) {
            (Ok(Reply::Tool(result)), Asked::Tool) => self.tool_result(wire, id, &result, revision),
            (Ok(Reply::Tools(tools)), Asked::Tools { from }) => {
                if from > 0 && from >= tools.len() {
                    return rpc::error(wire, Some(id), &cursor::bad());
                }
                self.page(wire, id, &tools[from..], from, page_size.max(1), revision);
            }
            (Err(failure), Asked::Tool) if is_for_the_model(failure.kind) => {
                self.tool_result(wire, id, &ToolResult::failure(&failure.message), revision);
            }
            (Err(failure), _) => failed(wire, id, &failure),
            (Ok(_), _) => {
                let error = errors::internal("internal", "the answer is not what was asked for".to_owned(), None);
                rpc::error(wire, Some(id), &error);
            }
        }
    }

    fn tool_result(&self, wire: &mut Vec<u8>, id: &Id, result: &ToolResult, revision: Revision) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"content":["#);
        for (at, content) in result.content.iter().enumerate() {
            if at > 0 {
                wire.push(b',');
            }
            match content {
                Content::Text(text) => {
                    wire.extend_from_slice(br#"{"type":"text","text":"#);
                    wire.extend_from_slice(text.get().as_bytes());
                    wire.push(b'}');
                }
                Content::Block(block) => wire.extend_from_slice(block.get().as_bytes()),
            }
        }
        wire.push(b']');
        if let Some(structured) = &result.structured
            && revision.has_structured_output()
            && (revision.has_any_structured_output() || Kind::of(structured) == Kind::Object)
        {
            member(wire, "structuredContent", structured);
        }
        if result.failed {
            wire.extend_from_slice(br#","isError":true"#);
        }
        let mut carried_meta = None;
        for (name, value) in &result.extra {
            match name.as_str() {
                "content" | "structuredContent" | "isError" | "resultType" => {}
                "_meta" => carried_meta = Some(&**value),
                _ => member(wire, name, value),
            }
        }
        self.finish_result(wire, revision, carried_meta);
    }

    fn page(&self, wire: &mut Vec<u8>, id: &Id, tools: &[Tool], from: usize, page_size: usize, revision: Revision) {
        rpc::begin_result(wire, id);
        wire.extend_from_slice(br#"{"tools":["#);
        for (at, tool) in tools.iter().take(page_size).enumerate() {
            if at > 0 {
                wire.push(b',');
            }
            definition(wire, tool, revision);
        }
        wire.push(b']');
        if tools.len() > page_size {
            wire.extend_from_slice(br#","nextCursor":"#);
            json::write(wire, &cursor::at(from + page_size));
        }
        if revision.has_result_types() {
            wire.extend_from_slice(CACHE_HINTS);
        }
        self.finish_result(wire, revision, None);
    }

    /// Closes a result that has at least one member, and its line.
    fn finish_result(&self, wire: &mut Vec<u8>, revision: Revision, carried_meta: Option<&RawValue>) {
        // Who serves the result is for us to say, whoever it came from.
        let carried = carried_meta.and_then(Members::of).unwrap_or_default();
        let carried = carried.iter().filter(|(name, _)| *name != SERVER_INFO);
        if revision.has_result_types() {
            wire.extend_from_slice(self.complete.as_bytes());
            carried.for_each(|(name, value)| member(wire, name, value));
            wire.push(b'}');
        } else {
            let mut is_first = true;
            for (name, value) in carried {
                wire.extend_from_slice(if is_first { br#","_meta":{"# } else { b"," });
                is_first = false;
                json::write(wire, name);
                wire.push(b':');
                wire.extend_from_slice(value.get().as_bytes());
            }
            if !is_first {
                wire.push(b'}');
            }
        }
        wire.push(b'}');
        rpc::finish(wire);
    }
}

/// Appends `,"name":value`.
fn member(wire: &mut Vec<u8>, name: &str, value: &RawValue) {
    wire.push(b',');
    json::write(wire, name);
    wire.push(b':');
    wire.extend_from_slice(value.get().as_bytes());
}

fn definition(wire: &mut Vec<u8>, tool: &Tool, revision: Revision) {
    wire.extend_from_slice(br#"{"name":"#);
    json::write(wire, &tool.name);
    if let Some(title) = &tool.title
        && revision.has_structured_output()
    {
        wire.extend_from_slice(br#","title":"#);
        json::write(wire, title);
    }
    wire.extend_from_slice(br#","description":"#);
    json::write(wire, &tool.description);
    member(wire, "inputSchema", &tool.input_schema);
    if let Some(schema) = &tool.output_schema
        && revision.has_structured_output()
        && (revision.has_any_structured_output() || describes_an_object(schema))
    {
        member(wire, "outputSchema", schema);
    }
    for (name, value) in &tool.extra {
        if !matches!(name.as_str(), "name" | "title" | "description" | "inputSchema" | "outputSchema") {
            member(wire, name, value);
        }
    }
    wire.push(b'}');
}

fn describes_an_object(schema: &RawValue) -> bool {
    Members::of(schema).and_then(|schema| schema.str("type")).is_some_and(|word| word == "object")
}

/// Whether the model could do something about it, so that it is a result for the model to read.
fn is_for_the_model(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::InvalidArguments | FailureKind::ToolFailed | FailureKind::Denied)
}

/// A failure that is no result.
fn failed(wire: &mut Vec<u8>, id: &Id, failure: &Failure) {
    let error = match failure.kind {
        FailureKind::UnknownTool => rpc::Error::new(code::INVALID_PARAMS, failure.message.as_str()),
        FailureKind::UpstreamError => {
            if let Some(error) = failure.data.as_deref().filter(|data| is_error_object(data)) {
                wire.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
                wire.extend_from_slice(id.as_json().as_bytes());
                wire.extend_from_slice(br#","error":"#);
                wire.extend_from_slice(error.get().as_bytes());
                return rpc::finish(wire);
            }
            errors::internal(failure.kind.word(), failure.message.clone(), failure.data.as_deref())
        }
        kind => errors::internal(kind.word(), failure.message.clone(), None),
    };
    rpc::error(wire, Some(id), &error);
}

/// Whether data is an error as JSON-RPC writes it, to be passed on as it came.
fn is_error_object(data: &RawValue) -> bool {
    let Some(error) = Members::of(data) else { return false };
    let code = error.raw("code").and_then(|code| code.get().parse::<i64>().ok());
    code.is_some() && error.raw("message").is_some_and(|message| Kind::of(message) == Kind::String)
}

pub(super) fn progress(wire: &mut Vec<u8>, token: &RawValue, progress: &Progress, revision: Revision) {
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#);
    wire.extend_from_slice(token.get().as_bytes());
    wire.extend_from_slice(br#","progress":"#);
    number(wire, progress.progress);
    if let Some(total) = progress.total.filter(|total| total.is_finite()) {
        wire.extend_from_slice(br#","total":"#);
        number(wire, total);
    }
    if let Some(message) = &progress.message
        && revision.has_progress_message()
    {
        wire.extend_from_slice(br#","message":"#);
        json::write(wire, message);
    }
    wire.push(b'}');
    rpc::finish(wire);
}

/// A number without a needless fraction: `1` rather than `1.0`.
fn number(wire: &mut Vec<u8>, number: f64) {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        json::write(wire, &(number as i64));
    } else {
        json::write(wire, &number);
    }
}

pub(super) fn message(wire: &mut Vec<u8>, log: &Log) {
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#);
    json::write(wire, log.level.word());
    if let Some(logger) = &log.logger {
        wire.extend_from_slice(br#","logger":"#);
        json::write(wire, logger);
    }
    member(wire, "data", &log.data);
    wire.push(b'}');
    rpc::finish(wire);
}
