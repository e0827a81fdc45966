//! Lines that were typed before, for the arrow keys: a file in the data folder with one JSON string per line.
//!
//! Answers to questions never come here, and neither does a line with a secret: the key of an `/auth` command, or text
//! whose form shows a secret. A line that begins with a blank is not kept either.

use std::io::{self, Write as _};
use std::path::PathBuf;

use gladhand_redaction::redact;
use gladhand_store::files;

/// Entries that are kept.
pub(crate) const ENTRIES: usize = 1000;

/// A longer entry is not kept, in bytes.
const LONGEST: usize = 16 * 1024;

/// The file is made shorter at the next start beyond this size, in bytes.
const LARGEST: usize = 1024 * 1024;

/// A history of a user.
#[derive(Debug)]
pub(crate) struct History {
    /// None: nothing is kept beyond this process.
    file: Option<PathBuf>,
}

impl History {
    /// That of chats, in a data folder.
    pub(crate) fn of_chats(folder: Option<PathBuf>) -> Self {
        Self { file: folder.map(|folder| folder.join("chat_history")) }
    }

    /// That of `gladhand shell`, in a data folder.
    pub(crate) fn of_shells(folder: Option<PathBuf>) -> Self {
        Self { file: folder.map(|folder| folder.join("shell_history")) }
    }

    /// The newest entries, the oldest of them first.
    pub(crate) fn load(&self) -> Vec<String> {
        let Some(file) = &self.file else { return Vec::new() };
        let text = gladhand_store::read_state(file).unwrap_or_default();
        let entries = String::from_utf8_lossy(&text);
        let entries = entries.lines().rev().filter_map(|line| serde_json::from_str::<String>(line).ok());
        let mut entries: Vec<_> = entries.take(ENTRIES).collect();
        entries.reverse();
        if text.len() > LARGEST {
            let text: String = entries.iter().map(|entry| line(entry)).collect();
            // It stays long then, and the next start tries again.
            if let Err(error) = files::replace(file, text.as_bytes()) {
                tracing::debug!(%error, "the history could not be made shorter");
            }
        }
        entries
    }

    /// Keeps a line, if it may be kept.
    pub(crate) fn keep(&self, entry: &str) -> bool {
        if !may_be_kept(entry) {
            return false;
        }
        if let Some(file) = &self.file
            && let Err(error) = append(file, &line(entry))
        {
            tracing::debug!(%error, "a line is missing in the history");
        }
        true
    }
}

fn line(entry: &str) -> String {
    format!("{}\n", serde_json::Value::from(entry))
}

fn append(file: &PathBuf, line: &str) -> io::Result<()> {
    files::no_link(file)?;
    if let Some(folder) = file.parent() {
        gladhand_store::make_folder(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.append(true).create(true).open(file)?.write_all(line.as_bytes())
}

fn may_be_kept(entry: &str) -> bool {
    let mut words = entry.split_whitespace();
    let is_key = words.next().is_some_and(|word| word.eq_ignore_ascii_case("/auth")) && words.count() > 1;
    let is_odd = entry.trim().is_empty() || entry.starts_with(' ') || entry.len() > LONGEST;
    !is_odd && !is_key && redact(entry) == entry
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn chat_history_is_stored_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let history = || History::of_chats(Some(folder.path().join("data")));
        assert!(history().load().is_empty());
        assert!(history().keep("hello") && history().keep("two\nlines \"quoted\""));
        assert_eq!(history().load(), ["hello", "two\nlines \"quoted\""]);
        let mode = std::fs::metadata(folder.path().join("data").join("chat_history")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn lines_with_secrets_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::of_chats(Some(folder.path().to_owned()));
        let long = "x".repeat(LONGEST + 1);
        for line in
            ["/auth exa abc", "/AUTH  openrouter abc", "my key is sk-ant-api03-abcdefghijklmnop", " x", "", &long]
        {
            assert!(!history.keep(line), "{line}");
        }
        assert!(history.keep("/auth openai"));
        assert_eq!(history.load(), ["/auth openai"]);
    }

    #[test]
    fn a_file_that_grew_is_made_shorter() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chat_history");
        let text: String = (0..2000).map(|number| line(&format!("{number}{}", "x".repeat(1000)))).collect();
        std::fs::write(&file, format!("{text}no JSON\n")).unwrap();
        let history = History::of_chats(Some(folder.path().to_owned()));
        assert_eq!(history.load().len(), ENTRIES);
        assert!(std::fs::metadata(&file).unwrap().len() < 1_100_000);
        assert!(history.load()[0].starts_with("1000x"));
    }
}
