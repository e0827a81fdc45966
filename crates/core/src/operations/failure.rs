//! Why a call failed. Each dialect renders a failure as its own error.

use std::borrow::Cow;
use std::fmt;

use crate::wire::{Fault, RawValue};

/// The failure of a call.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind of failure, for programs.
    pub kind: FailureKind,
    /// The description, for people: a lowercase fragment.
    pub message: String,
    /// Further details, if there are any.
    pub data: Option<Box<RawValue>>,
    /// Whether the same call is known to fail again, even if its kind allows a retry.
    pub is_lasting: bool,
}

/// The kinds of failure that a caller may need to distinguish.
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
    /// The call needs a client capability that was not agreed. `data` is the capability's name as a JSON string.
    MissingCapability,
    /// The provider does not support the operation.
    Unsupported,
    /// The call is only available as a task, and the caller did not ask for one.
    OnlyAsTask,
    /// The caller asked for a task, and the call is only available without one.
    NotAsTask,
    /// The caller declined a question of the provider, or could not answer it.
    Unanswered,
    /// The tool ran and failed.
    ToolFailed,
    /// Policy forbids the call.
    Denied,
    /// Too many calls are in flight. The same call may succeed later.
    Busy,
    /// The caller or the operator cancelled the call.
    Cancelled,
    /// The call exceeded the caller's timeout.
    TimedOut,
    /// The process is shutting down before the call is complete.
    Stopping,
    /// The connection to the upstream is lost.
    UpstreamLost,
    /// The upstream answered with an error.
    UpstreamError,
    /// The answer exceeds the limit on the length of a line, or is too large to be kept until the caller reads it.
    TooLong,
    /// A list of the upstream has more entries, or uses more memory, than the limit.
    TooMany,
    /// A failure with an error code of a capability.
    Capability(&'static str),
    /// An internal error.
    Internal,
}

/// The error codes of capabilities after which a retry may succeed.
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
    /// A stable identifier of the kind, for `data.reason` and the like.
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

    /// Whether a retry of the same call may succeed, as far as the kind determines that.
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

    /// The same failure, marked as permanent: the same call is known to fail again.
    #[must_use]
    pub fn lasting(self) -> Self {
        Self { is_lasting: true, ..self }
    }

    /// Whether a retry of the same call may succeed.
    pub fn is_retryable(&self) -> bool {
        !self.is_lasting && self.kind.is_retryable()
    }

    /// No tool has that name.
    pub fn unknown_tool(name: &str) -> Self {
        let message = match name {
            "" => "no tool was named".to_owned(),
            name => format!("unknown tool: {}", excerpt(name)),
        };
        Self::new(FailureKind::UnknownTool, message)
    }

    /// No resource has that URI.
    pub fn unknown_resource(uri: &str) -> Self {
        Self::new(FailureKind::UnknownResource, format!("unknown resource: {}", excerpt(uri)))
    }

    /// No prompt has that name.
    pub fn unknown_prompt(name: &str) -> Self {
        Self::new(FailureKind::UnknownPrompt, format!("unknown prompt: {}", excerpt(name)))
    }

    /// No session of the agent has that id.
    pub fn unknown_session(id: &str) -> Self {
        Self::new(FailureKind::UnknownSession, format!("unknown session: {}", excerpt(id)))
    }

    /// There is no agent.
    pub fn no_agent() -> Self {
        Self::new(FailureKind::Unsupported, "not supported by this server: it has no agent")
    }

    /// A list of the upstream has more entries than the limit.
    pub fn list_too_long(list: &str, max_entries: usize) -> Self {
        Self::new(FailureKind::TooMany, format!("the upstream's list of `{list}` has more than {max_entries} entries"))
    }

    /// The upstream's answer cannot be read because of this fault in its line.
    pub fn unreadable(fault: &Fault) -> Self {
        let kind = match fault {
            Fault::TooLong { .. } => FailureKind::TooLong,
            _ => FailureKind::UpstreamError,
        };
        Self::new(kind, format!("the upstream's answer is invalid: {fault}"))
    }

    /// The call needs a client capability that was not agreed.
    pub fn missing_capability(capability: &str) -> Self {
        let message = format!("this needs {capability:?} of the client, which was not agreed");
        let data = Some(crate::wire::json::to_raw(capability));
        Self { data, ..Self::new(FailureKind::MissingCapability, message) }
    }

    /// The server does not report changes of resources.
    pub fn cannot_watch() -> Self {
        Self::new(FailureKind::Unsupported, "not supported by this server: it does not report changes of resources")
    }

    /// The result would have to wait for the caller, and exceeds the space for kept results.
    pub fn not_kept() -> Self {
        Self::new(FailureKind::TooLong, "the result is too large to be kept")
    }

    /// The provider panicked.
    pub fn panicked() -> Self {
        Self::new(FailureKind::Internal, "the tool failed unexpectedly")
    }

    /// An argument is missing or has the wrong type. `path` locates it, such as `message`.
    pub fn invalid_argument(path: &str, problem: impl fmt::Display) -> Self {
        Self::new(FailureKind::InvalidArguments, format!("{path}: {problem}"))
    }

    /// A required argument is missing. `data` names it and its JSON type.
    pub fn missing_argument(name: &str, expected: &str) -> Self {
        let data = Some(crate::wire::json::to_raw(&MissingArgument { missing_param: name, param: name, expected }));
        Self { data, ..Self::invalid_argument(name, "required") }
    }
}

/// The missing argument, with the member names of Fluxloop's `details`. A client also reads them for a wrong type.
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
/// Maximum length, in characters, of a name of a peer that an error repeats.
const MAX_EXCERPT_CHARS: usize = 100;

/// As much of a name of a peer as an error repeats. A cut is marked with `…`.
pub fn excerpt(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}
