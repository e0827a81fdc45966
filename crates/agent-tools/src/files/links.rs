//! Symbolic links in front of files that need approval.
//!
//! Dotfile managers keep the real `~/.aws` in a folder of another name and put a link in its place. So a path is judged by
//! every name on the way to the real file ([`names_on_the_way`]), and the target of a link at a known place is judged like
//! that place ([`LinkTargets`]).

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::secrets;

/// Maximum number of links that are followed, as in Linux.
const MAX_LINKS: usize = 40;

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
}

impl LinkTargets {
    /// Searches the known places and the entries of these folders, which are real paths.
    pub(super) fn below<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut targets = Self::default();
        for folder in folders {
            let known = |places: &[&str]| places.iter().map(|place| folder.join(place)).collect::<Vec<_>>();
            targets.secrets.extend(known(&secrets::FOLDERS).iter().filter_map(|place| target(folder, place)));
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
