//! The documents in a folder, or its Fluxloop index alone if it has one. Hidden files, files that git ignores and symlinks are skipped, so that nothing outside of
//! the folder is ever read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ignore::WalkBuilder;

use crate::index::Stamp;
use crate::question::Limits;
use crate::sections::{Format, INDEX_FILE};

/// A file changed more recently than this may change again without its time telling: clocks of file systems tick slowly.
const SETTLES: Duration = Duration::from_secs(2);

/// A document in a folder.
#[derive(Debug)]
pub(crate) struct DocumentFile {
    /// Where it is.
    pub(crate) file: PathBuf,
    /// The name in citations: the path below the folder, with `/` on every system.
    pub(crate) path: String,
    pub(crate) format: Format,
    pub(crate) size: i64,
    /// See [`Stamp`].
    pub(crate) modified: i64,
}

/// The documents of a folder, by path, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) found: Vec<DocumentFile>,
    pub(crate) warnings: Vec<String>,
    /// Nothing was left out for want of time.
    pub(crate) complete: bool,
    /// The folder has a Fluxloop index, which is the only file that counts.
    pub(crate) is_index: bool,
}

impl Survey {
    /// Looks at `folder`, until `deadline` at the latest.
    pub(crate) fn of(folder: &Path, limits: &Limits, deadline: Instant) -> Self {
        let index = folder.join(INDEX_FILE);
        let is_index = std::fs::symlink_metadata(&index).is_ok_and(|about| about.is_file());
        let mut survey = Self { complete: true, is_index, ..Self::default() };
        let mut bytes = 0;
        let mut walk = WalkBuilder::new(if is_index { &index } else { folder });
        walk.follow_links(false).git_global(false).require_git(false).sort_by_file_name(std::ffi::OsStr::cmp);
        gladhand_ignore_files::use_plain(&mut walk, folder, |entry| entry.file_name() != "node_modules");
        for entry in walk.build() {
            if Instant::now() >= deadline {
                survey.complete = false;
                break;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    survey.warnings.push(without(folder, &error.to_string()));
                    continue;
                }
            };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let Some(format) = Format::of(entry.path()) else { continue };
            let path = name(folder, entry.path());
            let Ok(about) = entry.metadata() else {
                survey.warnings.push(format!("{path}: could not be read"));
                continue;
            };
            if (limits.secrets.0)(entry.path(), &about) {
                survey.warnings.push(format!("{path}: left out, may hold secrets"));
                continue;
            }
            let most = limits.bytes_of(format);
            if about.len() > most {
                survey.warnings.push(format!("{path}: left out, has more than {most} bytes"));
                continue;
            }
            if survey.found.len() >= limits.files || bytes + about.len() > limits.total_bytes {
                let (files, total) = (limits.files, limits.total_bytes);
                survey.warnings.push(format!(
                    "files from {path} on: left out, there are more than {files} files or {total} bytes"
                ));
                break;
            }
            bytes += about.len();
            let modified = about.modified().map_or(Stamp::UNSETTLED, settled);
            survey.found.push(DocumentFile {
                path,
                file: entry.into_path(),
                format,
                size: about.len() as i64,
                modified,
            });
        }
        survey
    }
}

fn settled(modified: SystemTime) -> i64 {
    // A time in the future does not tell when the file was changed.
    if modified.elapsed().is_ok_and(|age| age >= SETTLES) {
        let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(Stamp::UNSETTLED)
    } else {
        Stamp::UNSETTLED
    }
}

fn name(folder: &Path, file: &Path) -> String {
    let below = file.strip_prefix(folder).unwrap_or(file);
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// A message of the system that speaks of files below the folder.
fn without(folder: &Path, message: &str) -> String {
    message.replace(&format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR), "")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_ignore_file_without_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        for file in ["a.md", "deep/b.md"] {
            std::fs::write(folder.path().join(file), "# Gizmo").unwrap();
        }
        let found = || {
            let survey = Survey::of(folder.path(), &Limits::default(), Instant::now() + Duration::from_secs(60));
            survey.found.into_iter().map(|found| found.path).collect::<Vec<_>>()
        };
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("deep/.gitignore")).unwrap();
        assert_eq!(found(), ["a.md"]);
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(".ignore")).unwrap();
        assert_eq!(found(), ["a.md", "deep/b.md"]);
    }
}
