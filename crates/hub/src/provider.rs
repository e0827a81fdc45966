//! The [`Provider`] trait, which answers calls, and the context, caller and reporter that the hub hands to a provider.

use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::negotiation::{Agreement, Capability, Offer, Side};
use gladhand_core::operations::{
    AgentEvent, Answered, CallId, CapabilityCall, CapabilityEvent, Completion, CompletionCall, Contents, Failure,
    FailureKind, Log, Notice, Outcome, Progress, Prompt, PromptResult, Question, Reply, Resource, Template, Terms,
    Tool, ToolCall, ToolResult,
};
use gladhand_core::wire::RawValue;
use tokio::sync::oneshot;

use crate::change_notifier::ChangeNotifier;
use crate::policy::Who;
use crate::status::UpstreamStatus;

/// A component that answers calls: the toolbox, an upstream, or a capability with state.
///
/// Every method has a default, so a provider that has only tools implements `tools` and `call`. The hub asks for the
/// lists when it is built, and again each time the provider announces a change of them.
pub trait Provider: fmt::Debug + Send + Sync {
    /// The name that identifies a provider without a prefix. It appears in logs, so it must not contain a secret.
    fn name(&self) -> &str {
        ""
    }

    /// Whether this is a foreign program or server, which can change the names that it offers at any time.
    fn is_upstream(&self) -> bool {
        false
    }

    /// The lists that one session sees, if they differ from the common lists. The provider announces such a session
    /// with [`ChangeNotifier::lists_changed_for`].
    fn listed_for(&self, _session: SessionId) -> Option<Listed> {
        None
    }

    /// A number for the lists that one session sees, equal for sessions that see equal lists. `None`: the common lists.
    fn list_number(&self, session: SessionId) -> Option<u64> {
        self.listed_for(session).map(|_| session.0)
    }

    /// The tools, in display order.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// The resources, in display order.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// The resource templates, in display order.
    fn templates(&self) -> Vec<Template> {
        Vec::new()
    }

    /// The prompts, in display order.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// The instructions for using this provider, if they are passed on to clients.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// The features of this provider beyond answering calls.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Called once, when the hub is built. The provider keeps the notifier, and announces changes with it.
    fn attach(&self, _notifier: &ChangeNotifier) {}

    /// Answers a call of one of this provider's tools.
    ///
    /// A provider returns [`Answer::Now`] if it can answer without waiting, which costs no task and no allocation. The
    /// future of [`Answer::Later`] is dropped when the call is cancelled.
    fn call(&self, call: ToolCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_tool(&call.name)))
    }

    /// Reads a resource of this provider, or one that matches one of this provider's templates.
    fn read(&self, uri: &str, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_resource(uri)))
    }

    /// Fills in one of this provider's prompts.
    fn prompt(&self, call: ToolCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_prompt(&call.name)))
    }

    /// Suggests values for an argument of one of this provider's prompts or templates.
    fn complete(&self, _call: CompletionCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Ok(Reply::Completion(Completion::default())))
    }

    /// The capabilities besides tools that this provider serves completely, in their own protocol: `memory`, `proc`.
    fn capabilities(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The capabilities of this provider that may be granted over a network to a client without a token. They run no
    /// program and no model, and read no file of the user. Default: none.
    fn open_capabilities(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Answers a request of one of this provider's capabilities with [`Reply::Capability`].
    ///
    /// Events go through [`Caller::push`]. An event that is pushed before this method returns, or before the work ends,
    /// is written before the response. State that belongs to a session ([`Caller::session`]) ends with the session
    /// ([`Self::left`]).
    fn serve(&self, call: CapabilityCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::no_capability(call.capability)))
    }

    /// The bundling of tools, if this provider decides on it.
    fn bundles(&self) -> Option<&dyn Bundles> {
        None
    }

    /// A caller subscribes to changes of this resource. Called for the first subscriber only. Without `by`, the provider takes over a resource that was watched
    /// elsewhere.
    fn watch(&self, _uri: &str, _by: Option<&Who<'_>>) {}

    /// The last subscription to this resource has ended.
    fn unwatch(&self, _uri: &str) {}

    /// There will be exactly one session, and its client declares this offer. If the hub knows that, it calls this
    /// method before any other.
    fn expects(&self, _client: &Offer) {}

    /// There will be exactly one session, and it speaks this dialect. Called before the first line of the session is
    /// answered. A provider that has something for this dialect only announces its lists as changed.
    fn speaks(&self, _dialect: &str) {}

    /// If the provider does not know its lists yet: a future that ends when it does, or when it has given up for now. A
    /// caller that lists, or that calls a name which no provider lists yet, waits for it.
    fn settling(&self) -> Option<Settling> {
        None
    }

    /// If the provider does not know yet what this caller sees, and that may differ from the common lists: a future
    /// that ends when it does, or when it has given up for now. A caller that lists waits for it. The provider then
    /// shows the lists by [`Self::listed_for`] to the viewer of the caller ([`Context::viewer`]).
    fn settling_for(&self, _context: &Context<'_>) -> Option<Settling> {
        None
    }

    /// Capabilities that concern only the provider and its clients, such as extensions. The hub declares them
    /// unchanged.
    fn declares(&self) -> Declared {
        Vec::new()
    }

    /// The failure of the last attempt to learn one of the lists, if it failed.
    fn trouble(&self, _list: List) -> Option<Failure> {
        None
    }

    /// A session is open. From now on the provider may send requests to it outside of any call.
    fn joined(&self, _caller: &Arc<dyn Caller>) {}

    /// The roots (folders) of a session have changed.
    fn roots_changed(&self, _session: SessionId) {}

    /// A session has ended: the provider may drop the state that it kept for the session.
    fn left(&self, _session: SessionId) {}

    /// The status, if this is an upstream.
    fn status(&self) -> Option<UpstreamStatus> {
        None
    }

    /// Shutdown: a future that ends when the provider has closed everything that it holds open.
    fn closing(&self) -> Option<Settling> {
        None
    }
}

/// Decides which sessions see the tools of other providers, and what is added to the arguments of a call. The first
/// provider that implements it is used.
pub trait Bundles: fmt::Debug + Send + Sync {
    /// A tool, under its shown name, as a session sees it. `session` is `None` for sessions that see the common lists.
    /// Returns `None` if these sessions do not see the tool.
    fn shown(&self, tool: Tool, session: Option<SessionId>) -> Option<Tool>;

    /// A call of a tool, under its shown name, with the arguments that the session has configured for it.
    fn completed<'a>(&self, call: ToolCall<'a>, session: SessionId) -> ToolCall<'a>;
}

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
pub trait Caller: fmt::Debug + Send + Sync {
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
