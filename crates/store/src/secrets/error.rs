//! Why a secret could not be kept or found. No variant carries one.

use std::io;
use std::path::{Path, PathBuf};

use super::Keeper;

/// What stands between us and the secrets. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A name that cannot be one.
    #[error("a name has 1 to {} bytes and no control characters", super::LONGEST_NAME)]
    BadName,
    /// More than is kept.
    #[error("a secret has at most {} bytes, and all of them together {}", super::LONGEST_VALUE, super::LARGEST)]
    TooLong,
    /// The key that is there is not the one that the file was sealed with.
    #[error("{} is sealed with another {}", file.display(), key(*keeper))]
    WrongKey {
        /// The sealed file.
        file: PathBuf,
        /// Who should have the key.
        keeper: Keeper,
    },
    /// The file was sealed with a passphrase, and none was given.
    #[error("{} is sealed with a passphrase", file.display())]
    PassphraseNeeded {
        /// The sealed file.
        file: PathBuf,
    },
    /// A passphrase was given, and the file was sealed without one.
    #[error("{} is sealed without a passphrase", file.display())]
    PassphraseUnwanted {
        /// The sealed file.
        file: PathBuf,
    },
    /// The file is there and its key is not.
    #[error("{} is sealed with the key in {}, which is not there", file.display(), key.display())]
    KeyLost {
        /// The sealed file.
        file: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The key is with the keychain, and that does not give it out.
    #[error("{} is sealed with a key in the keychain, which is out of reach", file.display())]
    KeychainNeeded {
        /// The sealed file.
        file: PathBuf,
    },
    /// A file that is not as we wrote it.
    #[error("{} is damaged: {what}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file of a later version of this program.
    #[error("{} is of version {version}, which is newer than this program", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u8,
    },
    /// Others may read what only its owner should.
    #[error("{} can be read by others (mode {mode:o})", file.display())]
    TooOpen {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SecretError {
    /// What a person can do about it. `passphrase` is the name of the setting that holds the passphrase.
    pub fn hint(&self, passphrase: &str) -> Option<String> {
        Some(match self {
            Self::BadName | Self::TooLong | Self::Io(_) => return None,
            Self::WrongKey { keeper: Keeper::Passphrase, .. } => {
                format!("set {passphrase} to the one it was made with")
            }
            Self::WrongKey { file, .. } | Self::KeyLost { file, .. } | Self::KeychainNeeded { file } => {
                format!("put the key back, or {}", begin_anew(file))
            }
            Self::PassphraseNeeded { .. } => format!("set {passphrase}"),
            Self::PassphraseUnwanted { file } => format!("unset {passphrase}, or {}", begin_anew(file)),
            Self::Damaged { file, .. } => format!("put a copy back, or {}", begin_anew(file)),
            Self::Newer { .. } => "use the newer program".to_owned(),
            Self::TooOpen { file, .. } => {
                format!("if nobody else has read it: chmod 600 {}", file.display())
            }
        })
    }
}

fn begin_anew(file: &Path) -> String {
    format!("move {} away to begin anew without what is in it", file.display())
}

fn key(keeper: Keeper) -> &'static str {
    match keeper {
        Keeper::File | Keeper::Keychain => "key",
        Keeper::Passphrase => "passphrase",
    }
}
