//! One-way messages: progress of a call, log lines, changes of lists and resources.

use std::time::Duration;

use crate::wire::RawValue;

use crate::operations::agent::AgentEvent;
use crate::operations::call::{CallId, WatchId};
use crate::operations::capability::CapabilityEvent;

/// A message to the downstream that expects no answer.
#[derive(Debug, Clone)]
pub enum Notice {
    /// Progress of a call.
    Progress(CallId, Progress),
    /// A log line, sent during a call or on its own.
    Log(Option<CallId>, Log),
    /// The list of tools changed.
    ToolsChanged,
    /// The list of resources, or of resource templates, changed.
    ResourcesChanged,
    /// The contents of a resource changed.
    ResourceUpdated(Update),
    /// The list of prompts changed.
    PromptsChanged,
    /// A page to which a user was sent has finished. The value is the elicitation id of the question.
    ElicitationComplete(String),
    /// The caller may close the stream on which it waits for a call's answer, and fetch the answer after this pause.
    /// Ignored if the dialect's transport cannot do that.
    ComeBackLater(CallId, Duration),
    /// The call continues as a task from here. Ignored if the dialect has no tasks or the caller did not accept one.
    GoesOnAsTask(CallId),
    /// An event of the agent.
    Agent(AgentEvent),
    /// An event of a capability.
    Capability(CapabilityEvent),
}

impl Notice {
    /// The call that the notice belongs to, if there is one.
    pub fn about(&self) -> Option<CallId> {
        match self {
            Self::Progress(call, _) | Self::ComeBackLater(call, _) | Self::GoesOnAsTask(call) => Some(*call),
            Self::Log(call, _) => *call,
            Self::ToolsChanged
            | Self::ResourcesChanged
            | Self::ResourceUpdated(_)
            | Self::PromptsChanged
            | Self::ElicitationComplete(_)
            | Self::Agent(_)
            | Self::Capability(_) => None,
        }
    }
}

/// A change of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The URI of the resource, or of a part of the resource.
    pub uri: String,
    /// Subscriptions to the resource that must not receive this update, because of policy.
    pub denied: Vec<WatchId>,
}

impl Update {
    /// A change that every subscription may receive.
    pub fn of(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), denied: Vec::new() }
    }
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The progress so far. It increases with each report.
    pub progress: f64,
    /// The value at which the call is complete, if known.
    pub total: Option<f64>,
    /// The current activity, for people.
    pub message: Option<String>,
}

/// A log line.
#[derive(Debug, Clone)]
pub struct Log {
    /// The severity.
    pub level: Level,
    /// The name of the logger.
    pub logger: Option<String>,
    /// The logged data: any JSON value.
    pub data: Box<RawValue>,
    /// Whether an upstream sent it. The upstream then decides what a client receives that has not set a minimum level.
    pub is_from_upstream: bool,
}

impl Log {
    /// A log line of this process.
    pub fn new(level: Level, logger: Option<String>, data: Box<RawValue>) -> Self {
        Self { level, logger, data, is_from_upstream: false }
    }

    /// A log line of an upstream.
    pub fn from_upstream(level: Level, logger: Option<String>, data: Box<RawValue>) -> Self {
        Self { is_from_upstream: true, ..Self::new(level, logger, data) }
    }
}

/// Log levels, in order of increasing severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// Ordinary events.
    Info,
    /// Ordinary but significant.
    Notice,
    /// An unusual condition.
    Warning,
    /// A failure.
    Error,
    /// A failure of an important part.
    Critical,
    /// A failure that needs immediate action.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl Level {
    /// All levels, in order of increasing severity.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name of the level, as in syslog and MCP.
    pub fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word() == word)
    }
}
