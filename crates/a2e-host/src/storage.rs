//! Access to the database for capabilities.
//!
//! Reading a few rows takes microseconds, but a write may wait for the disk or for another process. So database work
//! never runs on the thread that drives a session. Each piece of work waits for a turn, which parties
//! share, and runs on a thread that may block.
//!
//! A turn must be short, because other parties wait for its end. A request therefore parses its message before its first
//! turn at the database, and divides a large change into several turns ([`Step`]).

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gladhand_core::operations::{Failure, Outcome, Party, Reply};
use gladhand_core::wire::{RawValue, json};
use gladhand_hub::{Answer, Settling, Turns};
use gladhand_store::{Database, DatabaseError};
use rusqlite::Transaction;
use tokio::task::spawn_blocking;
use tracing::field::display;

/// Maximum number of concurrent reads. More would only take threads from other work.
const READERS: usize = 4;

/// Maximum number of messages that are parsed at once.
const PARSERS: usize = 4;

/// The database as capabilities share it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Storage {
    database: Arc<LazyDatabase>,
    /// Turns of work that does not need the database.
    parsing: Arc<Turns>,
    /// Parties take turns, so that many slow reads of one do not delay the reads of another.
    reading: Arc<Turns>,
    /// One writer at a time. SQLite also admits only one writer, but in no particular order.
    changing: Arc<Turns>,
}

/// The kind of access that a piece of work needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read only.
    Read,
    /// Read and write.
    Change,
}

/// The result of a piece of work: the answer, or more work in another turn.
pub(crate) enum Step {
    /// The members of the answer.
    Done(Box<RawValue>),
    /// Work that needs a turn at the database.
    Next(Access, Work),
}

/// A piece of work.
pub(crate) type Work = Box<dyn FnOnce(&LazyDatabase) -> Result<Step, StorageError> + Send>;

impl Step {
    /// The answer.
    pub(crate) fn done<T: serde::Serialize + ?Sized>(members: &T) -> Result<Self, StorageError> {
        Ok(Self::Done(json::to_raw(members)))
    }

    /// Work that needs a turn at the database.
    pub(crate) fn next(
        access: Access,
        work: impl FnOnce(&LazyDatabase) -> Result<Self, StorageError> + Send + 'static,
    ) -> Result<Self, StorageError> {
        Ok(Self::Next(access, Box::new(work)))
    }
}

/// The location of the database. It is opened on first use, so that a session that never needs it neither waits for it
/// nor fails with it.
#[derive(Debug)]
pub(crate) struct LazyDatabase {
    folder: PathBuf,
    database: OnceLock<Database>,
}

impl LazyDatabase {
    /// Reads within one transaction.
    pub(crate) fn read<T, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, E>) -> Result<T, StorageError>
    where
        E: From<rusqlite::Error> + Into<StorageError>,
    {
        self.database()?.read(work).map_err(E::into)
    }

    /// Runs the work in a transaction: commits if the work succeeds, otherwise rolls back.
    pub(crate) fn change<T, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T, E>) -> Result<T, StorageError>
    where
        E: From<rusqlite::Error> + Into<StorageError>,
    {
        self.database()?.change(work).map_err(E::into)
    }

    /// The database, opened if necessary. If opening fails, the next call tries again.
    fn database(&self) -> Result<&Database, StorageError> {
        if let Some(database) = self.database.get() {
            return Ok(database);
        }
        let opened = Database::open(&self.folder).map_err(StorageError::Unusable)?;
        // Two threads may open it at once. Both handles work, and one is kept.
        Ok(self.database.get_or_init(|| opened))
    }

    /// The failure that the client sees. Paths of our files and advice go only to the log.
    fn failure_of(&self, error: StorageError) -> Failure {
        let error = match error {
            StorageError::Refused(failure) => return failure,
            StorageError::Broken(error) => DatabaseError::of(&Database::file(&self.folder), error),
            StorageError::Unusable(error) => error,
        };
        let (cause, problem) = (error.source().map(display), error.problem());
        tracing::warn!(%error, cause, advice = error.hint(), "the database failed");
        let failure = Failure::of_capability("runtime_error", problem.to_string());
        if problem.is_lasting() { failure.lasting() } else { failure }
    }
}

