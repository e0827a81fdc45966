//! A histogram of durations that any number of threads record in without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gladhand_core::striped::Striped;

/// The upper bounds of the buckets, in seconds. From 10 ms on they are those of the semantic conventions for MCP. The
/// bounds below are ours: calls of a local tool take less than a millisecond.
pub const BOUNDS: [f64; 20] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0,
];

/// The same in nanoseconds.
const BOUNDS_NS: [u64; BOUNDS.len()] = {
    let mut bounds = [0; BOUNDS.len()];
    let mut at = 0;
    while at < bounds.len() {
        // Each bound is a whole number of microseconds.
        bounds[at] = (BOUNDS[at] * 1e6 + 0.5) as u64 * 1000;
        at += 1;
    }
    bounds
};

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct Histogram(Striped<Buckets>);

#[derive(Debug, Default)]
struct Buckets {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

/// The values of a histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// How many durations each bucket has. The last bucket has those above all bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// The sum in seconds.
    pub sum_s: f64,
}

impl HistogramSnapshot {
    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Histogram {
    /// Records a duration.
    pub fn record(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < ns);
        let own = self.0.own();
        own.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        own.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The values now.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let sum = |of: &dyn Fn(&Buckets) -> u64| self.0.all().map(of).sum::<u64>();
        let buckets = std::array::from_fn(|at| sum(&|copy| copy.buckets[at].load(Ordering::Relaxed)));
        let sum_ns = sum(&|copy| copy.sum_ns.load(Ordering::Relaxed));
        HistogramSnapshot { buckets, sum_s: sum_ns as f64 / 1e9 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::default();
        let micros = [0, 100, 101, 9_999, 10_000, 10_001, 300_000_000, 300_000_001];
        micros.into_iter().for_each(|micros| histogram.record(Duration::from_micros(micros)));
        let HistogramSnapshot { buckets, sum_s } = histogram.snapshot();
        let expected = [(0, 2), (1, 1), (6, 2), (7, 1), (19, 1), (20, 1)];
        for (at, count) in buckets.into_iter().enumerate() {
            let expected = expected.iter().find(|(bucket, _)| *bucket == at).map_or(0, |(_, count)| *count);
            assert_eq!(count, expected, "bucket {at}");
        }
        assert!((sum_s - micros.iter().sum::<u64>() as f64 / 1e6).abs() < 1e-9, "{sum_s}");
        assert_eq!(histogram.snapshot().count(), 8);
    }

    #[test]
    fn bounds_in_nanoseconds_are_those_in_seconds() {
        for (ns, seconds) in BOUNDS_NS.into_iter().zip(BOUNDS) {
            assert!((ns as f64 / 1e9 - seconds).abs() < 1e-12, "{ns} {seconds}");
        }
    }
}
