//! Who answers calls, and what they are given to do it with.

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

/// Somebody who answers calls: the toolbox, an upstream, a capability with state.
///
/// Everything has a default, so that who has only tools writes `tools` and `call`. Lists are asked for when the hub is
/// built and each time the notifier is rung for them.
pub trait Provider: fmt::Debug + Send + Sync {
    /// What it is called where it is named as somebody who has tools and has no prefix. No secrets: it is written down.
    fn name(&self) -> &str {
        ""
    }

    /// Whether it is a program or a server of others, which can offer other names whenever it likes.
    fn is_upstream(&self) -> bool {
        false
    }

    /// What one session sees of it, where that is not what everybody sees. It says with
    /// [`ChangeNotifier::lists_changed_for`] that there is such a session.
    fn listed_for(&self, _session: SessionId) -> Option<Listed> {
        None
    }

    /// A number for what one session sees of it, the same for sessions that see the same. `None`: what everybody sees.
    fn list_number(&self, session: SessionId) -> Option<u64> {
        self.listed_for(session).map(|_| session.0)
    }

    /// Its tools, in the order in which they are to be shown.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    /// Its resources, in the order in which they are to be shown.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// Its templates of resources, in the order in which they are to be shown.
    fn templates(&self) -> Vec<Template> {
        Vec::new()
    }

    /// Its prompts, in the order in which they are to be shown.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// What it says about how it is to be used, where that is passed on.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// What it does beyond answering calls.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Called once, when the hub is built. Keep the notifier to ring it when something changes.
    fn attach(&self, _bell: &ChangeNotifier) {}

    /// Answers a call of one of its tools.
    ///
    /// What can be answered without waiting is answered at once ([`Answer::Now`]): it costs no task
    /// and no allocation. The future of [`Answer::Later`] is dropped when the call is cancelled.
    fn call(&self, call: ToolCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_tool(&call.name)))
    }

    /// Reads one of its resources, or one that follows a template of its own.
    fn read(&self, uri: &str, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_resource(uri)))
    }

    /// Fills in one of its prompts.
    fn prompt(&self, call: ToolCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::unknown_prompt(&call.name)))
    }

    /// Says what an argument of one of its prompts or templates could be.
    fn complete(&self, _call: CompletionCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Ok(Reply::Completion(Completion::default())))
    }

    /// The capabilities that it serves whole, in their own words, beside tools: `memory`, `proc`.
    fn capabilities(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Those of its capabilities that may be granted over a network to a client without a token: they run no program and no
    /// model, and read no file of the user. None, unless the provider says so.
    fn open_capabilities(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Answers a request of one of its capabilities with [`Reply::Capability`].
    ///
    /// What it tells goes through [`Caller::push`]: what is told before this returns, or before the work ends, is written
    /// before the answer. What belongs to a session ([`Caller::session`]) goes with it ([`Self::left`]).
    fn serve(&self, call: CapabilityCall<'_>, _context: &Context<'_>) -> Answer {
        Answer::Now(Err(Failure::no_capability(call.capability)))
    }

    /// How tools are bundled, if it is the one who decides that.
    fn bundles(&self) -> Option<&dyn Bundles> {
        None
    }

    /// A caller subscribes to changes of this resource. Called for the first subscriber only, and not to be answered with
    /// the notifier at once. Without `by`, the provider takes over a resource that was watched elsewhere.
    fn watch(&self, _uri: &str, _by: Option<&Who<'_>>) {}

    /// Nobody wants to hear of changes of this resource any more.
    fn unwatch(&self, _uri: &str) {}

    /// There will be one session and no other, and its client declares this. Said before anything else, where it is so.
    fn expects(&self, _client: &Offer) {}

    /// There will be one session and no other, and it speaks this dialect. Said before its first line is answered; who has
    /// something for speakers of one dialect only rings the notifier if that is what is spoken.
    fn speaks(&self, _dialect: &str) {}

    /// If it does not know yet what it has: ends when it does, or when it has given up for now. Whoever lists, or
    /// calls something that nobody is known to have, waits for it.
    fn settling(&self) -> Option<Settling> {
        None
    }

    /// If it does not know yet what this caller sees, where that may differ from what others see: ends when it does, or when
    /// it has given up for now. A caller that lists waits for it. What it finds out, it shows by [`Self::listed_for`] to the
    /// viewer of the caller ([`Context::viewer`]).
    fn settling_for(&self, _context: &Context<'_>) -> Option<Settling> {
        None
    }

    /// Capabilities that it declares to its clients and that are between them alone, such as extensions.
    fn declares(&self) -> Declared {
        Vec::new()
    }

    /// Why it does not know one of its lists, if it has tried to find out.
    fn trouble(&self, _list: List) -> Option<Failure> {
        None
    }

    /// A session is open: whoever wants to ask it something, without a call of its, may do so from now on.
    fn joined(&self, _caller: &Arc<dyn Caller>) {}

    /// The folders that a session works in have changed.
    fn roots_changed(&self, _session: SessionId) {}

    /// A session has ended: what was kept for it may go.
    fn left(&self, _session: SessionId) {}

    /// How it stands, if it is an upstream.
    fn status(&self) -> Option<UpstreamStatus> {
        None
    }

    /// Everything ends: ends when what it holds open is closed in order.
    fn closing(&self) -> Option<Settling> {
        None
    }
}

/// Decides for whom the tools of others are shown, and what is added to their arguments. The first provider who does
/// counts.
pub trait Bundles: fmt::Debug + Send + Sync {
    /// A tool, by the name that it is shown under, as a session sees it; `session` is `None` for those that see what
    /// everybody sees. `None`: it is not there for them.
    fn shown(&self, tool: Tool, session: Option<SessionId>) -> Option<Tool>;

    /// A call of a tool, by the name that it is shown under, with what its session has configured for it.
    fn completed<'a>(&self, call: ToolCall<'a>, session: SessionId) -> ToolCall<'a>;
}

/// One of the lists that a provider has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Its tools.
    Tools,
    /// Its resources and their templates.
    Resources,
    /// Its prompts.
    Prompts,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];
}