impl Storage {
    /// Shares an open database between capabilities.
    pub fn new(database: Database) -> Self {
        let folder = database.path().parent().map(ToOwned::to_owned).unwrap_or_default();
        Self::at(LazyDatabase { folder, database: OnceLock::from(database) })
    }

    /// Shares the database of a data folder, which is opened or created on first use.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self::at(LazyDatabase { folder, database: OnceLock::new() })
    }

    fn at(database: LazyDatabase) -> Self {
        let (parsing, reading, changing) = (Turns::of(PARSERS), Turns::of(READERS), Turns::of(1));
        Self { database: Arc::new(database), parsing, reading, changing }
    }

    /// Waits until all data is in the database file, so that a clean exit leaves no write-ahead log with data in it.
    /// Waits for running changes first.
    pub(crate) fn closing(&self) -> Settling {
        let (database, changing) = (Arc::clone(&self.database), Arc::clone(&self.changing));
        Box::pin(async move {
            let turn = changing.take(None).await;
            let close = move || {
                let _turn = turn;
                if let Some(Err(error)) = database.database.get().map(Database::close) {
                    tracing::warn!(%error, cause = error.source().map(display), "could not close the database cleanly");
                }
            };
            // If it panicked, the write-ahead log is still intact, and the next start reads it.
            let _ = spawn_blocking(close).await;
        })
    }

    /// Answers a party with the result of the work. `begin` must not need the database; the steps that follow from it
    /// may. A step that has begun is finished even if the caller no longer waits.
    pub(crate) fn answer(
        &self,
        party: Option<Party>,
        begin: impl FnOnce() -> Result<Step, StorageError> + Send + 'static,
    ) -> Answer {
        let storage = self.clone();
        Answer::Later(Box::pin(async move {
            let step = storage.run(&storage.parsing, party, Box::new(move |_| begin())).await?;
            storage.finish(party, step).await
        }))
    }

    /// The same for a request whose message is so short that it may be parsed during a turn at the database.
    pub(crate) fn answer_short(
        &self,
        access: Access,
        party: Option<Party>,
        work: impl FnOnce(&LazyDatabase) -> Result<Box<RawValue>, StorageError> + Send + 'static,
    ) -> Answer {
        let storage = self.clone();
        let step = Step::Next(access, Box::new(move |database| work(database).map(Step::Done)));
        Answer::Later(Box::pin(async move { storage.finish(party, step).await }))
    }

    /// Takes the turns that follow from a step.
    async fn finish(&self, party: Option<Party>, mut step: Step) -> Outcome {
        loop {
            let (access, work) = match step {
                Step::Done(members) => return Ok(Reply::Capability(members)),
                Step::Next(access, work) => (access, work),
            };
            let turns = match access {
                Access::Read => &self.reading,
                Access::Change => &self.changing,
            };
            step = self.run(turns, party, work).await?;
        }
    }

    /// Runs one piece of work in a turn of its party.
    async fn run(&self, turns: &Arc<Turns>, party: Option<Party>, work: Work) -> Result<Step, Failure> {
        let (turn, database) = (turns.take(party).await, Arc::clone(&self.database));
        let work = move || {
            let _turn = turn;
            work(&database).map_err(|error| database.failure_of(error))
        };
        spawn_blocking(work).await.unwrap_or_else(|_| Err(Failure::panicked()))
    }
}

/// Why a piece of work failed.
#[derive(Debug)]
pub(crate) enum StorageError {
    /// The request is refused.
    Refused(Failure),
    /// The database failed.
    Broken(rusqlite::Error),
    /// The database could not be opened.
    Unusable(DatabaseError),
}

impl StorageError {
    /// A refusal with an error code.
    pub(crate) fn of(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused(Failure::of_capability(code, message))
    }

    /// A refusal without an error code. A retry would be refused again.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(Failure::refused(message))
    }
}

impl From<Failure> for StorageError {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Broken(error)
    }
}
