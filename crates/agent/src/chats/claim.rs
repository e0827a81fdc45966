//! Locks a chat for writing: one session at a time, across processes.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A lock on a chat. It is released when this value is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Claim {
    chat: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl Claim {
    /// Locks the chat of this file. Returns `None` if another session holds it.
    pub(super) fn on(chat: &Path) -> io::Result<Option<Self>> {
        super::make_folder_of(chat)?;
        let lock = chat.with_extension("lock");
        let file = super::private().write(true).truncate(false).open(&lock)?.into_parts().0;
        match file.try_lock() {
            // The previous holder may have removed the lock file after it was opened here. Then this lock is
            // worthless.
            Ok(()) if is_at(&file, &lock) => Ok(Some(Self { chat: chat.to_owned(), lock, _held: file })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether this lock is for that chat.
    pub(crate) fn is_on(&self, chat: &Path) -> bool {
        self.chat == chat
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The file is removed before it is unlocked, so that another session cannot lock a file that is about to
        // disappear.
        let _ = std::fs::remove_file(&self.lock);
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |one: std::fs::Metadata, other: std::fs::Metadata| one.ino() == other.ino() && one.dev() == other.dev();
    file.metadata().is_ok_and(|one| std::fs::metadata(path).is_ok_and(|other| same(one, other)))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_has_one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let chat = folder.path().join("sub/rollout-1.jsonl");
        let first = Claim::on(&chat).unwrap().expect("the chat is not locked");
        assert!(first.is_on(&chat) && !first.is_on(folder.path()));
        assert!(Claim::on(&chat).unwrap().is_none());
        drop(first);
        assert!(Claim::on(&chat).unwrap().is_some());
        assert_eq!(std::fs::read_dir(chat.parent().unwrap()).unwrap().count(), 0, "the lock file is removed");
    }
}
