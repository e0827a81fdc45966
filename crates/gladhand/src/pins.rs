//! The file of pinned definitions: which tool had which hash since when, and what waits to be approved.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};
use gladhand_hub::policy::{Definition, Pinboard, Standing};
use serde::{Deserialize, Serialize};

use crate::{files, utc};

/// Its name in the data folder.
pub(crate) const NAME: &str = "pins.json";

/// All pins, by upstream and own name.
type Book = BTreeMap<String, Pin>;

/// One pinned definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    /// What the tool is shown as.
    shown: String,
    sha256: String,
    since: String,
    /// What it is now, if that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<Change>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    sha256: String,
    at: String,
}

/// The file of pinned definitions.
#[derive(Debug)]
pub(crate) struct PinFile {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    book: Book,
    /// When the file was written last, as far as we know.
    written: Option<SystemTime>,
}

impl PinFile {
    /// Reads the file, if there is one yet. One that cannot be read is an error: without it, anything could be new.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let known = Known { book: read(&path)?, written: written(&path) };
        Ok(Self { path, known: Mutex::new(known) })
    }

    /// Whether somebody else has written the file since we last looked.
    pub(crate) fn has_changed(&self) -> bool {
        self.known().written != written(&self.path)
    }

    /// Approves what these tools are now, by shown name or as `upstream/tool`; returns those that were waiting for it.
    pub(crate) fn approve(&self, names: &[String]) -> io::Result<Vec<String>> {
        let mut known = self.known();
        let mut approved = Vec::new();
        for (key, pin) in &mut known.book {
            if names.iter().any(|name| *name == pin.shown || name == key)
                && let Some(change) = pin.changed.take()
            {
                *pin = Pin { sha256: change.sha256, since: utc::now(), ..pin.clone() };
                approved.push(pin.shown.clone());
            }
        }
        if !approved.is_empty() {
            self.write(&mut known)?;
        }
        Ok(approved)
    }

    /// What waits to be approved: the tool, since when it was known, and when it was seen to be something else.
    pub(crate) fn waiting(&self) -> Vec<(String, String, String)> {
        let known = self.known();
        let waiting = known.book.values().filter_map(|pin| {
            pin.changed.as_ref().map(|change| (pin.shown.clone(), pin.since.clone(), change.at.clone()))
        });
        waiting.collect()
    }

    fn write(&self, known: &mut Known) -> io::Result<()> {
        files::replace(&self.path, &serde_json::to_vec_pretty(&known.book)?)?;
        known.written = written(&self.path);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pinboard for PinFile {
    fn look(&self, seen: &[Definition]) -> Vec<Standing> {
        let mut known = self.known();
        // Others may have pinned and approved since.
        match read(&self.path) {
            Ok(book) => known.book = book,
            Err(error) => tracing::error!(%error, "the pinned definitions cannot be read again"),
        }
        known.written = written(&self.path);
        let before = known.book.clone();
        let standings = seen.iter().map(|definition| compare(&mut known.book, definition)).collect();
        if known.book != before
            && let Err(error) = self.write(&mut known)
        {
            tracing::error!(%error, "the pinned definitions cannot be kept");
        }
        standings
    }
}

fn compare(book: &mut Book, seen: &Definition) -> Standing {
    let sha256 = hash(&seen.text);
    let Some(pin) = book.get_mut(&format!("{}/{}", seen.upstream, seen.own)) else {
        let pin = Pin { shown: seen.shown.clone(), sha256, since: utc::now(), changed: None };
        book.insert(format!("{}/{}", seen.upstream, seen.own), pin);
        return Standing::Pinned;
    };
    pin.shown.clone_from(&seen.shown);
    if pin.sha256 == sha256 {
        pin.changed = None;
        return Standing::Pinned;
    }
    if pin.changed.as_ref().is_none_or(|change| change.sha256 != sha256) {
        pin.changed = Some(Change { sha256, at: utc::now() });
    }
    Standing::Changed { since: pin.since.clone() }
}

/// A text's SHA-256 in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> io::Result<Book> {
    match fs_err::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| io::Error::other(format!("{} is not a file of pins: {error}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Book::new()),
        Err(error) => Err(error),
    }
}

fn written(path: &Path) -> Option<SystemTime> {
    fs_err::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> [Definition; 1] {
        let [upstream, own, shown, text] = ["u", "t", "u__t", text].map(ToOwned::to_owned);
        [Definition { upstream, own, shown, text }]
    }

    #[test]
    fn a_definition_is_pinned_changes_and_is_approved_by_somebody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/pins.json");
        let ours = PinFile::open(path.clone()).unwrap();
        assert_eq!(ours.look(&definition("one")), [Standing::Pinned]);
        assert!(!ours.has_changed());
        let ours = PinFile::open(path.clone()).unwrap();
        assert_eq!(ours.look(&definition("one")), [Standing::Pinned]);
        assert!(matches!(&ours.look(&definition("two"))[..], [Standing::Changed { .. }]));
        let theirs = PinFile::open(path.clone()).unwrap();
        assert_eq!(theirs.waiting()[0].0, "u__t");
        assert!(theirs.approve(&["other".to_owned()]).unwrap().is_empty());
        assert_eq!(theirs.approve(&["u__t".to_owned()]).unwrap(), ["u__t"]);
        assert!(theirs.waiting().is_empty());
        assert!(ours.has_changed());
        assert_eq!(ours.look(&definition("two")), [Standing::Pinned]);
        assert!(
            matches!(&ours.look(&definition("one"))[..], [Standing::Changed { .. }]),
            "the old one is another one now"
        );
        assert_eq!(ours.look(&definition("two")), [Standing::Pinned], "what comes back to what it was is fine");
        assert!(ours.waiting().is_empty());
        fs_err::write(&path, "{").unwrap();
        assert!(PinFile::open(path).is_err(), "a broken file is not an empty one");
    }
}
