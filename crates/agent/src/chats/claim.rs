//! Who writes a chat: one session at a time, in whatever process.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A chat that is ours to write. It is free again when this is dropped, or when the process is gone.
#[derive(Debug)]
pub(crate) struct Claim {
    chat: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl Claim {
    /// Takes the chat of this file; none if somebody else has it.
    pub(super) fn on(chat: &Path) -> io::Result<Option<Self>> {
        super::make_folder_of(chat)?;
        let lock = chat.with_extension("lock");
        let file = super::private().write(true).truncate(false).open(&lock)?.into_parts().0;
        match file.try_lock() {
            // Whoever had it may have removed the file after we opened it: then it locks nothing any more.
            Ok(()) if is_at(&file, &lock) => Ok(Some(Self { chat: chat.to_owned(), lock, _held: file })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether it is this chat that is ours.
    pub(crate) fn is_on(&self, chat: &Path) -> bool {
        self.chat == chat
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Before it is unlocked, so that nobody finds it who does not lock another.
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
    fn one_writes_and_the_next_comes_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let chat = folder.path().join("sub/rollout-1.jsonl");
        let first = Claim::on(&chat).unwrap().expect("nobody has it");
        assert!(first.is_on(&chat) && !first.is_on(folder.path()));
        assert!(Claim::on(&chat).unwrap().is_none());
        drop(first);
        assert!(Claim::on(&chat).unwrap().is_some());
        assert_eq!(std::fs::read_dir(chat.parent().unwrap()).unwrap().count(), 0, "nothing is left behind");
    }
}
