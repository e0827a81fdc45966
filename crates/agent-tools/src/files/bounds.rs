//! Where file tools may read and write freely, and where only with approval.
//!
//! Decisions are about real paths and about every name on the way to them: links and `..` are resolved first, and the
//! strictest decision counts. A file is opened before the decision, and the checked path must lead to the file that was
//! opened. So changing a link in between gains nothing.

use std::collections::{HashSet, VecDeque};
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::git_folders::is_part_of_repository;
use super::links::{LinkTargets, names_on_the_way};
use super::secrets;
use crate::contract::{Guarded, GuardedPath, Run};
use crate::outcome::Problem;
use crate::settings::ToolSettings;

/// Maximum number of entries that are searched for hard links.
const MAX_ENTRIES: usize = 20_000;

/// The purpose for which a path is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Removes the entry of a folder. If the entry is a link, its target stays.
    Remove,
}

/// Limits that all calls of a set of tools share. All paths are real paths.
#[derive(Debug)]
pub(crate) struct AccessRules {
    /// Folders that file tools read and write freely.
    roots: Vec<PathBuf>,
    /// Folders that they only read freely.
    readable: Vec<PathBuf>,
    /// Paths that they never use.
    private: Vec<PathBuf>,
    /// Paths that they use only with approval.
    sensitive: Vec<PathBuf>,
    /// The user's home.
    home: Option<PathBuf>,
}

impl AccessRules {
    /// Resolves the paths of the settings.
    pub(crate) fn new(settings: &ToolSettings) -> Self {
        let all = |paths: &[PathBuf]| paths.iter().filter_map(|path| real(path)).collect::<Vec<_>>();
        for root in settings.roots.iter().filter(|root| !root.is_dir()) {
            tracing::warn!(root = %root.display(), "a root that is not a folder");
        }
        let mut sensitive = all(&settings.sensitive);
        sensitive.extend(real(&settings.data));
        Self {
            roots: all(&settings.roots),
            readable: all(&settings.readable),
            private: settings.private.iter().flat_map(|path| both(path)).collect(),
            sensitive,
            home: settings.environment.get(std::ffi::OsStr::new("HOME")).and_then(|home| real(Path::new(home))),
        }
    }

    /// Whether a path is private, is in a private folder, or is a numbered copy of a private file.
    fn is_private(&self, real: &Path) -> bool {
        let original = without_number(real);
        self.private.iter().any(|path| real.starts_with(path) || original.as_ref() == Some(path))
    }

    /// The sensitive places: files and folders.
    fn places(&self) -> Vec<PathBuf> {
        let home = |places: &'static [&str]| {
            let home = self.home.as_deref();
            places.iter().filter_map(move |place| Some(home?.join(place)))
        };
        let mut places: Vec<PathBuf> = self.private.iter().chain(&self.sensitive).cloned().collect();
        places.extend(self.private.iter().flat_map(|path| numbered_copies(path)));
        places.extend(home(&secrets::FOLDERS).chain(home(&secrets::FILES)));
        if let Some(home) = self.home.as_deref() {
            places.extend(entries(home).filter(|path| secrets::may_hold_secrets(path)));
        }
        places
    }

    /// The files of sensitive places, and those directly in them.
    fn known_secrets(&self) -> HashSet<FileId> {
        let places = self.places();
        let files = places.iter().flat_map(|place| entries(place).chain([place.clone()]));
        let about = files.take(MAX_ENTRIES).filter_map(|file| file.symlink_metadata().ok());
        about.filter(Metadata::is_file).map(|about| file_id(&about)).collect()
    }

    /// The files in sensitive places that have more than one name.
    fn linked_secrets(&self) -> HashSet<FileId> {
        // Breadth first: a deep folder must not use up the limit before the others are searched.
        let mut queue = VecDeque::from(self.places());
        let (mut found, mut visited) = (HashSet::new(), 0);
        while let Some(path) = queue.pop_front() {
            visited += 1;
            if visited > MAX_ENTRIES {
                tracing::warn!("too many files in sensitive places; the rest is not checked for hard links");
                break;
            }
            let Ok(about) = path.symlink_metadata() else { continue };
            if about.is_dir() {
                queue.extend(entries(&path));
            } else if about.nlink() > 1 {
                found.insert(file_id(&about));
            }
        }
        found
    }
}

