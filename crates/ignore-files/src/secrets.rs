//! Files that must not be read, because they may hold secrets.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use gladhand_store::open_regular;

/// Decides whether a file may hold secrets.
type Decides = dyn Fn(&Path, &Metadata) -> bool + Send + Sync;

/// The caller's rule for files and folders that must not be read: it decides by the real path and the file metadata.
#[derive(Clone)]
pub struct Secrets(pub Arc<Decides>);

impl Secrets {
    /// Whether the rule covers a real path.
    pub fn cover(&self, real: &Path) -> bool {
        real.symlink_metadata().is_ok_and(|about| (self.0)(real, &about))
    }

    /// Opens a regular file that the rule does not cover. The folders in the path are real; the file may be a symlink.
    pub fn open(&self, path: &Path) -> std::io::Result<File> {
        let refused = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let mut real = Cow::Borrowed(path);
        if path.symlink_metadata()?.is_symlink() {
            real = path.canonicalize()?.into();
        }
        let file = open_regular(&real)?;
        if (self.0)(&real, &file.metadata()?) { Err(refused()) } else { Ok(file) }
    }

    /// Reads all bytes of a file that may be opened, up to `most` bytes.
    pub fn read(&self, path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }
}

/// No file is secret.
impl Default for Secrets {
    fn default() -> Self {
        Self(Arc::new(|_, _| false))
    }
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Secrets {}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}
