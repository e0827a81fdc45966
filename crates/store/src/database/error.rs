//! Why the database cannot be used, and why one use of it failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why the database cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// It is there, and may not be changed.
    #[error("{} cannot be written", file.display())]
    ReadOnly {
        /// The file.
        file: PathBuf,
    },
    /// It is no database, or one that was damaged.
    #[error("{} is damaged, or no database", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// It is the database of another program.
    #[error("{} is a database of another program", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// It was made by a later version of this program.
    #[error("{} is of version {version}, which is newer than this program", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u32,
    },
    /// SQLite failed otherwise.
    #[error("{} cannot be used", file.display())]
    Failed {
        /// The file.
        file: PathBuf,
        /// In its own words.
        source: rusqlite::Error,
    },
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl DatabaseError {
    /// Why a use of a file failed.
    pub fn of(file: &Path, source: rusqlite::Error) -> Self {
        let file = file.to_owned();
        match Trouble::of(&source) {
            Trouble::Damaged => Self::Damaged { file },
            Trouble::ReadOnly => Self::ReadOnly { file },
            _ => Self::Failed { file, source },
        }
    }

    /// What it comes down to, for those who are not to know of files.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::ReadOnly { .. } => Trouble::ReadOnly,
            Self::Damaged { .. } => Trouble::Damaged,
            Self::Foreign { .. } | Self::Newer { .. } => Trouble::Strange,
            Self::Failed { source, .. } => Trouble::of(source),
            Self::Io(_) => Trouble::Other,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::ReadOnly { file } => format!("make {} writable", file.display()),
            Self::Damaged { file } => format!("put a copy back, or move {} away to begin anew", file.display()),
            Self::Foreign { .. } => "choose another data folder".to_owned(),
            Self::Newer { .. } => "use the newer program".to_owned(),
            Self::Failed { .. } | Self::Io(_) => {
                "look whether the data folder can be read and written, and whether the disk has room".to_owned()
            }
        }
    }
}

/// What went wrong with one use of the database, as far as whoever asked for it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Another writer took too long.
    Busy,
    /// There is no room left.
    Full,
    /// It may not be changed any more.
    ReadOnly,
    /// The file is damaged.
    Damaged,
    /// It is not ours, or of a version that we do not know.
    Strange,
    /// Something else.
    Other,
}

impl Trouble {
    /// What an error of SQLite comes down to.
    pub fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged,
            _ => Self::Other,
        }
    }

    /// Whether it stays until somebody does something about it.
    pub fn is_lasting(self) -> bool {
        matches!(self, Self::ReadOnly | Self::Damaged | Self::Strange)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the database is busy",
            Self::Full => "the disk is full",
            Self::ReadOnly => "the database cannot be written",
            Self::Damaged => "the database is damaged",
            Self::Strange => "the database is of another program or version",
            Self::Other => "the database failed",
        })
    }
}
