//! The index of one folder: a SQLite file with the sections and, in FTS5, their words.
//!
//! Several processes may use one file at a time: it is in WAL mode, writers take turns, and a question reads one
//! snapshot. A file that is damaged or was written by another version is emptied in place, which is safe while other
//! processes have it open. Words are stored as `words` produces them, so FTS5 only has to split them at blanks.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::sections::Section;
use crate::words::stems;

/// The version of the tables. Another number means that another version of the program wrote them.
const FORMAT: i32 = 6;

/// How long one process waits for another to write. Scanning a folder takes at most a few seconds less.
const PATIENCE: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE files (
        id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
        hash BLOB NOT NULL, warning TEXT);
    CREATE TABLE sections (
        id INTEGER PRIMARY KEY, file INTEGER NOT NULL, line INTEGER NOT NULL, heading TEXT NOT NULL, body TEXT NOT NULL,
        source TEXT, is_title INTEGER NOT NULL);
    CREATE INDEX sections_of_file ON sections (file);
    CREATE VIRTUAL TABLE words USING fts5 (
        above, title, heading, body, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0');
    CREATE TABLE state (generation INTEGER NOT NULL);
    INSERT INTO state VALUES (1);
";

/// The numbers are the weights of a word above, in and below a heading. SQLite's BM25 is negative.
const MATCHES: &str = "SELECT rowid, -bm25(words, 1.5, 2.5, 5.0, 1.0) FROM words WHERE words MATCH ?1";

/// The data that tells whether a file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// In bytes.
    pub(crate) size: i64,
    /// The modification time in nanoseconds, or [`Stamp::UNSETTLED`].
    pub(crate) modified: i64,
    /// The digest of its contents.
    pub(crate) hash: Vec<u8>,
}

impl Stamp {
    /// The time of a file that was changed so recently that another change might leave the same time.
    pub(crate) const UNSETTLED: i64 = i64::MIN;
}

/// A section in the form in which it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownSection {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) heading: String,
    pub(crate) body: String,
    /// The heading is the title of the document.
    pub(crate) is_title: bool,
}

/// Whether an error means that another process is using the file.
fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether an error means that the file is damaged, or is not an index of this program.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || error.to_string().starts_with("no such table")
}

/// An open index.
#[derive(Debug)]
pub(crate) struct Index {
    db: Connection,
    /// Whether it was found damaged, and emptied, since it was opened.
    was_damaged: bool,
}

impl Index {
    /// An index in memory, which ends with the process.
    pub(crate) fn in_memory() -> rusqlite::Result<Self> {
        let mut index = Self { db: Connection::open_in_memory()?, was_damaged: false };
        index.prepare()?;
        Ok(index)
    }

    /// Opens the index in `path`, or creates it.
    pub(crate) fn open(path: &Path) -> rusqlite::Result<Self> {
        let mut index = Self { db: Connection::open(path)?, was_damaged: false };
        index.db.busy_timeout(PATIENCE)?;
        match index.prepare_patiently() {
            Err(error) if is_damage(&error) => index.repair()?,
            outcome => outcome?,
        }
        Ok(index)
    }

    /// Prepares the index, and retries while another process does so: SQLite does not wait for a change of the journal
    /// mode.
    fn prepare_patiently(&mut self) -> rusqlite::Result<()> {
        let begun = std::time::Instant::now();
        loop {
            match self.prepare() {
                Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                outcome => return outcome,
            }
        }
    }

    /// Empties a damaged index, so that it is rebuilt.
    pub(crate) fn repair(&mut self) -> rusqlite::Result<()> {
        self.was_damaged = true;
        self.empty()
    }

    /// Whether the index had to be repaired since it was opened.
    pub(crate) fn was_damaged(&self) -> bool {
        self.was_damaged
    }

    /// Deletes the entire contents.
    fn empty(&mut self) -> rusqlite::Result<()> {
        self.db.flush_prepared_statement_cache();
        self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
        let emptied = self.db.execute_batch("VACUUM");
        self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
        emptied?;
        self.prepare()
    }

