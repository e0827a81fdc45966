//! The file of pinned definitions: what had which hash since when, and what waits to be approved.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::Settling;
use gladhand_hub::policy::{Definition, DefinitionSource, Pinboard, Pinned, Standing};
use gladhand_store::files;
use tokio::sync::watch;

use crate::utc;

mod pin;

pub(crate) use pin::Waiting;
use pin::{Change, Covers, LONGEST, Pin, compare, key, waiting};

/// Its name in the data folder.
pub(crate) const NAME: &str = "pins.json";

/// All pins, by what they pin: see [`key`].
type Book = BTreeMap<String, Pin>;

/// How long calls and lists wait until new pins are stored.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The result of an approval.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Approval {
    /// The names of the definitions that are approved now.
    pub(crate) approved: Vec<String>,
    /// Definitions that were not listed since they changed, and are not approved.
    pub(crate) unlisted: Vec<Waiting>,
}

/// The file of pinned definitions.
///
/// A process that serves sessions reads and writes it on a thread of its own: [`Self::update`]. The hub compares
/// definitions with the pins in memory.
#[derive(Debug)]
pub(crate) struct PinFile {
    path: PathBuf,
    known: Mutex<Known>,
    /// Held during an update, so that one follows the other.
    updating: Mutex<()>,
    /// Wakes the thread that updates the file.
    updates: OnceLock<SyncSender<()>>,
    /// Whether definitions wait for that thread.
    is_storing: watch::Sender<bool>,
}

#[derive(Debug)]
struct Known {
    /// The pins in the file.
    book: Book,
    /// The file as it was written last, as far as we know.
    written: Option<Stamp>,
    /// Definitions whose pins the file does not have yet, by key.
    pending: BTreeMap<String, Unstored>,
    /// Why the last attempt to write the file failed, if it did.
    failure: Option<String>,
    /// Whether a definition is not used until something changes: it differs from its pin, or the pin cannot be stored.
    has_stopped: bool,
}

/// A definition whose pin the file does not have as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unstored {
    seen: Definition,
    source: DefinitionSource,
}

/// What an update of the file means for definitions that were compared before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Updated {
    /// Nothing.
    Unchanged,
    /// New pins are stored, or could not be stored.
    Stored,
    /// Another process wrote the file, or the file can be written again.
    Changed,
}

