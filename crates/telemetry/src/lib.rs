//! Metrics of calls and sessions.
//!
//! - [`Metrics`] observes the calls of a hub and the sessions of a tap, and counts them.
//! - [`series`] holds the values: a bounded number of series, each a few atomic numbers.
//! - [`prometheus`] writes a snapshot as text.
//!
//! The names of metrics and attributes follow the semantic conventions of OpenTelemetry for MCP. What these do not
//! cover begins with `gladhand.`. This crate opens no socket.

mod histogram;
mod metrics;
pub mod prometheus;
pub mod series;
mod sessions;
mod snapshot;

pub use metrics::{Metrics, OperationTransport};
pub use snapshot::{Labels, MetricSnapshot, Points};
