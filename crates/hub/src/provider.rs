//! The [`Provider`] trait, which answers calls, and the context, caller and reporter that the hub hands to a provider.

use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Capability, Side};
use gladhand_core::operations::{
    AgentEvent, Answered, CallId, CapabilityEvent, Contents, Failure, FailureKind, Log, Notice, Outcome, Progress,
    Prompt, PromptResult, Question, Reply, Resource, Template, Terms, Tool, ToolCall, ToolResult,
};
use gladhand_core::wire::RawValue;
use tokio::sync::oneshot;

use crate::change_notifier::ChangeNotifier;
use crate::provider_features::{
    CapabilityProvider, CompletionProvider, PromptProvider, ResourceProvider, ServerProvider, SessionObserver,
    ViewerLists,
};

/// A component that answers calls: the toolbox, an upstream, or a capability with state.
///
/// Every method has a default, so a provider that has only tools implements `tools` and `call`. A provider with more
/// implements the traits of `provider_features`, and returns itself from the method of each. The hub asks for the lists
/// when it is built, and again each time the provider announces a change of them.
///
/// The hub holds no lock of its own while it calls a provider, so a provider may call the hub back from any method.
pub trait Provider: Send + Sync {
    /// The name that identifies a provider without a prefix. It appears in logs, so it must not contain a secret.
    fn name(&self) -> &str {
        ""
    }

    /// Whether this is a foreign program or server, which can change the names that it offers at any time.
    fn is_upstream(&self) -> bool {
        false
    }

    /// The features of this provider beyond answering calls.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Called once, when the hub is built. The provider keeps the notifier, and announces changes with it.
    fn attach(&self, _notifier: &ChangeNotifier) {}

    /// The tools, in display order.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// Answers a call of one of this provider's tools.
    ///
    /// A provider returns [`Answer::Now`] if it can answer without waiting, which costs no task and no allocation. The
    /// future of [`Answer::Later`] is dropped when the call is cancelled.
    fn call(&self, call: ToolCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_tool(&call.name)))
    }

    /// If the provider does not know its lists yet: a future that ends when it does, or when it has given up for now. A
    /// caller that lists, or that calls a name which no provider lists yet, waits for it.
    fn settling(&self) -> Option<Settling> {
        None
    }

    /// Shutdown: a future that ends when the provider has closed everything that it holds open.
    fn closing(&self) -> Option<Settling> {
        None
    }

    /// The bundling of tools, if this provider decides on it.
    fn bundles(&self) -> Option<&dyn Bundles> {
        None
    }

    /// Itself, if it has resources.
    fn as_resources(&self) -> Option<&dyn ResourceProvider> {
        None
    }

    /// Itself, if it has prompts.
    fn as_prompts(&self) -> Option<&dyn PromptProvider> {
        None
    }

    /// Itself, if it completes arguments.
    fn as_completions(&self) -> Option<&dyn CompletionProvider> {
        None
    }

    /// Itself, if it serves capabilities.
    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        None
    }

    /// Itself, if it learns about sessions.
    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        None
    }

    /// Itself, if its lists differ from viewer to viewer.
    fn as_viewer_lists(&self) -> Option<&dyn ViewerLists> {
        None
    }

    /// Itself, if it is a server or stands for one.
    fn as_server(&self) -> Option<&dyn ServerProvider> {
        None
    }
}

gladhand_core::debug_as_name!(Provider);

/// Decides which sessions see the tools of other providers, and what is added to the arguments of a call. The first
/// provider that implements it is used.
pub trait Bundles: Send + Sync {
    /// A tool, under its shown name, as a session sees it. `session` is `None` for sessions that see the common lists.
    /// Returns `None` if these sessions do not see the tool.
    fn shown(&self, tool: Tool, session: Option<SessionId>) -> Option<Tool>;

    /// A call of a tool, under its shown name, with the arguments that the session has configured for it.
    fn completed<'a>(&self, call: ToolCall<'a>, session: SessionId) -> ToolCall<'a>;
}

gladhand_core::debug_as_name!(Bundles);

/// One of the lists of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Tools.
    Tools,
    /// Resources and resource templates.
    Resources,
    /// Prompts.
    Prompts,
}

impl List {
    /// All lists.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];
}

/// Capabilities with their settings.
pub type Declared = Vec<(Capability, Option<Box<RawValue>>)>;

