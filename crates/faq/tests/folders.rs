//! Folders that change, folders with odd things in them, and what becomes of their indexes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use gladhand_faq::{Answer, Citation, FaqError, Library, Limits, Question};

/// Every question looks at the folder.
fn at_once() -> Limits {
    Limits { fresh: Duration::ZERO, ..Limits::default() }
}

struct Place {
    docs: tempfile::TempDir,
    data: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { docs: tempfile::tempdir().expect("a folder"), data: tempfile::tempdir().expect("a folder") }
    }

    fn write(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.docs.path().join(path);
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("a folder");
        fs::write(path, contents).expect("a file");
        self
    }

    fn library(&self) -> Library {
        Library::open(self.data.path())
    }

    fn ask(&self, library: &Library, query: &str) -> Answer {
        library.ask(&Question::new(query), Some(self.docs.path()), &at_once()).expect("an answer")
    }

    fn index(&self) -> PathBuf {
        let mut files =
            fs::read_dir(self.data.path().join("faq")).expect("indexes").map(|entry| entry.expect("an index").path());
        files.find(|path| path.extension().is_some_and(|extension| extension == "sqlite")).expect("an index")
    }
}

fn paths(answer: &Answer) -> Vec<&str> {
    answer.citations.iter().map(|citation| citation.path.as_str()).collect()
}

#[test]
fn an_answer_has_the_fields_of_the_reference_and_some_more() {
    let place = Place::new();
    place.write("guides/tea.md", "# Tea\n\n## Brewing\n\nBoil the kettle.\n");
    let answer = place.ask(&place.library(), "how do I boil the kettle");
    let citation = Citation { path: "guides/tea.md".to_owned(), section: "Brewing".to_owned(), line: 3, score: 0.8118 };
    assert_eq!(
        answer,
        Answer {
            answer: "Boil the kettle.".to_owned(),
            citations: vec![citation],
            score: 0.8118,
            chunks_used: 1,
            warnings: Vec::new()
        }
    );
    assert_eq!(
        serde_json::to_string(&answer).unwrap(),
        r#"{"answer":"Boil the kettle.","citations":[{"path":"guides/tea.md","section":"Brewing","line":3,"score":0.8118}],"score":0.8118,"chunks_used":1}"#
    );
}

#[test]
fn changed_and_removed_documents_are_indexed_again() {
    let place = Place::new();
    place.write("a.md", "# Ports\n\nIt listens on port 1111.\n").write("b.md", "# Zebras\n\nZebras graze.\n");
    let library = place.library();
    assert_eq!(place.ask(&library, "port").answer, "It listens on port 1111.");

    // The same size, and so soon that its time may be the same as well.
    place.write("a.md", "# Ports\n\nIt listens on port 2222.\n");
    assert_eq!(place.ask(&library, "port").answer, "It listens on port 2222.");

    place.write("c.md", "# Giraffes\n\nGiraffes browse.\n");
    assert_eq!(paths(&place.ask(&library, "giraffes")), ["c.md"]);

    fs::remove_file(place.docs.path().join("b.md")).unwrap();
    assert!(!place.ask(&library, "zebras").is_found());
}

#[test]
fn a_folder_that_changed_bit_by_bit_answers_like_one_that_was_always_so() {
    let place = Place::new();
    let library = place.library();
    for number in 0..12 {
        place.write(&format!("{number}.md"), format!("# Page\n\nThe teapot number {number} is warm.\n"));
        place.ask(&library, "teapot");
    }
    place.write("3.md", "# Page\n\nNothing here.\n");
    fs::remove_file(place.docs.path().join("0.md")).unwrap();
    let grown = place.ask(&library, "warm teapot");
    let data = tempfile::tempdir().unwrap();
    let fresh =
        Library::open(data.path()).ask(&Question::new("warm teapot"), Some(place.docs.path()), &at_once()).unwrap();
    assert_eq!(grown, fresh);
    assert_eq!(paths(&grown), ["1.md", "10.md", "11.md", "2.md", "4.md"]);
}

