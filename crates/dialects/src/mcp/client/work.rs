//! Calls in flight: how each call is written, sent and repeated.

use std::collections::HashSet;
use std::sync::Arc;

use gladhand_core::operations::{Call, CallId, CompletionCall, CompletionOf, Operation, Party};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::rpc;
use gladhand_core::wire::{FrameKind, Frames};

use super::behalf::{self, CallerEnvelope};
use super::call_kind::CallKind;
use super::pages::Pages;
use crate::mcp::meta::PROGRESS_TOKEN;

/// A call of ours, with all the requests that it needs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) call: CallId,
    /// How its result is parsed.
    pub(super) kind: CallKind,
    pub(super) method: &'static str,
    /// The members of `params` except `_meta`. A repeated request is identical to the byte.
    pub(super) params: String,
    /// The caller's metadata, without the braces.
    pub(super) meta: String,
    /// The caller, if requests describe it.
    pub(super) behalf: Option<Arc<CallerEnvelope>>,
    /// The party whose share it uses.
    pub(super) party: Option<Party>,
    pub(super) wants_progress: bool,
    /// The id of its latest own request, which is its progress token.
    pub(super) token: Option<u64>,
    /// How many times it was answered with questions.
    pub(super) rounds: usize,
    /// How many times it was repeated after a lost exchange.
    pub(super) repeats: usize,
    /// Whether it requests a task (2025-11-25).
    pub(super) is_task: bool,
    /// Whether the tools were listed again for it.
    pub(super) has_relisted: bool,
    /// The keys of questions that are not asked again: questions of its task, pages to visit.
    pub(super) asked_keys: HashSet<String>,
}

/// The purpose of a request in flight.
#[derive(Debug)]
pub(super) enum OutgoingRequest {
    /// A call's own request.
    Work(Box<Work>),
    /// A list of tools, for a call that was refused because of outdated information.
    Relist(Box<Work>, Pages),
    /// Polls the task of a call.
    PollTask(Box<Work>, String),
    /// Sends the answers to the questions of a task.
    Update(Box<Work>, String),
    /// Requests the result of a task.
    Result(Box<Work>, String),
    /// Sets the log level for a call. The call is sent after the response.
    Level(Box<Work>),
    /// `subscriptions/listen`.
    Listen,
}

impl OutgoingRequest {
    /// The call of the request.
    pub(super) fn work(&self) -> Option<&Work> {
        match self {
            Self::Work(work)
            | Self::Relist(work, _)
            | Self::PollTask(work, _)
            | Self::Update(work, _)
            | Self::Result(work, _)
            | Self::Level(work) => Some(work),
            Self::Listen => None,
        }
    }

    /// The call of the request.
    pub(super) fn work_mut(&mut self) -> Option<&mut Work> {
        match self {
            Self::Work(work)
            | Self::Relist(work, _)
            | Self::PollTask(work, _)
            | Self::Update(work, _)
            | Self::Result(work, _)
            | Self::Level(work) => Some(work),
            Self::Listen => None,
        }
    }

    /// Converts the request into its call.
    pub(super) fn into_work(self) -> Option<Box<Work>> {
        match self {
            Self::Work(work)
            | Self::Relist(work, _)
            | Self::PollTask(work, _)
            | Self::Update(work, _)
            | Self::Result(work, _)
            | Self::Level(work) => Some(work),
            Self::Listen => None,
        }
    }

    /// The task of the call, if it became one.
    pub(super) fn task(&self) -> Option<&str> {
        match self {
            Self::PollTask(_, task) | Self::Update(_, task) | Self::Result(_, task) => Some(task),
            Self::Work(_) | Self::Relist(..) | Self::Level(_) | Self::Listen => None,
        }
    }
}

impl Work {
    pub(super) fn new(call: &Call<'_>) -> Self {
        let operation = &call.operation;
        let mut params = Params::for_operation(operation);
        let method = match operation {
            Operation::ListTools => "tools/list",
            Operation::ListResources => "resources/list",
            Operation::ListTemplates => "resources/templates/list",
            Operation::ListPrompts => "prompts/list",
            Operation::CallTool(tool) => {
                params.text("name", &tool.name);
                params.raw("arguments", &tool.arguments);
                "tools/call"
            }
            Operation::GetPrompt(prompt) => {
                params.text("name", &prompt.name);
                params.raw("arguments", &prompt.arguments);
                "prompts/get"
            }
            Operation::ReadResource(uri) => {
                params.text("uri", uri);
                "resources/read"
            }
            Operation::Watch(uri) => {
                params.text("uri", uri);
                "resources/subscribe"
            }
            Operation::Complete(completion) => {
                params.completion(completion);
                "completion/complete"
            }
            // No revision has an agent, so such a call is never sent.
            Operation::Agent(_) | Operation::Capability(_) => "",
        };
        Self {
            call: call.id,
            kind: CallKind::of(operation),
            method,
            params: params.0,
            meta: call.terms.meta.as_deref().map(behalf::passed_on).unwrap_or_default(),
            behalf: None,
            party: call.terms.party,
            wants_progress: call.terms.wants_progress,
            token: None,
            rounds: 0,
            repeats: 0,
            is_task: false,
            has_relisted: false,
            asked_keys: HashSet::new(),
        }
    }

