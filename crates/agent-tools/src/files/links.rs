//! Symbolic links in front of files that need approval.
//!
//! Dotfile managers keep the real `~/.aws` in a folder of another name and put a link in its place. So a path is judged by
//! every name on the way to the real file ([`names_on_the_way`]), and the target of a link at a known place is judged like
//! that place ([`LinkTargets`]).

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::bounds::{FileId, file_id};
use super::secrets;

/// Maximum number of links that are followed, as in Linux.
const MAX_LINKS: usize = 40;

/// Maximum number of entries below a free folder that are searched in each call, which takes a few milliseconds.
const MAX_SEARCHED: usize = 4000;

/// Folders that are not searched: they contain many files, which programs wrote.
const SKIPPED: [&str; 5] = [".git", "node_modules", "target", ".venv", "venv"];

/// Maximum number of entries of a folder that are searched for links.
const MAX_ENTRIES: usize = 20_000;

/// The names of a path before each of its links is followed. Every name is resolved up to its first link. A path without
/// links has none.
pub(super) fn names_on_the_way(path: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let mut resolved = PathBuf::new();
    let mut pending = reversed(path);
    while let Some(part) = pending.pop() {
        // An absolute target starts at the root again.
        let next = if part == ".." { resolved.parent().unwrap_or(&resolved).to_owned() } else { resolved.join(&part) };
        match std::fs::read_link(&next) {
            Ok(target) if part != ".." && names.len() < MAX_LINKS => {
                names.push(pending.iter().rev().fold(next, |name, part| name.join(part)));
                pending.extend(reversed(&target));
            }
            _ => resolved = next,
        }
    }
    names
}

/// The components of a path, the last one first.
fn reversed(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// The real paths behind links at places that need approval.
#[derive(Debug, Default)]
pub(super) struct LinkTargets {
    /// Targets of links at places that may hold secrets.
    pub(super) secrets: Vec<PathBuf>,
    /// Targets of links at places that decide which programs run.
    pub(super) steering: Vec<PathBuf>,
    /// Files in free folders that may hold secrets and have a second name.
    pub(super) files: HashSet<FileId>,
}

impl LinkTargets {
    /// Searches the known places and the entries of free folders and of the home folder, which are real paths. Free
    /// folders are also searched in depth.
    pub(super) fn below<'a>(free: impl Iterator<Item = &'a Path> + Clone, home: Option<&'a Path>) -> Self {
        let mut targets = Self::default();
        for folder in free.clone() {
            targets.search(folder);
        }
        for folder in free.chain(home) {
            let known = |places: &[&str]| places.iter().map(|place| folder.join(place)).collect::<Vec<_>>();
            for place in known(&secrets::FOLDERS) {
                targets.secrets.extend(target(folder, &place));
                // Dotfile managers may also make a folder and put links in it.
                if place.canonicalize().is_ok_and(|real| !folder.starts_with(real)) {
                    targets.secrets.extend(links_in(&place).filter_map(|link| target(folder, &link)));
                }
            }
            targets.secrets.extend(known(&secrets::FILES).iter().filter_map(|place| target(folder, place)));
            targets.steering.extend(known(secrets::STEERING).iter().filter_map(|place| target(folder, place)));
            let hooks = folder.join(".git/hooks");
            for entry in [folder, &hooks].into_iter().flat_map(links_in) {
                let Some(target) = target(folder, &entry) else { continue };
                if secrets::may_hold_secrets(&entry) {
                    targets.secrets.push(target.clone());
                }
                let name = entry.strip_prefix(folder).unwrap_or(&entry);
                if secrets::steers_programs(folder, name) {
                    targets.steering.push(target);
                }
            }
        }
        targets
    }

    /// Searches a folder, breadth first, for links with the name of a secret, and for such files with a second name.
    fn search(&mut self, root: &Path) {
        let mut queue = VecDeque::from([root.to_owned()]);
        let mut visited = 0;
        while let Some(folder) = queue.pop_front() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                visited += 1;
                if visited > MAX_SEARCHED {
                    return;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    let is_skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
                    queue.extend((!is_skipped).then(|| entry.path()));
                    continue;
                }
                // An entry with one name is judged by it. That is the usual case, so names are compared last.
                let linked = entry.metadata().ok().filter(|about| kind.is_file() && about.nlink() > 1);
                if !kind.is_symlink() && linked.is_none() || !secrets::may_hold_secrets(&entry.path()) {
                    continue;
                }
                match linked {
                    Some(about) => drop(self.files.insert(file_id(&about))),
                    None => self.secrets.extend(target(root, &entry.path())),
                }
            }
        }
    }
}

/// The real path of a place, if links lead to it. A link to a folder around the place guards nothing: it would put
/// everything in the folder behind approval.
fn target(folder: &Path, place: &Path) -> Option<PathBuf> {
    let real = place.canonicalize().ok()?;
    (real != place && !folder.starts_with(&real)).then_some(real)
}

fn links_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink())).map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_name_before_a_link_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().canonicalize().unwrap().join(path);
        std::fs::create_dir_all(at("real/deep")).unwrap();
        std::fs::write(at("real/deep/file"), "x").unwrap();
        symlink("real", at("first")).unwrap();
        symlink("../first/deep", at("real/second")).unwrap();
        symlink(at("real/second/file"), at("third")).unwrap();
        assert!(names_on_the_way(&at("real/deep/file")).is_empty());
        assert_eq!(names_on_the_way(&at("first/missing")), [at("first/missing")]);
        let names = ["third", "real/second/file", "first/deep/file"].map(at);
        assert_eq!(names_on_the_way(&at("./real/../third")), names);
    }

    #[test]
    fn a_loop_of_links_ends() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().canonicalize().unwrap().join(path);
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        assert_eq!(names_on_the_way(&at("a")).len(), MAX_LINKS);
    }
}
