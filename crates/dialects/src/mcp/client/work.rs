//! Calls under way: how each is put into words, sent, and sent again.

use std::collections::HashSet;
use std::sync::Arc;

use gladhand_core::operations::{Call, CallId, CompletionCall, CompletionOf, Operation, Party};
use gladhand_core::wire::json::{self, RawValue};
use gladhand_core::wire::rpc;

use super::asked::Asked;
use super::behalf::{self, Behalf};
use super::pages::Pages;
use crate::mcp::meta::PROGRESS_TOKEN;

/// A call of ours, through all the requests that it takes.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) call: CallId,
    /// What its result is read as.
    pub(super) asked: Asked,
    pub(super) method: &'static str,
    /// The members of `params` but for `_meta`: what is sent again is the same to the byte.
    pub(super) params: String,
    /// What the caller sent along, without the braces.
    pub(super) meta: String,
    /// On whose behalf it is made, where its requests say so.
    pub(super) behalf: Option<Arc<Behalf>>,
    /// Whose share it takes.
    pub(super) party: Option<Party>,
    pub(super) wants_progress: bool,
    /// The id of its last request of its own, which is its progress token.
    pub(super) token: Option<u64>,
    /// How often it was answered with questions.
    pub(super) rounds: usize,
    /// How often it was sent again because an exchange was lost.
    pub(super) repeats: usize,
    /// Whether it asks for a task (2025-11-25).
    pub(super) is_task: bool,
    /// Whether the tools were listed on its behalf.
    pub(super) has_relisted: bool,
    /// What was asked on its behalf and is not asked again: questions of its task, pages to be visited.
    pub(super) asked_keys: HashSet<String>,
}

/// What a request in flight is for.
#[derive(Debug)]
pub(super) enum Sent {
    /// A call's own request.
    Work(Box<Work>),
    /// A list of tools on behalf of a call that was refused for what a list would have told us.
    Relist(Box<Work>, Pages),
    /// A look at the task that a call has become.
    Look(Box<Work>, String),
    /// Answers to the questions of a task.
    Update(Box<Work>, String),
    /// The result of a task, awaited.
    Result(Box<Work>, String),
    /// The level from which a call's caller wants log lines; the call is sent when that is answered.
    Level(Box<Work>),
    /// `subscriptions/listen`.
    Listen,
}

impl Sent {
    /// The call that it serves.
    pub(super) fn work(&self) -> Option<&Work> {
        match self {
            Self::Work(work)
            | Self::Relist(work, _)
            | Self::Look(work, _)
            | Self::Update(work, _)
            | Self::Result(work, _)
            | Self::Level(work) => Some(work),
            Self::Listen => None,
        }
    }

    /// The call that it serves.
    pub(super) fn work_mut(&mut self) -> Option<&mut Work> {
        match self {
            Self::Work(work)
            | Self::Relist(work, _)
            | Self::Look(work, _)
            | Self::Update(work, _)
            | Self::Result(work, _)
            | Self::Level(work) => Some(work),
            Self::Listen => None,
        }
    }

    /// The call that it serves, for good.
    pub(super) fn into_work(self) -> Option<Box<Work>> {
        match self {
            Self::Work(work)
            | Self::Relist(work, _)
            | Self::Look(work, _)
            | Self::Update(work, _)
            | Self::Result(work, _)
            | Self::Level(work) => Some(work),
            Self::Listen => None,
        }
    }

    /// The task that its call has become, if it has.
    pub(super) fn task(&self) -> Option<&str> {
        match self {
            Self::Look(_, task) | Self::Update(_, task) | Self::Result(_, task) => Some(task),
            Self::Work(_) | Self::Relist(..) | Self::Level(_) | Self::Listen => None,
        }
    }
}

impl Work {
    pub(super) fn new(call: &Call<'_>) -> Self {
        let mut params = Params::default();
        let operation = &call.operation;
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
            // No revision has an agent, so that no such work is ever begun.
            Operation::Agent(_) | Operation::Capability(_) => "",
        };
        Self {
            call: call.id,
            asked: Asked::by(operation),
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

    /// Whether it does no harm to ask twice.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self.asked, Asked::Tool { .. })
    }
}

/// The members of `params`, as they grow.
#[derive(Debug, Default)]
pub(super) struct Params(pub(super) String);

impl Params {
    pub(super) fn raw(&mut self, name: &str, value: &RawValue) {
        self.name(name, value.get().len());
        self.0.push_str(value.get());
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name, value.len());
        self.string(value);
    }

    /// The name of a member whose value has about so many bytes.
    fn name(&mut self, name: &str, value: usize) {
        self.0.reserve(name.len() + value + 8);
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.string(name);
        self.0.push(':');
    }

    fn string(&mut self, text: &str) {
        // Nearly all names are plain, and then they are written as they are.
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

/// What is to be said beside the parameters of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside<'a> {
    /// Further members of `params`.
    pub(super) more: &'a str,
    /// What every request carries in `_meta`, without the braces.
    pub(super) envelope: &'a str,
    /// What else is in `_meta`, without the braces.
    pub(super) meta: &'a str,
    /// Whether to put a token there too: our id, so that one number finds the call.
    pub(super) wants_progress: bool,
}

/// Writes a request.
pub(super) fn write(wire: &mut Vec<u8>, id: u64, method: &str, params: &str, beside: Beside<'_>) {
    let beginning = wire.len();
    // Room for all of it, in place of growing step by step.
    wire.reserve(params.len() + beside.more.len() + beside.envelope.len() + beside.meta.len() + 160);
    wire.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    json::write(wire, &id);
    wire.extend_from_slice(br#","method":""#);
    wire.extend_from_slice(method.as_bytes());
    wire.extend_from_slice(br#"","params":{"#);
    members(wire, [params, beside.more]);
    if beside.wants_progress || !beside.envelope.is_empty() || !beside.meta.is_empty() {
        member(wire, br#""_meta":{"#);
        members(wire, [beside.envelope, beside.meta]);
        if beside.wants_progress {
            member(wire, b"\"");
            wire.extend_from_slice(PROGRESS_TOKEN.as_bytes());
            wire.extend_from_slice(b"\":");
            json::write(wire, &id);
        }
        wire.push(b'}');
    }
    wire.push(b'}');
    // Arguments may come from somebody who writes JSON on several lines.
    json::flatten(&mut wire[beginning..]);
    rpc::finish(wire);
}

/// Members of one object from several places, any of which may have none.
fn members(wire: &mut Vec<u8>, places: [&str; 2]) {
    places.into_iter().filter(|place| !place.is_empty()).for_each(|place| member(wire, place.as_bytes()));
}

/// One more member of an object, or the beginning of one.
fn member(wire: &mut Vec<u8>, text: &[u8]) {
    if !wire.ends_with(b"{") {
        wire.push(b',');
    }
    wire.extend_from_slice(text);
}