    /// Whether the call can be repeated without side effects.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self.kind, CallKind::Tool { .. })
    }
}

/// The members of `params` under construction.
#[derive(Debug, Default)]
pub(super) struct Params(pub(super) String);

impl Params {
    /// Parameters without a member so far, with room for those of the most frequent operations.
    fn for_operation(operation: &Operation<'_>) -> Self {
        let size = match operation {
            Operation::CallTool(call) | Operation::GetPrompt(call) => call.name.len() + call.arguments.get().len(),
            _ => 0,
        };
        Self(String::with_capacity(size + 32))
    }

    pub(super) fn raw(&mut self, name: &str, value: &RawValue) {
        self.name(name, value.get().len());
        self.0.push_str(value.get());
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name, value.len());
        self.string(value);
    }

    /// Writes the name of a member. `value` is the approximate size of its value in bytes.
    fn name(&mut self, name: &str, value: usize) {
        self.0.reserve(name.len() + value + 8);
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.string(name);
        self.0.push(':');
    }

    fn string(&mut self, text: &str) {
        // Nearly all strings need no escaping.
        if text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\')) {
            self.0.extend(["\"", text, "\""]);
        } else {
            self.0.push_str(json::to_raw(text).get());
        }
    }

    fn completion(&mut self, completion: &CompletionCall<'_>) {
        let of = match &completion.of {
            CompletionOf::Prompt(name) => serde_json::json!({"type": "ref/prompt", "name": name}),
            CompletionOf::Template(uri) => serde_json::json!({"type": "ref/resource", "uri": uri}),
        };
        self.raw("ref", &json::to_raw(&of));
        let argument = serde_json::json!({"name": completion.argument, "value": completion.value});
        self.raw("argument", &json::to_raw(&argument));
        if let Some(context) = &completion.context {
            self.raw("context", &json::raw(format!(r#"{{"arguments":{}}}"#, context.get())));
        }
    }
}

/// The parts of a request other than its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestExtras<'a> {
    /// Further members of `params`.
    pub(super) more: &'a str,
    /// The members of `_meta` in every request, without the braces.
    pub(super) envelope: &'a str,
    /// Further members of `_meta`, without the braces.
    pub(super) meta: &'a str,
    /// Whether to add a progress token. It equals our id, so that one number identifies the call.
    pub(super) wants_progress: bool,
    /// The party whose share the request uses, also when it is repeated.
    pub(super) party: Option<Party>,
}

/// Writes a request.
pub(super) fn write(wire: &mut Frames, id: u64, method: &str, params: &str, extras: RequestExtras<'_>) {
    let beginning = wire.len();
    // Enough for the whole request, to avoid repeated growth.
    wire.reserve(params.len() + extras.more.len() + extras.envelope.len() + extras.meta.len() + 160);
    wire.begin(FrameKind::Request);
    wire.count_for(extras.party);
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json::write(wire, &id);
    wire.extend_from_slice(br#","method":""#);
    wire.extend_from_slice(method.as_bytes());
    wire.extend_from_slice(br#"","params":{"#);
    members(wire, [params, extras.more]);
    if extras.wants_progress || !extras.envelope.is_empty() || !extras.meta.is_empty() {
        member(wire, br#""_meta":{"#);
        members(wire, [extras.envelope, extras.meta]);
        if extras.wants_progress {
            member(wire, b"\"");
            wire.extend_from_slice(PROGRESS_TOKEN.as_bytes());
            wire.extend_from_slice(b"\":");
            json::write(wire, &id);
        }
        wire.push(b'}');
    }
    wire.push(b'}');
    // The arguments can contain raw multi-line JSON.
    json::flatten(&mut wire[beginning..]);
    rpc::finish(wire);
}

/// Writes the members of one object from two sources, each of which may be empty.
fn members(wire: &mut Vec<u8>, places: [&str; 2]) {
    places.into_iter().filter(|place| !place.is_empty()).for_each(|place| member(wire, place.as_bytes()));
}

/// Writes a member of an object, with a comma unless it is the first.
fn member(wire: &mut Vec<u8>, text: &[u8]) {
    if !wire.ends_with(b"{") {
        wire.push(b',');
    }
    wire.extend_from_slice(text);
}
