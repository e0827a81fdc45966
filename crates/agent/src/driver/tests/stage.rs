//! A test stage: an agent with a scripted model, dummy tools and a client that records events.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gladhand_agent_tools::{Effect, Guarded, GuardedPath, Run, RunResult, ToolDescription, ToolProvider};
use gladhand_core::negotiation::{Agreement, Defined, Minimum, Offer, Peer, Rules, VersionRule, agree};
use gladhand_core::operations::{
    AgentCall, AgentEvent, Call, CallId, Failure, FailureKind, ModelChoice, Notice, Operation, Reply, Terms,
};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Asking, Caller, Hub, Kit, SessionId};
use gladhand_models::{
    Listener, ModelError, ModelOption, Models, Piece, Round, RoundResult, Segment, Thinking, WantedCall,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::account_service::{AccountService, AccountSnapshot, Changed};
use crate::accounts::{Chosen, EventSink};
use crate::driver::{AgentSettings, Conversations, LivePolicy};

/// The behaviour of the model in one round.
#[derive(Debug, Clone)]
pub(super) enum Scene {
    Says(&'static str),
    Wants(&'static str),
    /// Requests several calls in one round.
    WantsAll(&'static [&'static str]),
    /// Requests a call whose arguments are nested too deeply.
    WantsDeep(&'static str),
    Fails(ModelError),
    /// Never responds.
    Hangs,
}

/// A scripted model that records the requests it gets.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) scenes: Mutex<VecDeque<Scene>>,
    pub(super) asked: Mutex<Vec<Round>>,
}

impl Script {
    pub(super) fn of(scenes: &[Scene]) -> Arc<Self> {
        Arc::new(Self { scenes: Mutex::new(scenes.to_vec().into()), asked: Mutex::default() })
    }
}

#[async_trait]
impl Models for Script {
    fn provider(&self) -> &str {
        "openrouter"
    }

    async fn catalogue(&self) -> Result<Vec<ModelOption>, ModelError> {
        Ok(vec![ModelOption {
            id: "small".to_owned(),
            provider: "local".to_owned(),
            label: "Small".to_owned(),
            description: "a model that follows a script".to_owned(),
            supported_thinking_levels: None,
            default_thinking_level: None,
            routing_providers: None,
            context_window_tokens: None,
        }])
    }

    async fn round(
        &self,
        round: &Round,
        hear: &mut (dyn Listener + '_),
        _: &CancellationToken,
    ) -> Result<RoundResult, ModelError> {
        self.asked.lock().unwrap().push(round.clone());
        let scene = self.scenes.lock().unwrap().pop_front();
        match scene.unwrap_or(Scene::Says("the script is over")) {
            Scene::Says(text) => {
                let segments = vec![Segment::Answer(text.to_owned())];
                hear.piece(Piece { segments, thoughts: Vec::new() }).await;
                Ok(RoundResult::default())
            }
            Scene::Wants(name) => Ok(RoundResult { calls: vec![wants(1, name)], usage: None }),
            Scene::WantsDeep(name) => {
                let input = json::raw(format!("{}1{}", "{\"a\":".repeat(400), "}".repeat(400)));
                Ok(RoundResult { calls: vec![WantedCall { input, ..wants(1, name) }], usage: None })
            }
            Scene::WantsAll(names) => {
                let calls = names.iter().zip(1..).map(|(name, number)| wants(number, name)).collect();
                Ok(RoundResult { calls, usage: None })
            }
            Scene::Fails(error) => Err(error),
            Scene::Hangs => std::future::pending().await,
        }
    }
}

fn wants(number: u32, name: &str) -> WantedCall {
    let input = json::raw(r#"{"n":1}"#.to_owned());
    WantedCall { call_id: format!("c{number}"), name: name.to_owned(), input, seal: None }
}

/// Accounts with one model, or none.
#[derive(Debug)]
pub(super) struct Counter {
    script: Arc<Script>,
    pub(super) model: Mutex<&'static str>,
    pub(super) prompts: Mutex<Vec<String>>,
}

impl Counter {
    fn chosen_as(model: &str) -> Chosen {
        let provider = match model {
            "" => None,
            "gpt" => Some("openai".to_owned()),
            _ => Some("openrouter".to_owned()),
        };
        let (thinking, routing) = (Thinking::Off, "any".to_owned());
        Chosen { model: model.to_owned(), thinking, routing, provider, option: None }
    }
}

fn raw(text: &str) -> Box<RawValue> {
    json::raw(text.to_owned())
}

fn nothing() -> Failure {
    Failure::new(FailureKind::Internal, "not supported by this test")
}

#[async_trait]
impl AccountService for Counter {
    fn snapshot(&self) -> AccountSnapshot {
        AccountSnapshot { auth: raw("{}"), onboarding: raw(r#"{"completed":false}"#), model: raw("{}") }
    }

    fn chosen(&self, _: Option<&str>) -> Chosen {
        Self::chosen_as(*self.model.lock().unwrap())
    }

    fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String> {
        match chosen.provider {
            None => Err("select a model from an enabled provider first".to_owned()),
            Some(_) => Ok(self.script.clone()),
        }
    }

    fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure> {
        Ok(Self::chosen_as(&wanted.model))
    }

    fn select(&self, _: &ModelChoice<'_>) -> Result<Changed, Failure> {
        *self.model.lock().unwrap() = "gpt";
        Ok(Changed { reason: "model_selected", result: raw(r#"{"selected_model":"gpt"}"#) })
    }

    fn resume(&self, _: &str, _: &str, _: Thinking, _: Option<&str>) -> &'static str {
        "session_resumed"
    }

    fn forget_session(&self, _: &str) {}

    fn remember_prompt(&self, prompt: &str) {
        self.prompts.lock().unwrap().push(prompt.to_owned());
    }

    fn searches(&self) -> bool {
        false
    }

    fn auth_status(&self) -> Box<RawValue> {
        raw("{}")
    }

    fn onboarding(&self) -> Box<RawValue> {
        raw(r#"{"completed":false}"#)
    }

    fn complete_onboarding(&self) -> Changed {
        Changed { reason: "onboarding_complete", result: raw(r#"{"completed":true}"#) }
    }

    fn models(&self, _: Option<&str>) -> Result<Box<RawValue>, Failure> {
        Ok(raw("{}"))
    }

    fn set_exa_key(&self, _: &str) -> Result<Changed, Failure> {
        Err(nothing())
    }

    fn forget_everything(&self) -> Result<Changed, Failure> {
        *self.model.lock().unwrap() = "";
        Ok(Changed { reason: "forgeteverything", result: raw(r#"{"cleared":true}"#) })
    }

    async fn set_openrouter_key(&self, _: &str) -> Result<Changed, Failure> {
        Err(nothing())
    }

    async fn connect_openai(&self, _: Option<&str>, _: Option<&str>, _: EventSink<'_>) -> Result<Changed, Failure> {
        Err(nothing())
    }

    async fn connect_antigravity(&self, _: EventSink<'_>) -> Result<Changed, Failure> {
        Err(nothing())
    }

    async fn limits(&self) -> Result<Box<RawValue>, Failure> {
        Err(Failure::new(FailureKind::Internal, "limits requires at least one oauth provider"))
    }

    async fn routing_providers(&self, _: &str) -> Result<Box<RawValue>, Failure> {
        Err(nothing())
    }
}

/// Dummy tools. One of them creates another tool, and one uses a file outside the workspace.
#[derive(Debug, Default)]
pub(super) struct Tools {
    made: AtomicU64,
    /// Whether it panics when asked for the paths that a call uses.
    pub(super) is_broken: AtomicBool,
}

#[async_trait]
impl ToolProvider for Tools {
    fn tools(&self) -> Vec<ToolDescription> {
        let tool = |name: &str, effect| ToolDescription {
            name: name.to_owned(),
            description: "does something".to_owned(),
            input_schema: None,
            effect,
            edition: 0,
            is_made_by_model: false,
        };
        let mut tools = vec![tool("bash", Effect::Runs), tool("look", Effect::Reads), tool("make", Effect::Reads)];
        let edition = self.made.load(Ordering::Relaxed);
        if edition > 0 {
            tools.push(ToolDescription { edition, is_made_by_model: true, ..tool("made", Effect::Runs) });
        }
        tools.extend([tool("read.file", Effect::Reads), tool("sleep", Effect::Reads)]);
        tools
    }

    async fn guarded_paths(&self, run: &Run<'_>) -> Vec<GuardedPath> {
        assert!(!self.is_broken.load(Ordering::Relaxed), "it is broken");
        let secret = GuardedPath { path: "/home/u/.ssh/key".into(), why: Guarded::Secret };
        let outside = GuardedPath { path: run.folder.to_owned(), why: Guarded::Outside };
        match run.name {
            "look" => vec![secret],
            "read.file" if !run.is_workspace => vec![outside],
            _ => Vec::new(),
        }
    }

    async fn run(&self, run: Run<'_>) -> RunResult {
        if run.name == "make" {
            self.made.fetch_add(1, Ordering::Relaxed);
        }
        if run.name == "sleep" {
            run.cancel.cancelled().await;
            return RunResult { ok: false, output: json::to_raw("stopped"), error: Some("process aborted".to_owned()) };
        }
        RunResult { ok: true, output: json::to_raw(&format!("{} ran", run.name)), error: None }
    }

    async fn forget(&self, _: &str) {}

    async fn close(&self) {}
}

/// A client that records events.
#[derive(Debug, Default)]
pub(super) struct Client {
    heard: Mutex<Vec<(String, Value)>>,
    changed: Notify,
}

impl Caller for Client {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn event(&self, event: AgentEvent) {
        let payload = serde_json::from_str(event.payload.get()).expect("payloads are JSON");
        self.heard.lock().unwrap().push((event.kind.to_owned(), payload));
        self.changed.notify_one();
    }

    fn session(&self) -> SessionId {
        SessionId(1)
    }
}

/// Everything together.
pub(super) struct Stage {
    pub(super) agent: Conversations,
    pub(super) script: Arc<Script>,
    pub(super) counter: Arc<Counter>,
    pub(super) tools: Arc<Tools>,
    pub(super) policy: LivePolicy,
    pub(super) data: PathBuf,
    hub: Hub,
    client: Arc<Client>,
    agreement: Arc<Agreement>,
    _folder: Option<tempfile::TempDir>,
}

impl Stage {
    pub(super) fn new(scenes: &[Scene]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        Self { _folder: Some(folder), ..Self::on(&data, scenes) }
    }

    /// Uses an existing data directory.
    pub(super) fn on(data: &Path, scenes: &[Scene]) -> Self {
        let script = Script::of(scenes);
        let counter =
            Arc::new(Counter { script: script.clone(), model: Mutex::new("acme/plain-1"), prompts: Mutex::default() });
        Self::with(data, counter.clone(), counter, script)
    }

    /// Uses other accounts.
    pub(super) fn at(accounts: Arc<dyn AccountService>, script: Arc<Script>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let counter = Arc::new(Counter { script: script.clone(), model: Mutex::default(), prompts: Mutex::default() });
        Self { _folder: Some(folder), ..Self::with(&data, accounts, counter, script) }
    }

    fn with(data: &Path, accounts: Arc<dyn AccountService>, counter: Arc<Counter>, script: Arc<Script>) -> Self {
        let (policy, tools) = (LivePolicy::default(), Arc::new(Tools::default()));
        let settings = AgentSettings {
            data: data.to_owned(),
            folder: std::env::temp_dir(),
            roots: Vec::new(),
            secret_files: gladhand_agent_tools::SecretFiles::new(&gladhand_agent_tools::ToolSettings::new(data)),
            home: None,
            policy: policy.clone(),
            trusted: crate::skills::TrustedFiles::all(),
        };
        let agent = Conversations::new(settings, accounts, tools.clone());
        let plain = gladhand_core::operations::Tool::plain;
        let echo = plain("echo", "says it again").vouched_read_only();
        let whereabouts = plain("whereabouts", "says where its caller works").vouched_read_only();
        let liar = plain("c__write_everything", "says that it reads")
            .with("annotations", &serde_json::json!({"readOnlyHint": true}));
        let kit = Kit::new()
            .tool(liar, |_, _| Ok(gladhand_core::operations::ToolResult::text("written")))
            .tool(echo, |_, _| Ok(gladhand_core::operations::ToolResult::text("again")))
            .tool(whereabouts, |_, context| {
                let folder = context.terms.folder.as_ref().map(|folder| folder.display().to_string());
                Ok(gladhand_core::operations::ToolResult::text(&folder.unwrap_or_default()))
            });
        let hub = Hub::new(vec![Box::new(kit)]).unwrap().with_agent(Arc::new(agent.clone()));
        agent.with_hub(hub.clone());
        let (client, agreement) = (Arc::new(Client::default()), Arc::new(agreement()));
        Self { agent, script, counter, tools, policy, data: data.to_owned(), hub, client, agreement, _folder: None }
    }

    /// Sends a call and waits for the answer.
    pub(super) async fn ask(&self, call: AgentCall<'_>) -> Result<Value, String> {
        self.ask_as(Terms::default(), call).await
    }

    /// The same with these terms.
    pub(super) async fn ask_as(&self, terms: Terms<'_>, call: AgentCall<'_>) -> Result<Value, String> {
        let caller: Arc<dyn Caller> = self.client.clone();
        let call = Call { id: CallId(1), operation: Operation::Agent(call), terms };
        match self.hub.answer(call, &self.agreement, &caller).outcome().await {
            Ok(Reply::Agent(raw)) => Ok(serde_json::from_str(raw.get()).unwrap()),
            Ok(other) => panic!("unexpected kind of answer: {other:?}"),
            Err(failure) => Err(failure.message),
        }
    }

    pub(super) async fn create(&self) -> String {
        let created = self.ask(AgentCall::Create { title: None, folder: None }).await.unwrap();
        self.client.heard.lock().unwrap().clear();
        created["session_id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn send(&self, session: &str, text: &str) -> Result<Value, String> {
        let (session, text) = (session.to_owned().into(), text.to_owned().into());
        self.ask(AgentCall::Send { session, text, enqueue: false, images: Vec::new() }).await
    }

    pub(super) async fn command(&self, session: &str, line: &str) -> Result<Value, String> {
        self.ask(AgentCall::Command { session: session.into(), line: line.into() }).await
    }

    /// Waits for an event of this kind whose payload contains `label`, and returns all events up to it.
    pub(super) async fn until(&self, kind: &str, label: &str) -> Vec<(String, Value)> {
        loop {
            {
                let mut heard = self.client.heard.lock().unwrap();
                let meant = |(it, payload): &(String, Value)| it == kind && payload.to_string().contains(label);
                if let Some(at) = heard.iter().position(meant) {
                    return heard.drain(..=at).collect();
                }
            }
            self.client.changed.notified().await;
        }
    }

    pub(super) async fn until_ready(&self) -> Vec<(String, Value)> {
        self.until("session.status", r#""ready""#).await
    }

    pub(super) fn leave(&self) {
        gladhand_hub::Agent::left(&self.agent, SessionId(1));
    }
}

pub(super) fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(kind, _)| kind.strip_prefix("session.").unwrap_or(kind)).collect()
}

/// The payload of the only event of a kind.
pub(super) fn one<'a>(events: &'a [(String, Value)], kind: &str) -> &'a Value {
    let mut found = events.iter().filter(|(it, _)| it == kind);
    match (found.next(), found.next()) {
        (Some((_, payload)), None) => payload,
        _ => panic!("expected exactly one {kind} event: {events:#?}"),
    }
}

fn agreement() -> Agreement {
    let rules = Rules {
        dialect: "test",
        versions: VersionRule::Common,
        minimum: Minimum::Nothing,
        defines: |_, _, _| Defined::Yes,
    };
    let offer = Offer::new(Peer::default(), ["1"]);
    agree(&rules, &offer, &offer).expect("one version on both sides")
}
