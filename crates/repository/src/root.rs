//! The folder of a repository, and the paths inside it.

use std::path::{Component, Path, PathBuf};

use crate::{Places, RepositoryError, Secrets};

/// A folder that a tool looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    path: PathBuf,
    secrets: Secrets,
}

/// Why a path of an edit plan is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It is absolute or climbs out of the root.
    Leaves,
    /// A link in it leads out of the root.
    LinkLeaves,
}

impl Root {
    /// The root that exists, or why not. A file is a root with nothing in it, as for Fluxloop's own server.
    pub(crate) fn existing(places: &Places, given: Option<&str>) -> Result<Self, RepositoryError> {
        let root = Self::named(places, given)?;
        if root.path.exists() { Ok(root) } else { Err(RepositoryError::NoRoot(root.shown())) }
    }

    /// The root as far as it exists: links and `..` are resolved, and the allowed folders are enforced.
    pub(crate) fn named(places: &Places, given: Option<&str>) -> Result<Self, RepositoryError> {
        let given = given.unwrap_or(".");
        if given.contains('\0') {
            return Err(RepositoryError::WrongType {
                param: "root".to_owned(),
                expected: "a path without NUL characters".to_owned(),
            });
        }
        let from_home = match (given, &places.home) {
            ("~", Some(home)) => Some(home.clone()),
            (_, Some(home)) => given.strip_prefix("~/").map(|rest| home.join(rest)),
            _ => None,
        };
        let path = resolved(&from_home.unwrap_or_else(|| places.working_folder.join(given)));
        let allowed = |folder: &PathBuf| path.starts_with(resolved(folder));
        let is_allowed = places.allowed.as_ref().is_none_or(|folders| folders.iter().any(allowed));
        if !is_allowed || places.secrets.cover(&path) {
            return Err(RepositoryError::RootNotAllowed(path.to_string_lossy().into_owned()));
        }
        Ok(Self { path, secrets: places.secrets.clone() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The files and folders in it that are not read.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The absolute path as answers show it.
    pub(crate) fn shown(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// The file that a relative path names, unless it is, or leads, outside.
    pub(crate) fn inside(&self, relative: &str) -> Result<PathBuf, Outside> {
        let relative = Path::new(relative);
        let mut depth = 0_usize;
        for component in relative.components() {
            match component {
                Component::Normal(_) => depth += 1,
                Component::CurDir => {}
                Component::ParentDir => depth = depth.checked_sub(1).ok_or(Outside::Leaves)?,
                Component::RootDir | Component::Prefix(_) => return Err(Outside::Leaves),
            }
        }
        let path = resolved(&self.path.join(relative));
        if path.starts_with(&self.path) { Ok(path) } else { Err(Outside::LinkLeaves) }
    }
}

/// The path without links and dots, as far as it exists; what does not exist is taken by its letters.
fn resolved(path: &Path) -> PathBuf {
    let mut known = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                known.pop();
            }
            Component::CurDir => {}
            other => {
                known.push(other);
                if let Ok(real) = known.canonicalize() {
                    known = real;
                }
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &Path) -> Places {
        let home = Some(folder.join("home"));
        Places { working_folder: folder.to_path_buf(), home, ..Places::default() }
    }

    #[test]
    fn names_are_taken_from_home_and_from_the_working_folder() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(here.join("home/code")).unwrap();
        let named = |given| Root::named(&places(&here), given).unwrap().path;
        assert_eq!(named(None), here);
        assert_eq!(named(Some("")), here);
        assert_eq!(named(Some("~/code")), here.join("home/code"));
        assert_eq!(named(Some("home/../nowhere")), here.join("nowhere"));
        let missing = Root::existing(&places(&here), Some("nowhere"));
        assert_eq!(missing, Err(RepositoryError::NoRoot(here.join("nowhere").to_string_lossy().into_owned())));
    }

    #[test]
    fn only_allowed_folders_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(here.join("open/inner")).unwrap();
        std::fs::create_dir_all(here.join("open-not")).unwrap();
        let places = Places { allowed: Some(vec![here.join("open")]), ..places(&here) };
        assert!(Root::existing(&places, Some("open/inner")).is_ok());
        for refused in ["open-not", "open/..", "."] {
            assert!(
                matches!(Root::existing(&places, Some(refused)), Err(RepositoryError::RootNotAllowed(_))),
                "{refused}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_and_links_that_lead_out_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(here.join("inside/deep")).unwrap();
        std::fs::write(here.join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(here.join("secret"), here.join("inside/link")).unwrap();
        std::os::unix::fs::symlink(&here, here.join("inside/folder")).unwrap();
        let root = Root::existing(&places(&here), Some("inside")).unwrap();
        assert_eq!(root.inside("deep/../new.py"), Ok(here.join("inside/new.py")));
        assert_eq!(root.inside("../secret"), Err(Outside::Leaves));
        assert_eq!(root.inside("/etc/passwd"), Err(Outside::Leaves));
        assert_eq!(root.inside("link"), Err(Outside::LinkLeaves));
        assert_eq!(root.inside("folder/secret"), Err(Outside::LinkLeaves));
    }
}
