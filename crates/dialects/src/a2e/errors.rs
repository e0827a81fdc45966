//! The `error` message: its codes, and the situation of each (a2e §7).

use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::json::RawValue;
use gladhand_core::wire::{Fault, Id, json};
use gladhand_core::wire::{FrameKind, Frames};

use super::capabilities::TOOLS;
use super::message::MessageWriter;
use crate::ambient::Ambient;

/// How many characters of an agent's words an error repeats.
const MOST_SHOWN: usize = 100;

pub(super) const TOO_MANY: &str = "too many requests";

/// The error codes of capabilities other than tools (a2e §7.2).
pub(super) const CODES: [&str; 29] = [
    "parse_error",
    "invalid_message",
    "runtime_error",
    "capability_missing",
    "timeout",
    "out_of_memory",
    "sandbox_crash",
    "unknown_skill",
    "skill_error",
    "unknown_action",
    "reset_denied",
    "unknown_proc",
    "proc_dead",
    "proc_limit",
    "memory_full",
    "memory_not_found",
    "chain_cycle",
    "chain_node_error",
    "bad_entry",
    "chain_error",
    "mcp_server_not_found",
    "mcp_server_unavailable",
    "mcp_tool_not_found",
    "mcp_resource_not_found",
    "mcp_prompt_not_found",
    "mcp_transport_error",
    "mcp_protocol_error",
    "mcp_sampling_refused",
    "mcp_capability_missing",
];

/// An `error` message without its envelope. All its fields are always written.
#[derive(Debug)]
pub(super) struct ErrorBody {
    code: &'static str,
    message: String,
    detail: Box<RawValue>,
    retryable: bool,
    capability: &'static str,
}

/// The part that could not be decoded, for `detail.kind`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Undecodable {
    Json,
    UnknownType,
    Schema,
}

impl Undecodable {
    fn word(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::UnknownType => "unknown_type",
            Self::Schema => "schema",
        }
    }
}

impl ErrorBody {
    /// A message that cannot be decoded.
    pub(super) fn parse(kind: Undecodable, message: impl Into<String>) -> Self {
        Self::new("parse_error", message, &serde_json::json!({"kind": kind.word()}))
    }

    /// A type that is not in the registry. Agents look for the reference's exact message, because the reference host
    /// reports a missing capability as an unknown type.
    pub(super) fn unknown_type(name: &str) -> Self {
        Self::parse(Undecodable::UnknownType, format!("Unknown type {}", shown(name)))
    }

    /// A line that cannot be read.
    pub(super) fn garbled(fault: &Fault) -> Self {
        Self::parse(Undecodable::Json, fault.to_string())
    }

    /// A known type with missing fields, or fields of the wrong type.
    pub(super) fn fields(problems: &[(String, String)]) -> Self {
        let problems: Vec<_> = problems.iter().map(|(path, problem)| (shown(path), shown(problem))).collect();
        let lines: Vec<_> = problems.iter().map(|(path, problem)| format!("{path}: {problem}")).collect();
        let fields: Vec<_> =
            problems.iter().map(|(path, problem)| serde_json::json!({"field": path, "problem": problem})).collect();
        let detail = serde_json::json!({"kind": Undecodable::Schema.word(), "fields": fields});
        Self::new("parse_error", lines.join("\n"), &detail)
    }

    /// A type that only a host sends.
    pub(super) fn wrong_direction(name: &str) -> Self {
        let message = format!("{name} is sent by hosts only");
        Self::new("invalid_message", message, &serde_json::json!({"kind": "direction", "type": name}))
    }

    /// A type of the family that `multi_agent/*` replaces.
    pub(super) fn superseded(name: &str) -> Self {
        let message = format!("{name} is not served: use multi_agent/*");
        Self::new("invalid_message", message, &serde_json::json!({"kind": "superseded", "type": name}))
    }

    /// The session has no handshake yet.
    pub(super) fn handshake_required() -> Self {
        Self::new("unauthorized", "handshake required", &serde_json::json!({"reason": "handshake_required"}))
    }