/// A future that ends when a provider knows its lists.
pub type Settling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Identifies a session of this process with a downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    /// No session: each call is independent, as in stateless MCP.
    pub const NONE: Self = Self(0);

    /// The bit that marks a kind of callers, as opposed to a session.
    const KIND: u64 = 1 << 63;

    /// Whether this stands for all callers of one kind without a session: see [`viewer`].
    pub fn is_kind(self) -> bool {
        self.0 & Self::KIND != 0
    }
}

/// Identifies the lists that a caller sees. A caller with a session sees the lists of that session. Callers without one
/// share lists if they have the same principal, the same client and the same declared capabilities. A caller that
/// declares nothing sees the common lists.
pub fn viewer(agreement: &Agreement, session: SessionId, principal: Option<&str>) -> SessionId {
    if session != SessionId::NONE {
        return session;
    }
    let mut hasher = DefaultHasher::new();
    (principal, &agreement.client.name, &agreement.client.version).hash(&mut hasher);
    let mut is_plain = true;
    for term in agreement.agreed(Side::Client) {
        is_plain = false;
        (&term.capability.0, term.settings.as_ref().map(|raw| raw.get())).hash(&mut hasher);
    }
    if is_plain { SessionId::NONE } else { SessionId(hasher.finish() | SessionId::KIND) }
}

/// The features of a provider beyond answering calls. The hub advertises them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// It may send requests to its callers.
    pub questions: bool,
    /// It never writes log lines.
    pub silent: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It may have resources that it does not list.
    pub unlisted_resources: bool,
    /// It announces when a watched resource changes.
    pub resource_updates: bool,
    /// Calls may become tasks even if the definition of the tool does not announce it.
    pub tasks: bool,
    /// Its list of tools may change.
    pub tool_changes: bool,
    /// Its list of resources may change.
    pub resource_changes: bool,
    /// Its list of prompts may change.
    pub prompt_changes: bool,
}

/// Work that continues after a provider returned. Dropping it cancels it.
pub type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The answer to a call.
pub enum Answer {
    /// The outcome.
    Now(Outcome),
    /// Work that takes time.
    Later(Work),
    /// Work that takes time. If the caller requested a task, the call becomes one when the work says so
    /// ([`Reporter::go_on_as_task`]), so that the work may ask its questions first.
    TaskLater(Work),
    /// Work that takes time, and the caller immediately gets a task to fetch the outcome with. Only the hub returns
    /// this.
    AsTask(Work),
}

impl Answer {
    /// Work that takes time, and ends in anything that converts to a reply.
    pub fn later<R: Into<Reply>>(work: impl Future<Output = Result<R, Failure>> + Send + 'static) -> Self {
        Self::Later(Box::pin(async { work.await.map(Into::into) }))
    }

    /// Work that takes time, and becomes a task when it says so.
    pub fn task_later<R: Into<Reply>>(work: impl Future<Output = Result<R, Failure>> + Send + 'static) -> Self {
        Self::TaskLater(Box::pin(async { work.await.map(Into::into) }))
    }
}

impl Answer {
    /// Waits for the outcome, for a caller that needs no task.
    pub async fn outcome(self) -> Outcome {
        match self {
            Self::Now(outcome) => outcome,
            Self::Later(work) | Self::TaskLater(work) | Self::AsTask(work) => work.await,
        }
    }
}

impl From<ToolResult> for Answer {
    fn from(result: ToolResult) -> Self {
        Self::Now(Ok(result.into()))
    }
}

impl From<Contents> for Answer {
    fn from(contents: Contents) -> Self {
        Self::Now(Ok(contents.into()))
    }
}

impl From<PromptResult> for Answer {
    fn from(result: PromptResult) -> Self {
        Self::Now(Ok(result.into()))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(outcome) => f.debug_tuple("Now").field(outcome).finish(),
            Self::Later(_) => f.write_str("Later"),
            Self::TaskLater(_) => f.write_str("TaskLater"),
            Self::AsTask(_) => f.write_str("AsTask"),
        }
    }
}

/// Everything that a provider lists.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// Tools.
    pub tools: Vec<Tool>,
    /// Resources.
    pub resources: Vec<Resource>,
    /// Resource templates.
    pub templates: Vec<Template>,
    /// Prompts.
    pub prompts: Vec<Prompt>,
}

impl Listed {
    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        let Self { tools, resources, templates, prompts } = self;
        tools.is_empty() && resources.is_empty() && templates.is_empty() && prompts.is_empty()
    }
}