impl PinFile {
    /// Reads the file, if there is one yet. One that cannot be read is an error: without it, anything could be new.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let written = written(&path);
        let known = Known { book: read(&path)?, written, pending: BTreeMap::new(), failure: None, has_stopped: false };
        Ok(Self::new(path, known))
    }

    fn new(path: PathBuf, known: Known) -> Self {
        let (known, updating) = (Mutex::new(known), Mutex::default());
        Self { path, known, updating, updates: OnceLock::new(), is_storing: watch::Sender::new(false) }
    }

    /// The end of a channel that receives a message when the file must be updated. Once only.
    pub(crate) fn updates(&self) -> Receiver<()> {
        let (sender, receiver) = sync_channel(1);
        let _ = self.updates.set(sender);
        receiver
    }

    /// Whether another process may let something back in that is stopped now.
    pub(crate) fn has_stopped(&self) -> bool {
        self.known().has_stopped
    }

    /// Reads what other processes have written since, and stores the pins of new definitions. If definitions must be
    /// compared again, `compare` makes the hub do so, and only then the wait for the pins ends.
    pub(crate) fn update(&self, compare: impl FnOnce(Updated)) -> Updated {
        let _updating = self.updating.lock().unpoisoned();
        let updated = self.read_and_write();
        if updated != Updated::Unchanged {
            self.known().has_stopped = false;
            compare(updated);
        }
        let known = self.known();
        self.is_storing.send_replace(!known.pending.is_empty());
        updated
    }

    fn read_and_write(&self) -> Updated {
        let now = written(&self.path);
        let is_current = self.known().written == now;
        if !is_current {
            let book = read(&self.path);
            self.known().take(book, now);
        }
        let (mut book, pending, failed) = {
            let known = self.known();
            (known.book.clone(), known.pending.clone(), known.failure.is_some())
        };
        if pending.is_empty() {
            let is_writable_again = failed && self.try_to_write(&book).is_ok();
            if is_writable_again {
                self.known().failure = None;
            }
            return if is_writable_again || !is_current { Updated::Changed } else { Updated::Unchanged };
        }
        for (key, definition) in &pending {
            let (_, pin) = compare(book.get(key), &definition.seen, definition.source);
            book.insert(key.clone(), pin);
        }
        let stored = self.write(&book);
        let mut known = self.known();
        match stored {
            Ok(written) => (known.book, known.written, known.failure) = (book, written, None),
            Err(error) => known.failure = Some(self.unwritable(&error)),
        }
        known.pending.retain(|key, definition| pending.get(key) != Some(definition));
        if is_current { Updated::Stored } else { Updated::Changed }
    }

    fn wake(&self) {
        // A full queue has a message that is not received yet.
        if let Some(updates) = self.updates.get() {
            let _ = updates.try_send(());
        }
    }

    /// Approves changed definitions by shown name or as `upstream/tool`, except those that were not listed since they changed.
    ///
    /// A server may change a definition again after the user has looked at it. An approval is about the definition that was
    /// listed, so a later one waits until it is listed too.
    pub(crate) fn approve(&self, names: &[String]) -> io::Result<Approval> {
        let mut book = self.known().book.clone();
        let mut approval = Approval::default();
        for (key, pin) in &mut book {
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
            self.store(book)?;
        }
        Ok(approval)
    }

    /// Definitions that wait to be approved.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        self.known().book.iter().filter_map(|(key, pin)| waiting(key, pin)).collect()
    }

    /// Records that these definitions were shown to the user in full, so that they can be approved.
    pub(crate) fn note_listed(&self, shown: &[Waiting]) -> io::Result<()> {
        let mut book = self.known().book.clone();
        let mut is_new = false;
        for pin in book.values_mut() {
            let is_shown =
                |change: &Change| shown.iter().any(|one| one.name == pin.shown && one.sha256 == change.sha256);
            let Some(change) = pin.changed.as_mut().filter(|change| is_shown(change)) else { continue };
            is_new |= !std::mem::replace(&mut change.is_listed, true);
        }
        if is_new { self.store(book) } else { Ok(()) }
    }

    /// Why a tool is not pinned, if the file cannot be written.
    pub(crate) fn why_unpinned(&self, upstream: &str, own: &str) -> Option<String> {
        let is_pinned = self.known().book.contains_key(&key(Pinned::Tool, upstream, own));
        if is_pinned { None } else { self.why_unwritable() }
    }

    /// Why the file cannot be written, if so.
    pub(crate) fn why_unwritable(&self) -> Option<String> {
        let book = self.known().book.clone();
        self.try_to_write(&book).err().map(|error| self.unwritable(&error))
    }

    /// Whether the file could be written. The file itself is not touched: another process may write it at this moment.
    fn try_to_write(&self, book: &Book) -> io::Result<()> {
        let trial = self.path.with_extension("trial");
        files::replace(&trial, &serde_json::to_vec_pretty(book)?)?;
        fs_err::remove_file(trial)
    }

    fn unwritable(&self, error: &io::Error) -> String {
        format!("the pin file {} cannot be written: {error}", self.path.display())
    }

    /// Writes these pins, which are in force from then on.
    fn store(&self, book: Book) -> io::Result<()> {
        let written = self.write(&book)?;
        let mut known = self.known();
        (known.book, known.written) = (book, written);
        Ok(())
    }

    fn write(&self, book: &Book) -> io::Result<Option<Stamp>> {
        files::replace(&self.path, &serde_json::to_vec_pretty(book)?)?;
        Ok(written(&self.path))
    }

    /// Held for short updates only, never while a file is read or written.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unpoisoned()
    }
}

impl Pinboard for PinFile {
    /// Compares with the pins in memory, and accesses no file. A definition whose pin is not in the file yet is pending
    /// until the thread of [`PinFile::update`] has stored it.
    fn look(&self, seen: &[Definition], source: DefinitionSource) -> Vec<Standing> {
        let mut known = self.known();
        let (were_pending, had_stopped) = (known.pending.len(), known.has_stopped);
        let standings: Vec<_> = seen.iter().map(|definition| known.standing(definition, source)).collect();
        let is_pending = known.pending.len() > were_pending;
        if is_pending {
            self.is_storing.send_replace(true);
        }
        if is_pending || known.has_stopped != had_stopped {
            self.wake();
        }
        standings
    }