/// Capabilities with their settings.
pub type Declared = Vec<(Capability, Option<Box<RawValue>>)>;

/// The time until a provider knows what it has.
pub type Settling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Names a session of this process with a downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    /// No session: each call stands for itself, as in stateless MCP.
    pub const NONE: Self = Self(0);

    /// The bit that tells a kind of callers from a session.
    const KIND: u64 = 1 << 63;

    /// Whether it stands for all callers without a session that are alike: see [`viewer`].
    pub fn is_kind(self) -> bool {
        self.0 & Self::KIND != 0
    }
}

/// Whose lists a caller sees: those of its session; without one, those of all callers of the same principal and client that
/// declare the same. A caller that declares nothing sees what is listed for all.
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

/// What a provider does beyond answering calls: what it may be advertised with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// It may ask its callers something.
    pub questions: bool,
    /// It never writes log lines.
    pub silent: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It may have resources that it does not list.
    pub unlisted_resources: bool,
    /// It rings when a watched resource changes.
    pub resource_updates: bool,
    /// Calls of its tools may become tasks without the tools saying so beforehand.
    pub tasks: bool,
    /// Its list of tools may change.
    pub tool_changes: bool,
    /// Its list of resources may change.
    pub resource_changes: bool,
    /// Its list of prompts may change.
    pub prompt_changes: bool,
}

/// Work that goes on after a provider returned. Dropping it cancels it.
pub type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The answer to a call.
pub enum Answer {
    /// Here it is.
    Now(Outcome),
    /// It takes a while.
    Later(Work),
    /// It takes a while; where a task was wished for, it becomes one when the work says so
    /// ([`Reporter::go_on_as_task`]), so that it may ask what it needs first.
    TaskLater(Work),
    /// It takes a while, and the caller is to be told at once how to come back for it. Only the hub says this.
    AsTask(Work),
}

impl Answer {
    /// Work that takes a while, and ends in anything that is a reply.
    pub fn later<R: Into<Reply>>(work: impl Future<Output = Result<R, Failure>> + Send + 'static) -> Self {
        Self::Later(Box::pin(async { work.await.map(Into::into) }))
    }

