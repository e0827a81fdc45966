//! A file of JSON lines that a thread of its own writes: the audit file and the access log.
//!
//! A call never waits for the disk: lines go through a bounded queue that principals share, and lines that do not fit are
//! counted, in the file and in the log. A full file is moved aside and a new one begun. If another program moved the file aside (`logrotate`), a
//! new one begins at the next line, at most a second later.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use fs_err::File;
use gladhand_core::operations::Party;
use gladhand_core::wire::invisible::escape_json;
use gladhand_hub::{Portion, Portions};
use serde::Serialize;

use crate::utc;

/// Maximum number of lines that wait for the disk. If it is reached, a principal with less than an equal share still gets
/// more, up to twice the number.
const QUEUE: usize = 4096;

/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How often to check whether another program moved the file.
const LOOK: Duration = Duration::from_secs(1);

/// A value that becomes a line. The writing thread renders it.
pub(crate) trait LineSource: Send + 'static {
    /// The lines in messages, as in `audit records`.
    const WHAT: &'static str;

    /// The principal whose share of the queue the line uses. Callers without a principal share one part.
    fn principal(&self) -> Option<&str>;

    /// The line, without secrets.
    fn line(self) -> impl Serialize;
}

/// The sending side of a file of lines. Clones share the file.
pub(crate) struct LineQueue<L> {
    queue: SyncSender<QueuedLine<L>>,
    shares: Arc<Portions>,
    hasher: RandomState,
    dropped: Arc<AtomicU64>,
}

impl<L> Clone for LineQueue<L> {
    fn clone(&self) -> Self {
        let (shares, dropped) = (Arc::clone(&self.shares), Arc::clone(&self.dropped));
        Self { queue: self.queue.clone(), shares, hasher: self.hasher.clone(), dropped }
    }
}

impl<L> fmt::Debug for LineQueue<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineQueue").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

enum QueuedLine<L> {
    Line(String, L, Portion),
    Flush(SyncSender<()>),
}

impl<L: LineSource> LineQueue<L> {
    /// Starts the thread that writes a file. `thread`: its name.
    pub(crate) fn start(file: LineFile, thread: &str) -> io::Result<Self> {
        let (lines, messages) = Self::new();
        let missed = Arc::clone(&lines.dropped);
        std::thread::Builder::new().name(thread.to_owned()).spawn(move || write_all(file, &messages, &missed))?;
        Ok(lines)
    }

    fn new() -> (Self, Receiver<QueuedLine<L>>) {
        let (queue, messages) = sync_channel(2 * QUEUE);
        let (shares, hasher) = (Portions::of(QUEUE, 0), RandomState::new());
        (Self { queue, shares, hasher, dropped: Arc::default() }, messages)
    }

    /// Adds a line with the current time, or counts it as dropped if the queue is full for its principal.
    pub(crate) fn add(&self, line: L) {
        let mut portion = self.shares.portion(Party(self.hasher.hash_one(line.principal())));
        if !portion.grow(1) || self.queue.try_send(QueuedLine::Line(utc::now(), line, portion)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the previous lines are written, for a limited time.
    pub(crate) fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(QueuedLine::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

/// Writes the last lines when the service has ended.
#[derive(Debug)]
#[must_use = "dropping it writes what is left"]
pub(crate) struct FlushGuard<L: LineSource>(pub(crate) Option<LineQueue<L>>);

impl<L: LineSource> Drop for FlushGuard<L> {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.flush();
        }
    }
}

#[derive(Serialize)]
struct TimedLine<'a, L> {
    time: &'a str,
    #[serde(flatten)]
    line: L,
}

fn write_all<L: LineSource>(mut file: LineFile, messages: &Receiver<QueuedLine<L>>, dropped: &AtomicU64) {
    let mut is_failing = false;
    while let Ok(message) = messages.recv() {
        let written = match message {
            QueuedLine::Line(time, line, _portion) => file.write(&TimedLine { time: &time, line: line.line() }),
            QueuedLine::Flush(done) => {
                let missed = missed::<L>(&mut file, dropped);
                let _ = done.send(());
                missed
            }
        };
        let written = written.and_then(|()| missed::<L>(&mut file, dropped));
        if let Err(error) = &written
            && !is_failing
        {
            tracing::error!(%error, "{} cannot be written", L::WHAT);
        }
        is_failing = written.is_err();
    }
}

/// Writes how many lines were dropped since the last time.
fn missed<L: LineSource>(file: &mut LineFile, dropped: &AtomicU64) -> io::Result<()> {
    let count = dropped.swap(0, Ordering::Relaxed);
    if count == 0 {
        return Ok(());
    }
    tracing::warn!(count, "{} were dropped: the disk is slower than the calls", L::WHAT);
    file.write(&serde_json::json!({"time": utc::now(), "dropped": count}))
}

/// A file of lines, and the previous ones.
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    length: u64,
    max_bytes: u64,
    keep: u32,
    /// When to check next whether another program moved the file.
    look_at: Instant,
}

