//! Shared parts of the tests of cooperating capabilities: a session with grants, and a hub.
#![allow(dead_code, reason = "each test uses its own part of it")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use gladhand_core::negotiation::{Agreement, Capability, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{
    Call, CallId, CapabilityCall, CapabilityEvent, Failure, FailureKind, Notice, Operation, Reply, Terms, Tool,
    ToolCall, ToolResult,
};
use gladhand_core::wire::{Id, json};
use gladhand_hub::{Answer, Asking, Caller, Hub, SessionId};
use serde_json::Value;

/// A session that records what it receives.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    pub(crate) session: u64,
    pub(crate) heard: Mutex<Vec<CapabilityEvent>>,
    pub(crate) told: Mutex<Vec<Notice>>,
    pub(crate) asked: Mutex<Vec<Asking>>,
}

impl Caller for Agent {
    fn tell(&self, notice: Notice) {
        self.told.lock().expect("the lock is not poisoned").push(notice);
    }

    fn ask(&self, _: Option<CallId>, questions: Vec<Asking>) {
        self.asked.lock().expect("the lock is not poisoned").extend(questions);
    }

    fn push(&self, event: CapabilityEvent) {
        self.heard.lock().expect("the lock is not poisoned").push(event);
    }

    fn session(&self) -> SessionId {
        SessionId(self.session)
    }
}

impl Agent {
    pub(crate) fn of(session: u64) -> Arc<Self> {
        Arc::new(Self { session, ..Self::default() })
    }

    /// The received events: their kinds and members.
    pub(crate) fn events(&self) -> Vec<(&'static str, Value)> {
        let heard = self.heard.lock().expect("the lock is not poisoned");
        heard
            .iter()
            .map(|event| (event.kind, serde_json::from_str(event.fields.get()).expect("a valid JSON event")))
            .collect()
    }
}

/// The agreement with an agent that has these grants.
pub(crate) fn granted(capabilities: &[&str]) -> Arc<Agreement> {
    granted_to("probe", capabilities)
}

/// The agreement with an agent of this name that has these grants.
pub(crate) fn granted_to(agent: &str, capabilities: &[&str]) -> Arc<Agreement> {
    let rules = Rules {
        dialect: "a2e",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let client = Offer::new(Peer::new(agent, ""), ["1.0"]);
    let mut server = Offer::new(Peer::new("host", ""), ["1.0"]);
    for capability in capabilities {
        server = server.providing(Capability::from_wire(*capability));
    }
    Arc::new(agree(&rules, &client, &server).expect("one version on both sides"))
}

/// A call to a capability.
pub(crate) fn call(capability: &'static str, kind: &'static str, message: &Value) -> Call<'static> {
    raw_call(capability, kind, json::to_raw(message))
}

/// A call to a capability with the text of its message.
pub(crate) fn raw_call(capability: &'static str, kind: &'static str, message: Box<json::RawValue>) -> Call<'static> {
    let request = Some(Id::of(&json::to_raw("r1")));
    let message = Cow::Owned(message);
    Call::new(CallId(7), Operation::Capability(CapabilityCall { kind, capability, request, message }))
}

/// Sends a request to a capability and waits for the answer.
pub(crate) async fn ask(
    hub: &Hub,
    agreement: &Arc<Agreement>,
    agent: &Arc<Agent>,
    call: Call<'_>,
) -> Result<Value, Failure> {
    let caller: Arc<dyn Caller> = Arc::clone(agent) as _;
    match hub.answer(call, agreement, &caller).outcome().await? {
        Reply::Capability(said) => Ok(serde_json::from_str(said.get()).expect("a valid JSON answer")),
        other => panic!("expected the reply of a capability, got {other:?}"),
    }
}

/// The code and the text of a failure.
pub(crate) fn refused(outcome: Result<Value, Failure>) -> (&'static str, String) {
    let failure = outcome.expect_err("expected a refusal");
    match failure.kind {
        FailureKind::Capability(code) => (code, failure.message),
        other => (other.word(), failure.message),
    }
}

/// The tools that a session sees.
pub(crate) async fn tools(hub: &Hub, agreement: &Arc<Agreement>, agent: &Arc<Agent>) -> Vec<Tool> {
    let caller: Arc<dyn Caller> = Arc::clone(agent) as _;
    match hub.answer(Call::new(CallId(8), Operation::ListTools), agreement, &caller).outcome().await {
        Ok(Reply::Tools(tools)) => tools.to_vec(),
        other => panic!("expected a list of tools, got {other:?}"),
    }
}

/// Calls a tool.
pub(crate) async fn call_tool(
    hub: &Hub,
    agreement: &Arc<Agreement>,
    agent: &Arc<Agent>,
    name: &str,
    arguments: &Value,
) -> Result<ToolResult, Failure> {
    let caller: Arc<dyn Caller> = Arc::clone(agent) as _;
    let arguments = Cow::Owned(json::to_raw(arguments));
    let operation = Operation::CallTool(ToolCall { name: name.into(), arguments });
    let call = Call { id: CallId(9), operation, terms: Terms::default() };
    match hub.answer(call, agreement, &caller).outcome().await? {
        Reply::Tool(result) => Ok(result),
        other => panic!("expected the result of a tool, got {other:?}"),
    }
}

/// Whether an answer is available at once.
pub(crate) fn is_immediate(answer: &Answer) -> bool {
    matches!(answer, Answer::Now(_))
}
