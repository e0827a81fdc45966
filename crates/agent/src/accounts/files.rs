//! Small files: written atomically, and private to their owner.

use std::io;
use std::path::Path;

/// The maximum file size. Larger files were not written by this program.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The text of a file. `None` if it does not exist or is not readable as text.
pub(super) fn read(file: &Path) -> Option<String> {
    let size = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?.len();
    (size <= MAX_BYTES).then(|| std::fs::read_to_string(file).ok())?
}

/// Replaces a file.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    gladhand_store::replace_private(file, text.as_bytes())
}

/// Removes a file, if it exists.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