    /// A session id that was not issued on this channel.
    pub(super) fn unknown_session() -> Self {
        let message = "session_id was not issued on this channel";
        Self::new("unauthorized", message, &serde_json::json!({"reason": "unknown_session", "field": "session_id"}))
    }

    /// A type whose capability is not in force.
    pub(super) fn capability_missing(name: &str, capability: &'static str, asked_for: bool) -> Self {
        let reason = if asked_for { "no plugin loaded" } else { "not requested in the handshake" };
        let detail = serde_json::json!({"type": name, "capability": capability, "reason": reason});
        Self { capability, ..Self::new("capability_missing", format!("{name} needs {capability}: {reason}"), &detail) }
    }

    /// A capability that an earlier handshake granted and a later one does not.
    pub(super) fn revoked(capability: &'static str) -> Self {
        let detail = serde_json::json!({"reason": "revoked", "capability": capability});
        let message = format!("{capability} was granted by an earlier handshake only");
        Self { capability, ..Self::new("unauthorized", message, &detail) }
    }

    /// No session can be served.
    pub(super) fn unavailable(why: &str) -> Self {
        Self::new("runtime_error", why, &serde_json::json!({"reason": "unavailable"}))
    }

    /// The queue is full.
    pub(super) fn busy() -> Self {
        Self::of(&Failure::new(FailureKind::Busy, TOO_MANY), TOOLS)
    }

    /// The call exceeded its timeout.
    pub(super) fn timed_out(seconds: u64, capability: &'static str) -> Self {
        Self::of(&Failure::new(FailureKind::TimedOut, format!("no result within {seconds} s")), capability)
    }

    /// The error for a failed call.
    pub(super) fn of(failure: &Failure, capability: &'static str) -> Self {
        let code = match failure.kind {
            FailureKind::Capability(code) => code,
            FailureKind::UnknownTool => "unknown_tool",
            FailureKind::Denied => "tool_denied",
            FailureKind::InvalidArguments
            | FailureKind::UnknownResource
            | FailureKind::UnknownPrompt
            | FailureKind::UnknownSession
            | FailureKind::MissingCapability
            | FailureKind::Unsupported
            | FailureKind::OnlyAsTask
            | FailureKind::NotAsTask
            | FailureKind::Unanswered
            | FailureKind::ToolFailed => "tool_error",
            FailureKind::TimedOut => "timeout",
            FailureKind::Busy
            | FailureKind::Cancelled
            | FailureKind::Stopping
            | FailureKind::UpstreamLost
            | FailureKind::UpstreamError
            | FailureKind::TooLong
            | FailureKind::TooMany
            | FailureKind::Internal => "runtime_error",
        };
        let message = if failure.kind == FailureKind::Busy { TOO_MANY } else { &failure.message };
        let kind = match failure.kind {
            FailureKind::InvalidArguments => Some("arguments"),
            // The capability found an error that the table of fields cannot express.
            FailureKind::Capability("parse_error") => Some(Undecodable::Schema.word()),
            _ => None,
        };
        let detail = Detail { kind, reason: failure.kind.word(), data: failure.data.as_deref() };
        let retryable = failure.is_retryable();
        Self { code, message: message.to_owned(), detail: json::to_raw(&detail), retryable, capability }
    }

    /// Writes the message.
    pub(super) fn send(&self, request: Option<&Id>, ambient: &mut Ambient<'_>, wire: &mut Frames) {
        MessageWriter::answer("error", request, ambient)
            .of_kind(FrameKind::Error { code: 0, names_request: request.is_some() })
            .with("code", self.code)
            .with("message", &self.message)
            .raw("detail", self.detail.get())
            .with("retryable", &self.retryable)
            .with("capability_name", self.capability)
            .send(wire);
    }

    fn new(code: &'static str, message: impl Into<String>, detail: &serde_json::Value) -> Self {
        Self { code, message: message.into(), detail: json::to_raw(detail), retryable: false, capability: "" }
    }
}

/// As much of an agent's words as an error repeats: the error is kept until the agent reads it.
fn shown(words: &str) -> String {
    words.chars().take(MOST_SHOWN).collect()
}

#[derive(serde::Serialize)]
struct Detail<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}
