//! A search through working memory and the database, with a bounded response.

use gladhand_core::wire::RawValue;
use serde::Serialize;

use super::Space;
use super::kept::Kept;
use super::ranking::{Candidate, Place, Wanted};
use super::working::Working;
use crate::storage::Setback;

/// A search.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) wanted: &'a Wanted,
    /// How many entries are returned. A negative limit leaves out that many at the end.
    pub(super) limit: i64,
    /// Maximum size of the returned entries, in bytes.
    pub(super) bytes: usize,
    /// The space in working memory.
    pub(super) space: Space,
    pub(super) working: &'a Working,
    /// The database, if the query needs it.
    pub(super) kept: Option<Kept<'a>>,
    pub(super) now: f64,
}

/// The result of a search, as it is returned.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    entries: Vec<Box<RawValue>>,
    /// The number of matches, returned or not.
    total: usize,
}

impl Search<'_> {
    /// Finds the matching entries, the best first.
    pub(super) fn find(&self) -> Result<Found, Setback> {
        let ranked = self.wanted.rank(self.candidates()?);
        let total = ranked.len();
        let (mut entries, mut room) = (Vec::new(), self.bytes);
        for (place, score) in ranked.into_iter().take(length(self.limit, total)) {
            let Some(entry) = self.shown(place, score)? else { continue };
            match room.checked_sub(entry.get().len()) {
                Some(left) => room = left,
                None => break,
            }
            entries.push(entry);
        }
        Ok(Found { entries, total })
    }

    fn candidates(&self) -> Result<Vec<Candidate>, Setback> {
        let mut candidates = Vec::new();
        if self.wanted.wants_working() {
            candidates.extend(self.working.find(self.space, self.wanted, self.now));
        }
        if let Some(kept) = &self.kept {
            candidates.extend(kept.find(self.wanted)?);
        }
        Ok(candidates)
    }

    fn shown(&self, place: Place, score: f64) -> Result<Option<Box<RawValue>>, Setback> {
        match (place, &self.kept) {
            (Place::Working(at), _) => Ok(self.working.shown(at, score)),
            (Place::Kept(id), Some(kept)) => kept.shown(id, score).map(Some),
            (Place::Kept(_), None) => Ok(None),
        }
    }
}

/// How many of `total` matches are returned.
fn length(limit: i64, total: usize) -> usize {
    let size = usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX);
    if limit < 0 { total.saturating_sub(size) } else { size }
}
