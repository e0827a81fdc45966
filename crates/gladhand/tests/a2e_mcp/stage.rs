//! A session that was granted `mcp`, and a hub for it to ask.
#![allow(dead_code, unreachable_pub, reason = "each test target includes this module and uses another part of it")]

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand::hub::{Asking, Caller, Hub, Mount, SessionId};
use gladhand::negotiation::{Agreement, Capability, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand::operations::{
    Call, CallId, CapabilityCall, CapabilityEvent, Failure, FailureKind, Notice, Operation, Party, Reply, Tool,
    ToolCall, ToolResult,
};
use gladhand::providers::A2eMcp;
use gladhand::providers::a2e_mcp::RegistrationLimits;
use gladhand::wire::{Id, RawValue, json};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An agent: records everything that it receives, and answers every question with the configured answer.
#[derive(Debug, Default)]
pub struct Agent {
    session: u64,
    pub pushed: Mutex<Vec<Value>>,
    pub told: Mutex<Vec<Notice>>,
    /// The questions: their keys, kinds and parameters.
    pub asked: Mutex<Vec<(Option<String>, String, Value)>>,
    pub answer: Mutex<Option<Box<RawValue>>>,
    heard: Notify,
}

impl Caller for Agent {
    fn tell(&self, notice: Notice) {
        self.told.lock().expect("nobody panics with it").push(notice);
    }

    fn ask(&self, _: Option<CallId>, questions: Vec<Asking>) {
        for Asking { question, answer } in questions {
            let params = serde_json::from_str(question.params.get()).expect("questions are JSON");
            let mut asked = self.asked.lock().expect("nobody panics with it");
            asked.push((question.key, format!("{:?}", question.kind), params));
            let said = self.answer.lock().expect("nobody panics with it").clone();
            // The asker may have stopped waiting.
            let _ = answer.send(said.ok_or_else(|| Failure::new(FailureKind::Unanswered, "the agent declines")));
        }
    }

    fn push(&self, event: CapabilityEvent) {
        assert_eq!((event.kind, event.request.is_none()), ("mcp/server/push", true));
        let fields = serde_json::from_str(event.fields.get()).expect("events are JSON");
        self.pushed.lock().expect("nobody panics with it").push(fields);
        self.heard.notify_one();
    }

    fn session(&self) -> SessionId {
        SessionId(self.session)
    }
}

/// A session and the hub.
pub struct Stage {
    pub hub: Hub,
    pub agent: Arc<Agent>,
    agreement: Arc<Agreement>,
    /// The party of the session.
    pub party: Option<Party>,
}

impl Stage {
    /// A hub with these beside what serves `mcp`.
    pub fn new(settings: RegistrationLimits, mut mounts: Vec<Mount>) -> Self {
        mounts.push(Mount::plain(Arc::new(A2eMcp::new(settings))));
        let rules = Rules {
            dialect: "a2e",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let server = Offer::new(Peer::new("host", ""), ["1.0"]).providing(Capability::named("mcp"));
        let agreement = agree(&rules, &Offer::new(Peer::new("probe", ""), ["1.0"]), &server);
        let agreement = Arc::new(agreement.expect("one version on both sides"));
        let agent = Arc::new(Agent { session: 1, ..Agent::default() });
        Self { hub: Hub::of(mounts), agent, agreement, party: None }
    }

    /// Another session with the same hub.
    pub fn other(&self, session: u64) -> Self {
        let agent = Arc::new(Agent { session, ..Agent::default() });
        Self { hub: self.hub.clone(), agent, agreement: Arc::clone(&self.agreement), party: self.party }
    }

    async fn make(&self, operation: Operation<'_>) -> Result<Reply, Failure> {
        let caller: Arc<dyn Caller> = Arc::clone(&self.agent) as _;
        let mut call = Call::new(CallId(7), operation);
        call.terms.party = self.party;
        let answer = self.hub.answer(call, &self.agreement, &caller);
        tokio::time::timeout(PATIENCE, answer.outcome()).await.expect("an answer comes")
    }

    pub async fn ask(&self, kind: &'static str, message: Value) -> Result<Value, Failure> {
        let request = Some(Id::of(&json::to_raw("r1")));
        let message = Cow::Owned(json::to_raw(&message));
        let call = CapabilityCall { kind, capability: "mcp", request, message };
        match self.make(Operation::Capability(call)).await? {
            Reply::Capability(said) => Ok(serde_json::from_str(said.get()).expect("answers are JSON")),
            other => panic!("something else was answered: {other:?}"),
        }
    }

    /// The word and the text of a refusal.
    pub async fn refused(&self, kind: &'static str, message: Value) -> (&'static str, String) {
        let failure = self.ask(kind, message).await.expect_err("it is to be refused");
        match failure.kind {
            FailureKind::Capability(code) => (code, failure.message),
            other => (other.word(), failure.message),
        }
    }

    pub async fn register(&self, config: Value) -> Value {
        self.ask("mcp/server/register/req", json!({"config": config})).await.expect("it is answered")
    }

    pub async fn tools(&self) -> Vec<Tool> {
        match self.make(Operation::ListTools).await {
            Ok(Reply::Tools(tools)) => tools.to_vec(),
            other => panic!("no tools: {other:?}"),
        }
    }

    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<ToolResult, Failure> {
        let arguments = Cow::Owned(json::to_raw(arguments));
        match self.make(Operation::CallTool(ToolCall { name: tool.into(), arguments })).await? {
            Reply::Tool(result) => Ok(result),
            other => panic!("something else was answered: {other:?}"),
        }
    }

    /// The data of a tool's result.
    pub async fn data(&self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments).await.expect("it is answered");
        serde_json::from_str(result.structured.expect("there is data").get()).expect("it is JSON")
    }

    /// Waits until this notification was passed on.
    pub async fn pushed(&self, method: &str) -> Value {
        let waiting = async {
            loop {
                let found = {
                    let pushed = self.agent.pushed.lock().expect("nobody panics with it");
                    pushed.iter().find(|push| push["method"] == method).cloned()
                };
                match found {
                    Some(push) => return push,
                    None => self.agent.heard.notified().await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("no {method}"))
    }
}

/// These words.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
