//! Listing and reading a tree as git sees it: in parallel, within limits, and always in the same order.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use gladhand_core::Order as _;
use gladhand_core::sync::Unpoisoned as _;
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::{Limits, Progress, RepositoryError, Secrets, Stage};

/// Folders that hold what tools made or fetched, never what people wrote.
const SKIPPED: [&str; 24] = [
    ".git",
    ".hg",
    ".svn",
    "node_modules",
    "bower_components",
    ".venv",
    "venv",
    "site-packages",
    "__pycache__",
    ".idea",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    "dist",
    "build",
    "target",
    ".next",
    ".nuxt",
    ".svelte-kit",
    "vendor",
    "coverage",
    ".gradle",
];

/// Number of files that are read between two checks of the clock and of cancellation.
const STRIDE: usize = 32;

/// The files of a tree.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Relative paths with `/` between their parts, sorted.
    pub(crate) files: Vec<String>,
    pub(crate) directories: usize,
    pub(crate) warnings: Vec<String>,
}

/// The state that one scan shares: its limits, its clock, and its cancellation.
pub(crate) struct Scan<'a> {
    limits: Limits,
    progress: &'a dyn Progress,
    secrets: &'a Secrets,
    until: Instant,
    late: AtomicBool,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(limits: Limits, progress: &'a dyn Progress, secrets: &'a Secrets) -> Self {
        Self { limits, progress, secrets, until: Instant::now() + limits.time, late: AtomicBool::new(false) }
    }

    /// Whether to stop now, because the time is up or the caller has cancelled.
    fn over(&self) -> bool {
        if Instant::now() >= self.until {
            self.late.store(true, Ordering::Relaxed);
        }
        self.late.load(Ordering::Relaxed) || self.progress.cancelled()
    }

    /// Lists the files below a folder.
    pub(crate) fn list(&self, root: &Path) -> Result<Listing, RepositoryError> {
        let mut listing = self.walk_in_parallel(root).unwrap_or_else(|| self.walk_in_order(root));
        if self.progress.cancelled() {
            return Err(RepositoryError::Cancelled);
        }
        listing.files.order();
        if listing.files.len() > self.limits.files {
            listing.files.truncate(self.limits.files);
            listing.warnings.push(format!("More than {} files; the rest was not read.", self.limits.files));
        }
        listing.warnings.order();
        if self.late.load(Ordering::Relaxed) {
            listing.warnings.push("Time was up before the tree was listed; the answer covers a part of it.".to_owned());
        }
        Ok(listing)
    }

    /// The whole tree, or nothing if it is so large that which part one gets would depend on luck.
    fn walk_in_parallel(&self, root: &Path) -> Option<Listing> {
        let found = Mutex::new(Listing::default());
        let seen = AtomicUsize::new(0);
        let most = self.limits.files.saturating_mul(2);
        self.builder(root).threads(self.limits.workers()).build_parallel().run(|| {
            let mut mine = Batch { listing: Listing::default(), into: &found };
            let (seen, root) = (&seen, root);
            Box::new(move |entry| {
                mine.listing.take(root, entry);
                let count = seen.fetch_add(1, Ordering::Relaxed);
                if count % 1024 == 0 {
                    self.progress.report(Stage::List, count, None);
                }
                if count > most || count % STRIDE == 0 && self.over() { WalkState::Quit } else { WalkState::Continue }
            })
        });
        (seen.into_inner() <= most).then(|| found.into_inner().unpoisoned())
    }

    /// As much of a huge tree as the limit allows, in the order of names.
    fn walk_in_order(&self, root: &Path) -> Listing {
        let mut listing = Listing::default();
        for entry in self.builder(root).sort_by_file_name(Ord::cmp).build() {
            listing.take(root, entry);
            if listing.files.len() > self.limits.files || self.over() {
                break;
            }
        }
        listing
    }

    /// Git's rules without those of the user, so that the same tree gives the same answer everywhere. Outside of
    /// a work tree the ignore files in the tree itself still count, but none above it.
    fn builder(&self, root: &Path) -> WalkBuilder {
        let in_work_tree = root.ancestors().any(|folder| folder.join(".git").exists());
        let mut builder = WalkBuilder::new(root);
        builder.hidden(false).require_git(false).parents(in_work_tree).follow_links(false);
        use_plain_ignore_files(&mut builder, root);
        builder
    }

    /// Reads files and maps each, in the order of the list. `wanted` returns how much of a file to read, if any.
    pub(crate) fn read<T: Send>(
        &self,
        root: &Path,
        files: &[String],
        wanted: impl Fn(&str) -> Option<usize> + Sync,
        make: impl Fn(&str, Content<'_>) -> T + Sync,
    ) -> Result<Vec<Option<T>>, RepositoryError> {
        let (next, spent) = (AtomicUsize::new(0), AtomicU64::new(0));
        let work = || {
            let mut made = Vec::new();
            let mut buffer = Vec::new();
            loop {
                let from = next.fetch_add(STRIDE, Ordering::Relaxed);
                if from >= files.len() || self.over() || spent.load(Ordering::Relaxed) > self.limits.total_bytes {
                    return made;
                }
                if from % 1024 == 0 {
                    self.progress.report(Stage::Read, from, Some(files.len()));
                }
                for (at, file) in files.iter().enumerate().skip(from).take(STRIDE) {
                    // One file can take seconds.
                    if self.over() {
                        return made;
                    }
                    if let Some(most) = wanted(file) {
                        let content = Content::read(self.secrets.open(&root.join(file)), most, &mut buffer);
                        spent.fetch_add(content.bytes().len() as u64, Ordering::Relaxed);
                        made.push((at, make(file, content)));
                    }
                }
            }
        };
        let mut all: Vec<Option<T>> = files.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..self.limits.workers()).map(|_| scope.spawn(work)).collect();
            let mut made = work();
            for worker in workers {
                match worker.join() {
                    Ok(more) => made.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            for (at, one) in made {
                all[at] = Some(one);
            }
        });
        if self.progress.cancelled() { Err(RepositoryError::Cancelled) } else { Ok(all) }
    }

    /// Whether time ran out on the way.
    pub(crate) fn was_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}

