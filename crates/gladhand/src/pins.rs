//! The file of pinned definitions: what had which hash since when, and what waits to be approved.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::policy::{Definition, Pinboard, Pinned, Standing};
use gladhand_store::files;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::utc;

/// Its name in the data folder.
pub(crate) const NAME: &str = "pins.json";

/// All pins, by what they pin: see [`key`].
type Book = BTreeMap<String, Pin>;

/// The longest pinned definition whose text is stored with its hash.
const LONGEST: usize = 256 * 1024;

/// The longest changed definition whose text is stored. A longer one cannot be shown, and so not approved.
const LONGEST_CHANGE: usize = 1024 * 1024;

/// One pinned definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    /// The name under which it is shown and approved.
    shown: String,
    sha256: String,
    since: String,
    /// The part of the definition that the hash covers. Versions before this was written pinned a part of a tool's
    /// definition.
    #[serde(default)]
    covers: Covers,
    /// The definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The current definition, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Covers {
    /// Title, description, schemas and annotations.
    #[default]
    Part,
    /// Everything.
    Whole,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    sha256: String,
    at: String,
    /// Whether `policy approve` has shown this very definition in full. Only such a definition can be approved.
    #[serde(default)]
    is_listed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// A definition that waits to be approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    key: String,
    /// The name that approves it.
    pub(crate) name: String,
    /// Since when it was known.
    pub(crate) since: String,
    /// When it was seen to be something else.
    pub(crate) at: String,
    /// The hash of the definition that was seen.
    sha256: String,
    /// The pinned definition, if it was kept.
    pub(crate) before: Option<String>,
    /// The definition that was seen, if it was kept.
    pub(crate) after: Option<String>,
}

impl Waiting {
    /// Whether a user means this definition: by its shown name, or as `upstream/tool`.
    pub(crate) fn is_named(&self, names: &[String]) -> bool {
        names.iter().any(|name| *name == self.name || *name == self.key)
    }
}

/// The result of an approval.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Approval {
    /// The names of the definitions that are approved now.
    pub(crate) approved: Vec<String>,
    /// Definitions that were not listed since they changed, and are not approved.
    pub(crate) unlisted: Vec<Waiting>,
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
    /// The file as it was written last, as far as we know.
    written: Option<Stamp>,
    /// Whether the last attempt to write it failed.
    is_unwritten: bool,
}

