//! The audit record of each call. It contains payloads only if the operator enabled them.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Content, FailureKind, Outcome, Reply};
use gladhand_core::wire::{RawValue, json};
use gladhand_redaction::shorten;
use serde::Serialize;

use super::parties::Who;
use crate::provider::{Context, SessionId};

/// Maximum number of characters of a name that a peer chose.
const LONGEST: usize = 128;

/// The largest payload that is recorded. For a larger one only the size is recorded.
const LARGEST_PAYLOAD: usize = 64 * 1024;

/// The rule name for requests that the agreement does not allow.
const NOT_AGREED: &str = "only_what_was_agreed";

/// Records calls. An implementation must not make the caller wait.
pub trait Auditor: fmt::Debug + Send + Sync {
    /// A call has ended.
    fn record(&self, record: Record);

    /// Whether arguments and results are recorded.
    fn wants_payloads(&self) -> bool {
        false
    }
}

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
    /// The record of a call that begins.
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

/// Cuts a name that a peer chose to the recorded length.
fn short(text: &str) -> String {
    shorten(text, LONGEST).into_owned()
}

/// A call in progress. If this is dropped before the end, the call was cancelled, and the record says so.
#[derive(Debug)]
pub(super) struct Entry {
    auditor: Arc<dyn Auditor>,
    record: Option<Record>,
    started: Instant,
}

impl Entry {
    pub(super) fn begin(
        auditor: &Arc<dyn Auditor>,
        operation: &'static str,
        name: &str,
        arguments: Option<&RawValue>,
        context: &Context<'_>,
    ) -> Self {
        let bytes_in = arguments.map_or(0, |arguments| arguments.get().len());
        let has_payload = auditor.wants_payloads() && bytes_in <= LARGEST_PAYLOAD;
        let record = Record {
            bytes_in,
            arguments: arguments.filter(|_| has_payload).map(on_one_line),
            ..Record::begun(&Who::of(context), context.agreement, operation, name)
        };
        Self { auditor: Arc::clone(auditor), record: Some(record), started: Instant::now() }
    }

    /// Records the provider and its own name for the target.
    pub(super) fn leads_to(&mut self, upstream: &str, own: &str) {
        if let Some(record) = &mut self.record {
            record.upstream = upstream.to_owned();
            record.own_name = own.to_owned();
        }
    }

    /// Records the rule that decided.
    pub(super) fn decided_by(&mut self, rule: &str) {
        if let Some(record) = &mut self.record {
            record.rule = Some(rule.to_owned());
        }
    }

    /// Completes the record with the outcome.
    pub(super) fn end(mut self, outcome: &Outcome) {
        let Some(record) = &mut self.record else { return };
        match outcome {
            Err(failure) => record.outcome = failure.kind.word(),
            Ok(reply) => {
                let failed = matches!(reply, Reply::Tool(result) if result.failed);
                record.outcome = if failed { "tool_error" } else { "ok" };
                record.bytes_out = reply_bytes(reply);
                if self.auditor.wants_payloads() && record.bytes_out <= LARGEST_PAYLOAD {
                    record.result = Some(payload(reply));
                }
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.duration_ms = (self.started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
            self.auditor.record(record);
        }
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

/// The size of a reply: its raw content.
pub(super) fn reply_bytes(reply: &Reply) -> usize {
    let sum = |parts: &[Box<RawValue>]| parts.iter().map(|part| part.get().len()).sum();
    let result = match reply {
        Reply::Tool(result) => result,
        Reply::Contents(contents) => return sum(&contents.parts),
        Reply::Prompt(prompt) => return sum(&prompt.messages),
        Reply::Capability(fields) => return fields.get().len(),
        _ => return 0,
    };
    let blocks = result.content.iter().map(|block| match block {
        Content::Text(raw) | Content::Block(raw) => raw.get().len(),
    });
    blocks.sum::<usize>() + result.structured.as_ref().map_or(0, |data| data.get().len())
}