    fn storing(&self) -> Option<Settling> {
        if !*self.is_storing.borrow() {
            return None;
        }
        let mut storing = self.is_storing.subscribe();
        Some(Box::pin(async move {
            // A disk that does not answer delays no list for longer.
            let _ = tokio::time::timeout(LONGEST_WAIT, storing.wait_for(|is_storing| !is_storing)).await;
        }))
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

    /// The standing of a definition. If the file does not have it as it is, the definition is pending.
    fn standing(&mut self, seen: &Definition, source: DefinitionSource) -> Standing {
        let key = key(seen.kind, &seen.upstream, &seen.own);
        let pin = self.book.get(&key);
        let (standing, new) = compare(pin, seen, source);
        let is_stored = pin == Some(&new);
        let has_hash = pin.is_some_and(|pin| pin.sha256 == new.sha256);
        if !is_stored && self.failure.is_none() {
            self.pending.entry(key).or_insert_with(|| Unstored { seen: seen.clone(), source });
            // Another process may have approved a change since, so a new change is pending as a new pin is.
            return match standing {
                Standing::Pinned if has_hash => Standing::Pinned,
                _ => Standing::Pending { name: new.shown },
            };
        }
        let standing = match (&self.failure, standing) {
            (Some(why), Standing::Pinned) if !has_hash => Standing::Unpinned { name: new.shown, why: why.clone() },
            (_, standing) => standing,
        };
        self.has_stopped |= standing != Standing::Pinned;
        standing
    }
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
    use super::pin::{LONGEST_CHANGE, hash};
    use super::*;

    fn definition(text: &str) -> [Definition; 1] {
        let [upstream, own, shown, text] = ["u", "t", "u__t", text].map(ToOwned::to_owned);
        let narrow = Some(format!("part of {text}"));
        [Definition { kind: Pinned::Tool, upstream, own, shown: Some(shown), text, narrow }]
    }

    /// The standings after the thread of the file has stored what is new.
    fn look(file: &PinFile, seen: &[Definition]) -> Vec<Standing> {
        let standings = file.look(seen, DefinitionSource::Session);
        if file.storing().is_some() {
            file.update(|_| ());
            return file.look(seen, DefinitionSource::Session);
        }
        standings
    }

    fn standing(file: &PinFile, definition: Definition) -> bool {
        look(file, &[definition])[0] == Standing::Pinned
    }

    /// Whether definitions must be compared again because of something else than new pins.
    fn refresh(file: &PinFile) -> bool {
        file.update(|_| ()) == Updated::Changed
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
        assert_eq!(look(&file, &definition("one")), [Standing::Pinned]);
        fs_err::write(&path, "{").unwrap();
        let stamp = written(&path);
        assert_eq!(look(&file, &definition("one")), [Standing::Pinned]);
        assert_ne!(file.known().written, stamp, "the file was looked at");
        assert!(matches!(&look(&file, &definition("two"))[..], [Standing::Changed { .. }]), "the pins in memory hold");
    }

    #[test]
    fn a_definition_is_pending_until_its_pin_is_in_the_file_and_comparing_accesses_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let file = PinFile::open(path.clone()).unwrap();
        let updates = file.updates();
        let pending = [Standing::Pending { name: "u__t".to_owned() }];
        for text in ["one", "one", "two"] {
            assert_eq!(file.look(&definition(text), DefinitionSource::Session), pending, "{text}");
        }
        assert!(!path.exists() && file.storing().is_some());
        assert_eq!((updates.try_recv(), updates.try_recv().is_err()), (Ok(()), true), "the thread is woken once");
        let compare = |updated| {
            assert_eq!(updated, Updated::Stored);
            assert_eq!(file.look(&definition("one"), DefinitionSource::Session), [Standing::Pinned]);
            assert!(file.storing().is_some(), "nobody goes on before the hub has compared");
        };
        assert_eq!(file.update(compare), Updated::Stored);
        assert!(path.exists() && file.storing().is_none() && !file.has_stopped());
        assert_eq!(
            file.look(&definition("two"), DefinitionSource::Session),
            pending,
            "another process may have approved it"
        );
        file.update(|_| ());
        assert!(matches!(&file.look(&definition("two"), DefinitionSource::Session)[..], [Standing::Changed { .. }]));
        assert!(file.has_stopped() && updates.try_recv().is_ok(), "from now on an approval is looked for");
    }

    #[test]
    fn a_remembered_definition_does_not_take_back_a_change_that_waits_to_be_approved() {
        let folder = tempfile::tempdir().unwrap();
        let file = PinFile::open(folder.path().join("pins.json")).unwrap();
        look(&file, &definition("one"));
        assert!(matches!(&look(&file, &definition("two"))[..], [Standing::Changed { .. }]));
        assert_eq!(file.look(&definition("one"), DefinitionSource::Routes), [Standing::Pinned]);
        assert!(file.storing().is_none(), "the remembered list has its pin, and nothing is to be stored");
        let in_session = file.look(&definition("two"), DefinitionSource::Session);
        assert!(matches!(&in_session[..], [Standing::Changed { .. }]), "{in_session:?}");
        assert_eq!(file.waiting().len(), 1);
        assert_eq!(look(&file, &definition("one")), [Standing::Pinned]);
        assert!(file.waiting().is_empty(), "a session shows that the upstream took the change back");
    }