/// The access decision for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Decision {
    /// It may be used.
    Free,
    /// It may be used once it is approved.
    Guarded(Guarded),
    /// It is never used.
    Private,
}

/// Where the file tools of one call may read and write.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    rules: Arc<AccessRules>,
    /// The folder of the session, if it may be used freely.
    workspace: Option<PathBuf>,
    /// Places that were approved for this call.
    approved: Vec<GuardedPath>,
    /// The real paths that this call writes.
    written: Vec<PathBuf>,
    known_secrets: Arc<OnceLock<HashSet<FileId>>>,
    linked_secrets: Arc<OnceLock<HashSet<FileId>>>,
    link_targets: Arc<OnceLock<LinkTargets>>,
}

impl Bounds {
    /// The bounds of a call.
    pub(crate) fn of(rules: &Arc<AccessRules>, run: &Run<'_>) -> Self {
        let workspace = run.is_workspace.then(|| real(run.folder)).flatten();
        Self {
            rules: Arc::clone(rules),
            // The root directory is never a workspace, even if a service was started in it.
            workspace: workspace.filter(|folder| folder.parent().is_some()),
            approved: run.approved.to_vec(),
            written: Vec::new(),
            known_secrets: Arc::default(),
            linked_secrets: Arc::default(),
            link_targets: Arc::default(),
        }
    }

    /// The same for a call that uses these paths. Files that it writes may become a repository together.
    pub(crate) fn with_used(mut self, used: &[(PathBuf, Access)]) -> Self {
        let written = used.iter().filter(|(_, access)| *access == Access::Write);
        self.written = written.filter_map(|(path, _)| real(path)).collect();
        self
    }

