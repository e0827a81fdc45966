//! `list_dir`: the entries of a directory and of those below it.

use std::path::{Path, PathBuf};

use crate::bench::Job;
use crate::files::bounds::Bounds;
use crate::input::Input;
use crate::outcome::{Outcome, Problem, blocking, done};
use crate::text;

/// How many UTF-16 units of a name are shown.
const NAME: usize = 500;

/// How many entries are looked at, so that no tree is too large.
const MOST: usize = 200_000;

/// An entry, by the names that lead to it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    names: Vec<String>,
    suffix: &'static str,
}

/// The directory that is meant.
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
    let bounds = job.bounds.clone();
    blocking(move || list(&folder, &bounds, offset, limit, depth)).await
}

fn list(folder: &Path, bounds: &Bounds, offset: usize, limit: usize, depth: usize) -> Outcome {
    let mut entries = Vec::new();
    let failed = |error: std::io::Error| Problem::plain(format!("failed to read directory: {error}"));
    let real = fs_err::canonicalize(folder).map_err(failed)?;
    bounds.enter(folder, &real)?;
    collect(&real, bounds, &[], depth, &mut entries).map_err(failed)?;
    // By the names on the way, so that what is in a directory follows it.
    entries.sort();
    let mut lines = vec![format!("Absolute path: {}", folder.display())];
    if offset > entries.len().max(1) {
        return Err(Problem::plain("offset exceeds directory entry count"));
    }
    let rest = &entries[(offset - 1).min(entries.len())..];
    for entry in rest.iter().take(limit) {
        let indent = "  ".repeat(entry.names.len() - 1);
        let name = entry.names.last().map_or("", |name| text::cut(name, NAME));
        lines.push(format!("{indent}{name}{}", entry.suffix));
    }
    if rest.len() > limit {
        lines.push(format!("More than {limit} entries found"));
    }
    Ok(done(&lines.join("\n")))
}

/// Collects what is in a folder, by its real path.
fn collect(
    folder: &Path,
    bounds: &Bounds,
    names: &[String],
    depth: usize,
    entries: &mut Vec<Entry>,
) -> std::io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        if entries.len() >= MOST {
            break;
        }
        let entry = entry?;
        let kind = entry.file_type()?;
        let mut names = names.to_vec();
        names.push(entry.file_name().to_string_lossy().into_owned());
        let suffix = match (kind.is_dir(), kind.is_symlink(), kind.is_file()) {
            (true, ..) => "/",
            (_, true, _) => "@",
            (.., true) => "",
            _ => "?",
        };
        if kind.is_dir() && depth > 1 && bounds.shows(&entry.path()) {
            // One that cannot be read is listed without what is in it.
            let _ = collect(&entry.path(), bounds, &names, depth - 1, entries);
        }
        entries.push(Entry { names, suffix });
    }
    Ok(())
}
