//! `apply_patch`: adds, deletes, changes and moves files, section by section. A section that fails leaves those before
//! it done.

mod parse;
mod place;

use std::io;
use std::path::{Path, PathBuf};

use crate::bench::Job;
use crate::files::roots::Roots;
use crate::files::tidy;
use crate::outcome::{Outcome, Problem, blocking, done};
use parse::{Change, Section};

/// Runs the tool.
pub(crate) async fn run(job: &Job<'_>) -> Outcome {
    let patch = job.input.text("input").unwrap_or_default();
    let sections = parse::parse(patch).map_err(|why| Problem::plain(format!("invalid patch: {why}")))?;
    if sections.is_empty() {
        return Err(Problem::plain("No files were modified."));
    }
    let (folder, roots) = (job.folder.to_owned(), job.bench.roots.clone());
    blocking(move || apply(&sections, &folder, &roots)).await
}

fn apply(sections: &[Section], folder: &Path, roots: &Roots) -> Outcome {
    let (mut added, mut changed, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for section in sections {
        let path = tidy(&folder.join(&section.path));
        roots.allow(&path)?;
        match &section.change {
            Change::Add(lines) => {
                write(&path, &joined(lines))?;
                added.push(path);
            }
            Change::Delete => {
                fs_err::remove_file(&path)
                    .map_err(|error| Problem::plain(format!("Failed to delete file: {error}")))?;
                deleted.push(path);
            }
            Change::Update { moves_to, chunks } => {
                let text = fs_err::read_to_string(&path)
                    .map_err(|error| Problem::plain(format!("Failed to read file to update: {error}")))?;
                let text = place::replace(&text, chunks).map_err(|missing| Problem::plain(missing.of(&path)))?;
                match moves_to {
                    None => {
                        write(&path, &text)?;
                        changed.push(path);
                    }
                    Some(target) => {
                        let target = tidy(&folder.join(target));
                        roots.allow(&target)?;
                        write(&target, &text)?;
                        if target != path {
                            fs_err::remove_file(&path).map_err(|error| Problem::plain(error.to_string()))?;
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

/// Lines as the text of a file.
fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Puts a whole new text in the place of a file, which keeps its permissions. Links are followed.
fn write(path: &Path, text: &str) -> Result<(), Problem> {
    let replace = || -> io::Result<()> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs_err::create_dir_all(folder)?;
        let permissions = match path.metadata() {
            Ok(present) if !present.is_file() => return Err(io::Error::other("it is not a regular file")),
            Ok(present) => Some(present.permissions()),
            Err(_) => None,
        };
        // What the user's mask leaves of these is what any new file has.
        let common = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
        let mut file = tempfile::Builder::new().prefix(".gladhand-").permissions(common).tempfile_in(folder)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    };
    replace().map_err(|error| Problem::plain(format!("Failed to write file {}: {error}", path.display())))
}
