//! The environment of a process that is started: its working directory and its variables.

use std::any::Any;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use gladhand_core::Pattern;
use gladhand_core::Secret;
use tokio::process::Command;

/// The environment of a process. By default: the environment of this process.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The folder that it starts in; none: ours.
    pub folder: Option<PathBuf>,
    /// Which of our variables it gets; none: all.
    pub inherits: Option<Vec<Pattern>>,
    /// Variables of its own.
    pub variables: Vec<(String, Secret)>,
    /// The process counts against a limit. This is kept until the process and its descendants have ended.
    pub permit: Option<Permit>,
}

/// A value that frees a place in a limit when its last copy is dropped.
pub type Permit = Arc<dyn Any + Send + Sync>;

impl Surroundings {
    /// Puts a command into them, without the variables of ours that are named.
    pub(crate) fn surround(&self, command: &mut Command, hidden: &[&str]) {
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(patterns) = &self.inherits {
            command.env_clear().envs(kept(std::env::vars_os(), patterns));
        }
        for name in hidden {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value.expose())));
    }
}

/// The variables whose names fit one of the patterns.
fn kept(
    variables: impl Iterator<Item = (OsString, OsString)>,
    patterns: &[Pattern],
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(|(name, _)| name.to_str().is_some_and(|name| patterns.iter().any(|pattern| pattern.fits(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_matching_a_pattern_are_inherited() {
        let patterns = ["PATH", "LC_*", "XDG_*"].map(|name| Pattern(name.to_owned()));
        let all = ["PATH", "LC_TIME", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PATH_TO_KEY", "XDG_DATA_HOME"];
        let variables = all.map(|name| (OsString::from(name), OsString::from("x")));
        let kept: Vec<_> = kept(variables.into_iter(), &patterns).map(|(name, _)| name).collect();
        assert_eq!(kept, ["PATH", "LC_TIME", "XDG_DATA_HOME"]);
    }
}
