//! What a tool needs besides its input: limits, folders, and a receiver for progress reports.
//!
//! This crate never reads the clock time, the environment or the working folder: the caller passes them in.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::recipes::Recipes;

/// The limits, folders, recipes and receivers that a tool needs besides its input.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The limits of a scan.
    pub limits: Limits,
    /// Receives progress reports, and may cancel a scan.
    pub progress: &'a dyn Progress,
    /// The folders that names refer to, and the folders that may be read.
    pub places: &'a Places,
    /// The integration targets.
    pub recipes: &'a Recipes,
    /// Finds passages of documentation.
    pub documents: &'a dyn Documents,
    /// The time of the call, in UTC, as `2026-01-31T09:15:02.123456+00:00`.
    pub now: &'a str,
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting").field("limits", &self.limits).field("places", &self.places).finish_non_exhaustive()
    }
}

/// The limits of a scan. If one was reached, the warnings of the answer say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of files, in the order of their paths.
    pub files: usize,
    /// Maximum number of bytes that are read of a source file or a manifest.
    pub source_bytes: usize,
    /// Maximum number of bytes that are read of a lock file.
    pub lock_bytes: usize,
    /// Maximum number of bytes that are read in total.
    pub total_bytes: u64,
    /// Maximum duration of a scan.
    pub time: Duration,
    /// Number of reader threads; 0 means one per core.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 200_000,
            source_bytes: 1 << 20,
            lock_bytes: 8 << 20,
            total_bytes: 2 << 30,
            time: Duration::from_secs(60),
            threads: 0,
        }
    }
}

impl Limits {
    /// The number of threads to use.
    pub(crate) fn workers(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(8),
            given => given,
        }
    }
}

/// The folders that names refer to, and the folders that may be read.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The base of relative paths.
    pub working_folder: PathBuf,
    /// The folder that `~` refers to.
    pub home: Option<PathBuf>,
    /// The only folders that may be read, with their contents. `None`: all that this process may read.
    pub allowed: Option<Vec<PathBuf>>,
    /// The files and folders among them that no tool reads.
    pub secrets: Secrets,
}

/// Decides whether a file may hold secrets.
type Decides = dyn Fn(&Path, &Metadata) -> bool + Send + Sync;

/// The caller's rule for files and folders that no tool reads: it decides by the real path and the file metadata.
#[derive(Clone)]
pub struct Secrets(pub Arc<Decides>);

impl Secrets {
    /// Whether the rule covers a real path.
    pub(crate) fn cover(&self, real: &Path) -> bool {
        real.symlink_metadata().is_ok_and(|about| (self.0)(real, &about))
    }

    /// Opens a regular file that the rule does not cover. The folders in the path are real; the file may be a symlink.
    pub(crate) fn open(&self, path: &Path) -> std::io::Result<File> {
        let refused = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let mut about = path.symlink_metadata()?;
        let mut real = std::borrow::Cow::Borrowed(path);
        if about.is_symlink() {
            real = path.canonicalize()?.into();
            about = real.symlink_metadata()?;
        }
        // Opening a pipe or a device may block.
        if !about.is_file() {
            return Err(refused());
        }
        let file = File::open(&real)?;
        let about = file.metadata()?;
        if about.is_file() && !(self.0)(&real, &about) { Ok(file) } else { Err(refused()) }
    }

    /// Reads all bytes of a file that may be opened, up to `most` bytes.
    pub(crate) fn read(&self, path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }
}

/// No file is secret.
impl Default for Secrets {
    fn default() -> Self {
        Self(Arc::new(|_, _| false))
    }
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Secrets {}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Receives progress reports, and may cancel a tool. Called from several threads.
pub trait Progress: Sync {
    /// Reports how much of a stage is done. The total is known once the tree has been listed.
    fn report(&self, stage: Stage, done: usize, total: Option<usize>);

    /// Whether the caller has cancelled the call.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores progress.
impl Progress for () {
    fn report(&self, _: Stage, _: usize, _: Option<usize>) {}
}

/// The stages of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Listing the tree.
    List,
    /// Reading files.
    Read,
    /// Describing the repository.
    Analyze,
    /// Naming its frameworks.
    Detect,
    /// Collecting the context for a language model.
    Collect,
    /// Writing the checklist.
    Steps,
    /// Writing the edits.
    Plan,
    /// Applying the edits in memory.
    Validate,
}

impl Stage {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "listing files",
            Self::Read => "reading files",
            Self::Analyze => "analyzing the repository",
            Self::Detect => "detecting frameworks",
            Self::Collect => "collecting context",
            Self::Steps => "writing steps",
            Self::Plan => "planning edits",
            Self::Validate => "validating the plan",
        }
    }
}

/// Finds passages of documentation. The index itself is elsewhere.
pub trait Documents: Sync {
    /// The best passages for a query, best first, at most `most`.
    fn best(&self, query: &str, most: usize) -> Vec<Passage>;
}

/// There is no documentation.
impl Documents for () {
    fn best(&self, _: &str, _: usize) -> Vec<Passage> {
        Vec::new()
    }
}

/// A passage of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The path that citations name.
    pub path: String,
    /// The position in the document: the line where its section begins.
    pub number: usize,
    /// The text.
    pub text: String,
    /// The relevance score.
    pub score: f64,
}
