//! Finds programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::Environment;

/// The file of a program, searched in `PATH` of an environment.
pub(crate) fn find(name: &str, environment: &Environment) -> Option<PathBuf> {
    let path = environment.get(OsStr::new("PATH"))?;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
}
