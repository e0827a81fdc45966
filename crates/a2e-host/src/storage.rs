//! Access to the database for capabilities.
//!
//! Reading a few rows takes microseconds, but a write may wait for the disk or for another process. So database work
//! never runs on the thread that drives a session. Each piece of work waits for a permit and runs on a thread that may
//! block.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gladhand_core::operations::{Failure, Reply};
use gladhand_core::wire::RawValue;
use gladhand_hub::{Answer, Settling};
use gladhand_store::{Database, DatabaseError};
use rusqlite::Transaction;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::field::display;

/// Maximum number of concurrent reads. More would only take threads from other work.
const READERS: usize = 4;

/// The database as capabilities share it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage {
    place: Arc<Place>,
    reading: Arc<Semaphore>,
    /// One writer at a time, in order of arrival. SQLite also admits only one writer, but in no particular order.
    changing: Arc<Semaphore>,
}

/// The kind of access that a piece of work needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Read only.
    Read,
    /// Read and write.
    Change,
}

/// The location of the database. It is opened on first use, so that a session that never needs it neither waits for it
/// nor fails with it.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    database: OnceLock<Database>,
}

impl Place {
    /// Reads within one transaction.
    pub(crate) fn read<T, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, E>) -> Result<T, Setback>
    where
        E: From<rusqlite::Error> + Into<Setback>,
    {
        self.database()?.read(work).map_err(E::into)
    }

    /// Runs the work in a transaction: commits if the work succeeds, otherwise rolls back.
    pub(crate) fn change<T, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, E>) -> Result<T, Setback>
    where
        E: From<rusqlite::Error> + Into<Setback>,
    {
        self.database()?.change(work).map_err(E::into)
    }

    /// The database, opened if necessary. If opening fails, the next call tries again.
    fn database(&self) -> Result<&Database, Setback> {
        if let Some(database) = self.database.get() {
            return Ok(database);
        }
        let opened = Database::open(&self.folder).map_err(Setback::Unusable)?;
        // Two threads may open it at once. Both handles work, and one is kept.
        Ok(self.database.get_or_init(|| opened))
    }

    /// The failure that the client sees. Paths of our files and advice go only to the log.
    fn told(&self, setback: Setback) -> Failure {
        let error = match setback {
            Setback::Refused(failure) => return failure,
            Setback::Broken(error) => DatabaseError::of(&Database::file(&self.folder), error),
            Setback::Unusable(error) => error,
        };
        let (cause, trouble) = (error.source().map(display), error.trouble());
        tracing::warn!(%error, cause, advice = error.hint(), "the database failed");
        let failure = Failure::of_capability("runtime_error", trouble.to_string());
        if trouble.is_lasting() { failure.lasting() } else { failure }
    }
}

impl Storage {
    /// Shares an open database between capabilities.
    pub fn new(database: Database) -> Self {
        let folder = database.path().parent().map(ToOwned::to_owned).unwrap_or_default();
        Self::at(Place { folder, database: OnceLock::from(database) })
    }

    /// Shares the database of a data folder, which is opened or created on first use.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self::at(Place { folder, database: OnceLock::new() })
    }

    fn at(place: Place) -> Self {
        let turns = |number| Arc::new(Semaphore::new(number));
        Self { place: Arc::new(place), reading: turns(READERS), changing: turns(1) }
    }

    /// Waits until all data is in the database file, so that a clean exit leaves no write-ahead log with data in it.
    /// Waits for running changes first.
    pub(crate) fn closing(&self) -> Settling {
        let (place, changing) = (Arc::clone(&self.place), Arc::clone(&self.changing));
        Box::pin(async move {
            let turn = changing.acquire_owned().await;
            let close = move || {
                let _turn = turn;
                if let Some(Err(error)) = place.database.get().map(Database::close) {
                    tracing::warn!(%error, cause = error.source().map(display), "could not close the database cleanly");
                }
            };
            // If it panicked, the write-ahead log is still intact, and the next start reads it.
            let _ = spawn_blocking(close).await;
        })
    }

    /// Answers with the result of the work. Work that has begun is finished even if the caller no longer waits.
    pub(crate) fn answer(
        &self,
        turn: Turn,
        work: impl FnOnce(&Place) -> Result<Box<RawValue>, Setback> + Send + 'static,
    ) -> Answer {
        let room = match turn {
            Turn::Read => &self.reading,
            Turn::Change => &self.changing,
        };
        let (place, room) = (Arc::clone(&self.place), Arc::clone(room));
        Answer::Later(Box::pin(async move {
            let turn = room.acquire_owned().await;
            let work = move || {
                let _turn = turn;
                work(&place).map(Reply::Capability).map_err(|setback| place.told(setback))
            };
            spawn_blocking(work).await.unwrap_or_else(|_| Err(Failure::panicked()))
        }))
    }
}

/// Why a piece of work failed.
#[derive(Debug)]
pub(crate) enum Setback {
    /// The request is refused.
    Refused(Failure),
    /// The database failed.
    Broken(rusqlite::Error),
    /// The database could not be opened.
    Unusable(DatabaseError),
}

impl Setback {
    /// A refusal with an error code.
    pub(crate) fn of(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused(Failure::of_capability(code, message))
    }

    /// A refusal without an error code. A retry would be refused again.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(Failure::refused(message))
    }
}

impl From<Failure> for Setback {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<rusqlite::Error> for Setback {
    fn from(error: rusqlite::Error) -> Self {
        Self::Broken(error)
    }
}
