//! A private folder of small files that nobody leaves: no way up, no links, and an end to everything.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// How many bytes a file may have.
const LARGEST: u64 = 64 * 1024;

/// How many files there may be.
const MOST: usize = 200;

/// How long a path may be, and of how many parts.
const LONGEST: usize = 200;
const DEEPEST: usize = 8;

/// A folder that goes with this value.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// A new folder that is nobody else's.
    pub(super) fn make(within: &Path) -> io::Result<Self> {
        let root = within.join(format!("gladhand-textfiles-{}", crate::hex_id::<16>()));
        // It fails if there is one already, so it is ours.
        fs::DirBuilder::new().mode(0o700).create(&root)?;
        Ok(Self { root })
    }

    /// Writes a file with the folders that it is in.
    pub(super) fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let at = self.root.join(path);
        fs::create_dir_all(at.parent().unwrap_or(&self.root))?;
        fs::write(at, text)
    }

    /// All files, sorted.
    pub(super) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                // What is a link is neither.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() && found.len() <= MOST => {
                        let path = entry.path();
                        found
                            .extend(path.strip_prefix(&self.root).ok().map(|path| path.to_string_lossy().into_owned()));
                    }
                    _ => {}
                }
            }
        }
        found.sort();
        found
    }

    /// What is in a file.
    pub(super) fn read(&self, path: &str) -> Result<String, String> {
        let at = self.inside(path)?;
        if !at.symlink_metadata().is_ok_and(|data| data.is_file()) {
            return Err(format!("no such file: {path}"));
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(&at).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
        read.map_err(|error| format!("{path}: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The files that have a text in them.
    pub(super) fn holding(&self, text: &str) -> Vec<String> {
        self.files().into_iter().filter(|path| self.read(path).is_ok_and(|has| has.contains(text))).collect()
    }

    /// Writes a file; gives how many bytes it has.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<usize, String> {
        let at = self.inside(path)?;
        if text.len() as u64 > LARGEST {
            return Err(format!("a file has at most {LARGEST} bytes"));
        }
        if !at.exists() && self.files().len() >= MOST {
            return Err(format!("there are at most {MOST} files"));
        }
        if at.is_dir() {
            return Err(format!("a folder: {path}"));
        }
        self.put(path, text).map_err(|error| format!("{path}: {error}"))?;
        Ok(text.len())
    }

    /// Gives a file another name, where there is none of that name.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), String> {
        let (source, target) = (self.inside(from)?, self.inside(to)?);
        if !source.symlink_metadata().is_ok_and(|data| data.is_file()) {
            return Err(format!("no such file: {from}"));
        }
        if target.exists() {
            return Err(format!("it is there already: {to}"));
        }
        let folder = target.parent().unwrap_or(&self.root);
        let renamed = fs::create_dir_all(folder).and_then(|()| fs::rename(source, &target));
        renamed.map_err(|error| format!("{to}: {error}"))
    }

    /// Where a path leads, if it leads nowhere else.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let outside = || format!("not inside the folder: {path}");
        let parts: Vec<Component<'_>> = Path::new(path).components().collect();
        if parts.is_empty() || parts.len() > DEEPEST || path.len() > LONGEST || path.contains('\0') {
            return Err(format!("no path of a file: {path}"));
        }
        let mut at = self.root.clone();
        for part in parts {
            let Component::Normal(name) = part else { return Err(outside()) };
            at.push(name);
            if at.is_symlink() {
                return Err(outside());
            }
        }
        Ok(at)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.root) {
            tracing::warn!(%error, "the folder of an episode could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_leaves_the_folder() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let folder = Folder::make(outside.path()).unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.root.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.root.join("file")).unwrap();
        for path in
            ["../secret", "/etc/passwd", "link/secret", "file", "a/../../secret", "", ".", "x\0", "a/b/c/d/e/f/g/h/i"]
        {
            assert!(folder.read(path).is_err(), "{path}");
            assert!(folder.write(path, "x").is_err(), "{path}");
            assert!(folder.rename(path, "y").is_err(), "{path}");
        }
        folder.write("inside", "x").unwrap();
        assert!(folder.rename("inside", "link/out").is_err());
        assert_eq!(folder.files(), ["inside"]);
        assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
        let root = folder.root.clone();
        drop(folder);
        assert!(!root.exists());
    }

    #[test]
    fn there_is_an_end_to_everything() {
        let folder = Folder::make(&std::env::temp_dir()).unwrap();
        assert!(folder.write("large", &"x".repeat(LARGEST as usize + 1)).is_err());
        for number in 0..MOST {
            folder.write(&number.to_string(), "").unwrap();
        }
        assert!(folder.write("one more", "").is_err());
        assert_eq!(folder.write("0", "again").unwrap(), 5);
    }
}
