//! Stores the persistent entries of one request, in turns that are short however large the request is.
//!
//! A small request is one transaction. A larger one is checked as a whole in its first turn, so that a refused request
//! stores nothing. If the database fails in a later turn, the entries of earlier turns stay.

use std::sync::Arc;

use super::entry::Entry;
use super::persistent::Persistent;
use super::{MemoryHandle, Shared};
use crate::storage::{Access, LazyDatabase, Step, StorageError};

/// Maximum number of entries that one turn stores, and that it removes. An entry may have a thousand words in the index.
pub(super) const TURN_ENTRIES: usize = 25;
/// Maximum size of the entries that one turn stores, in bytes. A turn stores at least one entry.
const TURN_BYTES: usize = 1024 * 1024;

/// Entries that are being stored.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Arc<MemoryHandle>,
    pub(super) now: f64,
    pub(super) entries: Vec<Entry>,
    /// Whether the limits allow all entries.
    pub(super) has_room: bool,
}

impl Storing {
    /// Stores all entries. `then` is called after the last turn.
    pub(super) fn begin(
        self,
        then: impl FnOnce() -> Result<Step, StorageError> + Send + 'static,
    ) -> Result<Step, StorageError> {
        Step::next(Access::Change, move |database| self.go_on(database, then))
    }

    /// One turn.
    fn go_on(
        mut self,
        database: &LazyDatabase,
        then: impl FnOnce() -> Result<Step, StorageError> + Send + 'static,
    ) -> Result<Step, StorageError> {
        let count = self.count();
        let has_stored = database.change(|rows| {
            let (persistent, settings) =
                (Persistent { rows, handle: &self.handle, now: self.now }, &self.shared.settings);
            if !self.has_room && persistent.make_room(&self.entries, settings, TURN_ENTRIES)? >= TURN_ENTRIES {
                return Ok(false);
            }
            persistent.store(&self.entries[..count], settings)?;
            Ok::<_, StorageError>(true)
        })?;
        if has_stored {
            self.has_room = true;
            self.entries.drain(..count);
        }
        if self.entries.is_empty() { then() } else { self.begin(then) }
    }

    /// How many entries the next turn stores.
    fn count(&self) -> usize {
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.bytes;
            bytes <= TURN_BYTES
        };
        self.entries.iter().take(TURN_ENTRIES).take_while(fits).count().max(1)
    }
}
