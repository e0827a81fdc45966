//! `list_dir`: lists the entries of a directory and of its subdirectories.
//!
//! The tree is walked in display order, and entries before and after the requested range are not kept. So memory does
//! not grow with the tree: it holds the names in the directories on the path to the current one, and the lines.

use std::ffi::OsString;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use gladhand_core::Order as _;
use gladhand_core::javascript;
use tokio_util::sync::CancellationToken;

use crate::files::bounds::Bounds;
use crate::input::Input;
use crate::outcome::{Outcome, Problem, blocking, done};
use crate::tool_set::Job;

/// Maximum length of a name, in UTF-16 units.
const MAX_NAME_UNITS: usize = 500;

/// Maximum number of visited entries.
const MAX_ENTRIES: usize = 200_000;

/// Maximum number of directory levels.
const MAX_DEPTH: usize = 64;

/// Maximum size in bytes of the names in memory, and of the lines.
const MAX_BYTES: usize = 8 << 20;

/// The directory that the input names.
pub(super) fn path(input: &Input) -> PathBuf {
    input.text("dir_path").unwrap_or_default().into()
}

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let folder = path(&job.input);
    if !folder.is_absolute() {
        return Err(Problem::plain("dir_path must be an absolute path"));
    }
    let positive = |name, default| match job.input.whole(name) {
        None => Ok(default),
        Some(number) => usize::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| Problem::plain(format!("{name} must be greater than zero"))),
    };
    let (offset, limit, depth) = (positive("offset", 1)?, positive("limit", 25)?, positive("depth", 2)?);
    let listing = Listing {
        bounds: job.bounds.clone(),
        stop: job.stop.clone(),
        wanted: offset..offset.saturating_add(limit),
        depth: depth.min(MAX_DEPTH),
        seen: 0,
        names_size: 0,
        lines: Vec::new(),
        bytes: 0,
        has_more: false,
    };
    blocking(move || listing.read_folder(&folder)).await
}

/// An entry of a directory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    name: OsString,
    suffix: &'static str,
}

impl Entry {
    fn of(entry: &fs_err::DirEntry) -> std::io::Result<Self> {
        let kind = entry.file_type()?;
        let suffix = match (kind.is_dir(), kind.is_symlink(), kind.is_file()) {
            (true, ..) => "/",
            (_, true, _) => "@",
            (.., true) => "",
            _ => "?",
        };
        Ok(Self { name: entry.file_name(), suffix })
    }

    /// Its size in memory.
    fn size(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

/// A list that is being built.
#[derive(Debug)]
struct Listing {
    bounds: Bounds,
    stop: CancellationToken,
    /// The numbers of the entries to show. The first entry has number 1.
    wanted: Range<usize>,
    depth: usize,
    /// How many entries were visited, shown or not.
    seen: usize,
    /// The size of the names in memory.
    names_size: usize,
    lines: Vec<String>,
    /// The total length of the lines.
    bytes: usize,
    /// Whether there are entries after the last line.
    has_more: bool,
}

impl Listing {
    fn read_folder(mut self, folder: &Path) -> Outcome {
        let failed = |error: std::io::Error| Problem::plain(format!("failed to read directory: {error}"));
        let real = fs_err::canonicalize(folder).map_err(failed)?;
        self.bounds.enter(folder, &real)?;
        let entries = self.read(&real).map_err(failed)?;
        let _ = self.show(&real, entries, 0);
        if self.stop.is_cancelled() {
            return Err(Problem::plain("the list was stopped"));
        }
        if self.wanted.start > self.seen.max(1) {
            return Err(Problem::plain("offset exceeds directory entry count"));
        }
        let more = self.has_more.then(|| format!("More than {} entries found", self.lines.len()));
        let lines: Vec<_> = [format!("Absolute path: {}", folder.display())].into_iter().chain(self.lines).collect();
        Ok(done(&lines.into_iter().chain(more).collect::<Vec<_>>().join("\n")))
    }

    /// The entries of a directory by its real path, sorted, up to the memory limit.
    fn read(&mut self, folder: &Path) -> std::io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let found = fs_err::read_dir(folder)?.take(MAX_ENTRIES - self.seen);
        for entry in found.filter_map(|entry| Entry::of(&entry.ok()?).ok()) {
            if self.names_size + entry.size() > MAX_BYTES || self.stop.is_cancelled() {
                break;
            }
            self.names_size += entry.size();
            entries.push(entry);
        }
        entries.order();
        Ok(entries)
    }

    /// Shows the entries of a directory, each followed by its own entries. Breaks when no further entry is needed.
    fn show(&mut self, folder: &Path, entries: Vec<Entry>, level: usize) -> ControlFlow<()> {
        for entry in entries {
            self.take(&entry, level)?;
            self.names_size -= entry.size();
            let path = folder.join(&entry.name);
            if entry.suffix == "/" && level + 1 < self.depth && self.bounds.shows(&path) {
                // An unreadable directory is listed without its entries.
                let below = self.read(&path).unwrap_or_default();
                self.show(&path, below, level + 1)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Counts an entry, and makes a line of it if it is in the range.
    fn take(&mut self, entry: &Entry, level: usize) -> ControlFlow<()> {
        if self.seen >= MAX_ENTRIES || self.stop.is_cancelled() {
            return ControlFlow::Break(());
        }
        self.seen += 1;
        if self.seen < self.wanted.start {
            return ControlFlow::Continue(());
        }
        let line = format!(
            "{}{}{}",
            "  ".repeat(level),
            javascript::prefix(&entry.name.to_string_lossy(), MAX_NAME_UNITS),
            entry.suffix
        );
        if self.seen >= self.wanted.end || self.bytes + line.len() > MAX_BYTES {
            self.has_more = true;
            return ControlFlow::Break(());
        }
        self.bytes += line.len();
        self.lines.push(line);
        ControlFlow::Continue(())
    }
}
