//! Recognises the folder of a Git repository by its structure.
//!
//! Git uses any folder with the right entries as a repository, for example a bare one inside a work tree. Its configuration
//! and its hooks run programs, as soon as another program calls Git below it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Files and folders that make a folder a repository.
const MARKS: [&str; 5] = ["HEAD", "objects", "refs", "config", "commondir"];

/// The files of a repository. In other folders, `config` and the like may be the name of a folder.
const FILES: [&str; 3] = ["HEAD", "config", "commondir"];

/// The folders of a repository whose content decides which programs run, or which completes it.
const FOLDERS: [&str; 4] = ["objects", "refs", "hooks", "info"];

/// Whether a path is a part of a repository in `workspace`, or of one that exists once `written` is written. All paths are
/// real paths.
pub(super) fn is_part_of_repository(workspace: &Path, below: &Path, written: &[PathBuf]) -> bool {
    let parts: Vec<&OsStr> = below.iter().collect();
    let Some((name, folders)) = parts.split_last() else { return false };
    if folders.iter().any(|folder| folder.to_string_lossy().to_ascii_lowercase().ends_with(".git")) {
        return true;
    }
    let mut folder = workspace.to_owned();
    for part in folders {
        if is_one_of(&FOLDERS, part) && is_repository(&folder, written) {
            return true;
        }
        folder.push(part);
    }
    (is_one_of(&FILES, name) || is_one_of(&FOLDERS, name)) && is_repository(&folder, written)
}

/// Whether a folder has two of the marks, or gets them.
fn is_repository(folder: &Path, written: &[PathBuf]) -> bool {
    let gets = |mark: &str| {
        let mut below = written.iter().filter_map(|path| path.strip_prefix(folder).ok());
        below.any(|below| has_mark(below, mark))
    };
    let has =
        |mark: &str| folder.join(mark).symlink_metadata().is_ok_and(|about| about.is_dir() != FILES.contains(&mark));
    MARKS.iter().filter(|mark| has(mark) || gets(mark)).count() >= 2
}

/// Whether a path in a folder begins with a mark of the right kind.
fn has_mark(below: &Path, mark: &str) -> bool {
    let mut parts = below.iter();
    let is_mark = parts.next().is_some_and(|first| first.eq_ignore_ascii_case(mark));
    is_mark && (parts.next().is_none() || !FILES.contains(&mark))
}

fn is_one_of(names: &[&str], part: &OsStr) -> bool {
    names.iter().any(|name| part.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_recognised_by_its_entries() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let is_part = |path: &str, written: &[&str]| {
            let written: Vec<_> = written.iter().map(|path| root.join(path)).collect();
            is_part_of_repository(&root, Path::new(path), &written)
        };
        let patch = ["lib/HEAD", "lib/config", "lib/objects/x", "lib/refs/heads/x"];
        for path in patch {
            assert!(is_part(path, &patch), "{path}");
            assert!(!is_part(path, &[path]), "{path} alone");
        }
        assert!(is_part("HEAD", &["HEAD", "commondir"]), "the workspace itself");
        assert!(is_part("mirror.git/hooks/post-update", &[]) && is_part("a/B.GIT/x", &[]));
        assert!(!is_part("lib/main.rs", &patch) && !is_part("mirror.git", &[]));
        std::fs::create_dir_all(root.join("bare/objects")).unwrap();
        std::fs::create_dir_all(root.join("bare/refs")).unwrap();
        for path in
            ["bare/HEAD", "bare/config", "bare/hooks/pre-commit", "bare/objects/info/alternates", "bare/HOOKS/x"]
        {
            assert!(is_part(path, &[]), "{path}");
        }
        assert!(!is_part("bare/src/config", &[]));
        std::fs::create_dir_all(root.join("app/config")).unwrap();
        std::fs::create_dir_all(root.join("app/objects")).unwrap();
        for path in ["app/objects/door.rs", "app/config/a.toml"] {
            assert!(!is_part(path, &["app/config/a.toml"]), "{path}: a folder `config` is no mark");
        }
    }
}