/// The session that a call came from, as the provider that answers the call sees it. Edges implement it.
pub trait Caller: Send + Sync {
    /// Sends a notice. Best effort: if the downstream does not read, the notice is dropped instead of queued.
    fn tell(&self, notice: Notice);

    /// Sends requests to the caller of a call, or to the session as a whole. The sender of each question is used, or
    /// dropped if the call or the session ends.
    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>);

    /// Sends an event of the agent. No event is dropped, and the order is kept. A sender of many events waits for the
    /// downstream to catch up ([`Self::keeping_up`]).
    fn event(&self, _event: AgentEvent) {}

    /// Sends an event of a capability, with the same guarantees as [`Self::event`].
    fn push(&self, _event: CapabilityEvent) {}

    /// If the downstream is behind with reading events: a future that ends when it has caught up, or is gone.
    fn keeping_up(&self) -> Option<Settling> {
        None
    }

    /// Whether a producer that cannot wait for the downstream may send another event. If not, the producer must stop.
    fn has_room_for_events(&self) -> bool {
        true
    }

    /// The id of this session, or [`SessionId::NONE`] without sessions.
    fn session(&self) -> SessionId {
        SessionId::NONE
    }
}

gladhand_core::debug_as_name!(Caller);

/// A question to a caller, and the channel for its answer.
#[derive(Debug)]
pub struct Asking {
    /// The question.
    pub question: Question,
    /// The channel for the answer.
    pub answer: oneshot::Sender<Answered>,
}

/// The facts about a call that a provider gets besides the arguments.
#[derive(Debug)]
pub struct Context<'c> {
    /// The id of the call in this process.
    pub call: CallId,
    /// The metadata that the caller sent with the request.
    pub terms: &'c Terms<'c>,
    /// The agreement with the caller.
    pub agreement: &'c Arc<Agreement>,
    /// The session that the call came from.
    pub caller: &'c Arc<dyn Caller>,
    /// Announces changes that concern all sessions.
    pub notifier: &'c ChangeNotifier,
}

impl Context<'_> {
    /// Identifies the lists that this caller sees.
    pub fn viewer(&self) -> SessionId {
        viewer(self.agreement, self.caller.session(), self.terms.principal.as_deref())
    }

    /// A handle for reporting and asking while the work continues.
    pub fn reporter(&self) -> Reporter {
        Reporter { call: self.call, caller: Arc::clone(self.caller) }
    }
}

/// Reports the state of a call to its caller, and asks the caller for input.
///
/// Reports are best effort: if the downstream does not read, they are dropped instead of queued. Questions are never
/// dropped.
#[derive(Debug, Clone)]
pub struct Reporter {
    call: CallId,
    caller: Arc<dyn Caller>,
}

impl Reporter {
    /// Reports progress.
    pub fn progress(&self, progress: Progress) {
        self.caller.tell(Notice::Progress(self.call, progress));
    }

    /// Writes a log line.
    pub fn log(&self, log: Log) {
        self.caller.tell(Notice::Log(Some(self.call), log));
    }

    /// Releases the caller's connection. If its transport supports that, the caller reconnects for the response after a
    /// pause.
    pub fn come_back_later(&self, pause: Duration) {
        self.caller.tell(Notice::ComeBackLater(self.call, pause));
    }

    /// From here on the caller need not wait: if it requested a task, it now gets one to fetch the outcome with. For
    /// the work of [`Answer::TaskLater`].
    pub fn go_on_as_task(&self) {
        self.caller.tell(Notice::GoesOnAsTask(self.call));
    }

    /// Asks the caller and waits for the answer, which may be that the question was not answered.
    pub async fn ask(&self, question: Question) -> Answered {
        let mut answers = self.ask_all(vec![question]).await;
        answers.pop().unwrap_or_else(|| Err(unanswered()))
    }

    /// Asks several questions at once and waits for all answers, in the order of the questions.
    pub async fn ask_all(&self, questions: Vec<Question>) -> Vec<Answered> {
        let (questions, answers): (Vec<_>, Vec<_>) = questions
            .into_iter()
            .map(|question| {
                let (answer, awaited) = oneshot::channel();
                (Asking { question, answer }, awaited)
            })
            .unzip();
        self.caller.ask(Some(self.call), questions);
        let mut all = Vec::with_capacity(answers.len());
        for answer in answers {
            all.push(answer.await.unwrap_or_else(|_| Err(unanswered())));
        }
        all
    }
}

fn unanswered() -> Failure {
    Failure::new(FailureKind::Unanswered, "the caller went away before it answered")
}
