//! Why a call has no reply. Each dialect renders these in its own words.

use std::fmt;

use crate::wire::{Fault, RawValue};

/// A call that ended without a reply.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What went wrong, for programs.
    pub kind: FailureKind,
    /// What went wrong, for people: a lowercase fragment.
    pub message: String,
    /// More, where there is more.
    pub data: Option<Box<RawValue>>,
    /// Whether the same call, unchanged, is known to fail again, also where its kind leaves that open.
    pub is_lasting: bool,
}

/// The situations that a caller may want to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No tool has that name.
    UnknownTool,
    /// No resource has that URI.
    UnknownResource,
    /// No prompt has that name.
    UnknownPrompt,
    /// No session of the agent has that id.
    UnknownSession,
    /// The tool exists; its arguments are wrong.
    InvalidArguments,
    /// It needs something of the caller that was not agreed; `data` is the capability's name as a JSON string.
    MissingCapability,
    /// Whoever would have to answer does not do such things.
    Unsupported,
    /// It can only be had as a task, and none was asked for.
    OnlyAsTask,
    /// A task was asked for, and it can only be had without.
    NotAsTask,
    /// The caller was asked something, and declined or could not answer.
    Unanswered,
    /// The tool could not do its work.
    ToolFailed,
    /// Policy forbids the call.
    Denied,
    /// Too much is in flight; the same call may succeed later.
    Busy,
    /// The caller or the operator cancelled it.
    Cancelled,
    /// It took longer than the caller was ready to wait.
    TimedOut,
    /// We are stopping and could not wait for it.
    Stopping,
    /// The upstream that had it is gone.
    UpstreamLost,
    /// The upstream answered with an error of its own.
    UpstreamError,
    /// The answer exceeds the limit on the length of a line, or is too large to be kept until it is read.
    TooLong,
    /// A list of the upstream has more entries, or takes more memory, than is accepted.
    TooMany,
    /// Something that a capability has a word of its own for.
    Capability(&'static str),
    /// Our own fault.
    Internal,
}

/// The words of capabilities for what may be otherwise the next time.
const RETRYABLE: [&str; 8] = [
    "runtime_error",
    "timeout",
    "out_of_memory",
    "sandbox_crash",
    "tool_error",
    "skill_error",
    "mcp_server_unavailable",
    "mcp_transport_error",
];

impl FailureKind {
    /// A stable word for it, for `data.reason` and the like.
    pub fn word(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::UnknownResource => "unknown_resource",
            Self::UnknownPrompt => "unknown_prompt",
            Self::UnknownSession => "unknown_session",
            Self::InvalidArguments => "invalid_arguments",
            Self::MissingCapability => "missing_capability",
            Self::Unsupported => "unsupported",
            Self::OnlyAsTask => "only_as_task",
            Self::NotAsTask => "not_as_task",
            Self::Unanswered => "unanswered",
            Self::ToolFailed => "tool_failed",
            Self::Denied => "denied",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Stopping => "stopping",
            Self::UpstreamLost => "upstream_lost",
            Self::UpstreamError => "upstream_error",
            Self::TooLong => "too_long",
            Self::TooMany => "too_many",
            Self::Capability(code) => code,
            Self::Internal => "internal",
        }
    }

    /// Whether the same call, unchanged, may succeed later, as far as the kind tells.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::ToolFailed
            | Self::Busy
            | Self::Cancelled
            | Self::TimedOut
            | Self::Stopping
            | Self::UpstreamLost
            | Self::UpstreamError
            | Self::Internal => true,
            Self::Capability(code) => RETRYABLE.contains(&code),
            _ => false,
        }
    }
}

impl Failure {
    /// A failure without data.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), data: None, is_lasting: false }
    }

    /// The same, where the same call is known to fail again.
    #[must_use]
    pub fn lasting(self) -> Self {
        Self { is_lasting: true, ..self }
    }

    /// Whether the same call, unchanged, may succeed later.
    pub fn is_retryable(&self) -> bool {
        !self.is_lasting && self.kind.is_retryable()
    }

    /// No tool has that name.
    pub fn unknown_tool(name: &str) -> Self {
        let message = if name.is_empty() { "no tool was named".to_owned() } else { format!("unknown tool: {name}") };
        Self::new(FailureKind::UnknownTool, message)
    }

    /// No resource has that URI.
    pub fn unknown_resource(uri: &str) -> Self {
        Self::new(FailureKind::UnknownResource, format!("unknown resource: {uri}"))
    }

    /// No prompt has that name.
    pub fn unknown_prompt(name: &str) -> Self {
        Self::new(FailureKind::UnknownPrompt, format!("unknown prompt: {name}"))
    }

    /// No session of the agent has that id.
    pub fn unknown_session(id: &str) -> Self {
        Self::new(FailureKind::UnknownSession, format!("unknown session: {id}"))
    }

    /// There is no agent to ask.
    pub fn no_agent() -> Self {
        Self::new(FailureKind::Unsupported, "not supported by this server: it has no agent")
    }

    /// A list of the upstream has more entries than are accepted.
    pub fn list_too_long(what: &str, most: usize) -> Self {
        Self::new(FailureKind::TooMany, format!("the upstream's list of `{what}` has more than {most} entries"))
    }

    /// The upstream's answer cannot be taken, because of this fault in its line.
    pub fn unreadable(fault: &Fault) -> Self {
        let kind = match fault {
            Fault::TooLong { .. } => FailureKind::TooLong,
            _ => FailureKind::UpstreamError,
        };
        Self::new(kind, format!("the upstream's answer cannot be taken: {fault}"))
    }

    /// Something is needed of the caller that was not agreed.
    pub fn missing_capability(capability: &str) -> Self {
        let message = format!("this needs {capability:?} of the client, which was not agreed");
        let data = Some(crate::wire::json::to_raw(capability));
        Self { data, ..Self::new(FailureKind::MissingCapability, message) }
    }

    /// Nobody is told of changes of resources here.
    pub fn cannot_watch() -> Self {
        Self::new(FailureKind::Unsupported, "not supported by this server: it does not tell of changes of a resource")
    }

    /// The result would have to wait for its caller, and there is no room for it.
    pub fn not_kept() -> Self {
        Self::new(FailureKind::TooLong, "the result is too large to be kept")
    }

    /// Whoever was to answer the call broke down.
    pub fn panicked() -> Self {
        Self::new(FailureKind::Internal, "the tool failed unexpectedly")
    }

    /// An argument is missing or of the wrong type. `path` is where, such as `message`.
    pub fn invalid_argument(path: &str, problem: impl fmt::Display) -> Self {
        Self::new(FailureKind::InvalidArguments, format!("{path}: {problem}"))
    }

    /// A required argument is missing. `data` names it and its JSON type.
    pub fn missing_argument(name: &str, expected: &str) -> Self {
        let data = Some(crate::wire::json::to_raw(&MissingArgument { missing_param: name, param: name, expected }));
        Self { data, ..Self::invalid_argument(name, "required") }
    }
}

/// Names a missing argument in the words of Fluxloop's `details`, which a client also reads for a wrong type.
#[derive(serde::Serialize)]
struct MissingArgument<'a> {
    missing_param: &'a str,
    param: &'a str,
    expected: &'a str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
