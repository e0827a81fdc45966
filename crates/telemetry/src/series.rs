//! Families of series: the values of one metric, one for each combination of labels.
//!
//! Peers choose some labels, such as the names of tools, so the number of series is bounded. A family holds at most
//! [`MOST`] series, and at most [`MOST_OF_GROUP`] of one group (of one upstream). Beyond that, the labels that peers
//! choose become [`OTHER`], so that the sums stay right.
//!
//! Finding a series that exists takes one hash and a shared lock, and allocates nothing. The hash has random keys, so that
//! a peer cannot choose names that share a series.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use foldhash::fast::RandomState;
use gladhand_core::striped::Striped;
use gladhand_core::sync::Unpoisoned as _;

pub use crate::histogram::{BOUNDS, Histogram, HistogramSnapshot};
use crate::snapshot::{Labels, MetricSnapshot, Points};

/// The label of values that have no series of their own.
pub const OTHER: &str = "_other";

/// The largest number of series of a family.
pub const MOST: usize = 4000;

/// The largest number of series of one group.
pub const MOST_OF_GROUP: usize = 1000;

/// A value of a series.
pub trait SeriesValue: Default + Send + Sync {
    /// The values of several series at one moment.
    fn points<'s>(series: impl Iterator<Item = (Labels, &'s Self)>) -> Points
    where
        Self: 's;
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct MetricCounter(Striped<AtomicU64>);

impl MetricCounter {
    /// Adds to the number.
    pub fn add(&self, number: u64) {
        self.0.own().fetch_add(number, Ordering::Relaxed);
    }

    /// The number now.
    pub fn value(&self) -> u64 {
        self.0.all().map(|copy| copy.load(Ordering::Relaxed)).sum()
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds to the number.
    pub fn add(&self, number: i64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }
}

impl SeriesValue for MetricCounter {
    fn points<'s>(series: impl Iterator<Item = (Labels, &'s Self)>) -> Points {
        Points::Sum(series.map(|(labels, counter)| (labels, counter.value())).collect())
    }
}

impl SeriesValue for Gauge {
    fn points<'s>(series: impl Iterator<Item = (Labels, &'s Self)>) -> Points {
        Points::Gauge(series.map(|(labels, gauge)| (labels, gauge.0.load(Ordering::Relaxed))).collect())
    }
}

impl SeriesValue for Histogram {
    fn points<'s>(series: impl Iterator<Item = (Labels, &'s Self)>) -> Points {
        Points::Histogram(series.map(|(labels, histogram)| (labels, histogram.snapshot())).collect())
    }
}

impl MetricCounter {
    /// The value as a metric without labels.
    pub(crate) fn snapshot(&self, description: MetricDescription) -> MetricSnapshot {
        description.with(Self::points([(Labels::new(), self)].into_iter()))
    }
}

/// What a metric is.
#[derive(Debug, Clone, Copy)]
pub struct MetricDescription {
    /// The name, with dots.
    pub name: &'static str,
    /// The unit as OpenTelemetry writes it: `s`, `By`, `{session}`.
    pub unit: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// The names of the labels. An empty value means that a series does not have the label.
    pub labels: &'static [&'static str],
    /// The labels that peers choose.
    pub chosen: &'static [&'static str],
    /// The label whose values share the series fairly.
    pub group: Option<&'static str>,
}

impl MetricDescription {
    fn with(self, points: Points) -> MetricSnapshot {
        let Self { name, unit, help, .. } = self;
        MetricSnapshot { name, unit, help, points }
    }
}

/// All series of one metric.
pub struct SeriesFamily<V> {
    description: MetricDescription,
    /// The places of the labels that peers choose.
    chosen: Vec<usize>,
    /// The place of the label whose values share the series.
    group: Option<usize>,
    hasher: RandomState,
    known: RwLock<KnownSeries<V>>,
}

/// The series of a family by the hashes of their labels.
struct KnownSeries<V> {
    series: HashMap<u64, Arc<Series<V>>, BuildHasherDefault<AlreadyHashed>>,
    /// How many series each group has.
    groups: HashMap<Box<str>, usize>,
}

struct Series<V> {
    labels: Box<[Box<str>]>,
    value: V,
}

impl<V> KnownSeries<V> {
    fn find(&self, hash: u64, labels: &[&str]) -> Option<&Arc<Series<V>>> {
        let is_it = |known: &&Arc<Series<V>>| known.labels.iter().map(|label| &**label).eq(labels.iter().copied());
        self.series.get(&hash).filter(is_it)
    }

    fn has_room_for(&self, group: Option<&str>) -> bool {
        let used = group.and_then(|group| self.groups.get(group)).copied().unwrap_or_default();
        self.series.len() < MOST && used < MOST_OF_GROUP
    }
}

impl<V: SeriesValue> SeriesFamily<V> {
    /// A family without series.
    pub fn new(description: MetricDescription) -> Self {
        let place = |name: &&str| description.labels.iter().position(|label| label == name);
        let chosen = description.chosen.iter().filter_map(place).collect();
        let group = description.group.as_ref().and_then(place);
        let known = RwLock::new(KnownSeries { series: HashMap::default(), groups: HashMap::new() });
        Self { description, chosen, group, hasher: RandomState::default(), known }
    }