impl LineFile {
    /// Starts a new file, or continues an existing one.
    pub(crate) fn open(path: &Path, max_bytes: u64, keep: u32) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            gladhand_store::make_folder(folder)?;
        }
        let file = append_to(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, max_bytes, keep, look_at: Instant::now() + LOOK })
    }

    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        // Peers choose names and payloads, and a terminal may show the file.
        let line = serde_json::to_string(line)?;
        let mut line = escape_json(&line).into_owned();
        line.push('\n');
        let now = Instant::now();
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.reopen_if_moved()?;
        }
        if self.length > 0 && self.length + line.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(line.as_bytes())?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Begins a new file if another program moved or removed this one.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        if !is_same_file(&self.file.metadata()?, &self.path) {
            self.file = append_to(&self.path)?;
        }
        // A program that copies the file instead of moving it makes it shorter.
        self.length = self.file.metadata()?.len();
        Ok(())
    }

    /// Moves the files on, each to the next number, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.keep).rev() {
            if numbered(number).exists() {
                fs_err::rename(numbered(number), numbered(number + 1))?;
            }
        }
        if self.keep > 0 {
            fs_err::rename(&self.path, numbered(1))?;
        } else {
            fs_err::remove_file(&self.path)?;
        }
        self.file = append_to(&self.path)?;
        self.length = 0;
        Ok(())
    }
}

/// Whether a path still names an open file.
#[cfg(unix)]
fn is_same_file(open: &std::fs::Metadata, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()))
}

/// Whether a path still names an open file. An open file cannot be moved here.
#[cfg(not(unix))]
fn is_same_file(_: &std::fs::Metadata, _: &Path) -> bool {
    true
}