    /// Work that takes a while, and becomes a task when it says so.
    pub fn task_later<R: Into<Reply>>(work: impl Future<Output = Result<R, Failure>> + Send + 'static) -> Self {
        Self::TaskLater(Box::pin(async { work.await.map(Into::into) }))
    }
}

impl Answer {
    /// The outcome, whenever it comes, for who needs no task.
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
    /// Its tools.
    pub tools: Vec<Tool>,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Its templates of resources.
    pub templates: Vec<Template>,
    /// Its prompts.
    pub prompts: Vec<Prompt>,
}

impl Listed {
    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        let Self { tools, resources, templates, prompts } = self;
        tools.is_empty() && resources.is_empty() && templates.is_empty() && prompts.is_empty()
    }
}

/// The session that a call came from, as whoever answers it may use it. Edges implement it.
pub trait Caller: fmt::Debug + Send + Sync {
    /// Passes a notice on. Best effort: to a downstream that does not read it is dropped rather than queued.
    fn tell(&self, notice: Notice);

    /// Asks the caller of a call, or the session as such. Each question's sender is used or dropped, the latter if the
    /// call or the session ends.
    fn ask(&self, call: Option<CallId>, questions: Vec<Asking>);

    /// Passes an event of the agent on. None is dropped and their order is kept; whoever sends many lets the downstream
    /// keep up ([`Self::keeping_up`]).
    fn event(&self, _event: AgentEvent) {}

    /// Passes an event of a capability on, under the same terms.
    fn push(&self, _event: CapabilityEvent) {}

    /// If the downstream is behind with reading events: ends when it has caught up, or is gone.
    fn keeping_up(&self) -> Option<Settling> {
        None
    }

    /// Whether a producer of events that cannot wait for the downstream may pass another one on. If not, it has to end.
    fn has_room_for_events(&self) -> bool {
        true
    }

    /// The session that it is, where there are sessions.
    fn session(&self) -> SessionId {
        SessionId::NONE
    }
}

/// A question on its way to a caller, and where its answer goes.
#[derive(Debug)]
pub struct Asking {
    /// The question.
    pub question: Question,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Answered>,
}

/// What a provider may know of a call besides its arguments.
#[derive(Debug)]
pub struct Context<'c> {
    /// The call's name on this side.
    pub call: CallId,
    /// What the caller said beside what it asks for.
    pub terms: &'c Terms<'c>,
    /// What was agreed with the caller.
    pub agreement: &'c Arc<Agreement>,
    /// The session that it came from.
    pub caller: &'c Arc<dyn Caller>,
    /// To be rung when something changes for everybody.
    pub notifier: &'c ChangeNotifier,
}

impl Context<'_> {
    /// Whose lists this caller sees.
    pub fn viewer(&self) -> SessionId {
        viewer(self.agreement, self.caller.session(), self.terms.principal.as_deref())
    }

    /// Something to report and ask with while the work goes on.
    pub fn reporter(&self) -> Reporter {
        Reporter { call: self.call, caller: Arc::clone(self.caller) }
    }
}

/// Tells the caller how its call is going, and asks it what is needed to go on.
///
/// Reports are best effort: when the downstream does not read, they are dropped rather than queued. Questions are not.
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

    /// Lets the caller's connection go; it comes back for the answer after a pause, where its transport can.
    pub fn come_back_later(&self, pause: Duration) {
        self.caller.tell(Notice::ComeBackLater(self.call, pause));
    }

    /// From here on the caller need not wait: where it wished for a task, it is told how to come back for the outcome.
    /// For the work of [`Answer::TaskLater`].
    pub fn go_on_as_task(&self) {
        self.caller.tell(Notice::GoesOnAsTask(self.call));
    }

    /// Asks the caller and waits for the answer, which may be that there is none.
    pub async fn ask(&self, question: Question) -> Answered {
        let mut answers = self.ask_all(vec![question]).await;
        answers.pop().unwrap_or_else(|| Err(unanswered()))
    }

    /// Asks several things at once and waits for all answers, which come in the order of the questions.
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
