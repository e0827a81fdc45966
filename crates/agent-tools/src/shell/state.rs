//! Passes the directory and variables of a command to the next one.
//!
//! The command is evaluated inside a script that afterwards writes both to a private file. A command that exits the
//! shell itself skips that, and nothing changes.
//!
//! The file contains all variables of the command, including secrets. It is removed when the command has ended. If this
//! process is killed before that, the next process removes it ([`remove_leftovers`]): a file without a lock has no
//! owner.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gladhand_process::starting::MARK;
use rustix::fs::OFlags;

use crate::process::Environment;
use crate::session_state::ShellState;

/// Variables that belong to one shell process and are not passed on.
const NOT_PASSED_ON: [&str; 6] = ["_", "SHLVL", "PWD", "OLDPWD", "gladhand_status", MARK];

/// The prefix of the names of state files.
const PREFIX: &str = "gladhand-state-";

/// The file for the state of a command.
#[derive(Debug)]
pub(super) struct StateFile {
    path: tempfile::TempPath,
    /// Locked for as long as the file has an owner.
    _locked: File,
}

impl StateFile {
    pub(super) fn new() -> io::Result<Self> {
        loop {
            let (file, path) = tempfile::Builder::new().prefix(PREFIX).tempfile()?.into_parts();
            file.lock()?;
            // Another process may have removed it before it was locked.
            if is_same(&file, &path) {
                return Ok(Self { path, _locked: file });
            }
        }
    }

    /// A script that runs a command and then writes its state. A login shell may reset the search path, so the search
    /// path of the previous command is set again.
    pub(super) fn script(&self, command: &str, path: Option<&OsStr>) -> String {
        let path = path.map(|path| format!("export PATH={}\n", quoted(&path.to_string_lossy()))).unwrap_or_default();
        format!(
            "{path}eval {}\ngladhand_status=$?\n\
             {{ printf '%s\\0' \"$PWD\" && command env -0; }} >| {} 2>/dev/null\nexit $gladhand_status\n",
            quoted(command),
            quoted(&self.path.to_string_lossy()),
        )
    }

    /// The state after the command, if it was written.
    pub(super) fn read(&self) -> Option<ShellState> {
        let written = gladhand_store::read_state(&self.path).ok()?;
        let mut parts = written.split(|byte| *byte == 0);
        let folder = Path::new(OsStr::from_bytes(parts.next()?)).to_owned();
        let environment: Environment = parts.filter_map(variable).collect();
        let is_whole = folder.is_absolute() && !environment.is_empty();
        is_whole.then_some(ShellState { folder: Some(folder), environment: Some(environment) })
    }
}

/// Removes the state files of processes that were killed. Files that cannot be removed stay.
pub(crate) fn remove_leftovers(folder: &Path) {
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            remove_if_unowned(&entry.path());
        }
    }
}

fn remove_if_unowned(path: &Path) {
    let is_ours = |data: &Metadata| data.is_file() && data.uid() == rustix::process::getuid().as_raw();
    // Check before opening: other users can put anything into the temporary folder.
    if !path.symlink_metadata().is_ok_and(|data| is_ours(&data)) {
        return;
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    if let Ok(file) = opened
        && file.metadata().is_ok_and(|data| is_ours(&data))
        && file.try_lock().is_ok()
        && is_same(&file, path)
    {
        let _ = fs_err::remove_file(path);
    }
}

/// Whether a file is still the one at a path.
fn is_same(file: &File, path: &Path) -> bool {
    let identity = |data: io::Result<Metadata>| data.map(|data| (data.dev(), data.ino())).ok();
    let opened = identity(file.metadata());
    opened.is_some() && opened == identity(path.symlink_metadata())
}

fn variable(part: &[u8]) -> Option<(OsString, OsString)> {
    let middle = part.iter().position(|byte| *byte == b'=')?;
    let name = OsString::from_vec(part[..middle].to_vec());
    let is_excluded = NOT_PASSED_ON.iter().any(|excluded| name == *excluded);
    (!is_excluded && middle > 0).then(|| (name, OsString::from_vec(part[middle + 1..].to_vec())))
}

/// Quotes a text as one word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A directory, or the session's folder if the directory no longer exists.
pub(super) fn existing_or(folder: Option<&Path>, otherwise: &Path) -> PathBuf {
    folder.filter(|folder| folder.is_dir()).unwrap_or(otherwise).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_owner_are_removed_and_nothing_else() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let put = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "HOME=/home/ann").unwrap();
            path
        };
        let (left, held, foreign) = (put("gladhand-state-left"), put("gladhand-state-held"), put("state"));
        let owner = File::open(&held).unwrap();
        owner.lock().unwrap();
        let precious = other.path().join("precious");
        std::fs::write(&precious, "").unwrap();
        let link = folder.path().join("gladhand-state-link");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        std::fs::create_dir(folder.path().join("gladhand-state-folder")).unwrap();
        remove_leftovers(folder.path());
        assert!(!left.exists(), "its owner is gone");
        assert!(held.exists() && foreign.exists() && precious.exists() && link.is_symlink());
        assert!(folder.path().join("gladhand-state-folder").is_dir());
        drop(owner);
        remove_leftovers(folder.path());
        assert!(!held.exists());
    }

    #[test]
    fn a_file_in_use_is_removed_only_with_its_owner() {
        let state = StateFile::new().unwrap();
        let path = state.path.to_path_buf();
        remove_if_unowned(&path);
        assert!(path.exists());
        drop(state);
        assert!(!path.exists());
    }
}
