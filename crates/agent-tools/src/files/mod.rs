//! Tools for files: reading, listing, finding, patching.

pub(crate) mod bounds;
mod git_folders;
pub(crate) mod glob;
pub(crate) mod grep;
mod links;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod secrets;

use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use self::bounds::Access;
use crate::input::Input;
use gladhand_core::Order as _;

/// The paths that a call of a file tool uses, and for what. Empty for other tools.
pub(crate) fn used(tool: &str, input: &Input, folder: &Path) -> Vec<(PathBuf, Access)> {
    let read = |path: PathBuf| vec![(path, Access::Read)];
    match tool {
        "read_file" => read(read::path(input)),
        "list_dir" => read(list::path(input)),
        "grep_files" | "glob_files" => read(grep::path(input, folder)),
        "apply_patch" => patch::paths(input, folder),
        _ => Vec::new(),
    }
}

/// Resolves a path relative to a folder, without `.` and `..`, which would otherwise show in reports.
pub(crate) fn within(folder: &Path, path: &str) -> PathBuf {
    tidy(&folder.join(path))
}

/// Removes `.` and resolves `..` textually, without following links.
fn tidy(path: &Path) -> PathBuf {
    let mut tidy = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(tidy.pop()),
            other => tidy.push(other),
        }
    }
    tidy
}

/// A file that was found, and its modification time.
#[derive(Debug)]
struct DatedFile {
    path: PathBuf,
    changed: SystemTime,
}

/// The newest files, one per line.
fn newest_first(mut found: Vec<DatedFile>, limit: usize) -> String {
    found.order_by(|a, b| b.changed.cmp(&a.changed).then_with(|| a.path.cmp(&b.path)));
    found.truncate(limit);
    let lines: Vec<_> = found.iter().map(|one| one.path.to_string_lossy()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_textually() {
        assert_eq!(tidy(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(tidy(Path::new("/../a")), Path::new("/a"));
    }
}