impl PinFile {
    /// Reads the file, if there is one yet. One that cannot be read is an error: without it, anything could be new.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let known = Known { book: read(&path)?, written: written(&path), is_unwritten: false };
        Ok(Self { path, known: Mutex::new(known) })
    }

    /// Reads the file again if another process has written it since it was last read, and returns whether definitions must
    /// be compared again: it has, or it can be written again.
    pub(crate) fn refresh(&self) -> bool {
        let now = written(&self.path);
        if self.known().written == now {
            let mut known = self.known();
            let is_writable = known.is_unwritten && self.try_to_write(&known).is_ok();
            known.is_unwritten &= !is_writable;
            return is_writable;
        }
        let book = read(&self.path);
        self.known().take(book, now);
        true
    }

    /// Approves changed definitions by shown name or as `upstream/tool`, except those that were not listed since they changed.
    ///
    /// A server may change a definition again after the user has looked at it. An approval is about the definition that was
    /// listed, so a later one waits until it is listed too.
    pub(crate) fn approve(&self, names: &[String]) -> io::Result<Approval> {
        let mut known = self.known();
        let mut approval = Approval::default();
        for (key, pin) in &mut known.book {
            if !names.iter().any(|name| *name == pin.shown || name == key) {
                continue;
            }
            match pin.changed.take() {
                Some(Change { is_listed: true, sha256, text: Some(text), .. }) => {
                    let text = Some(text).filter(|text| text.len() <= LONGEST);
                    let shown = pin.shown.clone();
                    approval.approved.push(shown.clone());
                    *pin = Pin { shown, sha256, text, since: utc::now(), covers: Covers::Whole, changed: None };
                }
                Some(unlisted) => {
                    pin.changed = Some(unlisted);
                    approval.unlisted.extend(waiting(key, pin));
                }
                None => {}
            }
        }
        if !approval.approved.is_empty() {
            self.write(&mut known)?;
        }
        Ok(approval)
    }

    /// Definitions that wait to be approved.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        self.known().book.iter().filter_map(|(key, pin)| waiting(key, pin)).collect()
    }

    /// Records that these definitions were shown to the user in full, so that they can be approved.
    pub(crate) fn note_listed(&self, shown: &[Waiting]) -> io::Result<()> {
        let mut known = self.known();
        let mut is_new = false;
        for pin in known.book.values_mut() {
            let is_shown =
                |change: &Change| shown.iter().any(|one| one.name == pin.shown && one.sha256 == change.sha256);
            let Some(change) = pin.changed.as_mut().filter(|change| is_shown(change)) else { continue };
            is_new |= !std::mem::replace(&mut change.is_listed, true);
        }
        if is_new { self.write(&mut known) } else { Ok(()) }
    }

    /// Why a tool is not pinned, if the file cannot be written.
    pub(crate) fn why_unpinned(&self, upstream: &str, own: &str) -> Option<String> {
        let is_pinned = self.known().book.contains_key(&key(Pinned::Tool, upstream, own));
        if is_pinned { None } else { self.why_unwritable() }
    }

    /// Why the file cannot be written, if so.
    pub(crate) fn why_unwritable(&self) -> Option<String> {
        self.try_to_write(&self.known()).err().map(|error| self.unwritable(&error))
    }

    /// Whether the file could be written. The file itself is not touched: another process may write it at this moment.
    fn try_to_write(&self, known: &Known) -> io::Result<()> {
        let trial = self.path.with_extension("trial");
        files::replace(&trial, &serde_json::to_vec_pretty(&known.book)?)?;
        fs_err::remove_file(trial)
    }

    fn unwritable(&self, error: &io::Error) -> String {
        format!("the pin file {} cannot be written: {error}", self.path.display())
    }

    fn write(&self, known: &mut Known) -> io::Result<()> {
        files::replace(&self.path, &serde_json::to_vec_pretty(&known.book)?)?;
        known.written = written(&self.path);
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unpoisoned()
    }
}

impl Pinboard for PinFile {
    /// A hub calls this on the threads that serve its sessions. If every definition has its pin, no file is accessed:
    /// [`PinFile::refresh`], on a thread of its own, keeps the pins in memory current.
    fn look(&self, seen: &[Definition]) -> Vec<Standing> {
        let mut known = self.known();
        let (mut standings, mut before) = known.compare(seen);
        if before.is_none() && standings.iter().all(|standing| *standing == Standing::Pinned) {
            return standings;
        }
        // Another process may have pinned or approved the same definitions since.
        let now = written(&self.path);
        if known.written != now {
            if let Some(before) = before {
                known.book = before;
            }
            known.take(read(&self.path), now);
            (standings, before) = known.compare(seen);
        }
        let Some(before) = before else { return standings };
        known.is_unwritten = false;
        if let Err(error) = self.write(&mut known) {
            let why = self.unwritable(&error);
            standings =
                standings.into_iter().zip(seen).map(|(one, seen)| known.unpinned(&before, one, seen, &why)).collect();
            known.book = before;
            known.is_unwritten = true;
        }
        standings
    }
}

impl Known {
    /// Replaces the pins by those of the file. If the file cannot be read, the pins in memory stay in force.
    fn take(&mut self, book: io::Result<Book>, written: Option<Stamp>) {
        match book {
            Ok(book) => self.book = book,
            Err(error) => tracing::error!(%error, "the pinned definitions cannot be read again"),
        }
        self.written = written;
    }

