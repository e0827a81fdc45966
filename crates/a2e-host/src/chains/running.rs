//! Runs the nodes of a chain through the hub, on behalf of the client that sent the chain (a2e §16.3).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Side};
use gladhand_core::operations::{
    Call, CallId, CapabilityCall, CapabilityEvent, Content, Notice, Operation, Reply, Terms, ToolCall, ToolResult,
};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::values::{self, ReadError};
use gladhand_core::wire::{Id, Members, RawValue, json};
use gladhand_hub::policy::Who;
use gladhand_hub::{Answer, Asking, Caller, Context, Hub, SessionId, Settling};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::walker::Job;
use gladhand_system::random_hex;

/// How often the status of a process is polled when no event arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the nodes of one chain.
#[derive(Debug)]
pub(super) struct Runner {
    hub: Hub,
    chain: CapabilityCall<'static>,
    call: CallId,
    agreement: Arc<Agreement>,
    caller: Arc<dyn Caller>,
    /// The terms under which the nodes run: those of the client.
    terms: Terms<'static>,
    /// Whether the client asked for events.
    streaming: bool,
}

impl Runner {
    pub(super) fn new(hub: Hub, chain: CapabilityCall<'static>, context: &Context<'_>, streaming: bool) -> Self {
        Self {
            hub,
            chain,
            call: context.call,
            agreement: Arc::clone(context.agreement),
            caller: Arc::clone(context.caller),
            terms: context.terms.on_behalf(),
            streaming,
        }
    }

    /// Sends an event to the client if it asked for events. Waits while the client is behind with reading.
    pub(super) async fn tell(&self, kind: &'static str, fields: Box<RawValue>) {
        if !self.streaming {
            return;
        }
        if let Some(behind) = self.caller.keeping_up() {
            behind.await;
        }
        self.caller.push(self.chain.event(kind, fields));
    }

    /// Runs a node. The caller drops the future at the deadline.
    pub(super) async fn run(&self, job: Job, deadline: Instant) -> Result<Value, String> {
        let (capability, request, kind) = match job.kind.as_str() {
            "tool" => ("tools", "tool/call/req", Run::Tool),
            "skill" => ("skill", "skill/call/req", Run::Skill),
            "proc" => ("proc", "proc/spawn/req", Run::Process),
            kind => return Err(format!("Unknown node kind: {kind}")),
        };
        if !self.agreement.allows(Side::Server, capability) {
            if let Some(governor) = self.hub.governor() {
                let principal = self.terms.principal.as_deref();
                let who = Who::in_session(principal, &self.agreement, self.caller.session());
                governor.declined(&who, &self.agreement, (request, capability));
            }
            return Err(format!("capability_missing: {capability} was not granted to this session"));
        }
        let input = job.input?;
        match kind {
            Run::Tool => self.tool(&job.name, &input, deadline).await,
            Run::Skill => self.skill(&job.name, &input).await,
            Run::Process => self.process(&input).await,
        }
    }

    async fn tool(&self, name: &str, input: &RawValue, deadline: Instant) -> Result<Value, String> {
        let operation = Operation::CallTool(ToolCall { name: name.into(), arguments: Cow::Borrowed(input) });
        let timeout = Some(deadline.saturating_duration_since(Instant::now()));
        let answer = self.ask(
            Call { id: self.call, operation, terms: Terms { timeout, ..self.terms.clone() } },
            &self.node_caller(),
        );
        match answer.outcome().await {
            Ok(Reply::Tool(result)) if result.failed => Err(message_or(result.joined_text(), "tool failed")),
            Ok(Reply::Tool(result)) => data(&result),
            Ok(_) => Err("the tool did not answer with a tool result".to_owned()),
            Err(failure) => Err(message_or(failure.message, "tool failed")),
        }
    }

