//! Why there is no configuration.

use std::path::PathBuf;

use super::Problem;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that was named is not there or cannot be read.
    #[error("could not read the configuration: {0}")]
    Unreadable(std::io::Error),
    /// The file is wrong.
    #[error("{} is not a valid configuration:\n{}", path.display(), lines(problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problems, with line and column.
        problems: Vec<Problem>,
    },
    /// The token in the environment cannot be one.
    #[error("{0} is not UTF-8")]
    TokenNotText(&'static str),
}

pub(crate) fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
