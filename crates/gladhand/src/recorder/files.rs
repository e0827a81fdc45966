//! The files of a recording: FILE is the newest part, FILE.1 the one before, up to FILE.4.

use std::ffi::OsString;
use std::fs::TryLockError;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use fs_err::{File, OpenOptions};
use gladhand_recording::Header;
use gladhand_store::open_regular;

use super::NotRecorded;

/// Number of older parts that are kept.
pub(super) const OLDER_PARTS: u32 = 4;

/// What happens to a file that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is recorded.
    Refuse,
    /// It is deleted, with its older parts.
    Replace,
    /// A recording becomes the first of the older parts. Any other file stays, and nothing is recorded.
    MoveAside,
}

/// The name of an older part.
pub(super) fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// Makes the name free.
pub(super) fn prepare(path: &Path, existing: Existing) -> Result<(), NotRecorded> {
    let failed = |error| NotRecorded::File { path: path.to_owned(), error };
    let older: Vec<_> = (1..=OLDER_PARTS).map(|number| numbered(path, number)).collect();
    for file in std::iter::once(path).chain(older.iter().map(PathBuf::as_path)) {
        // Not through a link: the file that it points to is another one.
        let found = match fs_err::symlink_metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(failed)?,
        };
        let refused = |why| Err(NotRecorded::Exists { path: file.to_owned(), why });
        match existing {
            Existing::Refuse => return refused(""),
            _ if !found.is_file() => return refused(", and is no regular file"),
            Existing::Replace if file == path => {}
            // The other names were not given by the user.
            _ if !is_recording(file) => return refused(", and is no recording"),
            _ => {}
        }
    }
    match existing {
        Existing::Refuse => Ok(()),
        Existing::Replace => {
            let all = std::iter::once(path).chain(older.iter().map(PathBuf::as_path));
            all.filter(|file| file.exists()).try_for_each(fs_err::remove_file).map_err(failed)
        }
        Existing::MoveAside => move_aside(path).map_err(failed),
    }
}

/// Makes the file of a part. The earlier part moves on to the next name. May be repeated if it fails.
pub(super) fn begin_part(path: &Path, part: u32) -> io::Result<File> {
    if part > 1 {
        move_aside(path)?;
    }
    let mut options = OpenOptions::new();
    // A file or a link that appeared meanwhile is not written to.
    options.append(true).create_new(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // Shows other processes that the recording is still written. Not every file system has locks, and on Windows a lock
    // would keep readers out.
    #[cfg(unix)]
    let _ = file.file().try_lock();
    Ok(file)
}

/// Whether a process writes this recording now.
pub(super) fn is_being_written(path: &Path) -> bool {
    open_regular(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn move_aside(path: &Path) -> io::Result<()> {
    if fs_err::symlink_metadata(path).is_err() {
        return Ok(());
    }
    for number in (1..OLDER_PARTS).rev() {
        if fs_err::symlink_metadata(numbered(path, number)).is_ok() {
            fs_err::rename(numbered(path, number), numbered(path, number + 1))?;
        }
    }
    fs_err::rename(path, numbered(path, 1))
}

/// Whether a file begins with the header of a recording.
fn is_recording(file: &Path) -> bool {
    /// Commands in a header may be long.
    const MAX_HEADER_BYTES: u64 = 4 * 1024 * 1024;
    let Ok(file) = open_regular(file) else { return false };
    let mut line = Vec::new();
    let read = BufReader::new(file.take(MAX_HEADER_BYTES)).read_until(b'\n', &mut line);
    read.is_ok() && std::str::from_utf8(&line).is_ok_and(|line| Header::parse(line).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDING: &str = "{\"gladhand_recording\":1,\"version\":\"0\",\"started_ms\":1}\n";

    #[test]
    fn an_existing_file_is_replaced_or_moved_aside_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let names = || {
            let names = fs_err::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        prepare(&path, Existing::Refuse).unwrap();
        fs_err::write(&path, RECORDING).unwrap();
        assert!(prepare(&path, Existing::Refuse).is_err());
        for _ in 0..6 {
            prepare(&path, Existing::MoveAside).unwrap();
            fs_err::write(&path, RECORDING).unwrap();
        }
        assert_eq!(names(), ["a.jsonl", "a.jsonl.1", "a.jsonl.2", "a.jsonl.3", "a.jsonl.4"]);
        prepare(&path, Existing::Replace).unwrap();
        assert_eq!(names().len(), 0);
        fs_err::write(&path, "other").unwrap();
        assert!(prepare(&path, Existing::MoveAside).unwrap_err().to_string().ends_with("exists, and is no recording"));
        fs_err::write(numbered(&path, 2), "other").unwrap();
        assert!(prepare(&path, Existing::Replace).is_err(), "a file that the user did not name");
        fs_err::remove_file(numbered(&path, 2)).unwrap();
        prepare(&path, Existing::Replace).unwrap();
        assert_eq!(names().len(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_private_and_no_link_is_followed() {
        use std::os::unix::fs::{MetadataExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("a"), folder.path().join("target"));
        symlink(&target, &path).unwrap();
        for existing in [Existing::Refuse, Existing::Replace, Existing::MoveAside] {
            assert!(prepare(&path, existing).is_err(), "{existing:?}");
        }
        assert!(begin_part(&path, 1).is_err());
        assert!(!target.exists());
        fs_err::remove_file(&path).unwrap();
        drop(begin_part(&path, 1).unwrap());
        assert_eq!(fs_err::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(begin_part(&path, 2).unwrap());
        assert!(numbered(&path, 1).exists());
        for device in ["/dev/full", "/dev/null"] {
            assert!(prepare(Path::new(device), Existing::Replace).is_err());
        }
    }
}
