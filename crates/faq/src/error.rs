//! Why a question got no answer at all. That nothing was found is an answer.

use std::io;
use std::path::PathBuf;

/// The reasons why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum FaqError {
    /// There is nothing in the question but blanks.
    #[error("query is required")]
    Blank,
    /// The folder cannot be read.
    #[error("could not open folder {}: {source}", path.display())]
    Folder {
        /// The folder, as it was given.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is something at that path, and it is no folder.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path, as it was given.
        path: PathBuf,
    },
    /// A Fluxloop index has no line that is a chunk.
    #[error("{} has no readable chunk", path.display())]
    NoChunk {
        /// The file of the index.
        path: PathBuf,
    },
    /// The index failed in a way that a rebuild does not repair.
    #[error("could not use the index of the documentation: {0}")]
    Index(#[from] rusqlite::Error),
}
