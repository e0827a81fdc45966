//! What a tool needs besides its input: limits, where folders are, whom to tell about progress.
//!
//! Nothing in this crate asks for the time of day, the environment or the working folder: whoever calls says what they are.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::recipes::Recipes;

/// What a tool needs besides its input.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// What a scan may cost.
    pub limits: Limits,
    /// Who is told how far a scan is, and may end it.
    pub progress: &'a dyn Progress,
    /// Which folders names stand for, and which may be read.
    pub places: &'a Places,
    /// The integration targets.
    pub recipes: &'a Recipes,
    /// Who finds passages of documentation.
    pub documents: &'a dyn Documents,
    /// The time of the call, in UTC, as `2026-01-31T09:15:02.123456+00:00`.
    pub now: &'a str,
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setting").field("limits", &self.limits).field("places", &self.places).finish_non_exhaustive()
    }
}

/// What a scan may cost. A limit that was hit is told in the answer's warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many files are looked at, in the order of their paths.
    pub files: usize,
    /// How much of a source file or a manifest is read.
    pub source_bytes: usize,
    /// How much of a lock file is read.
    pub lock_bytes: usize,
    /// How many bytes are read in all.
    pub total_bytes: u64,
    /// How long a scan may take.
    pub time: Duration,
    /// How many threads read; 0 takes as many as there are cores.
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
    /// How many threads to use.
    pub(crate) fn workers(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(8),
            given => given,
        }
    }
}

/// Which folders names stand for, and which may be read.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Where relative paths begin.
    pub working_folder: PathBuf,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// The only folders that may be looked at, with what is in them. None: all that this process may read.
    pub allowed: Option<Vec<PathBuf>>,
    /// The files and folders among them that no tool reads.
    pub secrets: Secrets,
}

/// Decides whether a file may hold secrets.
type Decides = dyn Fn(&Path, &Metadata) -> bool + Send + Sync;

/// The rule of the caller about files and folders that no tool reads: by real path, and by what the system says of them.
#[derive(Clone)]
pub struct Secrets(pub Arc<Decides>);

impl Secrets {
    /// Whether the rule covers a real path.
    pub(crate) fn cover(&self, real: &Path) -> bool {
        real.symlink_metadata().is_ok_and(|about| (self.0)(real, &about))
    }

    /// Opens a regular file that the rule does not cover. The folders in the path are real; the file may be a link.
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

    /// All bytes of a file that may be opened, unless they are more than `most`.
    pub(crate) fn read(&self, path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }
}

/// Nothing is secret.
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

/// Who is told how far a tool is, and may end it. Called from several threads.
pub trait Progress: Sync {
    /// So much of a stage is done. The total is known once the tree has been listed.
    fn report(&self, stage: Stage, done: usize, total: Option<usize>);

    /// Whether the answer is not wanted any more.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody wants to know.
impl Progress for () {
    fn report(&self, _: Stage, _: usize, _: Option<usize>) {}
}

/// What a tool is doing.
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
    /// Collecting what a language model wants to see.
    Collect,
    /// Writing the checklist.
    Steps,
    /// Writing the edits.
    Plan,
    /// Applying them in memory.
    Validate,
}

impl Stage {
    /// What a person reads.
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

/// Finds passages of documentation. The index itself lives elsewhere.
pub trait Documents: Sync {
    /// The best passages for a query, best first, at most so many.
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
    /// Its place in the document: the line where its section begins.
    pub number: usize,
    /// What it says.
    pub text: String,
    /// How well it fits.
    pub score: f64,
}
