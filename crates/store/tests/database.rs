//! Tests of the database with real files: shared, private, damaged, foreign, newer, read-only.

#![cfg(unix)]

use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use gladhand_store::{Database, DatabaseError, DatabaseProblem};
use rusqlite::Connection;

/// The variable that tells a child process of this test which folder to use.
const FOLDER: &str = "GLADHAND_TEST_DATABASE";

fn file(folder: &Path) -> PathBuf {
    folder.join("gladhand.db")
}

fn write_plans(database: &Database, who: &str, plans: u32) {
    for plan in 0..plans {
        let insert = "INSERT INTO planning_plans (principal, plan_id, name, columns, description, created_at) \
             VALUES ('local', ?1, '', '', '', 0)";
        let write = |rows: &rusqlite::Transaction<'_>| rows.execute(insert, [format!("{who}-{plan}")]);
        assert_eq!(database.change(write).expect("other writers finish in time"), 1);
    }
}

fn plans(database: &Database) -> u32 {
    let count = "SELECT count(*) FROM planning_plans";
    database.read(|rows| rows.query_row(count, [], |row| row.get(0))).expect("the table exists")
}

#[test]
fn the_database_is_private_to_its_owner_and_survives_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("deep/data");
    let database = Database::open(&data).unwrap();
    write_plans(&database, "me", 3);
    for beside in ["gladhand.db", "gladhand.db-wal", "gladhand.db-shm"] {
        let mode = data.join(beside).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{beside}");
    }
    drop(database);
    std::fs::set_permissions(file(&data), PermissionsExt::from_mode(0o644)).unwrap();
    let database = Database::open(&data).unwrap();
    assert_eq!(file(&data).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(plans(&database), 3);
}

#[test]
fn many_threads_can_write_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let run = |who: u32| {
        let database = Database::open(folder.path()).unwrap();
        write_plans(&database, &who.to_string(), 25);
    };
    std::thread::scope(|scope| {
        for who in 0..8 {
            scope.spawn(move || run(who));
        }
    });
    assert_eq!(plans(&Database::open(folder.path()).unwrap()), 200);
}

#[test]
fn processes_share_the_database() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let database = Database::open(Path::new(&folder)).unwrap();
        return write_plans(&database, &std::process::id().to_string(), 25);
    }
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    let child = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes_share_the_database"]).env(FOLDER, folder.path());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children = [child(), child(), child()];
    write_plans(&database, "parent", 25);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(plans(&database), 100);
}

#[test]
fn a_failed_transaction_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    let failed: rusqlite::Result<()> = database.change(|rows| {
        rows.execute("UPDATE learning_state SET experiences = 9 WHERE principal = 'local'", [])?;
        Err(rusqlite::Error::QueryReturnedNoRows)
    });
    assert!(failed.is_err());
    let experiences = "SELECT experiences FROM learning_state WHERE principal = 'local'";
    assert_eq!(database.read(|rows| rows.query_row(experiences, [], |row| row.get::<_, u32>(0))).unwrap(), 0);
}

#[test]
fn a_file_that_is_not_a_database_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let text = "dear diary, ".repeat(500);
    std::fs::write(file(folder.path()), &text).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::Damaged { .. }), "{error}");
    assert!(error.hint().contains("start with an empty database"));
    assert_eq!(std::fs::read_to_string(file(folder.path())).unwrap(), text);
}

#[test]
fn the_database_of_another_program_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    Connection::open(file(folder.path())).unwrap().execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::Foreign { .. }), "{error}");
    let tables = Connection::open(file(folder.path())).unwrap();
    let tables: u32 = tables.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_later_version_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    drop(Database::open(folder.path()).unwrap());
    Connection::open(file(folder.path())).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::Newer { version: 99, .. }), "{error}");
}

#[test]
fn a_read_only_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    drop(Database::open(folder.path()).unwrap());
    // A write format version that is newer than SQLite makes the file read-only for every user, even for root.
    let header = std::fs::OpenOptions::new().write(true).open(file(folder.path())).unwrap();
    header.write_all_at(&[9], 18).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::ReadOnly { .. }), "{error}");
}

#[test]
fn a_folder_in_place_of_the_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(file(folder.path())).unwrap();
    let error = Database::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("gladhand.db"), "{error}");
}