/// Lets a walk read only plain ignore files, and leaves out folders that hold what tools made.
pub(crate) fn use_plain_ignore_files(builder: &mut WalkBuilder, root: &Path) {
    builder.git_global(false);
    gladhand_ignore_files::use_plain(builder, root, |entry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        !is_folder || !entry.file_name().to_str().is_some_and(|name| SKIPPED.contains(&name))
    });
}

/// The beginning of a file, or all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    Whole(&'a [u8]),
    Beginning(&'a [u8]),
    Unreadable,
}

impl<'a> Content<'a> {
    fn read(file: std::io::Result<File>, most: usize, buffer: &'a mut Vec<u8>) -> Self {
        buffer.clear();
        let read = file.and_then(|file| file.take(most as u64 + 1).read_to_end(buffer));
        match read {
            Err(_) => Self::Unreadable,
            Ok(length) if length > most => Self::Beginning(&buffer[..most]),
            Ok(_) => Self::Whole(buffer),
        }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Whole(bytes) | Self::Beginning(bytes) => bytes,
            Self::Unreadable => &[],
        }
    }
}

impl Listing {
    fn take(&mut self, root: &Path, entry: Result<DirEntry, ignore::Error>) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(why) => {
                self.warnings.push(format!("Skipped: {why}."));
                return;
            }
        };
        let Some(kind) = entry.file_type() else { return };
        let Ok(relative) = entry.path().strip_prefix(root) else { return };
        if relative.as_os_str().is_empty() {
            return;
        }
        if kind.is_dir() {
            self.directories += 1;
        } else if kind.is_file() || kind.is_symlink() && leads_to_a_file_inside(root, entry.path()) {
            self.files.push(with_slashes(relative));
        }
    }
}

/// The findings of one walking thread, handed over when the thread ends.
struct Batch<'a> {
    listing: Listing,
    into: &'a Mutex<Listing>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut all = self.into.lock().unpoisoned();
        all.files.append(&mut self.listing.files);
        all.warnings.append(&mut self.listing.warnings);
        all.directories += self.listing.directories;
    }
}