    /// Compares definitions with their pins. If a pin is new or different, the pins before that are returned, too.
    fn compare(&mut self, seen: &[Definition]) -> (Vec<Standing>, Option<Book>) {
        let before = self.book.clone();
        let standings = seen.iter().map(|definition| compare(&mut self.book, definition)).collect();
        (standings, (self.book != before).then_some(before))
    }

    /// The standing of a definition after its pin could not be stored.
    fn unpinned(&self, before: &Book, standing: Standing, seen: &Definition, why: &str) -> Standing {
        let key = key(seen.kind, &seen.upstream, &seen.own);
        let hash = |book: &Book| book.get(&key).map(|pin| pin.sha256.clone());
        match standing {
            Standing::Pinned if hash(before) != hash(&self.book) => {
                Standing::Unpinned { name: seen.shown.clone().unwrap_or(key), why: why.to_owned() }
            }
            standing => standing,
        }
    }
}

/// The changed definition of a pin, if it has one.
fn waiting(key: &str, pin: &Pin) -> Option<Waiting> {
    let Change { sha256, at, text, .. } = pin.changed.as_ref()?;
    Some(Waiting {
        key: key.to_owned(),
        name: pin.shown.clone(),
        since: pin.since.clone(),
        at: at.clone(),
        sha256: sha256.clone(),
        before: pin.text.clone(),
        after: text.clone(),
    })
}

/// Under which key a definition is pinned. That of a tool is what older versions wrote.
fn key(kind: Pinned, upstream: &str, own: &str) -> String {
    match kind {
        Pinned::Tool => format!("{upstream}/{own}"),
        Pinned::Prompt => format!("prompt:{upstream}/{own}"),
        Pinned::Instructions => format!("instructions:{upstream}"),
    }
}

fn compare(book: &mut Book, seen: &Definition) -> Standing {
    let key = key(seen.kind, &seen.upstream, &seen.own);
    let sha256 = hash(&seen.text);
    let text = |longest: usize| (seen.text.len() <= longest).then(|| seen.text.clone());
    let fresh = || Pin {
        shown: seen.shown.clone().unwrap_or_else(|| key.clone()),
        sha256: sha256.clone(),
        since: utc::now(),
        covers: Covers::Whole,
        text: text(LONGEST),
        changed: None,
    };
    let Some(pin) = book.get_mut(&key) else {
        book.insert(key.clone(), fresh());
        return Standing::Pinned;
    };
    if let Some(shown) = &seen.shown {
        pin.shown.clone_from(shown);
    }
    let is_same = match pin.covers {
        Covers::Whole => pin.sha256 == sha256,
        Covers::Part => seen.narrow.as_ref().is_some_and(|narrow| pin.sha256 == hash(narrow)),
    };
    if is_same {
        // The rest of what only a part was pinned of is pinned now.
        let (shown, since) = (pin.shown.clone(), pin.since.clone());
        *pin = Pin { shown, since, ..fresh() };
        return Standing::Pinned;
    }
    match &mut pin.changed {
        Some(change) if change.sha256 == sha256 => {
            // An older version may have recorded the change without its text, and listed it without showing it.
            if change.text.is_none() {
                (change.text, change.is_listed) = (text(LONGEST_CHANGE), false);
            }
        }
        changed => *changed = Some(Change { sha256, at: utc::now(), is_listed: false, text: text(LONGEST_CHANGE) }),
    }
    Standing::Changed { name: pin.shown.clone(), since: pin.since.clone() }
}

/// A text's SHA-256 in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    gladhand_core::hex::encode(digest(&SHA256, text.as_bytes()).as_ref())
}

