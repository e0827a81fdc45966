//! Makes spans of calls.
//!
//! An operation of a client is a span of the kind SERVER. A call to an upstream is one of the kind CLIENT, and its parent
//! is the operation that caused it. The hub draws the ids and puts them into the metadata of the calls; here they become
//! records with attributes. Arguments and results are left out unless the operator wants them.

use std::fmt;
use std::time::Duration;

use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::{Content, Operation, Outcome, Reply};
use gladhand_hub::{CallObserver, CallOrigin, EndedCall, EndedUpstreamCall, SessionId, without_query};
use gladhand_redaction::{redact, redact_cut, redact_raw};

use crate::metrics::{MCP, OperationTransport, error_type, method};
use crate::otlp::{AttributeValue, SpanKind, SpanRecord};

/// The longest result that a span contains, in bytes.
const LARGEST_RESULT: usize = 64 * 1024;

/// Takes spans that have ended. It must not wait.
pub trait SpanSink: fmt::Debug + Send + Sync {
    /// A span has ended.
    fn add(&self, span: SpanRecord);
}

/// Makes a span of each operation of a client and of each call to an upstream.
#[derive(Debug)]
pub struct Tracer<S> {
    sink: S,
    transport: OperationTransport,
    payloads: bool,
}

impl<S: SpanSink> Tracer<S> {
    /// Hands spans to a sink. `payloads`: whether spans contain arguments and results.
    pub fn new(sink: S, transport: OperationTransport, payloads: bool) -> Self {
        Self { sink, transport, payloads }
    }
}

impl<S: SpanSink> CallObserver for Tracer<S> {
    fn observes(&self, _: &Operation<'_>, origin: CallOrigin) -> bool {
        origin == CallOrigin::Client
    }

    fn wants_payloads(&self) -> bool {
        self.payloads
    }

    fn wants_spans(&self) -> bool {
        true
    }

    fn observes_upstreams(&self) -> bool {
        true
    }

    fn ended(&self, ended: &EndedCall<'_>) {
        let call = ended.call;
        let Some(span) = call.span.filter(|span| span.context.is_sampled) else { return };
        let is_known = call.target().is_some() || call.is_stand_in();
        let mut attributes = Attributes::of(call.kind, &call.name, is_known);
        attributes.protocol(call.dialect, &call.dialect_version);
        if call.session != SessionId::NONE && !call.session.is_kind() {
            // Not the session id of HTTP, which opens the session to everyone who knows it.
            attributes.text("mcp.session.id", &call.session.0.to_string());
        }
        attributes.text("network.transport", self.transport.word());
        if self.transport == OperationTransport::Http {
            attributes.text("network.protocol.name", "http");
        }
        attributes.text("gladhand.client.name", &redact(&call.client));
        if let Some(target) = call.target() {
            attributes.text("gladhand.upstream", &target.upstream);
        }
        if let Some(rule) = call.rule() {
            attributes.text("gladhand.policy.rule", rule);
        }
        if self.payloads {
            if let Some(arguments) = &call.arguments {
                let redacted = redact_raw(arguments);
                attributes.text("gen_ai.tool.call.arguments", redacted.as_ref().unwrap_or(arguments).get());
            }
            if let Some(result) = ended.outcome.and_then(result) {
                attributes.text("gen_ai.tool.call.result", &result);
            }
        }
        let name = attributes.span_name(call.kind, if is_known { &call.name } else { "" });
        let failure = attributes.outcome(ended.word(), ended.outcome);
        self.add((span, SpanKind::Server, name), ended.duration, attributes, failure);
    }

