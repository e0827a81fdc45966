//! Reads regular files only. Another program of the user, or the author of a repository, may have put a pipe or a device in
//! the place of a file: reading it would wait without end.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::Path;

/// Maximum size of a state file, in bytes.
pub const MAX_STATE_BYTES: u64 = 64 << 20;

/// Reads a whole state file of this program: at most [`MAX_STATE_BYTES`].
pub fn read_state(file: &Path) -> Result<Vec<u8>> {
    read_regular(file, MAX_STATE_BYTES)
}

/// Reads a whole regular file of at most `most` bytes.
pub fn read_regular(file: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(file)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Opens a regular file for reading, through links. Opening a device may have side effects, so the type is checked before
/// opening, and again afterwards.
pub fn open_regular(path: &Path) -> Result<File> {
    let irregular = || Error::new(ErrorKind::InvalidInput, format!("{} is not a regular file", path.display()));
    if !fs_err::metadata(path)?.is_file() {
        return Err(irregular());
    }
    let mut options = fs_err::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        // Without this flag, a pipe would block until a writer comes.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    }
    let file = options.open(path)?.into_file();
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_within_the_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(read_regular(&at("link"), 5).unwrap(), b"12345");
        assert_eq!(read_regular(&at("file"), 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_state(&at("missing")).unwrap_err().kind(), ErrorKind::NotFound);
        for irregular in ["pipe", "zero", ""] {
            let error = read_state(&at(irregular)).unwrap_err().to_string();
            assert!(error.ends_with(" is not a regular file"), "{irregular}: {error}");
        }
    }
}
