//! Small files of ours: whole or not at all, and for their owner alone.

use std::io::{self, Write as _};
use std::path::Path;

/// No file of ours is larger; one that is was not written by us.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The text of a file; none if there is no such file, or none that can be read as text.
pub(super) fn read(file: &Path) -> Option<String> {
    let size = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?.len();
    (size <= LARGEST).then(|| std::fs::read_to_string(file).ok())?
}

/// Puts a text in place of a file.
pub(super) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    gladhand_store::make_folder(folder)?;
    // A temporary file can be read by its owner alone, and keeps that when it is renamed.
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    beside.write_all(text.as_bytes())?;
    beside.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// Removes a file, which need not be there.
pub(super) fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The moment, as files and clients see it: `2026-01-01T00:00:00.000Z`.
pub(super) fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