    /// Uses the value of a series. `labels` has a value for each label of the family, in their order.
    pub fn with<R>(&self, labels: &[&str], action: impl FnOnce(&V) -> R) -> R {
        debug_assert_eq!(labels.len(), self.description.labels.len(), "{}", self.description.name);
        let hash = self.hasher.hash_one(labels);
        {
            let known = self.known.read().unpoisoned();
            if let Some(series) = known.find(hash, labels) {
                return action(&series.value);
            }
        }
        action(&self.another(hash, labels).value)
    }

    /// A series that was not there a moment ago, or the one that stands for it.
    #[cold]
    fn another(&self, hash: u64, labels: &[&str]) -> Arc<Series<V>> {
        let group = self.group.map(|at| labels[at]);
        if self.known.read().unpoisoned().has_room_for(group) {
            return self.add(hash, labels);
        }
        let mut others = labels.to_vec();
        for at in &self.chosen {
            if !others[*at].is_empty() {
                others[*at] = OTHER;
            }
        }
        let mut hash = self.hasher.hash_one(&others[..]);
        let known = self.known.read().unpoisoned();
        if let Some(series) = known.find(hash, &others) {
            return Arc::clone(series);
        }
        // The labels that peers do not choose have few values. If they fill the family nevertheless, one series takes all.
        if known.series.len() >= MOST + MOST_OF_GROUP {
            others.fill(OTHER);
            hash = self.hasher.hash_one(&others[..]);
        }
        drop(known);
        self.add(hash, &others)
    }

    /// Adds a series, unless another thread was faster. Threads that add at the same time may exceed a bound by one each.
    fn add(&self, hash: u64, labels: &[&str]) -> Arc<Series<V>> {
        let mut known = self.known.write().unpoisoned();
        let KnownSeries { series, groups } = &mut *known;
        // Two sets of labels with one keyed 64-bit hash share a series. That does not happen in practice.
        let added = series.entry(hash).or_insert_with(|| {
            if let Some(at) = self.group {
                *groups.entry(labels[at].into()).or_default() += 1;
            }
            Arc::new(Series { labels: labels.iter().map(|label| (*label).into()).collect(), value: V::default() })
        });
        Arc::clone(added)
    }

    /// The values now, ordered by their labels.
    pub fn snapshot(&self) -> MetricSnapshot {
        let mut all: Vec<_> = self.known.read().unpoisoned().series.values().cloned().collect();
        all.sort_by(|one, other| one.labels.cmp(&other.labels));
        let points = V::points(all.iter().map(|series| {
            let labels = self.description.labels.iter().zip(&series.labels);
            let labels = labels.filter(|(_, value)| !value.is_empty());
            (labels.map(|(name, value)| (*name, value.to_string())).collect(), &series.value)
        }));
        self.description.with(points)
    }
}

impl<V> fmt::Debug for SeriesFamily<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let series = self.known.read().unpoisoned().series.len();
        f.debug_struct("Family").field("name", &self.description.name).field("series", &series).finish_non_exhaustive()
    }
}

/// Takes keys that are hashes as they are.
#[derive(Debug, Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `u64` is hashed, by the method below.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: MetricDescription = MetricDescription {
        name: "calls",
        unit: "{call}",
        help: "Calls.",
        labels: &["tool", "upstream", "outcome"],
        chosen: &["tool"],
        group: Some("upstream"),
    };

    fn counts(family: &SeriesFamily<MetricCounter>) -> Vec<(Labels, u64)> {
        match family.snapshot().points {
            Points::Sum(points) => points,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_combination_of_labels_has_a_series_and_empty_labels_are_left_out() {
        let family = SeriesFamily::<MetricCounter>::new(CALLS);
        for labels in [["read", "files", "ok"], ["read", "files", "ok"], ["", "files", "busy"]] {
            family.with(&labels, |counter| counter.add(1));
        }
        assert_eq!(
            counts(&family),
            [
                (vec![("upstream", "files".to_owned()), ("outcome", "busy".to_owned())], 1),
                (vec![("tool", "read".to_owned()), ("upstream", "files".to_owned()), ("outcome", "ok".to_owned())], 2),
            ]
        );
    }

    #[test]
    fn an_upstream_with_endless_tool_names_fills_only_its_own_share_and_no_call_is_lost() {
        let family = SeriesFamily::<MetricCounter>::new(CALLS);
        for number in 0..3 * MOST {
            family.with(&[&format!("tool{number}"), "hostile", "ok"], |counter| counter.add(1));
        }
        family.with(&["read", "files", "ok"], |counter| counter.add(7));
        let counts = counts(&family);
        assert_eq!(counts.len(), MOST_OF_GROUP + 2);
        let of = |tool: &str| counts.iter().find(|(labels, _)| labels[0].1 == tool).map(|(_, count)| *count);
        assert_eq!((of("read"), of(OTHER)), (Some(7), Some((3 * MOST - MOST_OF_GROUP) as u64)));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 3 * MOST as u64 + 7);
    }

    #[test]
    fn a_family_is_bounded_even_if_every_label_is_endless() {
        let family = SeriesFamily::<MetricCounter>::new(CALLS);
        for number in 0..3 * MOST {
            let name = number.to_string();
            family.with(&[&name, &name, &name], |counter| counter.add(1));
        }
        let counts = counts(&family);
        assert!(counts.len() <= MOST + MOST_OF_GROUP + 1, "{}", counts.len());
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 3 * MOST as u64);
    }
}
