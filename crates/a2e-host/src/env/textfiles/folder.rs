//! A private folder of small files. Paths with `..` and symbolic links are refused, and sizes and counts are limited.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use gladhand_core::Order as _;

/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Maximum size of all files together, in bytes. The folder may be in memory.
const MAX_FOLDER_BYTES: usize = 1024 * 1024;

/// Maximum number of files.
const MAX_FILES: usize = 200;

/// Maximum length of a path, and maximum number of its components.
const MAX_PATH_BYTES: usize = 200;
const MAX_COMPONENTS: usize = 8;

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Creates a new private folder.
    pub(super) fn make(within: &Path) -> io::Result<Self> {
        let root = within.join(format!("gladhand-textfiles-{}", gladhand_system::random_hex::<16>()));
        // Creation fails if the folder exists, so it is ours.
        fs::DirBuilder::new().mode(0o700).create(&root)?;
        Ok(Self { root })
    }

    /// Writes a file, and creates its parent folders.
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
                // A symbolic link is neither a folder nor a file.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() && found.len() <= MAX_FILES => {
                        let path = entry.path();
                        found
                            .extend(path.strip_prefix(&self.root).ok().map(|path| path.to_string_lossy().into_owned()));
                    }
                    _ => {}
                }
            }
        }
        found.order();
        found
    }

    /// Reads a file.
    pub(super) fn read(&self, path: &str) -> Result<String, String> {
        let at = self.inside(path)?;
        if !at.symlink_metadata().is_ok_and(|data| data.is_file()) {
            return Err(format!("no such file: {path}"));
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(&at).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
        read.map_err(|error| format!("{path}: {error}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The files that contain a text.
    pub(super) fn holding(&self, text: &str) -> Vec<String> {
        self.files().into_iter().filter(|path| self.read(path).is_ok_and(|has| has.contains(text))).collect()
    }

    /// Writes a file and returns its size in bytes.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<usize, String> {
        let at = self.inside(path)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(format!("a file has at most {MAX_FILE_BYTES} bytes"));
        }
        let files = self.files();
        let others = files.iter().map(|file| self.root.join(file)).filter(|file| *file != at);
        let bytes: u64 = others.filter_map(|file| file.symlink_metadata().ok()).map(|data| data.len()).sum();
        if bytes + text.len() as u64 > MAX_FOLDER_BYTES as u64 {
            return Err(format!("all files together have at most {MAX_FOLDER_BYTES} bytes"));
        }
        if !at.exists() && files.len() >= MAX_FILES {
            return Err(format!("there are at most {MAX_FILES} files"));
        }
        if at.is_dir() {
            return Err(format!("a folder: {path}"));
        }
        self.put(path, text).map_err(|error| format!("{path}: {error}"))?;
        Ok(text.len())
    }

    /// Renames a file. The new name must not exist.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), String> {
        let (source, target) = (self.inside(from)?, self.inside(to)?);
        if !source.symlink_metadata().is_ok_and(|data| data.is_file()) {
            return Err(format!("no such file: {from}"));
        }
        if target.exists() {
            return Err(format!("already exists: {to}"));
        }
        let folder = target.parent().unwrap_or(&self.root);
        let renamed = fs::create_dir_all(folder).and_then(|()| fs::rename(source, &target));
        renamed.map_err(|error| format!("{to}: {error}"))
    }

    /// Resolves a path inside the folder, or fails if it leads outside.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let outside = || format!("not inside the folder: {path}");
        let parts: Vec<Component<'_>> = Path::new(path).components().collect();
        if parts.is_empty() || parts.len() > MAX_COMPONENTS || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(format!("not the path of a file: {path}"));
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
            tracing::warn!(%error, "could not remove the folder of an episode");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_the_folder_are_refused() {
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
    fn the_size_and_number_of_files_are_limited() {
        let folder = Folder::make(&std::env::temp_dir()).unwrap();
        assert!(folder.write("large", &"x".repeat(MAX_FILE_BYTES as usize + 1)).is_err());
        for number in 0..MAX_FILES {
            folder.write(&number.to_string(), "").unwrap();
        }
        assert!(folder.write("one more", "").is_err());
        assert_eq!(folder.write("0", "again").unwrap(), 5);
        let most = MAX_FOLDER_BYTES / MAX_FILE_BYTES as usize;
        let large = "x".repeat(MAX_FILE_BYTES as usize);
        let written = (0..most + 5).filter(|number| folder.write(&number.to_string(), &large).is_ok()).count();
        assert_eq!(written, most, "all files together");
        assert!(folder.write("0", &large).is_ok(), "a file that is written again counts once");
    }
}