fn leads_to_a_file_inside(root: &Path, link: &Path) -> bool {
    let inside = |target: &PathBuf| target.is_file() && root.canonicalize().is_ok_and(|root| target.starts_with(root));
    link.canonicalize().is_ok_and(|target| inside(&target))
}

/// A relative path as answers show it. Names that are no UTF-8 keep what can be kept.
fn with_slashes(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn listed(folder: &Path, limits: Limits) -> Listing {
        Scan::new(limits, &(), &Secrets::default()).list(folder).unwrap()
    }

    #[test]
    fn ignore_files_apply_at_every_depth_and_hidden_files_are_listed() {
        let folder = tree(&[
            (".gitignore", "*.log\n/secret/\n"),
            ("a/.gitignore", "!keep.log\nlocal.py\n"),
            ("a/keep.log", ""),
            ("a/lose.log", ""),
            ("a/local.py", ""),
            ("a/node_modules/x/index.js", ""),
            ("secret/x.py", ""),
            (".github/workflows/ci.yml", ""),
            ("build/out.js", ""),
            ("b.py", ""),
        ]);
        // `a/lose.log` is let in again only by its name.
        let listing = listed(folder.path(), Limits::default());
        assert_eq!(listing.files, [".github/workflows/ci.yml", ".gitignore", "a/.gitignore", "a/keep.log", "b.py"]);
        assert_eq!(listing.directories, 3);
    }

    #[cfg(unix)]
    #[test]
    fn an_ignore_file_without_end_is_not_read() {
        let folder = tree(&[("a.py", ""), ("deep/b.py", ""), ("plain/c.py", "")]);
        let endless = |path: &str| std::os::unix::fs::symlink("/dev/zero", folder.path().join(path)).unwrap();
        endless("deep/.gitignore");
        assert_eq!(listed(folder.path(), Limits::default()).files, ["a.py", "plain/c.py"]);
        endless(".ignore");
        assert_eq!(listed(folder.path(), Limits::default()).files, ["a.py", "deep/b.py", "plain/c.py"]);
        let inner = folder.path().join("plain");
        assert_eq!(listed(&inner, Limits::default()).files, ["c.py"], "nor is one above");
    }

    #[test]
    fn a_huge_tree_is_cut_at_the_same_place_every_time() {
        let names: Vec<String> = (0..50).map(|n| format!("d{}/f{n}.py", n % 5)).collect();
        let folder = tree(&names.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>());
        for files in [10, 30] {
            let limits = Limits { files, threads: 3, ..Limits::default() };
            let first = listed(folder.path(), limits);
            assert_eq!(first.files.len(), files);
            assert_eq!(first.warnings.len(), 1);
            assert_eq!(first.files, listed(folder.path(), limits).files);
        }
    }

    #[test]
    fn a_cancelled_scan_returns_no_listing() {
        struct Impatient;
        impl Progress for Impatient {
            fn report(&self, _: Stage, _: usize, _: Option<usize>) {}
            fn cancelled(&self) -> bool {
                true
            }
        }
        let folder = tree(&[("a.py", "")]);
        let refused = Scan::new(Limits::default(), &Impatient, &Secrets::default()).list(folder.path());
        assert_eq!(refused.err(), Some(RepositoryError::Cancelled));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_files_inside_only() {
        let outside = tree(&[("secret.py", "x = 1\n")]);
        let folder = tree(&[("real.py", ""), ("sub/other.py", "")]);
        let link = |from: &Path, to: &str| std::os::unix::fs::symlink(from, folder.path().join(to)).unwrap();
        link(&folder.path().join("real.py"), "inner.py");
        link(&outside.path().join("secret.py"), "outer.py");
        link(&folder.path().join("sub"), "sub2");
        link(Path::new("nowhere"), "dangling.py");
        assert_eq!(listed(folder.path(), Limits::default()).files, ["inner.py", "real.py", "sub/other.py"]);
    }
}