    async fn skill(&self, name: &str, input: &RawValue) -> Result<Value, String> {
        #[derive(Serialize)]
        struct SkillRequest<'a> {
            name: &'a str,
            arguments: &'a RawValue,
            streaming: bool,
        }
        let message = json::to_raw(&SkillRequest { name, arguments: input, streaming: self.streaming });
        let response = self.capability("skill", "skill/call/req", message, &self.node_caller()).await?;
        let response = Members::of(&response).unwrap_or_default();
        let data = response.object("data").unwrap_or_default();
        if data.raw("success").is_some_and(|success| success.get() == "true") {
            return data.raw("data").map_or(Ok(Value::Null), parsed);
        }
        let refused = || response.object("error").and_then(|error| error.str("message"));
        let why = data.str("error").or_else(refused).unwrap_or_default();
        Err(message_or(why.into_owned(), "skill failed"))
    }

    async fn process(&self, input: &RawValue) -> Result<Value, String> {
        let node_caller = self.node_caller();
        let spawn = json!({"cmd": command(input), "stdin_mode": "null"});
        let spawned = self.capability("proc", "proc/spawn/req", json::to_raw(&spawn), &node_caller).await?;
        let spawned = Members::of(&spawned).unwrap_or_default();
        if spawned.raw("ok").is_none_or(|ok| ok.get() != "true") {
            return Err(message_or(spawned.str("error").unwrap_or_default().into_owned(), "proc failed"));
        }
        let id = spawned.str("proc_id").unwrap_or_default().into_owned();
        let mut process = Process { runner: self, id, has_ended: false };
        loop {
            let query = json!({"proc_id": process.id});
            let status = self.capability("proc", "proc/status/req", json::to_raw(&query), &node_caller).await?;
            let status = Members::of(&status).and_then(|status| status.str("status").map(Cow::into_owned));
            match status.as_deref() {
                Some("running") => {}
                status => {
                    process.has_ended = true;
                    return Ok(json!({"proc_id": process.id, "status": status.unwrap_or("error")}));
                }
            }
            tokio::select! {
                () = node_caller.ended.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Sends a request to a capability and returns the response.
    async fn capability(
        &self,
        capability: &'static str,
        kind: &'static str,
        message: Box<RawValue>,
        node_caller: &Arc<NodeCaller>,
    ) -> Result<Box<RawValue>, String> {
        match self.ask(self.request(capability, kind, message), node_caller).outcome().await {
            Ok(Reply::Capability(response)) => Ok(response),
            Ok(_) => Err(format!("{capability} answered with a reply of another kind")),
            Err(failure) => Err(message_or(failure.message, "the call failed")),
        }
    }

    fn request(&self, capability: &'static str, kind: &'static str, message: Box<RawValue>) -> Call<'static> {
        let request = Some(Id::of(&json::to_raw(&random_hex::<16>())));
        let message = Cow::Owned(message);
        let operation = Operation::Capability(CapabilityCall { kind, capability, request, message });
        Call { id: self.call, operation, terms: self.terms.clone() }
    }

    fn ask(&self, call: Call<'_>, node_caller: &Arc<NodeCaller>) -> Answer {
        let caller: Arc<dyn Caller> = Arc::clone(node_caller) as _;
        self.hub.answer(call, &self.agreement, &caller)
    }

    fn node_caller(&self) -> Arc<NodeCaller> {
        let outer = Arc::clone(&self.caller);
        Arc::new(NodeCaller { outer, call: self.call, streaming: self.streaming, ended: Notify::new() })
    }
}

/// The kinds of nodes that are run.
enum Run {
    Tool,
    Skill,
    Process,
}

/// A process that a node waits for. Dropping it kills the process.
struct Process<'a> {
    runner: &'a Runner,
    id: String,
    has_ended: bool,
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let message = json::to_raw(&json!({"proc_id": self.id, "signal": "SIGKILL"}));
        let kill = self.runner.request("proc", "proc/kill/req", message);
        if let Answer::Later(work) = self.runner.ask(kill, &self.runner.node_caller())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

/// The caller of a chain as the provider of a node sees it. Notices of a node are dropped: the chain reports its own
/// progress.
#[derive(Debug)]
struct NodeCaller {
    outer: Arc<dyn Caller>,
    call: CallId,
    streaming: bool,
    /// Signals that an event reported the end of the process.
    ended: Notify,
}

impl Caller for NodeCaller {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, questions: Vec<Asking>) {
        self.outer.ask(Some(self.call), questions);
    }

    fn push(&self, event: CapabilityEvent) {
        let data = Members::of(&event.fields).and_then(|fields| fields.object("data"));
        let is_end = event.kind == "proc/read/event" && data.is_some_and(|data| data.has("code"));
        if self.streaming {
            self.outer.push(event);
        }
        if is_end {
            self.ended.notify_one();
        }
    }

    fn keeping_up(&self) -> Option<Settling> {
        self.outer.keeping_up()
    }

    fn has_room_for_events(&self) -> bool {
        self.outer.has_room_for_events()
    }

    fn session(&self) -> SessionId {
        self.outer.session()
    }
}

/// The command of a `proc` node: a list, or a string that is split at whitespace.
fn command(input: &RawValue) -> Vec<String> {
    let members = Members::of(input).unwrap_or_default();
    let command = members.some("command").or_else(|| members.some("cmd"));
    match command {
        Some(command) if Kind::of(command) == Kind::Array => values::read(command.get()).unwrap_or_default(),
        Some(command) => {
            json::string(command).map_or_else(Vec::new, |words| words.split_whitespace().map(Into::into).collect())
        }
        None => Vec::new(),
    }
}

/// The result of a tool as the output of a node: the same as `data` of `tool/call/resp`.
fn data(result: &ToolResult) -> Result<Value, String> {
    match (&result.structured, result.content.as_slice()) {
        (Some(data), _) if Kind::of(data) == Kind::Object => parsed(data),
        (Some(data), _) => Ok(json!({"value": parsed(data)?})),
        (None, []) => Ok(json!({"value": null})),
        (None, [Content::Text(text)]) => Ok(json!({"value": parsed(text)?})),
        (None, blocks) => {
            let blocks: Vec<_> = blocks.iter().map(Content::to_block).collect();
            Ok(json!({"content": parsed(&json::to_raw(&blocks))?}))
        }
    }
}

fn parsed(raw: &RawValue) -> Result<Value, String> {
    values::read(raw.get()).map_err(|error| match error {
        ReadError::TooManyValues => format!("the output cannot be used: {error}"),
        ReadError::Json(_) => "the output is nested too deeply".to_owned(),
    })
}

/// Returns the error message, or a default for an empty one.
fn message_or(why: String, otherwise: &str) -> String {
    if why.is_empty() { otherwise.to_owned() } else { why }
}
