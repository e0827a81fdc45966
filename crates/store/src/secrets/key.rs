//! Finds or creates the key of the sealed file.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;

use super::sealed::{Header, Key, KeyDerivation, random};
use super::{KeyLocation, SecretError, read_private};
use crate::files::write_beside_synced;

/// The possible sources of the key of one sealed file.
pub(super) struct Keys {
    sealed: PathBuf,
    file: PathBuf,
    passphrase: Option<Secret>,
    /// The key derived last from the passphrase. It is cached because the derivation is slow on purpose.
    derived: Mutex<Option<(KeyDerivation, Key)>>,
}

impl Keys {
    pub(super) fn new(sealed: &Path, file: PathBuf, passphrase: Option<Secret>) -> Self {
        Self { sealed: sealed.to_owned(), file, passphrase, derived: Mutex::default() }
    }

    /// The path of the key file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Where the key of a new file would be stored.
    pub(super) fn preferred(&self) -> KeyLocation {
        match &self.passphrase {
            Some(_) => KeyLocation::Passphrase,
            #[cfg(feature = "keychain")]
            None if super::keychain::is_there() => KeyLocation::Keychain,
            None => KeyLocation::File,
        }
    }

    /// Finds the key for a file with this header. The caller checks that the key fits.
    pub(super) fn find(&self, header: &Header) -> Result<Key, SecretError> {
        let sealed = || self.sealed.clone();
        match (header.key_location, &self.passphrase) {
            (KeyLocation::Passphrase, Some(passphrase)) => self.derive(&header.derivation, passphrase),
            (KeyLocation::Passphrase, None) => Err(SecretError::PassphraseNeeded { file: sealed() }),
            (KeyLocation::File | KeyLocation::Keychain, Some(_)) => {
                Err(SecretError::PassphraseUnwanted { file: sealed() })
            }
            (KeyLocation::File, None) => {
                self.read()?.ok_or_else(|| SecretError::KeyLost { file: sealed(), key: self.file.clone() })
            }
            #[cfg(feature = "keychain")]
            (KeyLocation::Keychain, None) => {
                super::keychain::find(&self.sealed).ok_or_else(|| SecretError::KeychainNeeded { file: sealed() })
            }
            #[cfg(not(feature = "keychain"))]
            (KeyLocation::Keychain, None) => Err(SecretError::KeychainNeeded { file: sealed() }),
        }
    }

    /// Creates a key for a new file, and the matching header.
    pub(super) fn make(&self) -> Result<(Header, Key), SecretError> {
        if let Some(passphrase) = &self.passphrase {
            let derivation = KeyDerivation::new()?;
            let key = self.derive(&derivation, passphrase)?;
            return Ok((Header::new(KeyLocation::Passphrase, derivation, &key), key));
        }
        #[cfg(feature = "keychain")]
        if let Some(key) = super::keychain::make(&self.sealed)? {
            return Ok((Header::new(KeyLocation::Keychain, KeyDerivation::default(), &key), key));
        }
        let key = match self.read()? {
            Some(key) => key,
            None => self.write()?,
        };
        Ok((Header::new(KeyLocation::File, KeyDerivation::default(), &key), key))
    }

    fn derive(&self, derivation: &KeyDerivation, passphrase: &Secret) -> Result<Key, SecretError> {
        let mut derived = self.derived.lock().unpoisoned();
        if let Some((known, key)) = &*derived
            && known == derivation
        {
            return Ok(key.clone());
        }
        let key = derivation.key(passphrase)?;
        *derived = Some((*derivation, key.clone()));
        Ok(key)
    }

    /// Reads the key file, if it exists.
    fn read(&self) -> Result<Option<Key>, SecretError> {
        let Some(bytes) = read_private(&self.file)? else { return Ok(None) };
        let mut key = Key::default();
        if bytes.len() != key.len() {
            return Err(SecretError::Damaged {
                file: self.file.clone(),
                defect: "it does not contain exactly one key",
            });
        }
        key.copy_from_slice(&bytes);
        Ok(Some(key))
    }

    /// Creates a key in a new file. If another process has created the file meanwhile, its key is used and never
    /// replaced.
    fn write(&self) -> Result<Key, SecretError> {
        let key = Key::new(random()?);
        match write_beside_synced(&self.file, &*key)?.persist_noclobber(&self.file) {
            Ok(_) => Ok(key),
            Err(error) => self.read()?.ok_or_else(|| error.error.into()),
        }
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let passphrase = self.passphrase.is_some();
        f.debug_struct("Keys").field("file", &self.file).field("passphrase", &passphrase).finish_non_exhaustive()
    }
}
