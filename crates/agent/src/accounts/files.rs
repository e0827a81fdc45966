//! Small files: written atomically, and private to their owner.

use std::io;
use std::path::Path;

/// The text of a file. `None` if it does not exist or is not readable as text.
pub(super) fn read(file: &Path) -> Option<String> {
    String::from_utf8(gladhand_store::read_state(file).ok()?).ok()
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
