//! Guards against links and pipes that the author of a repository may have put in the place of a file.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::{NewFile, replace_content};

/// Replaces the content of a file of the user, through a link to it. An existing file keeps its permissions; a new one
/// is private to its owner.
pub fn rewrite(file: &Path, text: &[u8]) -> io::Result<()> {
    let file = fs_err::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    replace_content(&file, text, NewFile::Private)
}

/// Refuses a path that a link is part of, as far as the author of a repository may have put the link there. A relative path is
/// looked at as a whole. Of an absolute path, the file itself is, and all that is below the current folder or a clone.
pub fn no_link(path: &Path) -> io::Result<()> {
    let real = |path: PathBuf| std::fs::canonicalize(path).ok();
    let (here, home) = (std::env::current_dir().ok().and_then(real), etcetera::home_dir().ok().and_then(real));
    no_link_below(path, here.as_deref(), home.as_deref())
}

fn no_link_below(path: &Path, here: Option<&Path>, home: Option<&Path>) -> io::Result<()> {
    let is_authors = |folder: &&Path| {
        let Ok(real) = std::fs::canonicalize(folder) else { return false };
        // Links in the home folder are the user's own, also if it is the current folder or a repository.
        let holds_home = home.is_some_and(|home| home.starts_with(&real));
        !holds_home && (here == Some(&*real) || folder.join(".git").exists())
    };
    let is_link = |place: &&Path| std::fs::symlink_metadata(place).is_ok_and(|data| data.is_symlink());
    let places: Vec<_> = path.ancestors().collect();
    let looked_at = match path.is_absolute() {
        true => places.iter().rposition(is_authors).unwrap_or(0).max(1),
        false => places.len(),
    };
    match places.into_iter().take(looked_at).find(is_link) {
        Some(link) => Err(io::Error::other(format!("{} is a link", link.display()))),
        None => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_keeps_its_mode_and_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("sub/real.json"), folder.path().join("link.json"));
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        rewrite(&file, b"1").unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rewrite(&link, b"2").unwrap();
        assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode()), ("2", 0o640));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn links_that_a_repository_may_contain_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| root.join(name);
        for name in ["here", "clone/.git", "other", "home"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["here", "clone", "other", "home"] {
            std::os::unix::fs::symlink("/", at(name).join("link")).unwrap();
        }
        std::os::unix::fs::symlink(&root, at("linked")).unwrap();
        let (here, home) = (at("here"), at("home"));
        let passes = |path: &Path| no_link_below(path, Some(&here), Some(&home)).is_ok();
        for name in ["other/link", "here/link/tmp", "linked/here/link/tmp", "here/../here/link/tmp", "clone/link/tmp"] {
            assert!(!passes(&at(name)), "{name}");
        }
        for name in ["other/link/tmp", "linked/other/file", "linked/here/file", "home/link/tmp", "here/no/such/file"] {
            assert!(passes(&at(name)), "an absolute path is the user's own word: {name}");
        }
        assert!(no_link_below(&at("home/link/tmp"), Some(&home), Some(&home)).is_ok());
        assert!(no_link(Path::new("no/such/file")).is_ok());
    }
}

/// Refuses a pipe in the file system: opening one waits until another process opens its other end.
pub fn no_pipe(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if std::fs::metadata(path).is_ok_and(|data| std::os::unix::fs::FileTypeExt::is_fifo(&data.file_type())) {
        return Err(io::Error::other(format!("{} is a pipe", path.display())));
    }
    Ok(())
}
