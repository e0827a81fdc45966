//! `grep_files`: finds files that contain a pattern. It uses the libraries of ripgrep, so that nothing needs to be
//! installed.
//!
//! The model chooses the pattern, and a repository the lines. So the pattern is limited, and the search can stop after
//! every piece of a file. The time for a piece is at most the length of the piece times the size of the pattern.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Bytes;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::{Walk, WalkBuilder};
use tokio_util::sync::CancellationToken;

use super::bounds::Bounds;
use super::{DatedFile, newest_first, within};
use crate::contract::RunResult;
use crate::input::Input;
use crate::outcome::{Outcome, Problem, blocking, done, failed};
use crate::tool_set::Job;

/// Timeout of a search.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// Maximum number of groups in a pattern. A search keeps a memory slot for each group in each state of the pattern.
const MAX_GROUPS: usize = 50;

/// Maximum size of a compiled pattern in bytes, and how many bytes of a file are searched at once with it. A longer
/// line is searched in pieces of that length.
const SIZES: [(usize, usize); 3] = [(64 << 10, 16 << 10), (512 << 10, 2 << 10), (2 << 20, 512)];

/// Maximum cache size of a pattern during a search, in bytes.
const MAX_CACHE_BYTES: usize = 1 << 20;

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let Some(pattern) = job.input.word("pattern") else {
        return Err(Problem::plain("pattern must not be empty"));
    };
    let (pattern, include) = (pattern.to_owned(), job.input.word("include").map(str::to_owned));
    let search = Search::new(job)?;
    blocking(move || {
        let pattern = Pattern::compile(&pattern)?;
        let mut walk = search.walk(include.as_deref())?;
        let mut searcher = pattern.searcher();
        search.result(&mut walk, |path| search.holds(&mut searcher, &pattern, path))
    })
    .await
}

/// A pattern that is searched with bounded memory, and in pieces of bounded time.
#[derive(Debug)]
struct Pattern {
    matcher: RegexMatcher,
    /// How many bytes of a file are searched at once.
    piece: usize,
}

impl Pattern {
    fn compile(text: &str) -> Result<Self, Problem> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(Problem::plain(format!("pattern is longer than {MAX_PATTERN_BYTES} bytes")));
        }
        // An escaped parenthesis counts too. The count is rough, but never too low.
        if text.matches('(').count() - text.matches("(?:").count() > MAX_GROUPS {
            return Err(Problem::plain(format!("pattern has more than {MAX_GROUPS} groups; (?:x) makes none")));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder.line_terminator(Some(b'\n')).dfa_size_limit(MAX_CACHE_BYTES);
        let mut tried = Err(String::new());
        for (size, piece) in SIZES {
            tried = builder.size_limit(size).build(text).map_err(|error| error.to_string());
            if let Ok(matcher) = tried {
                return Ok(Self { matcher, piece });
            }
        }
        let why = tried.err().unwrap_or_default();
        Err(Problem::plain(format!("pattern is not a regular expression: {why}")))
    }

    /// A searcher for the pattern. Lines of UTF-16 are not searched in pieces, so a file with a very long one is
    /// skipped.
    fn searcher(&self) -> Searcher {
        let mut searcher = SearcherBuilder::new();
        searcher.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(4 * self.piece)).build()
    }
}

/// The path in which files are searched.
pub(super) fn path(input: &Input, folder: &Path) -> PathBuf {
    input.word("path").map_or_else(|| folder.to_owned(), |path| within(folder, path))
}

/// When a search must stop.
#[derive(Debug, Clone)]
struct StopCondition {
    stop: CancellationToken,
    until: Instant,
}

impl StopCondition {
    /// Fails once the search must stop.
    fn check(&self) -> Result<(), Problem> {
        if self.stop.is_cancelled() {
            return Err(Problem::plain("the search was stopped"));
        }
        if Instant::now() > self.until {
            return Err(Problem::plain(format!("the search took longer than {} seconds", TIMEOUT.as_secs())));
        }
        Ok(())
    }
}

/// A file that is read in pieces, until the search must stop.
struct Pieces<'e> {
    file: File,
    stop_condition: &'e StopCondition,
    /// How many bytes are read at once.
    piece: usize,
    /// Whether it is UTF-16, into which no single byte can be inserted.
    is_wide: bool,
    /// How many bytes of the current line were read.
    length: usize,
}

