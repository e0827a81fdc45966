//! The audit record of each call. It contains payloads only if the operator enabled them.

use std::sync::Arc;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{FailureKind, Operation, Reply};
use gladhand_core::wire::{RawValue, json};
use serde::Serialize;

use super::parties::Who;
use crate::call_observers::{CallObserver, CallOrigin, EndedCall, LARGEST_PAYLOAD, has_target, short};
use crate::provider::SessionId;

/// The rule name for requests that the agreement does not allow.
const NOT_AGREED: &str = "only_what_was_agreed";

/// Records calls. An implementation must not make the caller wait.
pub trait Auditor: Send + Sync {
    /// A call has ended.
    fn record(&self, record: Record);

    /// Whether arguments and results are recorded.
    fn wants_payloads(&self) -> bool {
        false
    }
}

gladhand_core::debug_as_name!(Auditor);

/// The record of one call.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// The number of the session, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The principal that the caller has authenticated as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The name that the client declares.
    pub client: String,
    /// The version of the client.
    pub client_version: String,
    /// The dialect.
    pub dialect: &'static str,
    /// The version of the dialect.
    pub dialect_version: String,
    /// The provider.
    pub upstream: String,
    /// The operation: `tool` (called), `resource` (read), `subscription` (to a resource), `prompt` (filled in),
    /// `completion` (of an argument) or `capability` (received a request).
    pub operation: &'static str,
    /// The shown name: of the tool or prompt, the URI of the resource, or the type of a capability's message.
    pub tool: String,
    /// The provider's own name for it; for a capability, its name.
    pub own_name: String,
    /// `ok`, `tool_error` if the tool reports a failure itself, or the word for the kind of failure.
    pub outcome: &'static str,
    /// The rule that refused, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The duration in milliseconds.
    pub duration_ms: f64,
    /// The size of the arguments in bytes.
    pub bytes_in: usize,
    /// The size of the result in bytes.
    pub bytes_out: usize,
    /// The arguments, if payloads are enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// The content blocks of the result, if payloads are enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Vec<Box<RawValue>>>,
}

impl Record {
    /// The record of a request in a session.
    fn begun(who: &Who<'_>, agreement: &Agreement, operation: &'static str, name: &str) -> Self {
        Self {
            session: (who.session != SessionId::NONE).then_some(who.session.0),
            client: short(who.client),
            client_version: short(&agreement.client.version),
            dialect_version: short(&agreement.version),
            ..Self::of(who.principal, agreement.dialect, operation, name)
        }
    }

    fn of(principal: Option<&str>, dialect: &'static str, operation: &'static str, name: &str) -> Self {
        Self {
            session: None,
            principal: principal.map(short),
            client: String::new(),
            client_version: String::new(),
            dialect,
            dialect_version: String::new(),
            upstream: String::new(),
            operation,
            tool: short(name),
            own_name: String::new(),
            outcome: "cancelled",
            rule: None,
            duration_ms: 0.0,
            bytes_in: 0,
            bytes_out: 0,
            arguments: None,
            result: None,
        }
    }

    /// The same record, for a call that was not made.
    fn refused(self, kind: FailureKind, rule: &str) -> Self {
        Self { outcome: kind.word(), rule: Some(rule.to_owned()), ..self }
    }

    /// A call of a tool that a transport refused before it reached a session.
    pub(super) fn out_of_scope(principal: &str, dialect: &'static str, tool: &str, rule: &str) -> Self {
        Self::of(Some(principal), dialect, "tool", tool).refused(FailureKind::Denied, rule)
    }

    /// A request whose capability the session has not negotiated.
    pub(super) fn declined(who: &Who<'_>, agreement: &Agreement, request: &str, capability: &str) -> Self {
        let begun = Self { own_name: short(capability), ..Self::begun(who, agreement, "capability", request) };
        begun.refused(FailureKind::MissingCapability, NOT_AGREED)
    }
}

/// Makes a record of each call on a thing of a provider, whether it was called directly or through a substitute tool.
#[derive(Debug)]
pub(super) struct AuditObserver(pub(super) Arc<dyn Auditor>);

impl CallObserver for AuditObserver {
    fn observes(&self, operation: &Operation<'_>, _: CallOrigin) -> bool {
        has_target(operation)
    }

    fn wants_payloads(&self) -> bool {
        self.0.wants_payloads()
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        if call.is_stand_in() {
            // The operation behind it has a record of its own.
            return;
        }
        let (upstream, own_name) = match call.target() {
            Some(target) => (target.upstream.clone(), target.own.clone()),
            None => Default::default(),
        };
        let bytes_out = ended.bytes_out();
        let reply = ended.outcome.and_then(|outcome| outcome.as_ref().ok());
        let is_kept = |_: &&Reply| self.0.wants_payloads() && bytes_out <= LARGEST_PAYLOAD;
        self.0.record(Record {
            session: (call.session != SessionId::NONE).then_some(call.session.0),
            principal: call.principal.clone(),
            client: call.client.clone(),
            client_version: call.client_version.clone(),
            dialect: call.dialect,
            dialect_version: call.dialect_version.clone(),
            upstream,
            operation: call.kind,
            tool: call.name.clone(),
            own_name,
            outcome: ended.word(),
            rule: call.rule().map(str::to_owned),
            duration_ms: ended.duration_ms(),
            bytes_in: call.bytes_in,
            bytes_out,
            arguments: call.arguments.as_deref().filter(|_| self.0.wants_payloads()).map(on_one_line),
            result: reply.filter(is_kept).map(payload),
        });
    }
}

/// The content of a reply.
fn payload(reply: &Reply) -> Vec<Box<RawValue>> {
    match reply {
        Reply::Tool(result) => result.content.iter().map(|block| on_one_line(&block.to_block())).collect(),
        Reply::Contents(contents) => contents.parts.iter().map(|part| on_one_line(part)).collect(),
        Reply::Prompt(prompt) => prompt.messages.iter().map(|message| on_one_line(message)).collect(),
        Reply::Capability(fields) => vec![on_one_line(fields)],
        _ => Vec::new(),
    }
}

/// The same JSON without line breaks, which JSON allows only between its values.
fn on_one_line(value: &RawValue) -> Box<RawValue> {
    if value.get().contains(['\n', '\r']) {
        return json::raw(value.get().replace(['\n', '\r'], " "));
    }
    value.to_owned()
}
