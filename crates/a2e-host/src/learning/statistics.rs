//! How components performed, counted from all records of the agents of one principal.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use serde::Serialize;

use super::LearningSettings;
use super::records::{Record, Sample};
use crate::storage::StorageError;

/// Maximum length of a component's name, in bytes.
const MAX_NAME_BYTES: usize = 256;

const COUNT: &str = "INSERT INTO learning_components VALUES (?8, ?1, 1, ?2, ?3, ?4, ?5, ?6, ?7) \
    ON CONFLICT (principal, name) DO UPDATE SET \
    calls_total = calls_total + 1, calls_success = calls_success + excluded.calls_success, \
    calls_failed = calls_failed + excluded.calls_failed, score_sum = score_sum + excluded.score_sum, \
    duration_count = duration_count + excluded.duration_count, duration_sum = duration_sum + excluded.duration_sum, \
    last_called = max(last_called, excluded.last_called)";
const COMPONENTS: &str = "SELECT name, calls_total, calls_success, calls_failed, duration_sum / max(duration_count, 1), \
    score_sum / calls_total, last_called FROM learning_components WHERE principal = ?2 AND (?1 = '' OR name = ?1) ORDER BY name";
const DURATIONS: &str = "SELECT milliseconds FROM learning_durations WHERE principal = ?2 AND component = ?1 \
    ORDER BY milliseconds";
const OLD_DURATIONS: &str = "DELETE FROM learning_durations WHERE principal = ?3 AND component = ?1 AND id <= \
    (SELECT id FROM learning_durations WHERE principal = ?3 AND component = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
const RECORD: &str = "INSERT INTO learning_records (principal, kind, agent, told_at, bytes, body) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const RECORDS: &str = "SELECT records, records_bytes FROM learning_state WHERE principal = ?1";
const OLDEST_RECORD: &str = "DELETE FROM learning_records WHERE id = \
    (SELECT min(id) FROM learning_records WHERE principal = ?1)";

/// Components whose calls have a mean score below a threshold, the worst first.
const POOR: &str = "SELECT name, calls_total, score_sum / calls_total AS mean FROM learning_components \
    WHERE principal = ?2 AND (?1 = '' OR name = ?1) AND calls_total >= ?3 AND score_sum / calls_total < ?4 \
    ORDER BY mean, name";

/// Approximate maximum number of durations of all components of a principal, and how many a component may always have.
/// With many components, fewer durations of each are kept.
const MAX_DURATIONS: u32 = 100_000;
const MIN_DURATIONS: u32 = 16;

/// Maximum number of records that one turn removes.
const TURN_REMOVALS: usize = 500;

/// A component with a poor score.
#[derive(Debug)]
pub(super) struct PoorComponent {
    pub(super) name: String,
    pub(super) calls: i64,
    pub(super) mean: f64,
}

/// The performance of a component, as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Performance {
    pub(super) component_name: String,
    pub(super) calls_total: i64,
    pub(super) calls_success: i64,
    pub(super) calls_failed: i64,
    pub(super) avg_duration_ms: f64,
    pub(super) avg_score: f64,
    pub(super) last_called: f64,
    pub(super) p95_duration_ms: f64,
}

/// The component statistics of one principal.
#[derive(Debug)]
pub(super) struct Statistics<'a> {
    pub(super) rows: &'a Transaction<'a>,
    pub(super) settings: &'a LearningSettings,
    pub(super) principal: &'a str,
}

