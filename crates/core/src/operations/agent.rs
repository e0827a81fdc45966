//! Agent sessions: conversations with a model that can use tools.
//!
//! Requests are typed, because several front ends (a dialect, tools, a terminal) send them. Responses are JSON
//! documents that the agent wrote, because the code in between does not need to read them.

use std::borrow::Cow;

use crate::wire::RawValue;

/// A request to the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentCall<'a> {
    /// The state of the agent: sign-ins, chosen model, open sessions.
    State,
    /// Create a session.
    Create {
        /// The initial title.
        title: Option<Cow<'a, str>>,
        /// The working folder of its tools. Default: the folder in which the agent was started.
        folder: Option<Cow<'a, str>>,
    },
    /// All details of one session.
    Get(Cow<'a, str>),
    /// A summary of all sessions.
    List,
    /// End a session and remove it. Its chat file stays.
    Delete(Cow<'a, str>),
    /// Send a user message to a session. It starts a turn or enters the queue.
    Send {
        /// The session.
        session: Cow<'a, str>,
        /// The text of the message.
        text: Cow<'a, str>,
        /// Whether the message may wait in the queue until the running turn ends.
        enqueue: bool,
        /// Images that belong to the message.
        images: Vec<ImageInput<'a>>,
    },
    /// Add a user message to the running turn.
    Steer {
        /// The session.
        session: Cow<'a, str>,
        /// The text of the message.
        text: Cow<'a, str>,
    },
    /// Stop the running turn.
    Interrupt(Cow<'a, str>),
    /// The queued messages.
    QueueList(Cow<'a, str>),
    /// Remove all queued messages.
    QueueClear(Cow<'a, str>),
    /// Run a slash command.
    Command {
        /// The session.
        session: Cow<'a, str>,
        /// The command line as typed.
        line: Cow<'a, str>,
    },
    /// Answer a request for approval.
    Approve {
        /// The session.
        session: Cow<'a, str>,
        /// The id of the request for approval.
        call: Cow<'a, str>,
        /// Whether the tool may run.
        allow: bool,
        /// Whether the decision holds for the rest of the session.
        always: bool,
    },
    /// The sign-in status of each service.
    AuthStatus,
    /// Use this key for OpenRouter.
    SetOpenRouterKey(Cow<'a, str>),
    /// Use this key for web search. `skip`: use none.
    SetExaKey(Cow<'a, str>),
    /// Sign in to OpenAI.
    ConnectOpenAi {
        /// `auto`, `browser` or `device_code`.
        mode: Option<Cow<'a, str>>,
        /// The client name that the issuer sees.
        originator: Option<Cow<'a, str>>,
    },
    /// Sign in to antigravity.
    ConnectAntigravity,
    /// Whether onboarding is complete.
    OnboardingStatus,
    /// Mark onboarding as complete.
    OnboardingComplete,
    /// The remaining quota of the accounts.
    Limits,
    /// The available models.
    Models {
        /// Only the models of this provider.
        provider: Option<Cow<'a, str>>,
    },
    /// Choose a model.
    SelectModel(Box<ModelChoice<'a>>),
    /// The providers that can run an OpenRouter model.
    RoutingProviders(Cow<'a, str>),
    /// Saved chats, newest first.
    HistoryList {
        /// Maximum number of entries.
        limit: Option<f64>,
        /// Number of entries to skip.
        cursor: Option<f64>,
    },
    /// One saved chat.
    HistoryGet {
        /// The id of the chat, or a prefix of it.
        id: Option<Cow<'a, str>>,
        /// The newest chat.
        last: bool,
        /// The path of the chat file.
        path: Option<Cow<'a, str>>,
    },
    /// Remove the messages of a session.
    ClearSession(Cow<'a, str>),
    /// The available skills.
    Skills,
    /// The agent's tools.
    Tools,
    /// Set the verbosity of debug output.
    Debug {
        /// Whether to report everything.
        everything: bool,
    },
    /// Stop everything that runs, and report the reason to every follower of the agent.
    Shutdown {
        /// The reason, if the caller gave one.
        reason: Option<Cow<'a, str>>,
    },
    /// From now on, the caller can answer requests for approval.
    CanApprove,
}

/// An image, given by its file or as a data URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageInput<'a> {
    /// The path of the file, or only a label if there is a data URL. May be empty.
    pub path: Cow<'a, str>,
    /// The media type of the image.
    pub mime_type: Option<Cow<'a, str>>,
    /// The image data.
    pub data_url: Option<Cow<'a, str>>,
}

/// A model and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice<'a> {
    /// Its id.
    pub model: Cow<'a, str>,
    /// The provider of the model.
    pub provider: Cow<'a, str>,
    /// The thinking level, as the dialect spells it.
    pub thinking: Cow<'a, str>,
    /// The provider that runs the model, if it can be chosen.
    pub routing: Option<Cow<'a, str>>,
    /// The session to compact for this model, or the only session to use it.
    pub session: Option<Cow<'a, str>>,
    /// Whether to compact the session now.
    pub compress: bool,
    /// Whether the choice applies to that session alone.
    pub only_session: bool,
}

impl AgentCall<'_> {
    /// The same call without borrowed data.
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
            Self::SelectModel(choice) => AgentCall::SelectModel(Box::new(ModelChoice {
                model: own(choice.model),
                provider: own(choice.provider),
                thinking: own(choice.thinking),
                routing: choice.routing.map(own),
                session: choice.session.map(own),
                compress: choice.compress,
                only_session: choice.only_session,
            })),
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

/// An event of the agent, for all its followers.
#[derive(Debug, Clone)]
pub struct AgentEvent {
    /// The event type, as the agent names it: `session.stream.chunk`.
    pub kind: &'static str,
    /// The event data: a JSON object.
    pub payload: Box<RawValue>,
}