    /// The place that needs approval before a path is used. A path that does not exist needs none, because reading it
    /// fails.
    pub(crate) fn reach(&self, path: &Path, access: Access) -> Option<GuardedPath> {
        let real = match access {
            Access::Read => path.canonicalize().ok()?,
            Access::Write => real(path)?,
            Access::Remove => entry(path)?,
        };
        let about = real.symlink_metadata().ok();
        match self.decide(path, &real, about.as_ref(), access) {
            Decision::Free | Decision::Private => None,
            Decision::Guarded(why) => Some(GuardedPath { path: real, why }),
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn open(&self, path: &Path) -> Result<std::fs::File, Problem> {
        let irregular = || Problem::plain(format!("failed to read file: {} is not a regular file", path.display()));
        let failed =
            |error: std::io::Error| Problem::plain(format!("failed to read file: {}: {error}", path.display()));
        // Check before opening too, because opening a device may have side effects.
        if !path.metadata().map_err(failed)?.is_file() {
            return Err(irregular());
        }
        // Without this flag, a pipe at this path would block until a writer comes.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).unwrap_or_default();
        let file = std::fs::File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let opened = file.metadata().map_err(failed)?;
        if !opened.is_file() {
            return Err(irregular());
        }
        let real = path.canonicalize().map_err(failed)?;
        let found = real.symlink_metadata().map_err(failed)?;
        if (found.dev(), found.ino()) != (opened.dev(), opened.ino()) {
            return Err(Problem::plain(format!("{} changed while it was opened", path.display())));
        }
        self.check(path, &real, Some(&opened), Access::Read)?;
        Ok(file)
    }

    /// Whether a path may be listed or searched. Each file found there is checked again when it is opened.
    pub(crate) fn enter(&self, path: &Path, real: &Path) -> Result<(), Problem> {
        self.check(path, real, None, Access::Read)
    }

    /// The real path of a file that may be written, whether or not it exists.
    pub(crate) fn write_to(&self, path: &Path) -> Result<PathBuf, Problem> {
        let leads_nowhere = || Problem::plain(format!("{} is a dangling link", path.display()));
        let real = real(path).ok_or_else(leads_nowhere)?;
        self.check(path, &real, None, Access::Write)?;
        Ok(real)
    }

    /// The real path of an entry that may be removed. The target of a link is checked by [`Self::write_to`].
    pub(crate) fn remove(&self, path: &Path) -> Result<PathBuf, Problem> {
        let entry = entry(path).ok_or_else(|| Problem::plain(format!("{} is not a file", path.display())))?;
        self.check(path, &entry, None, Access::Remove)?;
        Ok(entry)
    }

    /// Whether the entries of a folder are shown, by its real path.
    pub(crate) fn shows(&self, real: &Path) -> bool {
        self.enter(real, real).is_ok()
    }

    fn check(&self, path: &Path, real: &Path, about: Option<&Metadata>, access: Access) -> Result<(), Problem> {
        let covers = |why: Guarded| self.approved.iter().any(|place| place.why >= why && real.starts_with(&place.path));
        let decision = self.decide(path, real, about, access);
        let path = path.display();
        match decision {
            Decision::Free => Ok(()),
            Decision::Guarded(why) if covers(why) => Ok(()),
            Decision::Guarded(why) => Err(Problem::plain(format!("{path} {} and was not approved", why.words()))),
            Decision::Private => Err(Problem::plain(format!("{path} is private"))),
        }
    }

    /// The strictest decision about a real path and the names on the way to it.
    fn decide(&self, path: &Path, real: &Path, about: Option<&Metadata>, access: Access) -> Decision {
        let named = names_on_the_way(path).iter().map(|name| self.decide_by_name(name, access)).max();
        named
            .unwrap_or(Decision::Free)
            .max(self.decide_by_name(real, access))
            .max(self.decide_by_place(real, about, access))
    }

    /// The decision from the name alone, for a real path or a name on the way to it.
    fn decide_by_name(&self, name: &Path, access: Access) -> Decision {
        let mut below = self.free_folders().filter_map(|folder| Some((folder, name.strip_prefix(folder).ok()?)));
        if self.rules.is_private(name) || secrets::shows_process(name) {
            Decision::Private
        } else if secrets::may_hold_secrets(name) {
            Decision::Guarded(Guarded::Secret)
        } else if access != Access::Read
            && below.any(|(folder, below)| {
                secrets::steers_programs(folder, below) || is_part_of_repository(folder, below, &self.written)
            })
        {
            Decision::Guarded(Guarded::Steering)
        } else {
            Decision::Free
        }
    }

    /// The decision from the folders around a real path and from other names of the same file.
    fn decide_by_place(&self, real: &Path, about: Option<&Metadata>, access: Access) -> Decision {
        let is_in = |folders: &[PathBuf]| folders.iter().any(|folder| real.starts_with(folder));
        let is_readable = access == Access::Read && is_in(&self.rules.readable);
        let targets = self
            .link_targets
            .get_or_init(|| LinkTargets::below(self.free_folders().map(PathBuf::as_path), self.rules.home.as_deref()));
        let is_sensitive = is_in(&self.rules.sensitive) && !is_readable;
        let is_linked = about.is_some_and(|about| targets.files.contains(&file_id(about)));
        if is_sensitive || is_in(&targets.secrets) || is_linked || self.is_second_name(about, is_readable) {
            Decision::Guarded(Guarded::Secret)
        } else if access != Access::Read && is_in(&targets.steering) {
            Decision::Guarded(Guarded::Steering)
        } else if is_readable || self.free_folders().any(|folder| real.starts_with(folder)) {
            Decision::Free
        } else {
            Decision::Guarded(Guarded::Outside)
        }
    }

    /// Folders that are read and written freely.
    fn free_folders(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        self.rules.roots.iter().chain(&self.workspace)
    }

    /// Whether a file is the same as one in a sensitive place. A bind mount shows a file under a second name, too, but
    /// does not count as a link. So all files directly in known places are compared, and below them the linked ones.
    fn is_second_name(&self, about: Option<&Metadata>, is_readable: bool) -> bool {
        let Some(about) = about.filter(|about| about.is_file()) else { return false };
        let known = || self.known_secrets.get_or_init(|| self.rules.known_secrets());
        let linked = || self.linked_secrets.get_or_init(|| self.rules.linked_secrets());
        !is_readable && known().contains(&file_id(about)) || about.nlink() > 1 && linked().contains(&file_id(about))
    }
}

/// The same rules for other readers: the files and folders that file tools use only with approval in every folder, and
/// those that they never use.
#[derive(Debug, Clone)]
pub struct SecretFiles(Bounds);

impl SecretFiles {
    /// Uses the paths of the settings.
    pub fn new(settings: &ToolSettings) -> Self {
        let rules = Arc::new(AccessRules::new(settings));
        let (known_secrets, linked_secrets, link_targets) = Default::default();
        let (approved, written) = Default::default();
        Self(Bounds { rules, workspace: None, approved, written, known_secrets, linked_secrets, link_targets })
    }

    /// The same rules for another call: links are searched again.
    pub fn for_another_call(&self) -> Self {
        Self(Bounds {
            known_secrets: Arc::default(),
            linked_secrets: Arc::default(),
            link_targets: Arc::default(),
            ..self.0.clone()
        })
    }

    /// Whether the file or folder at a real path is one of them.
    pub fn contain(&self, real: &Path, about: &Metadata) -> bool {
        matches!(
            self.0.decide(real, real, Some(about), Access::Read),
            Decision::Guarded(Guarded::Secret) | Decision::Private
        )
    }
}

/// A file by its device and inode. Hard links and bind mounts of a file have the same.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(about: &Metadata) -> FileId {
    (about.dev(), about.ino())
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The real path. For a path that does not exist yet, the nearest existing folder is resolved. `None` for a dangling
/// link.
fn real(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    if path.symlink_metadata().is_ok() {
        return None;
    }
    Some(real(path.parent()?)?.join(path.file_name()?))
}

/// The target of a path, and the path itself: a link to a private file may be replaced by a file of the same name.
fn both(path: &Path) -> impl Iterator<Item = PathBuf> {
    real(path).into_iter().chain(entry(path))
}

/// The entry that a path names: its real folder and its own name. A link is not followed.
fn entry(path: &Path) -> Option<PathBuf> {
    Some(real(path.parent()?)?.join(path.file_name()?))
}

/// The file of which this is a numbered copy: `audit.jsonl` for `audit.jsonl.1`.
fn without_number(real: &Path) -> Option<PathBuf> {
    let number = real.extension()?.as_encoded_bytes();
    number.iter().all(u8::is_ascii_digit).then(|| real.with_extension(""))
}

/// The existing numbered copies of a file, up to the first that is missing.
fn numbered_copies(file: &Path) -> impl Iterator<Item = PathBuf> {
    let copy = |number| {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    (1..MAX_ENTRIES).map(copy).take_while(|copy| copy.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A home with a workspace, keys and a data folder in it.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            for folder in ["work/deep", ".ssh", "data/skills", "other", "private"] {
                std::fs::create_dir_all(home.path().join(folder)).unwrap();
            }
            for file in [
                "work/plain",
                "work/.env",
                ".ssh/key",
                "data/chat",
                "data/skills/SKILL.md",
                "other/file",
                "private/toml",
            ] {
                std::fs::write(home.path().join(file), "x").unwrap();
            }
            Self(home)
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn bounds(&self, approved: &[GuardedPath]) -> Bounds {
            let mut settings = ToolSettings::new(self.at("data"));
            settings.environment.insert("HOME".into(), self.at("").into());
            settings.readable = vec![self.at("data/skills")];
            settings.private = vec![self.at("private")];
            Bounds {
                rules: Arc::new(AccessRules::new(&settings)),
                workspace: Some(self.at("work")),
                approved: approved.to_vec(),
                written: Vec::new(),
                known_secrets: Arc::default(),
                linked_secrets: Arc::default(),
                link_targets: Arc::default(),
            }
        }
    }

    #[test]
    fn only_files_in_the_workspace_without_secrets_are_read_freely() {
        let home = Home::new();
        let bounds = home.bounds(&[]);
        let reach = |path: &str| bounds.reach(&home.at(path), Access::Read).map(|place| place.why);
        for free in ["work", "work/plain", "work/deep", "work/deep/../plain", "data/skills/SKILL.md", "other/missing"] {
            assert_eq!(reach(free), None, "{free}");
            let is_file = home.at(free).is_file();
            assert_eq!(bounds.open(&home.at(free)).is_ok(), is_file, "{free}");
        }
        for outside in ["other/file", "work/../other/file", "other", ""] {
            assert_eq!(reach(outside), Some(Guarded::Outside), "{outside}");
        }
        for secret in ["work/.env", ".ssh/key", ".ssh", "work/../.ssh", "data", "data/chat"] {
            assert_eq!(reach(secret), Some(Guarded::Secret), "{secret}");
        }
        for refused in ["other/file", "work/.env", ".ssh/key", "data/chat", "private/toml"] {
            assert!(bounds.open(&home.at(refused)).is_err(), "{refused}");
        }
        assert!(bounds.write_to(&home.at("data/skills/SKILL.md")).is_err(), "a readable folder is not writable");
        assert!(bounds.write_to(&home.at("work/new/file")).is_ok());
    }

    #[test]
    fn a_file_that_decides_which_programs_run_is_written_only_with_approval() {
        let home = Home::new();
        std::fs::create_dir(home.at("work/.git")).unwrap();
        std::fs::write(home.at("work/.git/HEAD"), "x").unwrap();
        symlink(home.at("work/.git"), home.at("work/deep/alias")).unwrap();
        let bounds = home.bounds(&[]);
        for steering in [
            "work/.git/HEAD",
            "work/deep/alias/HEAD",
            "work/.GIT/hooks/pre-commit",
            "work/.envrc",
            "work/.npmrc",
            "work/.vscode/tasks.json",
            "work/deep/.idea/workspace.xml",
            "work/.husky/pre-commit",
            "work/gladhand.toml",
            "work/.agents/skills/a/SKILL.md",
            "work/.mcp.json",
            "work/.cursor/mcp.json",
        ] {
            let place = bounds.reach(&home.at(steering), Access::Write).unwrap();
            assert!(place.why >= Guarded::Steering, "{steering}");
            assert!(bounds.write_to(&home.at(steering)).is_err(), "{steering}");
            assert!(home.bounds(&[place]).write_to(&home.at(steering)).is_ok(), "{steering}");
        }
        assert!(bounds.open(&home.at("work/.git/HEAD")).is_ok(), "it is read freely");
        for plain in ["work/.gitignore", "work/.github/a", "work/git"] {
            assert_eq!(bounds.reach(&home.at(plain), Access::Write), None, "{plain}");
        }
    }

    #[test]
    fn no_link_leads_to_a_secret() {
        let home = Home::new();
        symlink(home.at(".ssh/key"), home.at("work/soft")).unwrap();
        symlink(home.at(".ssh"), home.at("work/keys")).unwrap();
        symlink(home.at(""), home.at("work/home")).unwrap();
        symlink(home.at("other/missing"), home.at("work/dangling")).unwrap();
        std::fs::hard_link(home.at(".ssh/key"), home.at("work/hard")).unwrap();
        std::fs::hard_link(home.at("work/plain"), home.at("work/twin")).unwrap();
        let bounds = home.bounds(&[]);
        for secret in ["work/soft", "work/keys", "work/keys/key", "work/home/.ssh/key", "work/hard"] {
            assert_eq!(
                bounds.reach(&home.at(secret), Access::Read).map(|place| place.why),
                Some(Guarded::Secret),
                "{secret}"
            );
            assert!(bounds.open(&home.at(secret)).is_err(), "{secret}");
        }
        assert!(bounds.open(&home.at("work/twin")).is_ok(), "a second name of a plain file is no secret");
        assert!(bounds.write_to(&home.at("work/dangling")).is_err());
    }

    #[test]
    fn only_approved_files_are_read() {
        let home = Home::new();
        let place = |path: &str, why| GuardedPath { path: home.at(path), why };
        let can_open = |approved: &[GuardedPath], path: &str| home.bounds(approved).open(&home.at(path)).is_ok();
        assert!(can_open(&[place("other/file", Guarded::Outside)], "other/file"));
        assert!(can_open(&[place(".ssh/key", Guarded::Secret)], ".ssh/key"));
        assert!(!can_open(&[place("", Guarded::Outside)], ".ssh/key"), "a folder does not open the secrets in it");
        assert!(!can_open(&[place("", Guarded::Steering)], ".ssh/key"));
        assert!(!can_open(&[place("other/file", Guarded::Outside)], ".ssh/key"));
        let all = [place("private", Guarded::Secret), place("", Guarded::Secret)];
        assert!(!can_open(&all, "private/toml"), "private files stay private");
        let bounds = home.bounds(&[place("work", Guarded::Outside)]);
        assert!(bounds.write_to(&home.at("work/.envrc")).is_err(), "each reason is approved by itself");
        assert!(bounds.write_to(&home.at("work/.husky/pre-commit")).is_err(), "each reason is approved by itself");
    }

    #[test]
    fn a_private_file_is_private_by_every_name_and_so_are_its_numbered_copies() {
        let home = Home::new();
        let write = |path: &str| std::fs::write(home.at(path), "x").unwrap();
        let files = ["audit", "audit.1", "audit.20", "audit.old", "real", "new"];
        files.iter().for_each(|file| write(&format!("work/{file}")));
        symlink(home.at("work/real"), home.at("work/link")).unwrap();
        std::fs::hard_link(home.at("work/audit"), home.at("work/hard")).unwrap();
        std::fs::hard_link(home.at("work/audit.1"), home.at("work/hard.1")).unwrap();
        let mut settings = ToolSettings::new(home.at("data"));
        settings.private = ["work/audit", "work/link", "work/later"].map(|path| home.at(path)).into();
        let rules = Arc::new(AccessRules::new(&settings));
        let all = vec![GuardedPath { path: home.at(""), why: Guarded::Steering }];
        let bounds = || Bounds { rules: Arc::clone(&rules), approved: all.clone(), ..home.bounds(&[]) };
        for private in ["audit", "audit.1", "audit.20", "real", "link", "hard", "hard.1"] {
            assert!(bounds().open(&home.at("work").join(private)).is_err(), "{private}");
        }
        assert!(bounds().open(&home.at("work/audit.old")).is_ok());
        std::fs::rename(home.at("work/new"), home.at("work/link")).unwrap();
        write("work/later");
        for private in ["link", "later"] {
            assert!(bounds().open(&home.at("work").join(private)).is_err(), "{private} was created meanwhile");
            assert!(bounds().write_to(&home.at("work").join(private)).is_err(), "{private}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_link_at_a_known_place_guards_its_target() {
        let home = Home::new();
        std::fs::create_dir_all(home.at("work/dotfiles/aws")).unwrap();
        std::fs::create_dir_all(home.at("work/.git/hooks")).unwrap();
        let files = ["dotfiles/aws/credentials", "dotfiles/netrc", "production", "dotfiles/bashrc", "tool", "plain"];
        for file in files {
            std::fs::write(home.at("work").join(file), "x").unwrap();
        }
        symlink("work/dotfiles/aws", home.at(".aws")).unwrap();
        symlink("work/dotfiles/netrc", home.at(".netrc")).unwrap();
        symlink("production", home.at("work/.env.local")).unwrap();
        symlink("dotfiles/bashrc", home.at("work/.bashrc")).unwrap();
        symlink("../../tool", home.at("work/.git/hooks/pre-commit")).unwrap();
        symlink(".", home.at("work/.ssh")).unwrap();
        let bounds = home.bounds(&[]);
        for secret in [
            ".aws/credentials",
            ".netrc",
            "work/.env.local",
            "work/dotfiles/aws/credentials",
            "work/dotfiles/netrc",
            "work/production",
            "work/.ssh/plain",
        ] {
            let place = bounds.reach(&home.at(secret), Access::Read).unwrap();
            assert_eq!(place.why, Guarded::Secret, "{secret}");
            assert!(bounds.open(&home.at(secret)).is_err(), "{secret}");
            assert!(home.bounds(&[place]).open(&home.at(secret)).is_ok(), "{secret}");
        }
        for steering in ["work/.bashrc", "work/dotfiles/bashrc", "work/.git/hooks/pre-commit", "work/tool"] {
            let place = bounds.reach(&home.at(steering), Access::Write).unwrap();
            assert_eq!(place.why, Guarded::Steering, "{steering}");
            assert!(bounds.write_to(&home.at(steering)).is_err(), "{steering}");
        }
        assert!(bounds.open(&home.at("work/plain")).is_ok(), "a link to the folder itself guards nothing else");
        assert!(bounds.write_to(&home.at("work/plain")).is_ok());
    }

    #[test]
    fn a_secret_with_a_second_name_deep_in_the_workspace_is_guarded() {
        let home = Home::new();
        for folder in ["work/dot/aws", "work/app", "work/secrets", ".aws"] {
            std::fs::create_dir_all(home.at(folder)).unwrap();
        }
        for file in ["work/dot/aws/credentials", "work/secrets/prod", "work/app/.env.local"] {
            std::fs::write(home.at(file), "x").unwrap();
        }
        symlink(home.at("work/dot/aws/credentials"), home.at(".aws/credentials")).unwrap();
        symlink("../secrets/prod", home.at("work/app/.env")).unwrap();
        std::fs::hard_link(home.at("work/.env"), home.at("work/hard")).unwrap();
        std::fs::hard_link(home.at("work/app/.env.local"), home.at("work/deep/hard")).unwrap();
        let bounds = home.bounds(&[]);
        for secret in ["work/dot/aws/credentials", "work/secrets/prod", "work/hard", "work/deep/hard"] {
            let place = bounds.reach(&home.at(secret), Access::Read).unwrap();
            assert_eq!(place.why, Guarded::Secret, "{secret}");
            assert!(bounds.open(&home.at(secret)).is_err(), "{secret}");
        }
        assert!(bounds.open(&home.at("work/plain")).is_ok());
    }

    /// A bind mount needs rights that tests lack. It keeps device and inode, and the link count of one.
    #[test]
    fn files_directly_in_sensitive_places_are_known_without_a_second_link() {
        let home = Home::new();
        std::fs::write(home.at(".netrc"), "x").unwrap();
        let bounds = home.bounds(&[]);
        let about = |path: &str| home.at(path).symlink_metadata().unwrap();
        for secret in [".ssh/key", "private/toml", "data/chat", ".netrc"] {
            assert_eq!(about(secret).nlink(), 1);
            assert!(bounds.is_second_name(Some(&about(secret)), false), "{secret}");
        }
        assert!(!bounds.is_second_name(Some(&about("work/plain")), false));
    }

    #[test]
    fn a_patch_that_makes_a_repository_needs_approval() {
        let home = Home::new();
        let paths = ["work/lib/HEAD", "work/lib/config", "work/lib/objects/x", "work/lib/refs/heads/x"];
        let used: Vec<_> = paths.iter().map(|path| (home.at(path), Access::Write)).collect();
        let bounds = home.bounds(&[]).with_used(&used);
        for path in paths {
            let place = bounds.reach(&home.at(path), Access::Write).unwrap();
            assert_eq!(place.why, Guarded::Steering, "{path}");
            assert!(bounds.write_to(&home.at(path)).is_err(), "{path}");
        }
        assert!(home.bounds(&[]).write_to(&home.at("work/lib/config")).is_ok(), "a single file makes none");
    }

    #[test]
    fn the_environment_of_a_process_is_private() {
        let home = Home::new();
        let all = [GuardedPath { path: "/".into(), why: Guarded::Secret }];
        let own = format!("/proc/{}/environ", std::process::id());
        for path in ["/proc/self/environ", "/proc/thread-self/environ", "/proc/self/root/proc/self/environ", &own] {
            assert!(home.bounds(&all).open(Path::new(path)).is_err(), "{path}");
        }
        assert!(home.bounds(&[]).open(Path::new("/proc/self/status")).is_err());
        assert!(home.bounds(&all).open(Path::new("/proc/self/status")).is_ok());
    }
}
