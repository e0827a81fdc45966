//! Files of ours.

use std::io;
use std::path::Path;

/// Puts a new file in place of the old one, whole or not at all. Its folder is made if need be.
pub(crate) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let beside = file.with_extension(format!("new-{}", std::process::id()));
    fs_err::write(&beside, text)?;
    fs_err::rename(beside, file)
}

/// Puts a new text into a file that belongs to a person: its mode stays, and so does a link to it. One that is not there
/// yet can be read by nobody else.
pub(crate) fn rewrite(file: &Path, text: &[u8]) -> io::Result<()> {
    let file = fs_err::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Some(folder) = file.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let beside = file.with_extension(format!("new-{}", std::process::id()));
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(&beside)?, text)?;
    if let Ok(data) = fs_err::metadata(&file) {
        fs_err::set_permissions(&beside, data.permissions())?;
    }
    fs_err::rename(beside, &file)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_keeps_its_mode_and_its_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("sub/real.json"), folder.path().join("link.json"));
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        rewrite(&file, b"1").unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rewrite(&link, b"2").unwrap();
        assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode()), ("2", 0o640));
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}

/// Refuses a pipe in the file system: opening one waits for somebody at its other end, who may never come.
pub(crate) fn no_pipe(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if std::fs::metadata(path).is_ok_and(|data| std::os::unix::fs::FileTypeExt::is_fifo(&data.file_type())) {
        return Err(io::Error::other(format!("{} is a pipe", path.display())));
    }
    Ok(())
}