#[test]
fn ignored_and_hidden_files_are_not_read() {
    let place = Place::new();
    place
        .write(".gitignore", "build/\n")
        .write("build/out.md", "# Walrus\n")
        .write(".hidden/x.md", "# Walrus\n")
        .write("node_modules/left/readme.md", "# Walrus\n")
        .write("code.rs", "// Walrus\n")
        .write("seen.md", "# Seal\n\nIt barks.\n");
    let library = place.library();
    assert!(!place.ask(&library, "walrus").is_found());
    assert!(place.ask(&library, "seal").is_found());
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.md"), "# Walrus\n\nOutside.\n").unwrap();
    place.write("seen.md", "# Seal\n");
    std::os::unix::fs::symlink(outside.path(), place.docs.path().join("folder")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.md"), place.docs.path().join("file.md")).unwrap();
    std::os::unix::fs::symlink(place.docs.path(), place.docs.path().join("around")).unwrap();
    assert!(!place.ask(&place.library(), "walrus").is_found());

    // The folder itself may be given by a link.
    let link = outside.path().join("link");
    std::os::unix::fs::symlink(place.docs.path(), &link).unwrap();
    let answer = place.library().ask(&Question::new("seal"), Some(&link), &at_once()).unwrap();
    assert_eq!(paths(&answer), ["seen.md"]);
}

#[test]
fn broken_files_are_warnings() {
    let place = Place::new();
    place
        .write("binary.md", b"# Walrus\0\x01")
        .write("latin.txt", b"Caf\xe9 owners like walruses.\n")
        .write("bom.md", "\u{feff}# Seal\n\nIt barks.\n");
    let library = place.library();
    let answer = place.ask(&library, "walruses");
    assert_eq!(paths(&answer), ["latin.txt"]);
    assert_eq!(answer.warnings, ["binary.md: left out, is no text", "latin.txt: is not UTF-8 throughout"]);
    let answer = place.ask(&library, "seal");
    assert_eq!(answer.citations[0].section, "Seal");
    assert_eq!(answer.warnings.len(), 2, "they are told with every answer");
}

#[test]
fn exceeded_index_limits_are_warnings() {
    let place = Place::new();
    place
        .write("a.md", "# Seal\n")
        .write("b.md", "# Walrus\n")
        .write("c.md", "# Otter\n")
        .write("big.txt", "x".repeat(500));
    let limits = Limits { files: 2, file_bytes: 400, ..at_once() };
    let answer = place.library().ask(&Question::new("seal"), Some(place.docs.path()), &limits).unwrap();
    assert_eq!(
        answer.warnings,
        [
            "big.txt: left out, has more than 400 bytes",
            "files from c.md on: left out, there are more than 2 files or 268435456 bytes"
        ]
    );
    let limits = Limits { time: Duration::ZERO, ..at_once() };
    let answer = place.library().ask(&Question::new("otter"), Some(place.docs.path()), &limits).unwrap();
    assert!(!answer.is_found());
    assert_eq!(answer.warnings, ["some files: left out for now, looking took more than 0ns"]);
    assert!(place.ask(&place.library(), "otter").is_found(), "the next look goes on");
}

#[test]
fn warnings_have_an_end() {
    let place = Place::new();
    for number in 0..30 {
        place.write(&format!("{number:02}.md"), b"\0");
    }
    let warnings = place.ask(&place.library(), "seal").warnings;
    assert_eq!((warnings.len(), warnings[20].as_str()), (21, "and 10 more"));
}

#[test]
fn a_damaged_index_is_rebuilt() {
    let place = Place::new();
    for number in 0..200 {
        place.write(&format!("{number}.md"), format!("# Page {number}\n\nThe otter of page {number} swims.\n"));
    }
    let whole = place.ask(&place.library(), "otter of page 42");
    assert!(whole.is_found());

    let text = b"this is no database at all".repeat(500);
    let mut torn = fs::read(place.index()).unwrap();
    torn[4096..].fill(0xa5);
    let short = torn[..5000].to_vec();
    for contents in [text.to_vec(), torn, short, Vec::new()] {
        let empty = contents.is_empty();
        fs::write(place.index(), contents).unwrap();
        let library = place.library();
        let mut answer = place.ask(&library, "otter of page 42");
        let warnings = std::mem::take(&mut answer.warnings);
        assert_eq!(answer, whole);
        if !empty {
            assert_eq!(warnings, ["the index was damaged and has been rebuilt"]);
        }
    }
    assert_eq!(place.ask(&place.library(), "otter of page 42"), whole, "and is whole the next time");
}

#[test]
fn an_index_damaged_while_open_is_rebuilt() {
    let place = Place::new();
    place.write("a.md", "# Otter\n\nIt swims.\n");
    let library = place.library();
    assert!(place.ask(&library, "otter").is_found());
    let index = rusqlite::Connection::open(place.index()).unwrap();
    index.execute_batch("DROP TABLE words").unwrap();
    drop(index);
    place.write("b.md", "# Seal\n\nIt barks.\n");
    let answer = place.ask(&library, "seal");
    assert_eq!(paths(&answer), ["b.md"]);
    assert_eq!(answer.warnings, ["the index was damaged and has been rebuilt"]);
}

#[test]
fn an_index_of_another_version_is_replaced() {
    let place = Place::new();
    place.write("a.md", "# Otter\n\nIt swims.\n");
    place.ask(&place.library(), "otter");
    let index = rusqlite::Connection::open(place.index()).unwrap();
    index.execute_batch("DROP TABLE sections; PRAGMA user_version = 99").unwrap();
    drop(index);
    let answer = place.ask(&place.library(), "otter");
    assert!(answer.is_found());
    assert!(answer.warnings.is_empty());
}

#[test]
fn an_index_that_cannot_be_stored_is_kept_in_memory() {
    let place = Place::new();
    place.write("a.md", "# Otter\n\nIt swims.\n");
    let library = Library::open(place.docs.path().join("a.md"));
    let answer = place.ask(&library, "otter");
    assert!(answer.is_found());
    assert!(answer.warnings[0].starts_with("the index is kept in memory only: "), "{:?}", answer.warnings);
}

#[test]
fn only_an_existing_folder_can_be_asked_about() {
    let place = Place::new();
    place.write("a.md", "# Otter\n");
    let ask = |path: &Path| place.library().ask(&Question::new("otter"), Some(path), &at_once()).unwrap_err();
    let absent = place.docs.path().join("absent");
    assert!(matches!(ask(&absent), FaqError::Folder { path, .. } if path == absent));
    let file = place.docs.path().join("a.md");
    assert_eq!(ask(&file).to_string(), format!("{} is not a folder", file.display()));
}

#[test]
fn many_folders_can_be_asked_about() {
    let places: Vec<Place> = (0..20).map(|_| Place::new()).collect();
    let data = tempfile::tempdir().unwrap();
    let library = Library::open(data.path());
    for round in 0..2 {
        for (number, place) in places.iter().enumerate() {
            place.write("a.md", format!("# Otter\n\nNumber {number} in round {round}.\n"));
            assert_eq!(place.ask(&library, "otter").answer, format!("Number {number} in round {round}."));
        }
    }
}

/// A line of a Fluxloop index.
fn chunk(source: &str, content: &str) -> String {
    format!("{}\n", serde_json::json!({"id": "1", "content": content, "metadata": {"source": source}}))
}

#[test]
fn a_folder_with_an_index_answers_from_the_index_alone() {
    let place = Place::new();
    place.write("index/chunks.jsonl", chunk("docs/tea.md", "# Tea\n\nBoil the kettle."));
    place.write("index/stray.md", "# Kettle\n\nThe kettle boils and is blue.\n");
    let folder = place.docs.path().join("index");
    for named in [folder.clone(), folder.join("chunks.jsonl")] {
        let answer = place.library().ask(&Question::new("boil the kettle"), Some(&named), &at_once()).unwrap();
        assert_eq!(paths(&answer), ["docs/tea.md"], "{}", named.display());
    }
}

#[test]
fn an_index_without_a_chunk_is_an_error_that_names_it() {
    let place = Place::new();
    place.write("chunks.jsonl", "no chunk\n").write("stray.md", "# Kettle\n\nIt boils.\n");
    let library = place.library();
    let ask = || library.ask(&Question::new("kettle"), Some(place.docs.path()), &at_once());
    let Err(FaqError::NoChunk { path }) = ask() else { panic!("it has no chunk") };
    assert_eq!(path, fs::canonicalize(place.docs.path()).unwrap().join("chunks.jsonl"));
    place.write("chunks.jsonl", chunk("a.md", "# Kettle\n\nIt is blue."));
    assert_eq!(paths(&ask().unwrap()), ["a.md"]);
}
