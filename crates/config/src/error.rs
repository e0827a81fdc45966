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

/// How many mistakes of a file a message shows.
pub const MOST_SHOWN: usize = 20;

pub(crate) fn lines(problems: &[Problem]) -> String {
    let shown = problems.iter().take(MOST_SHOWN).map(ToString::to_string);
    shown.chain(more(problems.len())).collect::<Vec<_>>().join("\n")
}

/// The last line of a list with more than [`MOST_SHOWN`] entries: how many are not shown.
pub fn more(all: usize) -> Option<String> {
    let digits = all.checked_sub(MOST_SHOWN).filter(|rest| *rest > 0)?.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    Some(format!("… and {} more", groups.join(",")))
}
