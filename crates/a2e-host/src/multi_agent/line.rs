//! The line to the agent: how a subagent asks it and hears of its session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{
    AgentCall, AgentEvent, CallId, Failure, FailureKind, ModelChoice, Notice, Reply, Terms,
};
use gladhand_core::wire::{Members, RawValue};
use gladhand_hub::{Agent, Answer, Asking, Caller, ChangeNotifier, Context, SessionId};
use tokio::sync::mpsc;

/// Sessions of the hub are counted from below. Ours, which are none, from the middle down: others count from above.
static LINES: AtomicU64 = AtomicU64::new(u64::MAX / 2);

/// Asks the agent on behalf of whoever spawned a subagent.
#[derive(Debug)]
pub(super) struct Line {
    agent: Arc<dyn Agent>,
    pub(super) agreement: Arc<Agreement>,
    /// On whose behalf the agent is asked.
    pub(super) terms: Terms<'static>,
    notifier: ChangeNotifier,
    ear: Arc<Ear>,
}

/// Hears what the agent tells of one session, while somebody wants to know.
#[derive(Debug)]
struct Ear {
    id: SessionId,
    session: OnceLock<String>,
    events: Mutex<Option<mpsc::UnboundedSender<AgentEvent>>>,
}

impl Caller for Ear {
    fn tell(&self, _: Notice) {}

    fn ask(&self, _: Option<CallId>, _: Vec<Asking>) {}

    fn event(&self, event: AgentEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
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

impl Drop for Line {
    fn drop(&mut self) {
        self.agent.left(self.ear.id);
    }
}

impl Line {
    /// A line for whoever calls.
    pub(super) fn new(agent: &Arc<dyn Agent>, context: &Context<'_>) -> Self {
        let id = SessionId(LINES.fetch_sub(1, Ordering::Relaxed));
        Self {
            agent: Arc::clone(agent),
            agreement: Arc::clone(context.agreement),
            terms: context.terms.on_behalf(),
            notifier: context.notifier.clone(),
            ear: Arc::new(Ear { id, session: OnceLock::new(), events: Mutex::default() }),
        }
    }

    /// Begins a session, with a model of its own unless the default will do.
    pub(super) async fn open(self, title: &str, model: &str) -> Result<Self, Failure> {
        let created = said(self.ask(AgentCall::Create { title: Some(title.into()), folder: None })).await?;
        let session = Members::of(&created).and_then(|created| created.str("session_id").map(String::from));
        let session = session.ok_or_else(|| failed("the agent began a session without a name".to_owned()))?;
        // The line is new: nothing was set before.
        let _ = self.ear.session.set(session);
        if !model.is_empty() && model != "default" {
            let chosen = self.choose(model).await;
            if let Err(failure) = chosen {
                let _ = self.ask(AgentCall::Delete(self.session().into())).outcome().await;
                return Err(Failure { is_lasting: !failure.is_retryable(), ..failed(failure.message) });
            }
        }
        Ok(self)
    }

    /// Chooses a model by its name, for this session alone.
    async fn choose(&self, model: &str) -> Result<(), Failure> {
        let known = said(self.ask(AgentCall::Models { provider: None })).await?;
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
        said(self.ask(AgentCall::SelectModel(choice))).await.map(drop)
    }

    /// The agent's session.
    pub(super) fn session(&self) -> &str {
        self.ear.session.get().map_or("", String::as_str)
    }

    /// Asks the agent.
    pub(super) fn ask(&self, call: AgentCall<'_>) -> Answer {
        let caller: Arc<dyn Caller> = Arc::clone(&self.ear) as _;
        let (agreement, notifier) = (&self.agreement, &self.notifier);
        self.agent.ask(call, &Context { call: CallId(0), terms: &self.terms, agreement, caller: &caller, notifier })
    }

    /// Hears what happens in the session from now on, until this is dropped or somebody else listens.
    pub(super) fn listen(&self) -> mpsc::UnboundedReceiver<AgentEvent> {
        let (listener, events) = mpsc::unbounded_channel();
        *self.ear.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        events
    }
}

fn failed(message: String) -> Failure {
    Failure::of_capability("runtime_error", message)
}

/// What the agent said.
pub(super) async fn said(answer: Answer) -> Result<Box<RawValue>, Failure> {
    match answer.outcome().await? {
        Reply::Agent(said) => Ok(said),
        _ => Err(Failure::new(FailureKind::Internal, "the agent answered something else")),
    }
}