    /// Begins a change of the index. Other writers wait, and nothing is changed until [`Change::commit`].
    pub(crate) fn change(&mut self) -> rusqlite::Result<Change<'_>> {
        Ok(Change { transaction: self.db.transaction_with_behavior(TransactionBehavior::Immediate)?, changed: false })
    }

    /// The stamp of each file, by path.
    pub(crate) fn stamps(&self) -> rusqlite::Result<HashMap<String, Stamp>> {
        stamps(&self.db)
    }

    /// The warnings about files, in the order of their paths.
    pub(crate) fn warnings(&self) -> rusqlite::Result<Vec<String>> {
        let mut found =
            self.db.prepare_cached("SELECT path, warning FROM files WHERE warning IS NOT NULL ORDER BY path")?;
        found.query_map([], |row| Ok(format!("{}: {}", row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?.collect()
    }

    /// Reads one snapshot of the index, unaffected by concurrent writers.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Self) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let transaction = self.db.unchecked_transaction()?;
        let outcome = read(self)?;
        transaction.commit()?;
        Ok(outcome)
    }

    /// A number that differs after every change.
    pub(crate) fn generation(&self) -> rusqlite::Result<i64> {
        self.db.prepare_cached("SELECT generation FROM state")?.query_one([], |row| row.get(0))
    }

    /// All sections, in the order of paths and lines.
    pub(crate) fn sections(&self) -> rusqlite::Result<Vec<i64>> {
        let mut all = self.db.prepare_cached(
            "SELECT sections.id FROM sections JOIN files ON files.id = sections.file
             ORDER BY coalesce(source, path), line, sections.id",
        )?;
        all.query_map([], |row| row.get(0))?.collect()
    }

    /// Whether there is no section.
    pub(crate) fn is_empty(&self) -> rusqlite::Result<bool> {
        self.db.prepare_cached("SELECT NOT EXISTS (SELECT * FROM sections)")?.query_one([], |row| row.get(0))
    }

    /// The sections that match an FTS5 expression, with their BM25 score (higher is better).
    pub(crate) fn matches(&self, expression: &str) -> rusqlite::Result<Vec<(i64, f64)>> {
        let mut found = self.db.prepare_cached(MATCHES)?;
        found.query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// One section with its text.
    pub(crate) fn show(&self, section: i64) -> rusqlite::Result<Option<ShownSection>> {
        let mut found = self.db.prepare_cached(
            "SELECT coalesce(source, path), line, heading, body, is_title FROM sections JOIN files ON files.id = sections.file WHERE sections.id = ?1",
        )?;
        found
            .query_one([section], |row| {
                Ok(ShownSection {
                    path: row.get(0)?,
                    line: row.get::<_, u32>(1)? as usize,
                    heading: row.get(2)?,
                    body: row.get(3)?,
                    is_title: row.get(4)?,
                })
            })
            .optional()
    }

    fn prepare(&mut self) -> rusqlite::Result<()> {
        self.db.pragma_update(None, "journal_mode", "wal")?;
        self.db.pragma_update(None, "synchronous", "normal")?;
        let making = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let format: i32 = making.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables: i64 = making.query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if format != FORMAT && tables > 0 {
            drop(making);
            return self.empty();
        }
        if tables == 0 {
            making.execute_batch(TABLES)?;
            making.pragma_update(None, "user_version", FORMAT)?;
        }
        making.commit()
    }
}

/// A change of the index in progress.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    transaction: Transaction<'a>,
    changed: bool,
}

impl Change<'_> {
    /// The stamp of each file, while no other process can change them.
    pub(crate) fn stamps(&self) -> rusqlite::Result<HashMap<String, Stamp>> {
        stamps(&self.transaction)
    }

    /// Replaces the sections of a file.
    pub(crate) fn put(
        &mut self,
        path: &str,
        stamp: &Stamp,
        sections: &[Section],
        warning: Option<&str>,
    ) -> rusqlite::Result<()> {
        self.remove(path)?;
        let Stamp { size, modified, hash } = stamp;
        self.transaction
            .prepare_cached("INSERT INTO files (path, size, modified, hash, warning) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![path, size, modified, hash, warning])?;
        let file = self.transaction.last_insert_rowid();
        for Section { heading, above, begins, line, body, lead, source } in sections {
            // The name of a document often states its subject.
            let name = source.as_deref().unwrap_or(path);
            let name = stems(&name.rsplit_once('.').map_or(name, |(name, _)| name).replace(['/', '.'], " "));
            // The title states the subject of the whole document, and not only of the text right below it. Any other heading
            // counts most for the piece right below it.
            let is_title = above.is_empty();
            let (title, loud) = match (is_title, *begins) {
                (true, true) => (heading.as_str(), ""),
                (false, true) => ("", heading.as_str()),
                (_, false) => ("", ""),
            };
            let above = if *begins { above.clone() } else { format!("{above} {heading}") };
            self.transaction
                .prepare_cached("INSERT INTO sections (file, line, heading, body, source, is_title) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![file, *line as i64, heading, body, source, is_title])?;
            self.transaction
                .prepare_cached("INSERT INTO words (rowid, above, title, heading, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![
                    self.transaction.last_insert_rowid(),
                    format!("{name} {}", stems(&above)),
                    stems(title),
                    format!("{} {}", stems(loud), stems(lead)),
                    stems(body)
                ])?;
        }
        Ok(())
    }

    /// The contents of the file are unchanged, and only its stamp is new.
    pub(crate) fn touch(&mut self, path: &str, stamp: &Stamp) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached("UPDATE files SET size = ?2, modified = ?3 WHERE path = ?1")?
            .execute(params![path, stamp.size, stamp.modified])?;
        Ok(())
    }

    /// The file was deleted.
    pub(crate) fn remove(&mut self, path: &str) -> rusqlite::Result<()> {
        self.changed = true;
        for sql in [
            "DELETE FROM words WHERE rowid IN
             (SELECT sections.id FROM sections JOIN files ON files.id = sections.file WHERE path = ?1)",
            "DELETE FROM sections WHERE file = (SELECT id FROM files WHERE path = ?1)",
            "DELETE FROM files WHERE path = ?1",
        ] {
            self.transaction.prepare_cached(sql)?.execute([path])?;
        }
        Ok(())
    }

    /// Commits the change.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        if self.changed {
            self.transaction.execute("UPDATE state SET generation = generation + 1", [])?;
        }
        self.transaction.commit()
    }
}

fn stamps(db: &Connection) -> rusqlite::Result<HashMap<String, Stamp>> {
    let mut known = db.prepare_cached("SELECT path, size, modified, hash FROM files")?;
    known
        .query_map([], |row| Ok((row.get(0)?, Stamp { size: row.get(1)?, modified: row.get(2)?, hash: row.get(3)? })))?
        .collect()
}
