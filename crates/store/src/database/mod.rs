//! One SQLite file in the data folder, shared by all data that outlives a session.
//!
//! Several processes can have it open. Readers see committed data and never wait; writers take turns. `schema/`
//! defines the tables, as migration steps. A step never changes; new steps are only appended.

mod error;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fs_err::{File, OpenOptions};
use gladhand_core::sync::Unpoisoned as _;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

pub use self::error::{DatabaseError, DatabaseProblem};
use crate::files::make_folder;

/// The name of the file.
const FILE: &str = "gladhand.db";
/// The application id that marks a file as ours: the letters `glad`.
const APPLICATION_ID: i32 = 0x676c_6164;
/// How long a writer waits for other writers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The size to which a large write-ahead log is truncated.
const LOG_BYTES: u32 = 16 * 1024 * 1024;
/// The page cache of a connection: 16 MiB, enough for the largest change.
const CACHE_PAGES: u32 = 4096;
/// The maximum number of idle connections that are kept open.
const MAX_IDLE_CONNECTIONS: usize = 4;
/// The migration steps from an empty file to the current tables. The version of a file is the number of steps
/// applied to it.
const STEPS: [&str; 2] = [include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// The database of a data folder.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    /// Idle open connections.
    idle: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens or creates the database of a data folder, and migrates its tables.
    pub fn open(folder: &Path) -> Result<Self, DatabaseError> {
        let path = Self::file(folder);
        make_private(folder, &path)?;
        let at_path = |error| DatabaseError::of(&path, error);
        let mut connection = open_configured_connection(&path).map_err(at_path)?;
        if connection.is_readonly("main").map_err(at_path)? {
            return Err(DatabaseError::ReadOnly { file: path });
        }
        if let Some(incompatibility) = migrate(&mut connection).map_err(at_path)? {
            return Err(incompatibility.error(path));
        }
        Ok(Self { path, idle: Mutex::new(vec![connection]) })
    }

    /// Checks that the database of a data folder is intact and usable. Returns false if it does not exist yet.
    /// Creates and changes nothing.
    pub fn examine(folder: &Path) -> Result<bool, DatabaseError> {
        let path = Self::file(folder);
        if !path.try_exists()? {
            return Ok(false);
        }
        let at_path = |error| DatabaseError::of(&path, error);
        let connection = open_connection(&path).map_err(at_path)?;
        if connection.is_readonly("main").map_err(at_path)? {
            return Err(DatabaseError::ReadOnly { file: path });
        }
        if let Some(incompatibility) = incompatibility(&connection).map_err(at_path)? {
            return Err(incompatibility.error(path));
        }
        let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0)).map_err(at_path)?;
        if verdict == "ok" { Ok(true) } else { Err(DatabaseError::Damaged { file: path }) }
    }

    /// The path of the database in a data folder.
    pub fn file(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads from one snapshot of the database: commits of other writers during `work` are not visible.
    pub fn read<T, E: From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Deferred, work)
    }

    /// Changes the database in one transaction. If `work` fails, nothing is changed. Other writers wait.
    pub fn change<T, E: From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Immediate, work)
    }

    /// Moves everything into the file itself and closes all idle connections. If no other process has the database
    /// open, SQLite removes the write-ahead log. The database can still be used afterwards.
    pub fn close(&self) -> Result<(), DatabaseError> {
        let Some(connection) = self.idle().pop() else { return Ok(()) };
        self.idle().clear();
        // The result row says whether other connections prevented the checkpoint. In that case the last of them
        // empties the log.
        let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.map_err(|error| DatabaseError::of(&self.path, error))
    }

    fn transact<T, E: From<rusqlite::Error>>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => open_configured_connection(&self.path)?,
        };
        let outcome = in_transaction(&mut connection, behavior, work);
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE_CONNECTIONS && connection.is_autocommit() {
            idle.push(connection);
        }
        outcome
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unpoisoned()
    }
}

fn in_transaction<T, E: From<rusqlite::Error>>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let transaction = connection.transaction_with_behavior(behavior)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

/// Creates the folder and an empty file if they do not exist, and makes the file private to its owner. SQLite
/// creates its companion files with the same permissions.
fn make_private(folder: &Path, path: &Path) -> std::io::Result<()> {
    make_folder(folder)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(file) => restrict_to_owner(&file),
        // Opening the database fails again later, with a better error message.
        Err(_) if path.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn restrict_to_owner(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn restrict_to_owner(_: &File) -> std::io::Result<()> {
    Ok(())
}

fn open_connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

fn open_configured_connection(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open_connection(path)?;
    retry_while_busy(|| connection.pragma_update(None, "journal_mode", "wal"))?;
    // With a write-ahead log a crash cannot corrupt the file. A power failure can only lose the most recent
    // changes.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "cache_size", CACHE_PAGES)?;
    Ok(connection)
}

/// Retries while the database is busy. Switching to a write-ahead log is the only operation for which SQLite's own
/// busy timeout has no effect.
fn retry_while_busy(mut attempt: impl FnMut() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    let until = Instant::now() + BUSY_TIMEOUT;
    loop {
        match attempt() {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            outcome => return outcome,
        }
    }
}

/// Why a file must not be changed.
enum Incompatible {
    Foreign,
    Newer(u32),
}

impl Incompatible {
    fn error(self, file: PathBuf) -> DatabaseError {
        match self {
            Self::Foreign => DatabaseError::Foreign { file },
            Self::Newer(version) => DatabaseError::Newer { file, version },
        }
    }
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

/// Checks whether the file belongs to another program or to a newer version.
fn incompatibility(connection: &Connection) -> rusqlite::Result<Option<Incompatible>> {
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 && pragma(connection, "application_id")? != APPLICATION_ID as u32 {
        return Ok(Some(Incompatible::Foreign));
    }
    let version = pragma(connection, "user_version")?;
    Ok((version as usize > STEPS.len()).then_some(Incompatible::Newer(version)))
}

/// Applies the migration steps that are missing in the file.
fn migrate(connection: &mut Connection) -> rusqlite::Result<Option<Incompatible>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(incompatibility) = incompatibility(&transaction)? {
        return Ok(Some(incompatibility));
    }
    let applied = pragma(&transaction, "user_version")?;
    let steps = STEPS.get(applied as usize..).unwrap_or_default();
    for step in steps {
        transaction.execute_batch(step)?;
    }
    if !steps.is_empty() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", STEPS.len() as u32)?;
    }
    transaction.commit()?;
    Ok(None)
}