#[test]
fn examining_creates_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!Database::examine(folder.path()).unwrap(), "the database does not exist yet");
    assert!(!file(folder.path()).exists());
    let database = Database::open(folder.path()).unwrap();
    write_plans(&database, "me", 1);
    assert!(Database::examine(folder.path()).unwrap(), "an open connection does not disturb the check");
    drop(database);
    let before = std::fs::read(file(folder.path())).unwrap();
    assert!(Database::examine(folder.path()).unwrap());
    assert_eq!(std::fs::read(file(folder.path())).unwrap(), before);

    let damaged = std::fs::OpenOptions::new().write(true).open(file(folder.path())).unwrap();
    // Overwrites everything except the first page, which identifies the file as our database.
    damaged.write_all_at(&vec![0x5a; before.len() - 4096], 4096).unwrap();
    let error = Database::examine(folder.path()).unwrap_err();
    assert!(matches!(error, DatabaseError::Damaged { .. }), "{error}");
    std::fs::write(file(folder.path()), "dear diary, ".repeat(500)).unwrap();
    assert_eq!(Database::examine(folder.path()).unwrap_err().problem(), DatabaseProblem::Damaged);
    std::fs::remove_file(file(folder.path())).unwrap();
    Connection::open(file(folder.path())).unwrap().execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    assert_eq!(Database::examine(folder.path()).unwrap_err().problem(), DatabaseProblem::Unsupported);
}

#[test]
fn later_damage_fails_only_the_affected_query() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    write_plans(&database, "me", 1);
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'planning_plans'";
    let root: u32 = database.read(|rows| rows.query_row(root, [], |row| row.get(0))).unwrap();
    drop(database);
    let damaged = std::fs::OpenOptions::new().write(true).open(file(folder.path())).unwrap();
    damaged.write_all_at(&[0x5a; 4096], u64::from(root - 1) * 4096).unwrap();
    let database = Database::open(folder.path()).unwrap();
    let names = "SELECT name, description FROM planning_plans ORDER BY created_at";
    let error = database.read(|rows| rows.query_row(names, [], |row| row.get::<_, String>(0))).unwrap_err();
    assert_eq!(DatabaseProblem::of(&error), DatabaseProblem::Damaged);
}

#[test]
fn closing_moves_everything_into_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    write_plans(&database, "me", 3);
    let log = folder.path().join("gladhand.db-wal");
    assert!(log.metadata().unwrap().len() > 0);
    database.close().unwrap();
    assert!(!log.exists(), "no connection is left, so SQLite removes the log");
    let alone = tempfile::tempdir().unwrap();
    std::fs::copy(file(folder.path()), file(alone.path())).unwrap();
    assert_eq!(plans(&Database::open(alone.path()).unwrap()), 3, "the file alone contains all data");
    assert_eq!(plans(&database), 3, "the database can be used after closing");
    database.close().unwrap();
    database.close().unwrap();

    let other = Database::open(folder.path()).unwrap();
    write_plans(&other, "other", 1);
    write_plans(&database, "again", 1);
    database.close().unwrap();
    assert_eq!(log.metadata().unwrap().len(), 0, "the log is empty although another process has the database open");
    assert_eq!(plans(&other), 5);
}

/// The query plan of SQLite.
fn way(database: &Database, query: &str) -> String {
    let explain = |rows: &rusqlite::Transaction<'_>| {
        let mut steps = rows.prepare(&format!("EXPLAIN QUERY PLAN {query}"))?;
        let steps = steps.query_map([], |row| row.get::<_, String>(3))?.collect::<rusqlite::Result<Vec<_>>>();
        steps.map(|steps| steps.join("; "))
    };
    database.read(explain).expect("the tables exist")
}

#[test]
fn queries_of_a_principal_use_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path()).unwrap();
    for query in [
        "SELECT id FROM memory WHERE owner = 'o' AND space = x'00' AND identity = x'00' AND tier = 't'",
        "SELECT id FROM memory WHERE owner = 'o' ORDER BY id LIMIT 1",
        "SELECT calls_total FROM learning_components WHERE principal = 'p' AND name = 'n'",
        "SELECT count(*) FROM learning_components WHERE principal = 'p'",
        "SELECT milliseconds FROM learning_durations WHERE principal = 'p' AND component = 'c' ORDER BY milliseconds",
        "SELECT min(id) FROM learning_records WHERE principal = 'p'",
        "SELECT state FROM learning_state WHERE principal = 'p'",
        "SELECT id FROM learning_refinements WHERE refinement_id = 'r' AND principal = 'p'",
        "SELECT proposal FROM learning_refinements WHERE principal = 'p' ORDER BY id",
        "SELECT name FROM planning_plans WHERE principal = 'p' AND ('' = '' OR plan_id = '') ORDER BY id",
        "SELECT title FROM planning_tasks WHERE principal = 'p' AND ('x' = '' OR plan_id = 'x') ORDER BY id",
        "SELECT count(*) FROM planning_tasks WHERE principal = 'p'",
        "UPDATE planning_tasks SET status = 's' WHERE plan_id = 'x' AND task_id = 't' AND principal = 'p'",
    ] {
        let way = way(&database, query);
        assert!(way.starts_with("SEARCH") && !way.contains("SCAN"), "{query}: {way}");
    }
}
