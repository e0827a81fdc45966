//! Named secrets in one file that is encrypted at rest.
//!
//! The file is in the data folder, but its key is not. The key is derived from a passphrase, or stored in the
//! config folder or in the keychain of the desktop, so a copy of the data folder reveals nothing. A file that
//! cannot be read is never overwritten.

mod error;
mod key;
#[cfg(feature = "keychain")]
mod keychain;
mod sealed;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use gladhand_core::Secret;
use zeroize::Zeroizing;

pub use self::error::SecretError;
use self::key::Keys;
use self::sealed::{Header, Unreadable};
use crate::files::{make_folder, replace_private_synced};
use crate::regular::open_regular;

/// The file with the secrets.
const FILE: &str = "secrets.sealed";
/// The lock file for changes. It is separate because each change replaces the other file.
const LOCK: &str = "secrets.lock";
/// The key file.
const KEY: &str = "secrets.key";

/// The maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// The maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 2048;
/// The maximum length of a value in bytes.
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// The folders of the secret store, and its passphrase.
#[derive(Debug, Clone)]
pub struct SecretLocations {
    /// The folder of the sealed file.
    pub data: PathBuf,
    /// The folder of the key file, if the key is in a file.
    pub config: PathBuf,
    /// The passphrase from which the key is derived, if one is configured.
    pub passphrase: Option<Secret>,
}

/// Where the key of the sealed file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocation {
    /// In a file of its own.
    File,
    /// Derived from a passphrase.
    Passphrase,
    /// In the keychain of the desktop.
    Keychain,
}

/// The secrets of this user. Several processes can use them at the same time; a lock serializes changes.
#[derive(Debug)]
pub struct Secrets {
    folder: PathBuf,
    file: PathBuf,
    keys: Keys,
}

/// All secrets, decrypted.
type Opened = BTreeMap<String, Secret>;

impl Secrets {
    /// Opens the secrets in these folders. An existing file is decrypted once, so that errors appear now. Nothing
    /// is created if no file exists.
    pub fn open(locations: SecretLocations) -> Result<Self, SecretError> {
        let file = locations.data.join(FILE);
        let keys = Keys::new(&file, locations.config.join(KEY), locations.passphrase);
        let secrets = Self { folder: locations.data, file, keys };
        secrets.read()?;
        Ok(secrets)
    }

    /// The secret with this name.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, SecretError> {
        Ok(self.read()?.1.remove(name))
    }

    /// All names, sorted.
    pub fn names(&self) -> Result<Vec<String>, SecretError> {
        Ok(self.read()?.1.into_keys().collect())
    }

    /// Stores a secret under a name, replacing the previous one.
    pub fn set(&self, name: &str, value: Secret) -> Result<(), SecretError> {
        self.change(name, |_| Ok(Some(value)))
    }

    /// Deletes a secret. Returns false if it does not exist.
    pub fn remove(&self, name: &str) -> Result<bool, SecretError> {
        let mut was_there = false;
        self.change(name, |old| {
            was_there = old.is_some();
            Ok::<_, SecretError>(None)
        })?;
        Ok(was_there)
    }

    /// Replaces a secret with the result of `new`, under the lock. `None` means that the secret does not exist.
    pub fn change<E: From<SecretError>>(
        &self,
        name: &str,
        new: impl FnOnce(Option<&Secret>) -> Result<Option<Secret>, E>,
    ) -> Result<(), E> {
        let problem = |error: io::Error| E::from(SecretError::Io(error));
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return Err(SecretError::BadName.into());
        }
        make_folder(&self.folder).map_err(problem)?;
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lock = options.open(self.folder.join(LOCK));
        // The lock is released when this handle is dropped.
        let lock = lock.map_err(problem)?;
        lock.lock().map_err(problem)?;
        let (header, mut opened) = self.read()?;
        match new(opened.get(name))? {
            Some(value) if value.expose().len() > MAX_VALUE_BYTES => return Err(SecretError::TooLong.into()),
            Some(value) => drop(opened.insert(name.to_owned(), value)),
            None if opened.remove(name).is_none() => return Ok(()),
            None => {}
        }
        Ok(self.write(header, &opened)?)
    }

    /// The path of the sealed file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where the key of the file is, or would be stored if the file does not exist yet.
    pub fn key_location(&self) -> Result<KeyLocation, SecretError> {
        Ok(match self.read()?.0 {
            Some(header) => header.key_location,
            None => self.keys.preferred(),
        })
    }

    /// The path of the key file, for a key that is in a file.
    pub fn key_file(&self) -> &Path {
        self.keys.file()
    }

    /// Reads the header and the secrets. The header is `None` if the file does not exist.
    fn read(&self) -> Result<(Option<Header>, Opened), SecretError> {
        let Some(sealed) = read_private(&self.file)? else { return Ok((None, Opened::new())) };
        let header = Header::read(&sealed).map_err(|unreadable| self.unreadable(unreadable))?;
        let key = self.keys.find(&header)?;
        if !header.has_key(&key) {
            return Err(SecretError::WrongKey { file: self.file.clone(), key_location: header.key_location });
        }
        let plain = header.open(&key, &sealed).map_err(|unreadable| self.unreadable(unreadable))?;
        let opened: BTreeMap<String, String> = serde_json::from_slice(&plain)
            .map_err(|_| self.unreadable(Unreadable::Damaged("its content is not a list of secrets")))?;
        Ok((Some(header), opened.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()))
    }

    /// Replaces the file atomically. An existing file keeps its kind of key; a new one uses the preferred kind.
    fn write(&self, header: Option<Header>, opened: &Opened) -> Result<(), SecretError> {
        let (header, key) = match header {
            Some(header) => (header, self.keys.find(&header)?),
            None => self.keys.make()?,
        };
        let exposed: BTreeMap<_, _> = opened.iter().map(|(name, value)| (name, value.expose())).collect();
        let plain = Zeroizing::new(serde_json::to_vec(&exposed).map_err(io::Error::from)?);
        let sealed = header.seal(&key, &plain)?;
        if sealed.len() as u64 > MAX_FILE_BYTES {
            return Err(SecretError::TooLong);
        }
        replace_private_synced(&self.file, &sealed)?;
        Ok(())
    }

    fn unreadable(&self, unreadable: Unreadable) -> SecretError {
        let file = self.file.clone();
        match unreadable {
            Unreadable::Newer(version) => SecretError::Newer { file, version },
            Unreadable::Damaged(defect) => SecretError::Damaged { file, defect },
        }
    }
}

/// Reads a file that must be private to its owner. `None` if it does not exist.
fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, SecretError> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;

        let mode = file.metadata()?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretError::TooOpen { file: path.to_owned(), mode });
        }
    }
    let mut bytes = Zeroizing::new(Vec::new());
    if file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)? as u64 > MAX_FILE_BYTES {
        return Err(SecretError::Damaged { file: path.to_owned(), defect: "it is larger than 16 MiB" });
    }
    Ok(Some(bytes))
}
