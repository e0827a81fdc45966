//! A search through working memory and the database, with a bounded response.

use std::sync::Arc;

use gladhand_core::wire::RawValue;
use serde::Serialize;

use super::entry::Entry;
use super::persistent::Persistent;
use super::ranking::{Candidate, EntryLocation, Query};
use super::working;
use crate::storage::StorageError;

/// A search.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) query: &'a Query,
    /// How many entries are returned. A negative limit leaves out that many at the end.
    pub(super) limit: i64,
    /// Maximum size of the returned entries, in bytes.
    pub(super) bytes: usize,
    /// The entries in working memory that are searched.
    pub(super) working: &'a [Arc<Entry>],
    /// The database, if the query needs it.
    pub(super) persistent: Option<Persistent<'a>>,
}

/// The result of a search, as it is returned.
#[derive(Debug, Serialize)]
pub(super) struct SearchResult {
    entries: Vec<Box<RawValue>>,
    /// The number of matches, returned or not.
    total: usize,
}

impl Search<'_> {
    /// Finds the matching entries, the best first.
    pub(super) fn find(&self) -> Result<SearchResult, StorageError> {
        let ranked = self.query.rank(self.candidates()?);
        let total = ranked.len();
        let (mut entries, mut remaining) = (Vec::new(), self.bytes);
        for (place, score) in ranked.into_iter().take(length(self.limit, total)) {
            let Some(entry) = self.returned(place, score)? else { continue };
            match remaining.checked_sub(entry.get().len()) {
                Some(left) => remaining = left,
                None => break,
            }
            entries.push(entry);
        }
        Ok(SearchResult { entries, total })
    }

    fn candidates(&self) -> Result<Vec<Candidate>, StorageError> {
        let mut candidates = Vec::new();
        if self.query.wants_working() {
            candidates.extend(working::find(self.working, self.query));
        }
        if let Some(persistent) = &self.persistent {
            candidates.extend(persistent.find(self.query)?);
        }
        Ok(candidates)
    }

    fn returned(&self, place: EntryLocation, score: f64) -> Result<Option<Box<RawValue>>, StorageError> {
        match (place, &self.persistent) {
            (EntryLocation::Working(at), _) => Ok(self.working.get(at).map(|entry| working::returned(entry, score))),
            (EntryLocation::Persistent(id), Some(persistent)) => persistent.returned(id, score).map(Some),
            (EntryLocation::Persistent(_), None) => Ok(None),
        }
    }
}

/// How many of `total` matches are returned.
fn length(limit: i64, total: usize) -> usize {
    let size = usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX);
    if limit < 0 { total.saturating_sub(size) } else { size }
}
