//! The environment of a tool: limits, folders, and a receiver for progress reports.
//!
//! This crate never reads the clock time, the environment or the working folder: the caller passes them in.

use std::path::PathBuf;
use std::time::Duration;

pub use gladhand_ignore_files::Secrets;

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
