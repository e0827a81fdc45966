//! The connection of a subagent to the agent: sends calls, and receives the events of the subagent's session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    AgentCall, AgentEvent, CallId, Failure, FailureKind, ModelChoice, Notice, Reply, Terms,
};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::{Members, RawValue};
use gladhand_hub::{Agent, Answer, Asking, Caller, ChangeNotifier, Context, SessionId};
use tokio::sync::mpsc;

/// Session ids of these connections count down from the middle of the range. The hub counts up from zero, and other
/// users count down from the top, so the ids never collide.
static NEXT_SESSION_ID: AtomicU64 = AtomicU64::new(u64::MAX / 2);

/// Calls the agent on behalf of the client that spawned a subagent.
#[derive(Debug)]
pub(super) struct AgentConnection {
    agent: Arc<dyn Agent>,
    pub(super) agreement: Arc<Agreement>,
    /// The terms of that client.
    pub(super) terms: Terms<'static>,
    notifier: ChangeNotifier,
    event_sink: Arc<EventSink>,
}

/// Receives the agent's events of one session, and forwards them while there is a listener.
#[derive(Debug)]
struct EventSink {
    id: SessionId,
    session: OnceLock<String>,
    events: Mutex<Option<mpsc::UnboundedSender<AgentEvent>>>,
}

impl Caller for EventSink {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn event(&self, event: AgentEvent) {
        let mut events = self.events.lock().unpoisoned();
        let Some(listener) = &*events else { return };
        let of = Members::of(&event.payload).and_then(|payload| payload.str("session_id"));
        let is_ours = of.is_some() && of.as_deref() == self.session.get().map(String::as_str);
        if is_ours && listener.send(event).is_err() {
            *events = None;
        }
    }

    fn session(&self) -> SessionId {
        self.id
    }
}

impl Drop for AgentConnection {
    fn drop(&mut self) {
        self.agent.left(self.event_sink.id);
    }
}

impl AgentConnection {
    /// Creates a connection on behalf of the caller.
    pub(super) fn new(agent: &Arc<dyn Agent>, context: &Context<'_>) -> Self {
        let id = SessionId(NEXT_SESSION_ID.fetch_sub(1, Ordering::Relaxed));
        Self {
            agent: Arc::clone(agent),
            agreement: Arc::clone(context.agreement),
            terms: context.terms.on_behalf(),
            notifier: context.notifier.clone(),
            event_sink: Arc::new(EventSink { id, session: OnceLock::new(), events: Mutex::default() }),
        }
    }

    /// Creates a session of the agent. Selects a model for it unless `model` is the default.
    pub(super) async fn open(self, title: &str, model: &str) -> Result<Self, Failure> {
        let created = agent_reply(self.ask(AgentCall::Create { title: Some(title.into()), folder: None })).await?;
        let session = Members::of(&created).and_then(|created| created.str("session_id").map(String::from));
        let session = session.ok_or_else(|| failed("the agent created a session without an id".to_owned()))?;
        // The connection is new, so the session is not set yet.
        let _ = self.event_sink.session.set(session);
        if !model.is_empty() && model != "default" {
            let chosen = self.choose(model).await;
            if let Err(failure) = chosen {
                let _ = self.ask(AgentCall::Delete(self.session().into())).outcome().await;
                return Err(Failure { is_lasting: !failure.is_retryable(), ..failed(failure.message) });
            }
        }
        Ok(self)
    }

    /// Selects a model by its name, for this session only.
    async fn choose(&self, model: &str) -> Result<(), Failure> {
        let known = agent_reply(self.ask(AgentCall::Models { provider: None })).await?;
        let known = Members::of(&known).unwrap_or_default();
        let models = known.raw("models").and_then(|models| serde_json::from_str::<Vec<&RawValue>>(models.get()).ok());
        let models = models.unwrap_or_default();
        let mut models = models.into_iter().filter_map(Members::of);
        let found = models.find(|option| option.str("id").as_deref() == Some(model));
        let provider = found.and_then(|option| option.str("provider"));
        let provider = provider.ok_or_else(|| Failure::refused(format!("unknown model: {model}")))?;
        let choice = ModelChoice {
            model: model.into(),
            provider,
            thinking: known.str("selected_thinking").unwrap_or_default(),
            routing: None,
            session: Some(self.session().into()),
            compress: false,
            only_session: true,
        };
        agent_reply(self.ask(AgentCall::SelectModel(Box::new(choice)))).await.map(drop)
    }

    /// The id of the agent's session.
    pub(super) fn session(&self) -> &str {
        self.event_sink.session.get().map_or("", String::as_str)
    }

    /// Calls the agent.
    pub(super) fn ask(&self, call: AgentCall<'_>) -> Answer {
        let caller: Arc<dyn Caller> = Arc::clone(&self.event_sink) as _;
        let (agreement, notifier) = (&self.agreement, &self.notifier);
        self.agent.ask(call, &Context { call: CallId(0), terms: &self.terms, agreement, caller: &caller, notifier })
    }

    /// Receives the events of the session from now on, until the receiver is dropped or a later call replaces it.
    pub(super) fn listen(&self) -> mpsc::UnboundedReceiver<AgentEvent> {
        let (listener, events) = mpsc::unbounded_channel();
        *self.event_sink.events.lock().unpoisoned() = Some(listener);
        events
    }
}

fn failed(message: String) -> Failure {
    Failure::of_capability("runtime_error", message)
}

/// The agent's reply.
pub(super) async fn agent_reply(answer: Answer) -> Result<Box<RawValue>, Failure> {
    match answer.outcome().await? {
        Reply::Agent(reply) => Ok(reply),
        _ => Err(Failure::new(FailureKind::Internal, "the agent answered with a reply of another kind")),
    }
}
