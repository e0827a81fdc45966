//! Stores the records of one request, in turns that are short however large the request is.

use std::collections::VecDeque;

use super::Learner;
use super::records::Record;
use crate::storage::{Access, LazyDatabase, Step, StorageError};

/// Maximum number of records that one turn stores.
const TURN_RECORDS: usize = 100;
/// Maximum number of samples that one turn counts.
const TURN_SAMPLES: usize = 512;
/// Maximum size of the records that one turn stores, in bytes. A turn stores at least one record.
const TURN_BYTES: usize = 1024 * 1024;

/// Records that are being stored.
#[derive(Debug)]
pub(super) struct Recording {
    kind: &'static str,
    records: VecDeque<Record>,
    /// Whether the number of experiences has passed a multiple of `adapt_every`.
    is_due: bool,
}

impl Recording {
    /// Records of one kind: `feedback` or `experience`.
    pub(super) fn new(kind: &'static str, records: Vec<Record>) -> Self {
        Self { kind, records: records.into(), is_due: false }
    }

    /// Stores all records. `then` gets whether the host should adapt now.
    pub(super) fn begin(
        self,
        learner: Learner,
        then: impl FnOnce(Learner, bool) -> Result<Step, StorageError> + Send + 'static,
    ) -> Result<Step, StorageError> {
        Step::next(Access::Change, move |database| self.go_on(learner, database, then))
    }

    /// One turn.
    fn go_on(
        mut self,
        learner: Learner,
        database: &LazyDatabase,
        then: impl FnOnce(Learner, bool) -> Result<Step, StorageError> + Send + 'static,
    ) -> Result<Step, StorageError> {
        let records = self.take();
        let (is_due, is_trimmed) = database.change(|rows| {
            let statistics = learner.statistics(rows);
            let is_trimmed = statistics.add_records(self.kind, learner.owner.agent(), learner.now, &records)?;
            if self.kind != "experience" {
                return Ok((false, is_trimmed));
            }
            let (before, after) = statistics.count_experiences(records.len())?;
            let every = u64::from(learner.settings.adapt_every);
            Ok::<_, StorageError>((every > 0 && before / every < after / every, is_trimmed))
        })?;
        self.is_due |= is_due;
        if self.records.is_empty() && is_trimmed { then(learner, self.is_due) } else { self.begin(learner, then) }
    }

    /// The records of the next turn.
    fn take(&mut self) -> Vec<Record> {
        let (mut samples, mut bytes) = (0, 0);
        let fits = |record: &&Record| {
            samples += record.samples.len();
            bytes += record.body.get().len();
            samples <= TURN_SAMPLES && bytes <= TURN_BYTES
        };
        let count = self.records.iter().take(TURN_RECORDS).take_while(fits).count().max(1);
        self.records.drain(..count.min(self.records.len())).collect()
    }
}