    #[test]
    fn a_definition_whose_pin_cannot_be_stored_is_not_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let file = PinFile::open(data.join("pins.json")).unwrap();
        // No file can be written below a file.
        fs_err::write(&data, "").unwrap();
        for _ in 0..2 {
            let [Standing::Unpinned { name, why }] = &look(&file, &definition("one"))[..] else {
                panic!("it is pinned")
            };
            assert_eq!(name, "u__t");
            assert!(why.starts_with("the pin file ") && why.contains("pins.json cannot be written: "), "{why}");
        }
        assert!(file.why_unpinned("u", "t").is_some_and(|why| why.contains("cannot be written")));
        assert!(!refresh(&file));
        fs_err::remove_file(&data).unwrap();
        assert!(refresh(&file) && !refresh(&file), "definitions are compared again, once");
        assert_eq!(look(&file, &definition("one")), [Standing::Pinned]);
        assert_eq!(file.why_unpinned("u", "t"), None);
        assert!(matches!(&look(&file, &definition("two"))[..], [Standing::Changed { .. }]));
    }

    #[test]
    fn a_pin_that_was_stored_holds_while_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.json");
        let file = PinFile::open(path.clone()).unwrap();
        look(&file, &definition("one"));
        let lost = PinFile::new(path.join("pins.json"), Known { written: None, ..file.known.into_inner().unwrap() });
        assert_eq!(look(&lost, &definition("one")), [Standing::Pinned]);
        assert!(matches!(&look(&lost, &definition("two"))[..], [Standing::Changed { .. }]));
    }

    #[test]
    fn a_definition_whose_text_was_not_kept_is_not_approved() {
        let folder = tempfile::tempdir().unwrap();
        let file = PinFile::open(folder.path().join("pins.json")).unwrap();
        look(&file, &definition("one"));
        let is_approved = |length: usize| {
            look(&file, &definition(&"x".repeat(length)));
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
        look(&theirs, &[other]);
        look(&ours, &definition("one"));
        assert_eq!(read(&path).unwrap().into_keys().collect::<Vec<_>>(), ["u/o", "u/t"]);
    }

    #[test]
    fn a_changed_definition_is_approved_by_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/pins.json");
        let ours = PinFile::open(path.clone()).unwrap();
        assert_eq!(look(&ours, &definition("one")), [Standing::Pinned]);
        assert!(!refresh(&ours));
        let ours = PinFile::open(path.clone()).unwrap();
        assert_eq!(look(&ours, &definition("one")), [Standing::Pinned]);
        assert!(matches!(&look(&ours, &definition("two"))[..], [Standing::Changed { .. }]));
        let theirs = PinFile::open(path.clone()).unwrap();
        assert_eq!(theirs.waiting()[0].name, "u__t");
        let approve = |file: &PinFile, name: &str| file.approve(&[name.to_owned()]).unwrap();
        assert_eq!(approve(&theirs, "other"), Approval::default());
        assert_eq!(approve(&theirs, "u__t"), Approval { approved: Vec::new(), unlisted: theirs.waiting() });
        theirs.note_listed(&theirs.waiting()).unwrap();
        assert_eq!(approve(&theirs, "u__t").approved, ["u__t"]);
        assert!(theirs.waiting().is_empty());
        assert!(refresh(&ours) && !refresh(&ours));
        assert_eq!(look(&ours, &definition("two")), [Standing::Pinned]);
        assert!(
            matches!(&look(&ours, &definition("one"))[..], [Standing::Changed { .. }]),
            "the old one is another one now"
        );
        assert_eq!(look(&ours, &definition("two")), [Standing::Pinned], "what comes back to what it was is fine");
        assert!(ours.waiting().is_empty());
        let listed = |text: &str| {
            look(&ours, &definition(text));
            let theirs = PinFile::open(path.clone()).unwrap();
            theirs.note_listed(&theirs.waiting()).unwrap();
        };
        listed("three");
        look(&ours, &definition("four"));
        let theirs = PinFile::open(path.clone()).unwrap();
        assert!(theirs.approve(&["u__t".to_owned()]).unwrap().approved.is_empty(), "it changed after it was listed");
        fs_err::write(&path, "{").unwrap();
        assert!(PinFile::open(path).is_err(), "a broken file is not an empty one");
    }
}
