//! The available skills. The folders are scanned for every request, and only changed files are read again.
//!
//! The agent reads other skills by other rules (`agent/src/skills.rs`), so the two share no code: there folders are
//! searched several levels deep and files need trust; here each skill is one level below a configured folder.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gladhand_core::Order as _;
use gladhand_core::sync::Unpoisoned as _;

use super::definition::{Skill, Status, newer};
use crate::roots::inside;

/// Possible names of a skill's file.
const FILE_NAMES: [&str; 2] = ["skill.md", "SKILL.md"];

/// Maximum size of a skill's file, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Maximum number of skills.
const MAX_SKILLS: usize = 500;

/// The skills in some folders.
#[derive(Debug)]
pub(super) struct Catalog {
    folders: Vec<PathBuf>,
    /// The folders that skills must be inside of; empty for any.
    roots: Vec<PathBuf>,
    /// Files that were read, by path.
    known: Mutex<BTreeMap<PathBuf, CachedFile>>,
}

/// The content of a file, and its stamp at that time.
#[derive(Debug)]
struct CachedFile {
    stamp: Stamp,
    /// `None`: the file is invalid, which was logged once.
    skill: Option<Arc<Skill>>,
}

/// Changes whenever the file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    node: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(data: &Metadata) -> Self {
        Self {
            size: data.size(),
            node: data.ino(),
            written: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        }
    }
}

impl Catalog {
    /// Scans these folders for the first time.
    pub(super) fn of(folders: Vec<PathBuf>, roots: Vec<PathBuf>) -> Self {
        let catalog = Self { folders, roots, known: Mutex::default() };
        catalog.skills();
        catalog
    }

    /// All skills, in the order of the folders and then of their paths. If several have the same name and version, the
    /// first wins.
    pub(super) fn skills(&self) -> Vec<Arc<Skill>> {
        let mut known = self.known.lock().unpoisoned();
        let mut now = BTreeMap::new();
        let (mut skills, mut seen) = (Vec::new(), HashSet::new());
        for folder in &self.folders {
            for path in files(folder) {
                let Ok(stamp) = fs::metadata(&path).map(|data| Stamp::of(&data)) else { continue };
                let skill = match known.remove(&path) {
                    Some(before) if before.stamp == stamp => before.skill,
                    _ => self.read(folder, &path),
                };
                if let Some(skill) = skill.clone().filter(|_| skills.len() < MAX_SKILLS)
                    && seen.insert((skill.name.clone(), skill.version.clone()))
                {
                    skills.push(skill);
                }
                now.insert(path, CachedFile { stamp, skill });
            }
        }
        *known = now;
        skills
    }

    fn read(&self, folder: &Path, path: &Path) -> Option<Arc<Skill>> {
        let skill = read_inside(folder, path, &self.roots);
        skill.map(Arc::new).inspect_err(|why| tracing::warn!(skill = %path.display(), why, "invalid skill file")).ok()
    }
}

/// Finds a skill by `name` or `name@version`. Without a version, the newest published one, or else the newest.
pub(super) fn find(skills: &[Arc<Skill>], name: &str) -> Option<Arc<Skill>> {
    let exact = skills.iter().filter(|skill| skill.name == name);
    let newest = exact.max_by(|one, other| {
        let is_published = |skill: &Skill| skill.status == Status::Published;
        is_published(one).cmp(&is_published(other)).then_with(|| newer(&one.version, &other.version))
    });
    let of_version = || {
        let (name, version) = name.rsplit_once('@')?;
        skills.iter().find(|skill| skill.name == name && skill.version == version)
    };
    newest.or_else(of_version).cloned()
}

/// The skill files in a folder: at most one in each subfolder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| FILE_NAMES.iter().map(|name| entry.path().join(name)).find(|path| path.is_file()))
        .collect();
    found.order();
    found
}