    fn upstream_ended(&self, ended: &EndedUpstreamCall<'_>) {
        let call = ended.call;
        let Some(span) = call.span.filter(|span| span.context.is_sampled) else { return };
        let Agreement { dialect, version, .. } = call.agreement;
        let mut attributes = Attributes::of(call.kind, call.name, true);
        attributes.protocol(dialect, version);
        attributes.text("gladhand.upstream", call.upstream);
        match call.address {
            Some((host, port)) => {
                attributes.text("network.transport", "tcp");
                attributes.text("network.protocol.name", "http");
                attributes.text("server.address", host);
                attributes.0.push(("server.port", AttributeValue::Number(i64::from(port))));
            }
            None => attributes.text("network.transport", "pipe"),
        }
        let name = attributes.span_name(call.kind, call.name);
        let failure = attributes.outcome(ended.word(), ended.outcome);
        self.add((span, SpanKind::Client, name), ended.duration, attributes, failure);
    }
}

impl<S: SpanSink> Tracer<S> {
    fn add(
        &self,
        (span, kind, name): (gladhand_core::trace_context::TraceSpan, SpanKind, String),
        duration: Duration,
        attributes: Attributes,
        failure: Option<String>,
    ) {
        let end = gladhand_system::since_1970();
        let start = end.saturating_sub(duration);
        self.sink.add(SpanRecord { span, kind, name, start, end, attributes: attributes.0, failure });
    }
}

/// The attributes of a span.
struct Attributes(Vec<(&'static str, AttributeValue)>);

impl Attributes {
    /// The attributes of an operation. `name`: of its target. A known name is not masked.
    fn of(kind: &'static str, name: &str, is_known: bool) -> Self {
        let mut attributes = Self(Vec::with_capacity(14));
        attributes.text("mcp.method.name", method(kind, name));
        let name = match is_known && ["tool", "prompt"].contains(&kind) {
            true => name.into(),
            false => redact(without_query(kind, name)),
        };
        match kind {
            "tool" => {
                attributes.text("gen_ai.operation.name", "execute_tool");
                attributes.text("gen_ai.tool.name", &name);
            }
            "prompt" => attributes.text("gen_ai.prompt.name", &name),
            "resource" | "subscription" => attributes.text("mcp.resource.uri", &name),
            "capability" => attributes.text("gladhand.operation", &name),
            "agent" => attributes.text("gladhand.operation", "agent"),
            _ => {}
        }
        attributes
    }

    /// An attribute. One without a value is left out.
    fn text(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.0.push((name, value.into()));
        }
    }

    fn protocol(&mut self, dialect: &'static str, version: &str) {
        self.text("gladhand.dialect", dialect);
        self.text(if dialect == MCP { "mcp.protocol.version" } else { "gladhand.dialect.version" }, version);
    }

    /// `{mcp.method.name} {target}`. A URI is no target: each could be another one.
    fn span_name(&self, kind: &'static str, name: &str) -> String {
        let method = self.0.iter().find_map(|(attribute, value)| match value {
            AttributeValue::Text(text) if ["mcp.method.name", "gladhand.operation"].contains(attribute) => {
                Some(text.as_str())
            }
            _ => None,
        });
        match (method.unwrap_or(kind), kind) {
            (method, "tool" | "prompt") if !name.is_empty() => format!("{method} {name}"),
            (method, _) => method.to_owned(),
        }
    }

    /// Adds `error.type`. Returns the message of the failure, if there was one.
    fn outcome(&mut self, word: &'static str, outcome: Option<&Outcome>) -> Option<String> {
        self.text("error.type", error_type(word));
        match outcome {
            Some(Err(failure)) => Some(redact_cut(&failure.message).into_owned()),
            _ => (word != "ok").then(String::new),
        }
    }
}

/// The content of a result as a JSON array, without secrets. `None` if there is none, or if it is too large.
fn result(outcome: &Outcome) -> Option<String> {
    let Ok(Reply::Tool(result)) = outcome else { return None };
    let blocks = || result.content.iter().map(|(Content::Text(raw) | Content::Block(raw))| raw);
    if blocks().map(|raw| raw.get().len()).sum::<usize>() > LARGEST_RESULT {
        return None;
    }
    let blocks: Vec<_> = blocks()
        .map(|raw| redact_raw(raw).map_or_else(|| raw.get().to_owned(), |redacted| redacted.get().to_owned()))
        .collect();
    Some(format!("[{}]", blocks.join(",")))
}
