//! One-way messages: progress of a call, log lines, changes of the menu.

use std::time::Duration;

use crate::wire::RawValue;

use crate::operations::agent::AgentEvent;
use crate::operations::call::{CallId, WatchId};
use crate::operations::capability::CapabilityEvent;

/// A message that wants no answer, on its way to the downstream.
#[derive(Debug, Clone)]
pub enum Notice {
    /// How far a call has come.
    Progress(CallId, Progress),
    /// Something worth writing down; said while a call ran, or on its own.
    Log(Option<CallId>, Log),
    /// The list of tools is not what it was.
    ToolsChanged,
    /// The list of resources, or of their templates, is not what it was.
    ResourcesChanged,
    /// What is in a resource is not what it was.
    ResourceUpdated(Update),
    /// The list of prompts is not what it was.
    PromptsChanged,
    /// A page that a person was sent to has done its work: the id that the question gave it.
    ElicitationComplete(String),
    /// The way on which a call's answer is awaited may be dropped now: the caller comes back for it after a pause
    /// (where the dialect's transport can; elsewhere nothing happens).
    ComeBackLater(CallId, Duration),
    /// A call whose caller would take a task goes on as one from here (where the dialect has tasks and the caller wished
    /// for one; elsewhere nothing happens).
    GoesOnAsTask(CallId),
    /// Something happened in the agent.
    Agent(AgentEvent),
    /// A capability tells something.
    Capability(CapabilityEvent),
}

impl Notice {
    /// The call that it is about, if it is about one.
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
    /// The URI of the resource, or of a part of it.
    pub uri: String,
    /// Subscriptions to the resource that policy does not let hear of it.
    pub denied: Vec<WatchId>,
}

impl Update {
    /// A change that every subscription may hear of.
    pub fn of(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), denied: Vec::new() }
    }
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Grows with each report.
    pub progress: f64,
    /// Where it ends, if that is known.
    pub total: Option<f64>,
    /// What is being done, for people.
    pub message: Option<String>,
}

/// Something worth writing down.
#[derive(Debug, Clone)]
pub struct Log {
    /// How bad it is.
    pub level: Level,
    /// Who says so.
    pub logger: Option<String>,
    /// What happened: any JSON.
    pub data: Box<RawValue>,
    /// Whether an upstream sent it, which decides itself what a client gets that has not said from which level on it wants
    /// to hear.
    pub is_from_upstream: bool,
}

impl Log {
    /// A message of our own.
    pub fn new(level: Level, logger: Option<String>, data: Box<RawValue>) -> Self {
        Self { level, logger, data, is_from_upstream: false }
    }

    /// A message that an upstream sent.
    pub fn from_upstream(level: Level, logger: Option<String>, data: Box<RawValue>) -> Self {
        Self { is_from_upstream: true, ..Self::new(level, logger, data) }
    }
}

/// Log levels, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// Ordinary events.
    Info,
    /// Ordinary but significant.
    Notice,
    /// Something is odd.
    Warning,
    /// Something failed.
    Error,
    /// Something important failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl Level {
    /// All levels, mildest first.
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

    /// Its word, as syslog and MCP spell it.
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

    /// The level of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word() == word)
    }
}