impl Statistics<'_> {
    /// Counts the records, and keeps the latest of them verbatim. Returns false if another turn must remove old records.
    pub(super) fn add_records(
        &self,
        kind: &str,
        agent: &str,
        now: f64,
        records: &[Record],
    ) -> Result<bool, StorageError> {
        self.ensure_state()?;
        let mut timed = BTreeSet::new();
        for record in records {
            let size = i64::try_from(record.body.get().len()).unwrap_or(i64::MAX);
            let row = params![self.principal, kind, agent, now, size, record.body.get()];
            self.rows.prepare_cached(RECORD)?.execute(row)?;
            for sample in &record.samples {
                self.count(sample, now)?;
                timed.extend(sample.duration.is_some().then_some(sample.component.as_str()));
            }
        }
        let components = "SELECT count(*) FROM learning_components WHERE principal = ?1";
        let components: u32 = self.rows.prepare_cached(components)?.query_row([self.principal], |row| row.get(0))?;
        if components > self.settings.components {
            let problem = format!("the limit of {} components is reached", self.settings.components);
            return Err(StorageError::refused(problem));
        }
        let durations = self.settings.durations.min((MAX_DURATIONS / components.max(1)).max(MIN_DURATIONS));
        // Once for each component: finding the oldest duration means a scan of all durations of the component.
        for component in timed {
            let old = params![component, durations, self.principal];
            self.rows.prepare_cached(OLD_DURATIONS)?.execute(old)?;
        }
        Ok(self.remove_excess()?)
    }

    fn count(&self, sample: &Sample, now: f64) -> Result<(), StorageError> {
        let Sample { component, score, duration, at } = sample;
        if component.len() > MAX_NAME_BYTES {
            let problem = format!("the name of a component must not exceed {MAX_NAME_BYTES} bytes");
            return Err(StorageError::refused(problem));
        }
        let (success, failed) = (i64::from(*score > 0.0), i64::from(*score < 0.0));
        let timed = i64::from(duration.is_some());
        let (length, at) = (duration.unwrap_or(0.0), at.unwrap_or(now));
        let count = params![component, success, failed, score, timed, length, at, self.principal];
        self.rows.prepare_cached(COUNT)?.execute(count)?;
        if duration.is_some() {
            let insert = "INSERT INTO learning_durations (principal, component, milliseconds) VALUES (?1, ?2, ?3)";
            self.rows.prepare_cached(insert)?.execute(params![self.principal, component, length])?;
        }
        Ok(())
    }

    /// Removes the oldest records beyond the limits. Returns false if there are more than one turn may remove.
    fn remove_excess(&self) -> rusqlite::Result<bool> {
        for _ in 0..TURN_REMOVALS {
            let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
            let (records, bytes) = self.rows.prepare_cached(RECORDS)?.query_row([self.principal], read)?;
            let max = i64::try_from(self.settings.records_bytes).unwrap_or(i64::MAX);
            if records <= i64::from(self.settings.records) && bytes <= max {
                return Ok(true);
            }
            if self.rows.prepare_cached(OLDEST_RECORD)?.execute([self.principal])? == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds to the number of experiences. Returns the number before and after.
    pub(super) fn count_experiences(&self, more: usize) -> rusqlite::Result<(u64, u64)> {
        let before = self.experiences()?;
        let after = before + more as u64;
        let update = "UPDATE learning_state SET experiences = ?1 WHERE principal = ?2";
        let after_in_rows = i64::try_from(after).unwrap_or(i64::MAX);
        self.rows.prepare_cached(update)?.execute(params![after_in_rows, self.principal])?;
        Ok((before, after))
    }

    /// Creates the row of the principal in `learning_state` if it is missing. Every change needs it.
    pub(super) fn ensure_state(&self) -> rusqlite::Result<()> {
        let insert = "INSERT OR IGNORE INTO learning_state (principal) VALUES (?1)";
        self.rows.prepare_cached(insert)?.execute([self.principal]).map(drop)
    }

    /// How many experiences were ever recorded.
    pub(super) fn experiences(&self) -> rusqlite::Result<u64> {
        let mut count = self.rows.prepare_cached("SELECT experiences FROM learning_state WHERE principal = ?1")?;
        let count = count.query_row([self.principal], |row| row.get::<_, i64>(0)).optional()?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// The performance of a component, or of all components if the name is empty.
    pub(super) fn performances(&self, component: &str) -> rusqlite::Result<Vec<Performance>> {
        let mut components = self.rows.prepare_cached(COMPONENTS)?;
        let read = |row: &Row<'_>| {
            let component_name: String = row.get(0)?;
            Ok(Performance {
                calls_total: row.get(1)?,
                calls_success: row.get(2)?,
                calls_failed: row.get(3)?,
                avg_duration_ms: row.get(4)?,
                avg_score: row.get(5)?,
                last_called: row.get(6)?,
                p95_duration_ms: self.percentile(&component_name)?,
                component_name,
            })
        };
        components.query_map([component, self.principal], read)?.collect()
    }

    /// The components with at least so many calls and a mean score below this, the worst first.
    pub(super) fn poor(&self, component: &str, calls: u32, below: f64) -> rusqlite::Result<Vec<PoorComponent>> {
        let mut poor = self.rows.prepare_cached(POOR)?;
        let read = |row: &Row<'_>| Ok(PoorComponent { name: row.get(0)?, calls: row.get(1)?, mean: row.get(2)? });
        poor.query_map(params![component, self.principal, calls, below], read)?.collect()
    }

    /// The 95th percentile of the latest durations of a component.
    fn percentile(&self, component: &str) -> rusqlite::Result<f64> {
        let mut durations = self.rows.prepare_cached(DURATIONS)?;
        let durations = durations
            .query_map([component, self.principal], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<f64>>>()?;
        let rank = (durations.len() * 95).div_ceil(100);
        Ok(durations.get(rank.saturating_sub(1)).copied().unwrap_or(0.0))
    }

    /// The mean score over all calls of these components; `None` without calls.
    pub(super) fn mean_of(&self, components: &BTreeSet<String>) -> Result<Option<f64>, StorageError> {
        let (mut sum, mut calls) = (0.0, 0);
        for component in components {
            let select = "SELECT score_sum, calls_total FROM learning_components WHERE principal = ?2 AND name = ?1";
            let read = |row: &Row<'_>| Ok((row.get::<_, f64>(0)?, row.get::<_, i64>(1)?));
            let known =
                self.rows.prepare_cached(select)?.query_row([component.as_str(), self.principal], read).optional()?;
            let (of_component, its_calls) = known.unwrap_or_default();
            sum += of_component;
            calls += its_calls;
        }
        Ok((calls > 0).then_some(sum / calls as f64))
    }
}