/// Opens a file to write at its end; one that is made now can be read by its owner only.
fn append_to(path: &Path) -> io::Result<File> {
    gladhand_store::files::no_pipe(path)?;
    let mut options = fs_err::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_could_steer_a_terminal_is_escaped_and_stays_the_same_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut file = LineFile::open(&path, 1000, 2).unwrap();
        let text = "a\u{202e}b\u{2028}c\u{2029}d\u{e0041}e\u{200b}f\u{9b}g\u{7f}h\u{1b}[31m\u{feff}\n";
        let raw = gladhand_core::wire::json::raw(format!("\"{}\"", "\u{202e}\u{85}"));
        file.write(&serde_json::json!({"tool": text, (text): raw.get()})).unwrap();
        file.write(&raw).unwrap();
        let written = fs_err::read_to_string(&path).unwrap();
        assert!(written.bytes().all(|byte| byte == b'\n' || (b' '..0x7f).contains(&byte)), "{written:?}");
        let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["tool"], &lines[1]), (&text.into(), &"\u{202e}\u{85}".into()));
        assert!(
            written.contains("a\\u202eb\\u2028c\\u2029d\\udb40\\udc41e\\u200bf\\u009bg\\u007fh\\u001b[31m\\ufeff\\n")
        );
    }

    #[test]
    fn a_full_file_is_rotated_and_the_oldest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/audit.jsonl");
        let mut file = LineFile::open(&path, 10, 2).unwrap();
        for number in 1..=4 {
            file.write(&serde_json::json!({"number": number})).unwrap();
        }
        let read = |name: &str| fs_err::read_to_string(folder.path().join("new").join(name)).unwrap_or_default();
        assert_eq!(read("audit.jsonl"), "{\"number\":4}\n");
        assert_eq!(read("audit.jsonl.1"), "{\"number\":3}\n");
        assert_eq!(read("audit.jsonl.2"), "{\"number\":2}\n");
        assert_eq!(read("audit.jsonl.3"), "");
        drop(file);
        let mut file = LineFile::open(&path, 1000, 2).unwrap();
        file.write(&serde_json::json!(5)).unwrap();
        assert_eq!(read("audit.jsonl"), "{\"number\":4}\n5\n", "what is there is gone on with");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_another_program_moved_or_cut_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("access.jsonl"), folder.path().join("yesterday.jsonl"));
        let mut file = LineFile::open(&path, 1000, 2).unwrap();
        let read = |path: &Path| fs_err::read_to_string(path).unwrap();
        file.write(&1).unwrap();
        fs_err::rename(&path, &moved).unwrap();
        file.look_at = Instant::now();
        file.write(&2).unwrap();
        assert_eq!((read(&moved), read(&path)), ("1\n".to_owned(), "2\n".to_owned()));
        fs_err::write(&path, "").unwrap();
        file.look_at = Instant::now();
        file.write(&3).unwrap();
        assert_eq!((read(&path), file.length), ("3\n".to_owned(), 2));
    }

    /// Lines whose rendering waits until the test lets it.
    struct Slow(Arc<std::sync::Mutex<()>>);

    impl LineSource for Slow {
        const WHAT: &'static str = "slow lines";

        fn principal(&self) -> Option<&str> {
            None
        }

        fn line(self) -> impl Serialize {
            drop(self.0.lock());
            serde_json::json!({"slow": true})
        }
    }

    /// A line of a principal.
    struct Owned(Option<&'static str>);

    impl LineSource for Owned {
        const WHAT: &'static str = "lines";

        fn principal(&self) -> Option<&str> {
            self.0
        }

        fn line(self) -> impl Serialize {
            serde_json::json!({"principal": self.0})
        }
    }

    #[test]
    fn a_principal_that_fills_the_queue_displaces_no_line_of_another() {
        let (queue, messages) = LineQueue::new();
        (0..3 * QUEUE).for_each(|_| queue.add(Owned(Some("bob"))));
        (0..QUEUE / 4).for_each(|_| queue.add(Owned(Some("alice"))));
        (0..QUEUE / 4).for_each(|_| queue.add(Owned(None)));
        let mut queued = std::collections::HashMap::<_, usize>::new();
        for message in messages.try_iter() {
            let QueuedLine::Line(_, line, _) = message else { panic!("a line") };
            *queued.entry(line.0).or_default() += 1;
        }
        assert_eq!((queued[&Some("alice")], queued[&None]), (QUEUE / 4, QUEUE / 4));
        assert_eq!(queue.dropped.load(Ordering::Relaxed) as usize, 3 * QUEUE - queued[&Some("bob")]);
    }

    #[test]
    fn a_full_queue_blocks_no_caller_and_the_file_counts_the_dropped_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.jsonl");
        let queue = LineQueue::start(LineFile::open(&path, 1 << 30, 1).unwrap(), "slow").unwrap();
        let gate = Arc::<std::sync::Mutex<()>>::default();
        let closed = gate.lock().unwrap();
        // One line may be with the thread, and the share is used up: the rest is dropped.
        for _ in 0..QUEUE + 11 {
            queue.add(Slow(Arc::clone(&gate)));
        }
        let dropped = queue.dropped.load(Ordering::Relaxed);
        assert!((10..=11).contains(&dropped), "{dropped}");
        drop(closed);
        drop(queue.queue.send(QueuedLine::Flush(sync_channel(1).0)));
        queue.flush();
        let written = fs_err::read_to_string(&path).unwrap();
        let counted = written.lines().filter(|line| line.contains(&format!("\"dropped\":{dropped}"))).count();
        assert_eq!((counted, written.lines().count()), (1, QUEUE + 11 - dropped as usize + 1));
    }
}
