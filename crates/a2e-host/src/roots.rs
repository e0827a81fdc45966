//! Folders to which programs and skills are confined.

use std::path::{Path, PathBuf};

/// Resolves a path with all links followed. Returns it if it is inside one of these folders or equal to one of them.
pub fn inside(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let real = std::fs::canonicalize(path).ok()?;
    let is_below = |root: &PathBuf| std::fs::canonicalize(root).is_ok_and(|root| real.starts_with(root));
    roots.iter().any(is_below).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_parent_folders_do_not_lead_out() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (at, roots) = (root.path(), [root.path().to_owned(), "/no/such/root".into()]);
        std::fs::create_dir(at.join("inner")).unwrap();
        std::os::unix::fs::symlink(outside.path(), at.join("out")).unwrap();
        std::os::unix::fs::symlink(at.join("inner"), outside.path().join("back")).unwrap();
        let real = std::fs::canonicalize(at).unwrap();
        assert_eq!(inside(at, &roots), Some(real.clone()));
        assert_eq!(inside(&at.join("inner/../inner"), &roots), Some(real.join("inner")));
        assert_eq!(inside(&outside.path().join("back"), &roots), Some(real.join("inner")));
        for path in [at.join("out"), at.join(".."), at.join("inner/../.."), at.join("none"), "/no/such/root".into()] {
            assert_eq!(inside(&path, &roots), None, "{}", path.display());
        }
        // A folder whose name only begins with the root's name is outside.
        let beside = PathBuf::from(format!("{}x", real.display()));
        std::fs::create_dir(&beside).unwrap();
        assert_eq!(inside(&beside, &roots), None);
        std::fs::remove_dir(beside).unwrap();
    }
}
