//! Errors of the secret store. No variant contains a secret.

use std::io;
use std::path::{Path, PathBuf};

use super::KeyLocation;

/// Why the secrets cannot be read or changed. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The name is not valid.
    #[error("the name of a secret must have 1 to {} bytes and no control characters", super::MAX_NAME_BYTES)]
    BadName,
    /// The value is too long, or the file would become too large.
    #[error(
        "a secret can have at most {} bytes, and all secrets together {}",
        super::MAX_VALUE_BYTES,
        super::MAX_FILE_BYTES
    )]
    TooLong,
    /// The available key is not the one that the file is encrypted with.
    #[error("{} is sealed with another {}", file.display(), key(*key_location))]
    WrongKey {
        /// The sealed file.
        file: PathBuf,
        /// Where the key should be.
        key_location: KeyLocation,
    },
    /// The file is encrypted with a passphrase, and none is configured.
    #[error("{} is sealed with a passphrase", file.display())]
    PassphraseNeeded {
        /// The sealed file.
        file: PathBuf,
    },
    /// A passphrase is configured, but the file is encrypted without one.
    #[error("{} is sealed without a passphrase", file.display())]
    PassphraseUnwanted {
        /// The sealed file.
        file: PathBuf,
    },
    /// The file exists, but its key does not.
    #[error("{} is sealed with the key in {}, which does not exist", file.display(), key.display())]
    KeyLost {
        /// The sealed file.
        file: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// The key is in the keychain, which does not release it.
    #[error("{} is sealed with a key in the keychain, which is not available", file.display())]
    KeychainNeeded {
        /// The sealed file.
        file: PathBuf,
    },
    /// The file does not have the expected format.
    #[error("{} is damaged: {defect}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The defect.
        defect: &'static str,
    },
    /// A later version of this program wrote the file.
    #[error("{} has version {version}, which this program does not support yet", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// The version of the file.
        version: u8,
    },
    /// Other users can read a file that must be private.
    #[error("{} can be read by other users (mode {mode:o})", file.display())]
    TooOpen {
        /// The file.
        file: PathBuf,
        /// The permissions of the file.
        mode: u32,
    },
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SecretError {
    /// A hint for the user. `passphrase` is the name of the setting that holds the passphrase.
    pub fn hint(&self, passphrase: &str) -> Option<String> {
        Some(match self {
            Self::BadName | Self::TooLong | Self::Io(_) => return None,
            Self::WrongKey { key_location: KeyLocation::Passphrase, .. } => {
                format!("set {passphrase} to the passphrase that the file was created with")
            }
            Self::WrongKey { file, .. } | Self::KeyLost { file, .. } | Self::KeychainNeeded { file } => {
                format!("restore the key, or {}", start_over(file))
            }
            Self::PassphraseNeeded { .. } => format!("set {passphrase}"),
            Self::PassphraseUnwanted { file } => format!("unset {passphrase}, or {}", start_over(file)),
            Self::Damaged { file, .. } => format!("restore a backup, or {}", start_over(file)),
            Self::Newer { .. } => "use the newer version of this program".to_owned(),
            Self::TooOpen { file, .. } => {
                format!("if no other user has read it: chmod 600 {}", file.display())
            }
        })
    }
}

fn start_over(file: &Path) -> String {
    format!("move {} away to start without its secrets", file.display())
}

fn key(key_location: KeyLocation) -> &'static str {
    match key_location {
        KeyLocation::File | KeyLocation::Keychain => "key",
        KeyLocation::Passphrase => "passphrase",
    }
}
