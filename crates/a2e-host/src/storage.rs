//! The way to the database, for capabilities.
//!
//! A few rows are read in microseconds, but a write may wait for the disk or for another process, so nothing of it is done
//! on the thread that drives a session: each piece of work takes its turn on a thread that may block.

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

/// Readers at once. More would only keep threads from others.
const READERS: usize = 4;

/// The database as capabilities share it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage {
    place: Arc<Place>,
    reading: Arc<Semaphore>,
    /// One at a time, first come, first served: SQLite lets one in too, but not in the order in which they came.
    changing: Arc<Semaphore>,
}

/// What a piece of work does with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It reads at most.
    Read,
    /// It changes something.
    Change,
}

/// Where the database is. It is opened when it is first needed, so that who never needs it does not wait for it, nor
/// suffers from what is wrong with it.
#[derive(Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    database: OnceLock<Database>,
}

impl Place {
    /// Reads, from one state of the database.
    pub(crate) fn read<T, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, E>) -> Result<T, Setback>
    where
        E: From<rusqlite::Error> + Into<Setback>,
    {
        self.database()?.read(work).map_err(E::into)
    }

    /// Changes the database: all of it if the work ends well, else nothing.
    pub(crate) fn change<T, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, E>) -> Result<T, Setback>
    where
        E: From<rusqlite::Error> + Into<Setback>,
    {
        self.database()?.change(work).map_err(E::into)
    }

    /// The database, opened if need be. What cannot be opened is tried again the next time.
    fn database(&self) -> Result<&Database, Setback> {
        if let Some(database) = self.database.get() {
            return Ok(database);
        }
        let opened = Database::open(&self.folder).map_err(Setback::Unusable)?;
        // Two may open it at once; both are good, and one is kept.
        Ok(self.database.get_or_init(|| opened))
    }

    /// What whoever asked gets to know of a setback. Where our files are is for the log alone, with what to do.
    fn told(&self, setback: Setback) -> Failure {
        let error = match setback {
            Setback::Refused(failure) => return failure,
            Setback::Broken(error) => DatabaseError::of(&Database::file(&self.folder), error),
            Setback::Unusable(error) => error,
        };
        let (cause, problem) = (error.source().map(display), error.problem());
        tracing::warn!(%error, cause, advice = error.hint(), "the database failed");
        let failure = Failure::of_capability("runtime_error", problem.to_string());
        if problem.is_lasting() { failure.lasting() } else { failure }
    }
}

impl Storage {
    /// The way to a database, for all capabilities that keep something in it.
    pub fn new(database: Database) -> Self {
        let folder = database.path().parent().map(ToOwned::to_owned).unwrap_or_default();
        Self::at(Place { folder, database: OnceLock::from(database) })
    }

    /// The way to the database of a data folder, which is opened or made when it is first needed.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self::at(Place { folder, database: OnceLock::new() })
    }

    fn at(place: Place) -> Self {
        let turns = |number| Arc::new(Semaphore::new(number));
        Self { place: Arc::new(place), reading: turns(READERS), changing: turns(1) }
    }

    /// Ends when everything is in the database's own file, so that a clean exit leaves no write-ahead log with data in it.
    /// Changes that are under way are waited for.
    pub(crate) fn closing(&self) -> Settling {
        let (place, changing) = (Arc::clone(&self.place), Arc::clone(&self.changing));
        Box::pin(async move {
            let turn = changing.acquire_owned().await;
            let close = move || {
                let _turn = turn;
                if let Some(Err(error)) = place.database.get().map(Database::close) {
                    tracing::warn!(%error, cause = error.source().map(display), "the database was not closed in order");
                }
            };
            // If it panicked, the log is still whole, and the next start reads it.
            let _ = spawn_blocking(close).await;
        })
    }

    /// Answers with what the work comes to. Work that has begun is finished, also if nobody waits for it any more.
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

/// Why a piece of work came to nothing.
#[derive(Debug)]
pub(crate) enum Setback {
    /// It is not to be done.
    Refused(Failure),
    /// The database failed.
    Broken(rusqlite::Error),
    /// The database could not be opened.
    Unusable(DatabaseError),
}

impl Setback {
    /// A refusal that has a word of its own.
    pub(crate) fn of(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused(Failure::of_capability(code, message))
    }

    /// A refusal that has none, and will be the same the next time.
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
