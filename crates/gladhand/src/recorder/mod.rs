//! Recordings of sessions: the file, the clock and the masks. `gladhand_recording` has the format.
//!
//! [`FileRecorder`] writes entries at once. [`tapped`] records the sessions that pass a tap, through a queue and a thread,
//! so that no session waits for the disk. [`followers`] does the same for programs that follow the process.

mod files;
pub(crate) mod folder;
#[cfg(unix)]
pub(crate) mod followers;
mod masks;
#[cfg(unix)]
pub(crate) mod opening;
pub(crate) mod tap_queue;
pub(crate) mod tapped;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fs_err::File;
use gladhand_core::wire::FrameKind;
use gladhand_recording::{Entry, EntryKind, FORMAT, Header, Mask, Recorder};
use gladhand_redaction::{Life, learn_variable, learn_words, redact_words};

pub(crate) use files::Existing;
pub(crate) use masks::{BadMask, Masks};

/// The default of `--max-mib`: the size of one part in MiB.
pub(crate) const MAX_MIB: u64 = 64;

/// Writes a recording to a file and its older parts.
#[derive(Debug)]
pub(crate) struct FileRecorder {
    recorder: Recorder<File>,
    path: PathBuf,
    /// The time from which entries count.
    started: Instant,
    is_failing: bool,
}

/// A recording that could not be begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRecorded {
    /// A mask cannot be used.
    #[error(transparent)]
    Mask(#[from] BadMask),
    /// The file exists, or one of the names of its older parts does.
    #[error("{} exists{why}", .path.display())]
    Exists {
        /// Its name.
        path: PathBuf,
        /// Why it is not replaced. Empty: the user did not ask for it.
        why: &'static str,
    },
    /// The file cannot be made.
    #[error("cannot record to {}: {error}", .path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

impl FileRecorder {
    /// Makes the file and writes its header. `command` is the recorded command or URL.
    pub(crate) fn begin(
        path: &Path,
        existing: Existing,
        command: &[String],
        max_mib: u64,
        mut masks: Masks,
    ) -> Result<Self, NotRecorded> {
        let (header, started) = header(command, &masks);
        let mask = Box::new(move |entry: &mut Entry| masks.apply(entry));
        Self::begin_with(path, existing, max_mib, header, started, mask)
    }

    /// Makes the file for entries that another process masked, and writes their header.
    #[cfg(unix)]
    pub(crate) fn begin_copy(
        path: &Path,
        existing: Existing,
        max_mib: u64,
        header: Header,
    ) -> Result<Self, NotRecorded> {
        Self::begin_with(path, existing, max_mib, header, Instant::now(), Box::new(|_| {}))
    }

    fn begin_with(
        path: &Path,
        existing: Existing,
        max_mib: u64,
        header: Header,
        started: Instant,
        mask: Mask,
    ) -> Result<Self, NotRecorded> {
        let path = std::path::absolute(path).map_err(|error| NotRecorded::File { path: path.to_owned(), error })?;
        files::prepare(&path, existing)?;
        let file = path.clone();
        let begin_part = Box::new(move |part| files::begin_part(&file, part));
        let recorder = Recorder::begin(header, max_mib.saturating_mul(1024 * 1024), begin_part, mask)
            .map_err(|error| NotRecorded::File { path: path.clone(), error })?;
        Ok(Self { recorder, path, started, is_failing: false })
    }

    /// Writes an entry. The log says once that it cannot be written, and once that it can be again.
    pub(crate) fn record(&mut self, at: Instant, session: Option<String>, kind: EntryKind) {
        self.record_entry(Entry { ms: milliseconds(self.started, at), session, kind });
    }

    /// Writes an entry that has its time.
    pub(crate) fn record_entry(&mut self, entry: Entry) {
        let written = self.recorder.record(entry);
        self.note(written);
    }

    /// Collects entries until [`Self::flush`], so that many are written at once.
    pub(crate) fn collect(&mut self) {
        self.recorder.collect();
    }

    /// Writes the collected entries.
    pub(crate) fn flush(&mut self) {
        let written = self.recorder.flush();
        self.note(written);
    }

    /// Counts entries that did not reach the recorder.
    pub(crate) fn count_dropped(&mut self, entries: u64) {
        self.recorder.count_dropped(entries);
    }

    /// Writes what is left.
    pub(crate) fn finish(&mut self) {
        let written = self.recorder.finish(milliseconds(self.started, Instant::now()));
        self.note(written);
    }

    fn note(&mut self, written: io::Result<()>) {
        match &written {
            Err(error) if !self.is_failing => {
                tracing::error!(file = %self.path.display(), %error, "the recording cannot be written; messages are missing in it");
            }
            Ok(()) if self.is_failing => tracing::warn!(file = %self.path.display(), "the recording is written again"),
            _ => {}
        }
        self.is_failing = written.is_err();
    }
}

/// The header of a recording that begins now. The secrets of the environment and of the command are known from here on.
fn header(command: &[String], masks: &Masks) -> (Header, Instant) {
    learn_environment();
    learn_words(command, Life::Process);
    let (started, since_1970) = (Instant::now(), gladhand_system::since_1970());
    let header = Header {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
        command: masks.words(&redact_words(command)),
        part: 1,
    };
    (header, started)
}

/// Milliseconds from the start of a recording to a time.
fn milliseconds(started: Instant, at: Instant) -> f64 {
    let micros = at.saturating_duration_since(started).as_micros();
    // Exact for 285 years.
    u64::try_from(micros).map_or(f64::MAX, |micros| micros as f64 / 1000.0)
}

/// Learns the secrets in the variables of this process, which the recorded servers inherit.
fn learn_environment() {
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        // The name `PWD` looks like that of a password.
        let is_path = ["PWD", "OLDPWD"].contains(&name) || (value.starts_with('/') && Path::new(value).exists());
        if !is_path {
            learn_variable(name, value, Life::Process);
        }
    }
}

/// The word for a kind of message in a recording.
pub(crate) fn kind_word(kind: FrameKind) -> Option<&'static str> {
    match kind {
        FrameKind::Request => Some("request"),
        FrameKind::Result => Some("response"),
        FrameKind::Error { .. } => Some("error"),
        FrameKind::Notice => Some("notification"),
        // A batch may have all of them.
        FrameKind::Batch => None,
    }
}

/// The text of an entry for a line that was too long to be recorded.
pub(crate) fn too_long(limit: usize) -> String {
    format!("(a line of more than {limit} bytes is not recorded)")
}
