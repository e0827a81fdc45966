//! How a command leaves its directory and variables to the next one.
//!
//! The command is evaluated inside a script that afterwards writes both into a private file. One that leaves the shell
//! by itself skips that, and nothing changes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::desk::Place;
use crate::process::{Environment, family};

/// Variables that describe one shell and not its surroundings.
const PASSING: [&str; 6] = ["_", "SHLVL", "PWD", "OLDPWD", "gladhand_status", family::MARK];

/// The file that a command's state goes to.
#[derive(Debug)]
pub(super) struct StateFile(tempfile::TempPath);

impl StateFile {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("gladhand-state-").tempfile()?.into_temp_path()))
    }

    /// A script that runs a command and then writes its state. Login shells may set the search path anew, so one that
    /// an earlier command has left is set again.
    pub(super) fn script(&self, command: &str, path: Option<&OsStr>) -> String {
        let path = path.map(|path| format!("export PATH={}\n", quoted(&path.to_string_lossy()))).unwrap_or_default();
        format!(
            "{path}eval {}\ngladhand_status=$?\n\
             {{ printf '%s\\0' \"$PWD\" && command env -0; }} >| {} 2>/dev/null\nexit $gladhand_status\n",
            quoted(command),
            quoted(&self.0.to_string_lossy()),
        )
    }

    /// What the command left, if it came to it.
    pub(super) fn read(&self) -> Option<Place> {
        let written = fs_err::read(&self.0).ok()?;
        let mut parts = written.split(|byte| *byte == 0);
        let folder = Path::new(OsStr::from_bytes(parts.next()?)).to_owned();
        let environment: Environment = parts.filter_map(variable).collect();
        let is_whole = folder.is_absolute() && !environment.is_empty();
        is_whole.then_some(Place { folder: Some(folder), environment: Some(environment) })
    }
}

fn variable(part: &[u8]) -> Option<(OsString, OsString)> {
    let middle = part.iter().position(|byte| *byte == b'=')?;
    let name = OsString::from_vec(part[..middle].to_vec());
    let passes = PASSING.iter().any(|passing| name == *passing);
    (!passes && middle > 0).then(|| (name, OsString::from_vec(part[middle + 1..].to_vec())))
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A directory, or else where the session works: it may have been removed meanwhile.
pub(super) fn still_there(folder: Option<&Path>, otherwise: &Path) -> PathBuf {
    folder.filter(|folder| folder.is_dir()).unwrap_or(otherwise).to_owned()
}
