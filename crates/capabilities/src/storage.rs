//! The way to the database, for capabilities.
//!
//! A few rows are read in microseconds, but a write may wait for the disk or for another process, so nothing of it is done
//! on the thread that drives a session: each piece of work takes its turn on a thread that may block.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gladhand_hub::Answer;
use gladhand_operations::{Failure, Reply};
use gladhand_store::{Database, Trouble};
use gladhand_wire::RawValue;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

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

/// Where the database is. It is opened when it is first needed, so that who never needs it does not wait for it.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    database: OnceLock<Database>,
}

impl Place {
    /// The database, opened if need be. What cannot be opened is tried again the next time.
    fn database(&self) -> Result<&Database, Failure> {
        if let Some(database) = self.database.get() {
            return Ok(database);
        }
        let opened = Database::open(&self.folder).map_err(|error| {
            tracing::warn!(%error, "there is no database");
            Failure::of_capability("runtime_error", error.to_string())
        })?;
        // Two may open it at once; both are good, and one is kept.
        Ok(self.database.get_or_init(|| opened))
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

    /// Answers with what the work comes to. Work that has begun is finished, also if nobody waits for it any more.
    pub(crate) fn answer(
        &self,
        turn: Turn,
        work: impl FnOnce(&Database) -> Result<Box<RawValue>, Setback> + Send + 'static,
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
                work(place.database()?).map(Reply::Capability).map_err(Failure::from)
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
}

impl Setback {
    /// A refusal that has a word of its own.
    pub(crate) fn of(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused(Failure::of_capability(code, message))
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

impl From<Setback> for Failure {
    fn from(setback: Setback) -> Self {
        match setback {
            Setback::Refused(failure) => failure,
            Setback::Broken(error) => {
                tracing::warn!(%error, "the database failed");
                Self::of_capability("runtime_error", Trouble::of(&error).to_string())
            }
        }
    }
}
