//! Several threads and several processes on one index.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err as fs;
use gladhand_faq::{Library, Limits, Question};

/// Tells this program, started again by its own test, where the documents and the data are.
const CHILD: &str = "GLADHAND_FAQ_TEST_CHILD";

const ROUNDS: usize = 40;

fn at_once() -> Limits {
    Limits { fresh: Duration::ZERO, ..Limits::default() }
}

/// Changes a file of its own, and asks about it and about one that never changes.
fn work(root: &Path, name: &str) {
    let (docs, library) = (root.join("docs"), Library::open(root.join("data")));
    for round in 0..ROUNDS {
        let text = format!("# Diary of {name}\n\nIn round {round} the {name} swims.\n");
        fs::write(docs.join(format!("{name}.md")), text).expect("a file");
        let mine = library.ask(&Question::new(format!("diary of {name}")), Some(&docs), &at_once()).expect("an answer");
        assert!(mine.answer.starts_with(&format!("In round {round} the {name} swims.")), "{mine:?}");
        let fixed = library.ask(&Question::new("fixed page"), Some(&docs), &at_once()).expect("an answer");
        assert!(fixed.answer.starts_with("This never changes."), "{fixed:?}");
        assert!(fixed.warnings.is_empty(), "{fixed:?}");
    }
}

fn place() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    fs::create_dir(root.path().join("docs")).expect("a folder");
    fs::write(root.path().join("docs/fixed.md"), "# Fixed page\n\nThis never changes.\n").expect("a file");
    root
}

/// The child processes of the next test run this. It does nothing if it runs by itself.
#[test]
fn child() {
    if let Some(told) = std::env::var_os(CHILD) {
        let told = PathBuf::from(told);
        work(told.parent().unwrap(), told.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn processes_share_an_index() {
    let root = place();
    let children: Vec<_> = ["otter", "seal", "walrus"]
        .iter()
        .map(|name| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "child"]).env(CHILD, root.path().join(name));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let index = fs::read_dir(root.path().join("data/faq")).unwrap().next().unwrap().unwrap().path();
    let index = rusqlite::Connection::open(index).unwrap();
    let health: String = index.query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
    index.execute_batch("INSERT INTO words (words) VALUES ('integrity-check')").unwrap();
}

#[test]
fn threads_share_a_library() {
    let root = place();
    let docs = root.path().join("docs");
    let library = Library::open(root.path().join("data"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for folder in [Some(docs.as_path()), None].iter().cycle().take(40) {
                    let answer =
                        library.ask(&Question::new("fixed page invariants"), *folder, &Limits::default()).unwrap();
                    assert_eq!(answer.warnings, [""; 0]);
                }
            });
        }
    });
}
