//! Export requests of OTLP 1, in Protocol Buffers: `ExportTraceServiceRequest` and `ExportMetricsServiceRequest`.
//!
//! The field numbers are those of `opentelemetry-proto`. This module only writes bytes; another crate sends them.

mod protobuf;

use std::time::Duration;

use gladhand_core::trace_context::TraceSpan;
use protobuf::ProtobufMessage;

use crate::histogram::{BOUNDS, HistogramSnapshot};
use crate::snapshot::{Labels, MetricSnapshot, Points};

/// The media type of the requests.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// The path for spans, below the address of a collector.
pub const TRACES_PATH: &str = "v1/traces";

/// The path for metrics.
pub const METRICS_PATH: &str = "v1/metrics";

/// The process that spans and metrics come from.
#[derive(Debug, Clone)]
pub struct ExportedService {
    /// The value of `service.name`.
    pub service: String,
    /// The value of `service.instance.id`.
    pub instance: String,
}

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// This process answers the operation.
    Server = 2,
    /// This process asks another one.
    Client = 3,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanRecord {
    /// Its ids.
    pub span: TraceSpan,
    /// Its kind.
    pub kind: SpanKind,
    /// Its name.
    pub name: String,
    /// When it began, as time since 1970.
    pub start: Duration,
    /// When it ended, as time since 1970.
    pub end: Duration,
    /// Its attributes.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// The message of the failure, if the operation failed. May be empty.
    pub failure: Option<String>,
}

/// An export request with spans.
pub fn traces(resource: &ExportedService, spans: &[SpanRecord]) -> Vec<u8> {
    let scope_spans = ProtobufMessage::default().message(1, scope()).messages(2, spans.iter().map(span));
    let resource_spans = ProtobufMessage::default().message(1, self::resource(resource)).message(2, scope_spans);
    ProtobufMessage::default().message(1, resource_spans).into_bytes()
}

/// An export request with metrics. `start` and `now`: when counting began, and the time of the values, since 1970.
pub fn metrics(resource: &ExportedService, all: &[MetricSnapshot], start: Duration, now: Duration) -> Vec<u8> {
    let all = all.iter().filter(|one| !one.points.is_empty()).map(|one| metric(one, nanos(start), nanos(now)));
    let scope_metrics = ProtobufMessage::default().message(1, scope()).messages(2, all);
    let resource_metrics = ProtobufMessage::default().message(1, self::resource(resource)).message(2, scope_metrics);
    ProtobufMessage::default().message(1, resource_metrics).into_bytes()
}

fn resource(resource: &ExportedService) -> ProtobufMessage {
    let attributes = [
        ("service.name", AttributeValue::from(&*resource.service)),
        ("service.version", AttributeValue::from(env!("CARGO_PKG_VERSION"))),
        ("service.instance.id", AttributeValue::from(&*resource.instance)),
        ("process.pid", AttributeValue::Number(i64::from(std::process::id()))),
    ];
    ProtobufMessage::default().messages(1, attributes.iter().map(|(name, value)| attribute(name, value)))
}

fn scope() -> ProtobufMessage {
    ProtobufMessage::default().text(1, "gladhand").text(2, env!("CARGO_PKG_VERSION"))
}

fn attribute(name: &str, value: &AttributeValue) -> ProtobufMessage {
    let value = match value {
        // Also an empty text is written: it tells text from no value.
        AttributeValue::Text(text) => ProtobufMessage::default().bytes(1, text.as_bytes()),
        AttributeValue::Number(number) => ProtobufMessage::default().number(3, number.cast_unsigned()),
    };
    ProtobufMessage::default().text(1, name).message(2, value)
}

fn span(record: &SpanRecord) -> ProtobufMessage {
    let TraceSpan { context, parent } = record.span;
    let mut message = ProtobufMessage::default().bytes(1, &context.trace).bytes(2, &context.span);
    if let Some(parent) = parent {
        message = message.bytes(4, &parent);
    }
    message = message
        .text(5, &record.name)
        .number(6, record.kind as u64)
        .fixed(7, nanos(record.start))
        .fixed(8, nanos(record.end))
        .messages(9, record.attributes.iter().map(|(name, value)| attribute(name, value)));
    match &record.failure {
        // The code of an error. A span that did not fail keeps the code `unset`.
        Some(failure) => message.message(15, ProtobufMessage::default().text(2, failure).number(3, 2)),
        None => message,
    }
}

fn metric(metric: &MetricSnapshot, start: u64, now: u64) -> ProtobufMessage {
    /// Values since the start of the process.
    const CUMULATIVE: u64 = 2;
    let labels = |message: ProtobufMessage, field: u32, labels: &Labels| {
        message.messages(field, labels.iter().map(|(name, value)| attribute(name, &AttributeValue::from(&**value))))
    };
    let number = |of: &Labels, value: u64| {
        labels(ProtobufMessage::default().fixed(2, start).fixed(3, now).fixed(6, value), 7, of)
    };
    let histogram = |of: &Labels, value: &HistogramSnapshot| {
        let message =
            ProtobufMessage::default().fixed(2, start).fixed(3, now).fixed(4, value.count()).double(5, value.sum_s);
        let message = message.packed(6, value.buckets.into_iter()).packed(7, BOUNDS.into_iter().map(f64::to_bits));
        labels(message, 9, of)
    };
    let (field, data) = match &metric.points {
        Points::Gauge(points) => {
            let points = points.iter().map(|(labels, value)| number(labels, value.cast_unsigned()));
            (5, ProtobufMessage::default().messages(1, points))
        }
        Points::Sum(points) => {
            let points = points.iter().map(|(labels, value)| number(labels, *value));
            (7, ProtobufMessage::default().messages(1, points).number(2, CUMULATIVE).number(3, 1))
        }
        Points::Histogram(points) => {
            let points = points.iter().map(|(labels, value)| histogram(labels, value));
            (9, ProtobufMessage::default().messages(1, points).number(2, CUMULATIVE))
        }
    };
    ProtobufMessage::default().text(1, metric.name).text(2, metric.help).text(3, metric.unit).message(field, data)
}

fn nanos(since_1970: Duration) -> u64 {
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
