//! `grep_files`: which files hold a pattern. It searches as ripgrep does, with ripgrep's own parts, so that nothing
//! needs to be installed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use grep_regex::RegexMatcher;
use grep_searcher::sinks::Bytes;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::OverrideBuilder;
use ignore::{Walk, WalkBuilder};
use tokio_util::sync::CancellationToken;

use super::bounds::Bounds;
use super::{Found, newest_first, within};
use crate::bench::Job;
use crate::contract::Ran;
use crate::input::Input;
use crate::outcome::{Outcome, Problem, blocking, done, failed};

/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let Some(pattern) = job.input.word("pattern") else {
        return Err(Problem::plain("pattern must not be empty"));
    };
    let matcher = RegexMatcher::new_line_matcher(pattern)
        .map_err(|error| Problem::plain(format!("pattern is not a regular expression: {error}")))?;
    let search = Search::new(job)?;
    let mut walk = search.walk(job.input.word("include"))?;
    blocking(move || {
        let mut searcher = SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).build();
        search.result(&mut walk, |path| holds(&mut searcher, &matcher, &search.bounds, path))
    })
    .await
}

/// Where files are looked for.
pub(super) fn path(input: &Input, folder: &Path) -> PathBuf {
    input.word("path").map_or_else(|| folder.to_owned(), |path| within(folder, path))
}

/// Whether a file holds a match. One that cannot be read, or may not be, holds none.
fn holds(searcher: &mut Searcher, matcher: &RegexMatcher, bounds: &Bounds, path: &Path) -> bool {
    let mut found = false;
    let stop_at_first = Bytes(|_, _| {
        found = true;
        Ok(false)
    });
    let searched = bounds.open(path).is_ok_and(|file| searcher.search_file(matcher, &file, stop_at_first).is_ok());
    searched && found
}

/// A search for files, by whatever they must fulfil.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) place: PathBuf,
    /// Where that really is.
    real: PathBuf,
    bounds: Bounds,
    limit: usize,
    stop: CancellationToken,
}

impl Search {
    /// A search where the input says.
    pub(super) fn new(job: &Job<'_>) -> Result<Self, Problem> {
        if job.input.whole("limit").is_some_and(|limit| limit <= 0) {
            return Err(Problem::plain("limit must be greater than zero"));
        }
        let place = path(&job.input, job.folder);
        let inaccessible = |error| Problem::plain(format!("unable to access `{}`: {error}", place.display()));
        let real = place.canonicalize().map_err(inaccessible)?;
        job.bounds.enter(&place, &real)?;
        let (limit, stop) = (job.input.within("limit", 100, 1, 2000), job.stop.clone());
        Ok(Self { place, real, bounds: job.bounds.clone(), limit, stop })
    }

    /// All files that are not ignored, and match a glob if there is one.
    pub(super) fn walk(&self, include: Option<&str>) -> Result<Walk, Problem> {
        let mut walk = WalkBuilder::new(&self.place);
        if let Some(include) = include {
            let mut overrides = OverrideBuilder::new(&self.place);
            let overrides = overrides.add(include).and_then(|overrides| overrides.build());
            walk.overrides(overrides.map_err(|error| Problem::plain(format!("not a glob: {error}")))?);
        }
        // Links are not followed, so what is below the place is as far below where that really is.
        let (place, real, bounds) = (self.place.clone(), self.real.clone(), self.bounds.clone());
        let are_plain = real.ancestors().all(has_plain_ignore_files);
        walk.git_exclude(false).git_ignore(are_plain).ignore(are_plain);
        walk.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let below = entry.path().strip_prefix(&place).unwrap_or_else(|_| entry.path());
            !is_folder
                || entry.depth() == 0
                || bounds.shows(&real.join(below)) && (!are_plain || has_plain_ignore_files(entry.path()))
        });
        Ok(walk.build())
    }

    /// Those files that fulfil a condition.
    pub(super) fn result(&self, walk: &mut Walk, mut fulfils: impl FnMut(&Path) -> bool) -> Outcome {
        let begun = Instant::now();
        let mut found = Vec::new();
        // What cannot be read is passed over.
        for entry in walk.filter_map(Result::ok) {
            if self.stop.is_cancelled() {
                return Err(Problem::plain("the search was stopped"));
            }
            if begun.elapsed() > PATIENCE {
                return Err(Problem::plain(format!("the search took longer than {} seconds", PATIENCE.as_secs())));
            }
            if entry.file_type().is_some_and(|kind| kind.is_file()) && fulfils(entry.path()) {
                let changed = entry.metadata().ok().and_then(|data| data.modified().ok());
                found.push(Found { changed: changed.unwrap_or(SystemTime::UNIX_EPOCH), path: entry.into_path() });
            }
        }
        Ok(if found.is_empty() { nothing() } else { done(&newest_first(found, self.limit)) })
    }
}

/// Whether the ignore files of a folder are regular files of a usual size. A link to a device would be read without end.
fn has_plain_ignore_files(folder: &Path) -> bool {
    let is_plain = |about: std::fs::Metadata| about.is_file() && about.len() <= 1 << 20;
    [".ignore", ".gitignore"].iter().all(|name| folder.join(name).symlink_metadata().map_or(true, is_plain))
}

/// Finding nothing is no success, but no error either.
fn nothing() -> Ran {
    Ran { error: None, ..failed("No matches found.", "") }
}
