//! Metrics of calls and sessions, and spans of calls.
//!
//! - [`ServiceMetrics`] observes the calls of a hub and the sessions of a tap, and counts them.
//! - [`series`] holds the values: a bounded number of series, each a few atomic numbers.
//! - [`prometheus`] writes a snapshot as text.
//! - [`Tracer`] makes spans of calls, for distributed traces.
//! - [`otlp`] writes metrics and spans for a collector of OpenTelemetry.
//!
//! The names of metrics and attributes follow the semantic conventions of OpenTelemetry for MCP. Other
//! names begin with `gladhand.`. This crate opens no socket.

mod histogram;
mod metrics;
pub mod otlp;
pub mod prometheus;
pub mod series;
mod sessions;
mod snapshot;
mod traces;

pub use metrics::{OperationTransport, ServiceMetrics};
pub use snapshot::{Labels, MetricSnapshot, Points};
pub use traces::{SpanSink, Tracer};