fn read_inside(folder: &Path, path: &Path, roots: &[PathBuf]) -> Result<Skill, String> {
    let real = |path: &Path| fs::canonicalize(path).map_err(|error| error.to_string());
    let own = path.parent().ok_or("it is in no folder")?;
    let (root, own, file) = (real(folder)?, real(own)?, real(path)?);
    // Clients can read the content of a skill, so a link must not pull in other files.
    if own == root || !own.starts_with(&root) || !file.starts_with(&own) {
        return Err("it is a link to a place outside its folder".to_owned());
    }
    if !roots.is_empty() && inside(&own, roots).is_none() {
        return Err("it is outside the roots".to_owned());
    }
    let mut text = String::new();
    let opened = fs::File::open(&file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    opened.map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
    }
    Skill::read(&text, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, folder: &str, text: &str) {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("skill.md"), text).unwrap();
    }

    fn names(catalog: &Catalog) -> Vec<String> {
        catalog.skills().iter().map(|skill| format!("{}@{}", skill.name, skill.version)).collect()
    }

    #[test]
    fn changed_files_are_read_again_and_outside_links_are_ignored() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(root.path(), "b", "---\nversion: 0.1.0\n---\n");
        put(root.path(), "broken", "---\nname: [\n---\n");
        fs::write(outside.path().join("skill.md"), "secret").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("folder-elsewhere")).unwrap();
        fs::create_dir(root.path().join("file-elsewhere")).unwrap();
        let link = root.path().join("file-elsewhere/SKILL.md");
        std::os::unix::fs::symlink(outside.path().join("skill.md"), link).unwrap();
        std::os::unix::fs::symlink(".", root.path().join("itself")).unwrap();
        fs::write(root.path().join("skill.md"), "nobody's").unwrap();
        let catalog = Catalog::of(vec![root.path().to_owned(), root.path().join("missing")], Vec::new());
        assert_eq!(names(&catalog), ["b@0.1.0"]);
        let before = catalog.skills();
        assert!(Arc::ptr_eq(&before[0], &catalog.skills()[0]));
        put(root.path(), "a", "x");
        put(root.path(), "b", "---\nversion: 0.2.0\n---\n");
        put(root.path(), "c", "---\nname: b\nversion: 0.2.0\n---\n");
        assert_eq!(names(&catalog), ["a@1.0.0", "b@0.2.0"]);
        fs::remove_dir_all(root.path().join("b")).unwrap();
        put(root.path(), "long", &"x".repeat(MAX_FILE_BYTES as usize + 1));
        assert_eq!(names(&catalog), ["a@1.0.0", "b@0.2.0"]);
        fs::remove_dir_all(root.path().join("c")).unwrap();
        assert_eq!(names(&catalog), ["a@1.0.0"]);
    }

    #[test]
    fn skills_outside_the_roots_are_ignored() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        put(root.path(), "skills/a", "x");
        put(outside.path(), "b", "x");
        // A folder inside the roots that is a link to one outside.
        std::os::unix::fs::symlink(outside.path(), root.path().join("linked")).unwrap();
        let folders = vec![root.path().join("skills"), outside.path().to_owned(), root.path().join("linked")];
        let within = |roots: Vec<PathBuf>| names(&Catalog::of(folders.clone(), roots));
        assert_eq!(within(vec![root.path().to_owned()]), ["a@1.0.0"]);
        assert_eq!(within(vec![outside.path().to_owned()]), ["b@1.0.0"]);
        assert_eq!(within(Vec::new()), ["a@1.0.0", "b@1.0.0"]);
    }

    #[test]
    fn a_name_finds_the_newest_published_version() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "one", "---\nname: s\nversion: '0.9'\n---\n");
        put(root.path(), "two", "---\nname: s\nversion: '0.10'\n---\n");
        put(root.path(), "three", "---\nname: s\nversion: '2.0'\nstatus: Blocked\n---\n");
        let skills = Catalog::of(vec![root.path().to_owned()], Vec::new()).skills();
        let version = |name| find(&skills, name).map(|skill| skill.version.clone());
        assert_eq!(version("s").as_deref(), Some("0.10"));
        assert_eq!(version("s@2.0").as_deref(), Some("2.0"));
        assert_eq!(version("s@3.0"), None);
        assert_eq!(version("t"), None);
    }
}
