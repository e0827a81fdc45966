//! Agent sessions: conversations with a model that may use tools.
//!
//! What is asked is typed, because every face of the agent (a dialect, tools, a terminal) asks it. What is answered is a
//! JSON document that the agent wrote, because nobody on the way has to look inside.

use std::borrow::Cow;

use crate::wire::RawValue;

/// What can be asked of the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentCall<'a> {
    /// What is signed in, chosen and open.
    State,
    /// Begin a session.
    Create {
        /// Its first title.
        title: Option<Cow<'a, str>>,
        /// Where its tools work, if not where the agent was started.
        folder: Option<Cow<'a, str>>,
    },
    /// All about one session.
    Get(Cow<'a, str>),
    /// All sessions, briefly.
    List,
    /// End a session and forget it. Its chat file stays.
    Delete(Cow<'a, str>),
    /// Say something in a session: a turn begins, or waits in the queue.
    Send {
        /// The session.
        session: Cow<'a, str>,
        /// What is said.
        text: Cow<'a, str>,
        /// Whether it may wait until the running turn ends.
        enqueue: bool,
        /// Pictures that go with it.
        images: Vec<ImageInput<'a>>,
    },
    /// Say something into the running turn.
    Steer {
        /// The session.
        session: Cow<'a, str>,
        /// What is said.
        text: Cow<'a, str>,
    },
    /// Stop the running turn.
    Interrupt(Cow<'a, str>),
    /// What waits.
    QueueList(Cow<'a, str>),
    /// Forget what waits.
    QueueClear(Cow<'a, str>),
    /// Run a slash command.
    Command {
        /// The session.
        session: Cow<'a, str>,
        /// As it was typed.
        line: Cow<'a, str>,
    },
    /// Answer a request for approval.
    Approve {
        /// The session.
        session: Cow<'a, str>,
        /// Which request.
        call: Cow<'a, str>,
        /// Whether it may run.
        allow: bool,
        /// Whether the answer holds for the rest of the session.
        always: bool,
    },
    /// Who is signed in where.
    AuthStatus,
    /// Use this key for OpenRouter.
    SetOpenRouterKey(Cow<'a, str>),
    /// Use this key for searching the web, or (`skip`) none.
    SetExaKey(Cow<'a, str>),
    /// Sign in to OpenAI.
    ConnectOpenAi {
        /// `auto`, `browser` or `device_code`.
        mode: Option<Cow<'a, str>>,
        /// Who asks, as the issuer is to see it.
        originator: Option<Cow<'a, str>>,
    },
    /// Sign in to antigravity.
    ConnectAntigravity,
    /// Whether the first steps are done.
    OnboardingStatus,
    /// The first steps are done.
    OnboardingComplete,
    /// What is left of what was paid for.
    Limits,
    /// Which models there are.
    Models {
        /// Of this provider only.
        provider: Option<Cow<'a, str>>,
    },
    /// Choose a model.
    SelectModel(ModelChoice<'a>),
    /// Who can run a model of OpenRouter.
    RoutingProviders(Cow<'a, str>),
    /// Saved chats, newest first.
    HistoryList {
        /// At most this many.
        limit: Option<f64>,
        /// After this many.
        cursor: Option<f64>,
    },
    /// One saved chat.
    HistoryGet {
        /// By its id, or the beginning of it.
        id: Option<Cow<'a, str>>,
        /// The newest.
        last: bool,
        /// By its file.
        path: Option<Cow<'a, str>>,
    },
    /// Forget what was said in a session.
    ClearSession(Cow<'a, str>),
    /// Which skills there are.
    Skills,
    /// Which tools the agent has.
    Tools,
    /// Tell more of what goes on, or less.
    Debug {
        /// Whether everything is told.
        everything: bool,
    },
    /// Everything ends: stop what runs, and say why to whoever follows.
    Shutdown {
        /// Why, if the caller said so.
        reason: Option<Cow<'a, str>>,
    },
    /// From here on the caller can be asked for approval.
    CanApprove,
}

/// A picture, by file or in the text of a data URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageInput<'a> {
    /// Its file, or only a label beside a data URL; may be empty.
    pub path: Cow<'a, str>,
    /// What kind of picture it is.
    pub mime_type: Option<Cow<'a, str>>,
    /// The picture itself.
    pub data_url: Option<Cow<'a, str>>,
}

/// A model, and how it is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice<'a> {
    /// Its id.
    pub model: Cow<'a, str>,
    /// Who has it.
    pub provider: Cow<'a, str>,
    /// How much it is to think, in the words of the dialect.
    pub thinking: Cow<'a, str>,
    /// Who is to run it, where that can be chosen.
    pub routing: Option<Cow<'a, str>>,
    /// The session that is compacted for it, or the only one that it is chosen for.
    pub session: Option<Cow<'a, str>>,
    /// Whether the session is compacted at once.
    pub compress: bool,
    /// Whether it is chosen for that session alone.
    pub only_session: bool,
}

impl AgentCall<'_> {
    /// The same call, free of the line it was read from.
    pub fn into_owned(self) -> AgentCall<'static> {
        let own = |text: Cow<'_, str>| Cow::<'static, str>::Owned(text.into_owned());
        match self {
            Self::State => AgentCall::State,
            Self::Create { title, folder } => AgentCall::Create { title: title.map(own), folder: folder.map(own) },
            Self::Get(session) => AgentCall::Get(own(session)),
            Self::List => AgentCall::List,
            Self::Delete(session) => AgentCall::Delete(own(session)),
            Self::Send { session, text, enqueue, images } => AgentCall::Send {
                session: own(session),
                text: own(text),
                enqueue,
                images: images
                    .into_iter()
                    .map(|image| ImageInput {
                        path: own(image.path),
                        mime_type: image.mime_type.map(own),
                        data_url: image.data_url.map(own),
                    })
                    .collect(),
            },
            Self::Steer { session, text } => AgentCall::Steer { session: own(session), text: own(text) },
            Self::Interrupt(session) => AgentCall::Interrupt(own(session)),
            Self::QueueList(session) => AgentCall::QueueList(own(session)),
            Self::QueueClear(session) => AgentCall::QueueClear(own(session)),
            Self::Command { session, line } => AgentCall::Command { session: own(session), line: own(line) },
            Self::Approve { session, call, allow, always } => {
                AgentCall::Approve { session: own(session), call: own(call), allow, always }
            }
            Self::AuthStatus => AgentCall::AuthStatus,
            Self::SetOpenRouterKey(key) => AgentCall::SetOpenRouterKey(own(key)),
            Self::SetExaKey(key) => AgentCall::SetExaKey(own(key)),
            Self::ConnectOpenAi { mode, originator } => {
                AgentCall::ConnectOpenAi { mode: mode.map(own), originator: originator.map(own) }
            }
            Self::ConnectAntigravity => AgentCall::ConnectAntigravity,
            Self::OnboardingStatus => AgentCall::OnboardingStatus,
            Self::OnboardingComplete => AgentCall::OnboardingComplete,
            Self::Limits => AgentCall::Limits,
            Self::Models { provider } => AgentCall::Models { provider: provider.map(own) },
            Self::SelectModel(choice) => AgentCall::SelectModel(ModelChoice {
                model: own(choice.model),
                provider: own(choice.provider),
                thinking: own(choice.thinking),
                routing: choice.routing.map(own),
                session: choice.session.map(own),
                compress: choice.compress,
                only_session: choice.only_session,
            }),
            Self::RoutingProviders(model) => AgentCall::RoutingProviders(own(model)),
            Self::HistoryList { limit, cursor } => AgentCall::HistoryList { limit, cursor },
            Self::HistoryGet { id, last, path } => AgentCall::HistoryGet { id: id.map(own), last, path: path.map(own) },
            Self::ClearSession(session) => AgentCall::ClearSession(own(session)),
            Self::Skills => AgentCall::Skills,
            Self::Tools => AgentCall::Tools,
            Self::Debug { everything } => AgentCall::Debug { everything },
            Self::Shutdown { reason } => AgentCall::Shutdown { reason: reason.map(own) },
            Self::CanApprove => AgentCall::CanApprove,
        }
    }
}

/// Something that happened in the agent, for everybody who follows it.
#[derive(Debug, Clone)]
pub struct AgentEvent {
    /// What kind of event it is, in the agent's words: `session.stream.chunk`.
    pub kind: &'static str,
    /// What happened: a JSON object.
    pub payload: Box<RawValue>,
}
