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