impl<'e> Pieces<'e> {
    fn of(file: File, piece: usize, stop_condition: &'e StopCondition) -> Self {
        let mut mark = [0; 2];
        let is_wide = file.read_exact_at(&mut mark, 0).is_ok() && matches!(mark, [0xff, 0xfe] | [0xfe, 0xff]);
        Self { file, stop_condition, piece, is_wide, length: 0 }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stop_condition.check().map_err(|problem| io::Error::other(problem.into_message()))?;
        if self.length >= self.piece && !self.is_wide && !buffer.is_empty() {
            // The end of a piece is searched again with the next piece, so that the cut hides no shorter match.
            self.file.seek_relative(-i64::try_from(self.piece / 4).unwrap_or_default())?;
            (buffer[0], self.length) = (b'\n', 0);
            return Ok(1);
        }
        let room = buffer.len().min(self.piece);
        let read = self.file.read(&mut buffer[..room])?;
        let end_of_line = buffer[..read].iter().rposition(|byte| *byte == b'\n');
        self.length = end_of_line.map_or(self.length + read, |end| read - end - 1);
        Ok(read)
    }
}

/// A search for files that satisfy a condition.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) place: PathBuf,
    /// The real path of it.
    real: PathBuf,
    bounds: Bounds,
    limit: usize,
    stop_condition: StopCondition,
}

impl Search {
    /// A search in the path that the input names.
    pub(super) fn new(job: &Job<'_>) -> Result<Self, Problem> {
        if job.input.whole("limit").is_some_and(|limit| limit <= 0) {
            return Err(Problem::plain("limit must be greater than zero"));
        }
        let place = path(&job.input, job.folder);
        let inaccessible = |error| Problem::plain(format!("unable to access `{}`: {error}", place.display()));
        let real = place.canonicalize().map_err(inaccessible)?;
        job.bounds.enter(&place, &real)?;
        let limit = job.input.within("limit", 100, 1, 2000);
        let stop_condition = StopCondition { stop: job.stop.clone(), until: Instant::now() + TIMEOUT };
        Ok(Self { place, real, bounds: job.bounds.clone(), limit, stop_condition })
    }

    /// All files that are not ignored and that match the glob, if there is one.
    pub(super) fn walk(&self, include: Option<&str>) -> Result<Walk, Problem> {
        let mut walk = WalkBuilder::new(&self.place);
        if let Some(include) = include {
            let overrides = gladhand_ignore_files::override_glob(&self.place, include);
            walk.overrides(overrides.map_err(|error| Problem::plain(format!("not a glob: {error}")))?);
        }
        // Links are not followed, so the same relative path leads to the entry below the real path.
        let (place, real, bounds) = (self.place.clone(), self.real.clone(), self.bounds.clone());
        gladhand_ignore_files::use_plain(&mut walk, &self.real, move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let below = entry.path().strip_prefix(&place).unwrap_or_else(|_| entry.path());
            !is_folder || bounds.shows(&real.join(below))
        });
        Ok(walk.build())
    }

    /// Whether a file contains a match. A file that cannot or may not be read contains none.
    fn holds(&self, searcher: &mut Searcher, pattern: &Pattern, path: &Path) -> bool {
        let mut found = false;
        let stop_at_first = Bytes(|_, _| {
            found = true;
            Ok(false)
        });
        let Ok(file) = self.bounds.open(path) else { return false };
        let pieces = Pieces::of(file, pattern.piece, &self.stop_condition);
        searcher.search_reader(&pattern.matcher, pieces, stop_at_first).is_ok() && found
    }

    /// The files that satisfy a condition.
    pub(super) fn result(&self, walk: &mut Walk, mut fulfils: impl FnMut(&Path) -> bool) -> Outcome {
        let mut found = Vec::new();
        // Unreadable entries are skipped.
        for entry in walk.filter_map(Result::ok) {
            self.stop_condition.check()?;
            if entry.file_type().is_some_and(|kind| kind.is_file()) && fulfils(entry.path()) {
                let changed = entry.metadata().ok().and_then(|data| data.modified().ok());
                found.push(DatedFile { changed: changed.unwrap_or(SystemTime::UNIX_EPOCH), path: entry.into_path() });
            }
        }
        // A file whose search had to stop seems to contain no match, so report the timeout.
        self.stop_condition.check()?;
        Ok(if found.is_empty() { nothing() } else { done(&newest_first(found, self.limit)) })
    }
}

/// No match is neither a success nor an error.
fn nothing() -> RunResult {
    RunResult { error: None, ..failed("No matches found.", "") }
}
