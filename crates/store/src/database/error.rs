//! Errors of the database: why it cannot be opened, and why one operation failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the database cannot be opened. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file exists but is not writable.
    #[error("{} is not writable", file.display())]
    ReadOnly {
        /// The file.
        file: PathBuf,
    },
    /// The file is damaged, or it is not a database.
    #[error("{} is damaged or not a database", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// The file is the database of another program.
    #[error("{} is the database of another program", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// A later version of this program wrote the file.
    #[error("{} has version {version}, which this program does not support yet", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// The version of the file.
        version: u32,
    },
    /// Any other SQLite error.
    #[error("{} could not be opened", file.display())]
    Failed {
        /// The file.
        file: PathBuf,
        /// The SQLite error.
        source: rusqlite::Error,
    },
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl DatabaseError {
    /// Classifies an SQLite error for a file.
    pub fn of(file: &Path, source: rusqlite::Error) -> Self {
        let file = file.to_owned();
        match DatabaseProblem::of(&source) {
            DatabaseProblem::Damaged => Self::Damaged { file },
            DatabaseProblem::ReadOnly => Self::ReadOnly { file },
            _ => Self::Failed { file, source },
        }
    }

    /// The error without the path, for clients that must not learn file names.
    pub fn problem(&self) -> DatabaseProblem {
        match self {
            Self::ReadOnly { .. } => DatabaseProblem::ReadOnly,
            Self::Damaged { .. } => DatabaseProblem::Damaged,
            Self::Foreign { .. } | Self::Newer { .. } => DatabaseProblem::Unsupported,
            Self::Failed { source, .. } => DatabaseProblem::of(source),
            Self::Io(_) => DatabaseProblem::Other,
        }
    }

    /// A hint for the user.
    pub fn hint(&self) -> String {
        match self {
            Self::ReadOnly { file } => format!("make {} writable", file.display()),
            Self::Damaged { file } => {
                format!("restore a backup, or move {} away to start with an empty database", file.display())
            }
            Self::Foreign { .. } => "choose another data folder".to_owned(),
            Self::Newer { .. } => "use the newer version of this program".to_owned(),
            Self::Failed { .. } | Self::Io(_) => {
                "check that the data folder is readable and writable, and that the disk has free space".to_owned()
            }
        }
    }
}

/// Why one database operation failed, as shown to the client that requested it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseProblem {
    /// Another writer held the lock for too long.
    Busy,
    /// The disk is full.
    Full,
    /// The file is not writable any more.
    ReadOnly,
    /// The file is damaged.
    Damaged,
    /// The file belongs to another program, or has an unknown version.
    Unsupported,
    /// Any other error.
    Other,
}

impl DatabaseProblem {
    /// Classifies an SQLite error.
    pub fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged,
            _ => Self::Other,
        }
    }

    /// Whether the error persists until the operator fixes the cause.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Damaged | Self::Unsupported)
    }
}

impl fmt::Display for DatabaseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the database is busy",
            Self::Full => "the disk is full",
            Self::ReadOnly => "the database cannot be written",
            Self::Damaged => "the database is damaged",
            Self::Unsupported => "the database is of another program or version",
            Self::Other => "the database failed",
        })
    }
}
