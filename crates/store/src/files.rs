//! Replaces files atomically: a reader sees the old content or the new content, and a failed write changes nothing.
//!
//! The new content is written to a temporary file in the same folder, which is then renamed. A temporary file has a
//! random name and is never opened through an existing file or link.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

pub use crate::guards::{no_link, no_pipe, rewrite};

pub use self::replace_private as replace;

/// The permissions of a file that does not exist yet, and of missing folders above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewFile {
    /// Only the owner has access.
    Private,
    /// The usual permissions of new files, as set by the umask.
    Usual,
}

/// Replaces a file of this program. Only its owner can read it and list its folder, which is created if it is missing.
pub fn replace_private(file: &Path, content: &[u8]) -> io::Result<()> {
    let new = write_beside(file, content, NewFile::Private)?;
    put_in_place(new, file)
}

/// Like [`replace_private`], and the new content is on the disk before the file is replaced: after a power failure the
/// file has the old content or the new content.
pub fn replace_private_synced(file: &Path, content: &[u8]) -> io::Result<()> {
    put_in_place(write_beside_synced(file, content)?, file)
}

/// Replaces the content of a file of the user. An existing file keeps its permissions. If `file` is a link, the link
/// itself is replaced.
pub fn replace_content(file: &Path, content: &[u8], new_file: NewFile) -> io::Result<()> {
    let permissions = existing_permissions(file)?;
    // The new content is private until it has the permissions of the file that it replaces.
    let new_file = if permissions.is_some() { NewFile::Private } else { new_file };
    let new = write_beside(file, content, new_file)?;
    if let Some(permissions) = permissions {
        new.as_file().set_permissions(permissions)?;
    }
    put_in_place(new, file)
}

/// Creates a folder that is private to its owner, with its parents, unless it exists.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Why no file can be made in a folder. A file is made there, and deleted again.
pub fn not_writable(folder: &Path) -> Option<io::Error> {
    tempfile::Builder::new().prefix(".gladhand-").tempfile_in(folder).err()
}

/// Writes a temporary file in the folder of `file`. The caller moves it into place.
fn write_beside(file: &Path, content: &[u8], new_file: NewFile) -> io::Result<NamedTempFile> {
    // The parent of a plain name is empty, which means the current folder.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".gladhand-");
    match new_file {
        // Temporary files are private unless other permissions are requested.
        NewFile::Private => make_folder(folder)?,
        NewFile::Usual => {
            fs_err::create_dir_all(folder)?;
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
    }
    let mut new = builder.tempfile_in(folder)?;
    new.write_all(content)?;
    Ok(new)
}

/// Writes a private temporary file in the folder of `file` and waits until it is on the disk.
pub(crate) fn write_beside_synced(file: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let new = write_beside(file, content, NewFile::Private)?;
    new.as_file().sync_all()?;
    Ok(new)
}

fn put_in_place(new: NamedTempFile, file: &Path) -> io::Result<()> {
    new.persist(file).map(drop).map_err(|error| error.error)
}

fn existing_permissions(file: &Path) -> io::Result<Option<Permissions>> {
    match fs_err::metadata(file) {
        Ok(data) if !data.is_file() => Err(io::Error::other("not a regular file")),
        Ok(data) => Ok(Some(data.permissions())),
        Err(_) => Ok(None),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_of_this_program_is_private_and_so_is_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/upstreams/a.json");
        replace_private(&file, b"1").unwrap();
        assert_eq!(["data", "data/upstreams"].map(|name| mode(&folder.path().join(name))), [0o700, 0o700]);
        std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        replace_private(&file, b"2").unwrap();
        assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("2", 0o600));
        assert_eq!(names(file.parent().unwrap()), ["a.json"], "no temporary file is left");
    }

    #[test]
    fn a_file_of_the_user_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (private, usual) = (folder.path().join("private"), folder.path().join("new/usual"));
        replace_content(&private, b"1", NewFile::Private).unwrap();
        replace_content(&usual, b"1", NewFile::Usual).unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        assert_eq!((mode(&private), mode(&usual)), (0o600, mode(&folder.path().join("other"))));
        for new_file in [NewFile::Private, NewFile::Usual] {
            std::fs::set_permissions(&private, Permissions::from_mode(0o640)).unwrap();
            replace_content(&private, b"2", new_file).unwrap();
            assert_eq!((std::fs::read_to_string(&private).unwrap().as_str(), mode(&private)), ("2", 0o640));
        }
    }

    /// Sees the temporary file while it is written. The content is long, so that writing it takes a while.
    #[test]
    fn new_content_is_never_wider_than_the_file_that_it_replaces() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let folder = tempfile::tempdir().unwrap();
        let (file, content) = (folder.path().join("private"), vec![b'x'; 16 << 20]);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let has_ended = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut seen = std::collections::BTreeSet::new();
                while !has_ended.load(Ordering::Relaxed) {
                    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
                        let is_new = entry.file_name() != "private";
                        seen.extend(
                            entry.metadata().ok().filter(|_| is_new).map(|data| data.permissions().mode() & 0o777),
                        );
                    }
                }
                seen
            });
            for _ in 0..8 {
                replace_content(&file, &content, NewFile::Usual).unwrap();
            }
            has_ended.store(true, Ordering::Relaxed);
            watcher.join().unwrap()
        });
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0o600]);
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("folder");
        std::fs::create_dir(&file).unwrap();
        assert!(replace_private(&file, b"1").is_err());
        assert_eq!(replace_content(&file, b"1", NewFile::Usual).unwrap_err().to_string(), "not a regular file");
        assert_eq!(names(folder.path()), ["folder"]);
    }
}
