//! The values of metrics at one moment, for the formats that write them.

use crate::histogram::HistogramSnapshot;

/// The labels of a series with their values.
pub type Labels = Vec<(&'static str, String)>;

/// The values of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSnapshot {
    /// The name, with dots.
    pub name: &'static str,
    /// The unit as OpenTelemetry writes it.
    pub unit: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// The values of the series.
    pub points: Points,
}

/// The values of all series of a metric.
#[derive(Debug, Clone, PartialEq)]
pub enum Points {
    /// Numbers that only grow.
    Sum(Vec<(Labels, u64)>),
    /// Numbers that grow and shrink.
    Gauge(Vec<(Labels, i64)>),
    /// Histograms of durations in seconds.
    Histogram(Vec<(Labels, HistogramSnapshot)>),
}

impl Points {
    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Sum(points) => points.is_empty(),
            Self::Gauge(points) => points.is_empty(),
            Self::Histogram(points) => points.is_empty(),
        }
    }
}
