//! Where file tools may go.

use std::path::{Path, PathBuf};

use crate::outcome::Problem;

/// The folders below which file tools work (everywhere if there are none), and what they never touch.
#[derive(Debug, Clone)]
pub(crate) struct Roots {
    allowed: Option<Vec<PathBuf>>,
    private: Vec<PathBuf>,
}

impl Roots {
    /// Folders as they really are. One that does not exist allows nothing.
    pub(crate) fn new(roots: &[PathBuf], private: &[PathBuf]) -> Self {
        let private = private.iter().filter_map(|path| real(path)).collect();
        if roots.is_empty() {
            return Self { allowed: None, private };
        }
        let real = |root: &PathBuf| match root.canonicalize() {
            Ok(root) => Some(root),
            Err(error) => {
                tracing::warn!(root = %root.display(), %error, "a root that cannot be used");
                None
            }
        };
        Self { allowed: Some(roots.iter().filter_map(real).collect()), private }
    }

    /// Whether a path, as links really lead, lies within.
    pub(crate) fn allow(&self, path: &Path) -> Result<(), Problem> {
        let within = |folders: &[PathBuf]| real(path).is_some_and(|real| folders.iter().any(|it| real.starts_with(it)));
        if within(&self.private) {
            return Err(Problem::plain(format!("{} is private", path.display())));
        }
        if self.allowed.as_deref().is_none_or(within) {
            Ok(())
        } else {
            Err(Problem::plain(format!("{} is outside of the folders that tools may use", path.display())))
        }
    }
}

/// Where a path really leads. What does not exist yet lies where the nearest existing folder is; a link that leads
/// nowhere has no such place.
fn real(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = path.canonicalize() {
        return Some(real);
    }
    if path.symlink_metadata().is_ok() {
        return None;
    }
    Some(real(path.parent()?)?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_do_not_lead_out() {
        let home = tempfile::tempdir().unwrap();
        let inside = home.path().join("inside");
        std::fs::create_dir_all(inside.join("deep")).unwrap();
        std::fs::write(home.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(home.path(), inside.join("out")).unwrap();
        std::os::unix::fs::symlink(home.path().join("new"), inside.join("dangling")).unwrap();

        let roots = Roots::new(std::slice::from_ref(&inside), &[]);
        for allowed in ["deep", "deep/new/file", "."] {
            assert_eq!(roots.allow(&inside.join(allowed)), Ok(()), "{allowed}");
        }
        for refused in ["out/secret", "out/new", "dangling", "../secret", ".."] {
            assert!(roots.allow(&inside.join(refused)).is_err(), "{refused}");
        }
        assert!(Roots::new(&[], &[]).allow(&home.path().join("secret")).is_ok());
        assert!(Roots::new(&[], &[home.path().join("secret")]).allow(&inside.join("out/secret")).is_err());
        assert!(Roots::new(&[home.path().join("missing")], &[]).allow(&inside).is_err());
    }
}