fn read(path: &Path) -> io::Result<Book> {
    match gladhand_store::read_state(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| io::Error::other(format!("{} is not a file of pins: {error}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Book::new()),
        Err(error) => Err(error),
    }
}

/// When a file was written, and its length: two writes may share a tick of the clock.
type Stamp = (SystemTime, u64);

fn written(path: &Path) -> Option<Stamp> {
    let metadata = fs_err::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> [Definition; 1] {
        let [upstream, own, shown, text] = ["u", "t", "u__t", text].map(ToOwned::to_owned);
        let narrow = Some(format!("part of {text}"));
        [Definition { kind: Pinned::Tool, upstream, own, shown: Some(shown), text, narrow }]
    }

    fn standing(file: &PinFile, definition: Definition) -> bool {
        file.look(&[definition])[0] == Standing::Pinned
    }

    #[test]
    fn a_pin_of_an_older_version_is_no_false_alarm_and_covers_everything_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let old =
            |sha256: &str| serde_json::json!({"shown": "u__t", "sha256": sha256, "since": "2026-01-01T00:00:00Z"});
        let file = |sha256: &str| {
            std::fs::write(&path, serde_json::json!({"u/t": old(sha256)}).to_string()).unwrap();
            PinFile::open(path.clone()).unwrap()
        };
        let [one] = definition("one");
        let ours = file(&hash("part of one"));
        assert!(standing(&ours, one.clone()));
        let hidden = Definition { text: "one with something in _meta".to_owned(), ..one.clone() };
        assert!(!standing(&ours, hidden), "the same part, and another whole");
        assert!(!standing(&file(&hash("part of zero")), one.clone()), "the part changed");
    }

    #[test]
    fn kinds_are_pinned_apart() {
        let folder = tempfile::tempdir().unwrap();
        let ours = PinFile::open(folder.path().join("pins.json")).unwrap();
        let [tool] = definition("one");
        assert!(standing(&ours, tool.clone()));
        for kind in [Pinned::Prompt, Pinned::Instructions] {
            let of_kind = |text: &str| Definition { kind, text: text.to_owned(), ..tool.clone() };
            assert!(standing(&ours, of_kind("two")) && !standing(&ours, of_kind("three")), "{kind}");
        }
        assert!(standing(&ours, tool));
        assert_eq!(ours.waiting().len(), 2);
        let Waiting { before, after, .. } = &ours.waiting()[0];
        assert_eq!((before.as_deref(), after.as_deref()), (Some("two"), Some("three")));
    }

    #[test]
    fn a_definition_that_has_its_pin_costs_no_access_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let file = PinFile::open(path.clone()).unwrap();
        assert_eq!(file.look(&definition("one")), [Standing::Pinned]);
        fs_err::write(&path, "{").unwrap();
        let stamp = written(&path);
        assert_eq!(file.look(&definition("one")), [Standing::Pinned]);
        assert_ne!(file.known().written, stamp, "the file was looked at");
        assert!(matches!(&file.look(&definition("two"))[..], [Standing::Changed { .. }]), "the pins in memory hold");
    }

    #[test]
    fn a_definition_whose_pin_cannot_be_stored_is_not_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let file = PinFile::open(data.join("pins.json")).unwrap();
        // No file can be written below a file.
        fs_err::write(&data, "").unwrap();
        for _ in 0..2 {
            let [Standing::Unpinned { name, why }] = &file.look(&definition("one"))[..] else { panic!("it is pinned") };
            assert_eq!(name, "u__t");
            assert!(why.starts_with("the pin file ") && why.contains("pins.json cannot be written: "), "{why}");
        }
        assert!(file.why_unpinned("u", "t").is_some_and(|why| why.contains("cannot be written")));
        assert!(!file.refresh());
        fs_err::remove_file(&data).unwrap();
        assert!(file.refresh() && !file.refresh(), "definitions are compared again, once");
        assert_eq!(file.look(&definition("one")), [Standing::Pinned]);
        assert_eq!(file.why_unpinned("u", "t"), None);
        assert!(matches!(&file.look(&definition("two"))[..], [Standing::Changed { .. }]));
    }

    #[test]
    fn a_pin_that_was_stored_holds_while_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let file = PinFile::open(path.clone()).unwrap();
        file.look(&definition("one"));
        let lost = PinFile {
            path: path.join("pins.json"),
            known: Mutex::new(Known { written: None, ..file.known.into_inner().unwrap() }),
        };
        assert_eq!(lost.look(&definition("one")), [Standing::Pinned]);
        assert!(matches!(&lost.look(&definition("two"))[..], [Standing::Changed { .. }]));
    }

    #[test]
    fn a_definition_whose_text_was_not_kept_is_not_approved() {
        let folder = tempfile::tempdir().unwrap();
        let file = PinFile::open(folder.path().join("pins.json")).unwrap();
        file.look(&definition("one"));
        let is_approved = |length: usize| {
            file.look(&definition(&"x".repeat(length)));
            file.note_listed(&file.waiting()).unwrap();
            !file.approve(&["u__t".to_owned()]).unwrap().approved.is_empty()
        };
        assert!(!is_approved(LONGEST_CHANGE + 1));
        assert!(is_approved(LONGEST_CHANGE));
        assert!(is_approved(LONGEST_CHANGE - 1), "the pinned text was not kept, and the new one is shown");
    }

    #[test]
    fn pins_of_another_process_are_kept_when_a_new_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let (ours, theirs) = (PinFile::open(path.clone()).unwrap(), PinFile::open(path.clone()).unwrap());
        let [other] = definition("other");
        let other = Definition { own: "o".to_owned(), shown: None, ..other };
        theirs.look(&[other]);
        ours.look(&definition("one"));
        assert_eq!(read(&path).unwrap().into_keys().collect::<Vec<_>>(), ["u/o", "u/t"]);
    }

    #[test]
    fn a_definition_is_pinned_changes_and_is_approved_by_somebody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/pins.json");
        let ours = PinFile::open(path.clone()).unwrap();
        assert_eq!(ours.look(&definition("one")), [Standing::Pinned]);
        assert!(!ours.refresh());
        let ours = PinFile::open(path.clone()).unwrap();
        assert_eq!(ours.look(&definition("one")), [Standing::Pinned]);
        assert!(matches!(&ours.look(&definition("two"))[..], [Standing::Changed { .. }]));
        let theirs = PinFile::open(path.clone()).unwrap();
        assert_eq!(theirs.waiting()[0].name, "u__t");
        let approve = |file: &PinFile, name: &str| file.approve(&[name.to_owned()]).unwrap();
        assert_eq!(approve(&theirs, "other"), Approval::default());
        assert_eq!(approve(&theirs, "u__t"), Approval { approved: Vec::new(), unlisted: theirs.waiting() });
        theirs.note_listed(&theirs.waiting()).unwrap();
        assert_eq!(approve(&theirs, "u__t").approved, ["u__t"]);
        assert!(theirs.waiting().is_empty());
        assert!(ours.refresh() && !ours.refresh());
        assert_eq!(ours.look(&definition("two")), [Standing::Pinned]);
        assert!(
            matches!(&ours.look(&definition("one"))[..], [Standing::Changed { .. }]),
            "the old one is another one now"
        );
        assert_eq!(ours.look(&definition("two")), [Standing::Pinned], "what comes back to what it was is fine");
        assert!(ours.waiting().is_empty());
        let listed = |text: &str| {
            ours.look(&definition(text));
            let theirs = PinFile::open(path.clone()).unwrap();
            theirs.note_listed(&theirs.waiting()).unwrap();
        };
        listed("three");
        ours.look(&definition("four"));
        let theirs = PinFile::open(path.clone()).unwrap();
        assert!(theirs.approve(&["u__t".to_owned()]).unwrap().approved.is_empty(), "it changed after it was listed");
        fs_err::write(&path, "{").unwrap();
        assert!(PinFile::open(path).is_err(), "a broken file is not an empty one");
    }
}
