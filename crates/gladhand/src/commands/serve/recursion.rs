//! A server behind us may be another of us, with the same configuration: then it would start itself for ever.
//!
//! A program that we start is told which configuration files are in force around it. A Gladhand among them disables its
//! upstreams if one of its own files is in that list.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The configuration files in force around us, and our own.
#[derive(Debug, Clone, Default)]
pub(in crate::commands) struct Within {
    around: Vec<PathBuf>,
    own: Vec<PathBuf>,
}

impl Within {
    /// The configuration files of the Gladhand around us, as our parent process names them, and our own files.
    pub(in crate::commands) fn new<'p>(around: Option<OsString>, own: impl IntoIterator<Item = &'p Path>) -> Self {
        let around = around.map(|files| std::env::split_paths(&files).collect()).unwrap_or_default();
        let whole = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { around, own: own.into_iter().map(whole).collect() }
    }

    /// Whether a Gladhand around us uses one of our files.
    pub(super) fn is_circle(&self) -> bool {
        self.own.iter().any(|own| self.around.contains(own))
    }

    /// The configuration files in force around us.
    pub(super) fn around(&self) -> impl Iterator<Item = &Path> {
        self.around.iter().map(PathBuf::as_path)
    }

    /// The list of files for programs that are started.
    pub(super) fn passed_on(&self) -> Option<String> {
        let all = self.around.iter().chain(&self.own);
        std::env::join_paths(all).ok()?.into_string().ok().filter(|files| !files.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_server_with_the_same_configuration_detects_the_recursion() {
        let ours = Within::new(None, Some(Path::new("/no/such/a.toml")));
        assert!(!ours.is_circle());
        let passed_on = |within: &Within| within.passed_on().map(OsString::from);
        let other = Within::new(passed_on(&ours), Some(Path::new("/no/such/b.toml")));
        assert!(!other.is_circle(), "another file is another server");
        assert!(Within::new(passed_on(&other), Some(Path::new("/no/such/a.toml"))).is_circle());
        assert!(!Within::new(passed_on(&other), None).is_circle());
        assert_eq!(Within::default().passed_on(), None);
    }
}
