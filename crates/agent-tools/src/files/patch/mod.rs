//! `apply_patch`: adds, deletes, changes and moves files, section by section. If a section fails, the sections before
//! it stay applied.

mod locate;
mod parse;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use gladhand_store::{NewFile, replace_content};
use tokio_util::sync::CancellationToken;

use crate::files::bounds::{Access, Bounds};
use crate::files::within;
use crate::input::Input;
use crate::outcome::{Outcome, Problem, blocking, done};
use crate::tool_set::Job;
use parse::{Change, Section};

/// Maximum size of a file that is changed.
const MAX_BYTES: u64 = 16 << 20;

/// All files that a patch changes, reads, creates or removes.
pub(super) fn paths(input: &Input, folder: &Path) -> Vec<(PathBuf, Access)> {
    let sections = parse::parse(input.text("input").unwrap_or_default()).unwrap_or_default();
    let uses = sections.iter().flat_map(|section| {
        let (removes, target) = match &section.change {
            Change::Update { moves_to, .. } => (moves_to.is_some(), moves_to.as_ref()),
            Change::Delete => (true, None),
            Change::Add(_) => (false, None),
        };
        let path = &section.path;
        // Only for a link do the entry and its target differ.
        let removed = (removes && within(folder, path).is_symlink()).then_some((path, Access::Remove));
        [Some((path, Access::Write)), removed, target.map(|target| (target, Access::Write))]
    });
    uses.flatten().map(|(path, access)| (within(folder, path), access)).collect()
}

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let patch = job.input.text("input").unwrap_or_default();
    let sections = parse::parse(patch).map_err(|why| Problem::plain(format!("invalid patch: {why}")))?;
    if sections.is_empty() {
        return Err(Problem::plain("No files were modified."));
    }
    let (folder, bounds, stop) = (job.folder.to_owned(), job.bounds.clone(), job.stop.clone());
    blocking(move || apply(&sections, &folder, &bounds, &stop)).await
}

fn apply(sections: &[Section], folder: &Path, bounds: &Bounds, stop: &CancellationToken) -> Outcome {
    let (mut added, mut changed, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for section in sections {
        let path = within(folder, &section.path);
        let real = bounds.write_to(&path)?;
        match &section.change {
            Change::Add(lines) => {
                write(&path, &real, &joined(lines))?;
                added.push(path);
            }
            Change::Delete => {
                fs_err::remove_file(bounds.remove(&path)?)
                    .map_err(|error| Problem::plain(format!("Failed to delete file: {error}")))?;
                deleted.push(path);
            }
            Change::Update { moves_to, chunks } => {
                let unread = |why| Problem::plain(format!("Failed to read file to update: {why}"));
                let mut text = String::new();
                // A path that was approved for writing may be read as well.
                let read = bounds.open(&path).map_err(Problem::into_message).and_then(|file| {
                    let read = file.take(MAX_BYTES + 1).read_to_string(&mut text);
                    read.map_err(|error| format!("{}: {error}", path.display()))
                });
                if read.map_err(unread)? as u64 > MAX_BYTES {
                    return Err(unread(format!("{} has more than {} MiB", path.display(), MAX_BYTES >> 20)));
                }
                let text = locate::replace(&text, chunks, stop);
                let text = text.map_err(|missing| Problem::plain(missing.of(&path)))?;
                match moves_to {
                    None => {
                        write(&path, &real, &text)?;
                        changed.push(path);
                    }
                    Some(target) => {
                        let target = within(folder, target);
                        let (real_target, entry) = (bounds.write_to(&target)?, bounds.remove(&path)?);
                        write(&target, &real_target, &text)?;
                        if entry != real_target {
                            fs_err::remove_file(entry).map_err(|error| Problem::plain(error.to_string()))?;
                        }
                        changed.push(target);
                    }
                }
            }
        }
    }
    let mut report = vec!["Success. Updated the following files:".to_owned()];
    for (letter, paths) in [("A", added), ("M", changed), ("D", deleted)] {
        report.extend(paths.iter().map(|path: &PathBuf| format!("{letter} {}", path.display())));
    }
    Ok(done(&report.join("\n")))
}

/// Joins lines to the text of a file.
fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Replaces a file with a new text, and keeps its permissions. Writes to the real path, which was checked.
fn write(path: &Path, real: &Path, text: &str) -> Result<(), Problem> {
    let replaced = replace_content(real, text.as_bytes(), NewFile::Usual);
    replaced.map_err(|error| Problem::plain(format!("Failed to write file {}: {error}", path.display())))
}
