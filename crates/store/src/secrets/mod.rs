//! Secrets under names, in one file that is encrypted at rest.
//!
//! The file lies in the data folder. Its key does not: it is made from a passphrase, or lies in the config folder or in
//! the keychain of the desktop, so that a copy of the data folder reveals nothing. What cannot be read is never
//! written over.

mod error;
mod key;
#[cfg(feature = "keychain")]
mod keychain;
mod sealed;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use gladhand_core::Secret;
use zeroize::Zeroizing;

pub use self::error::SecretError;
use self::key::Keys;
use self::sealed::{Header, Unreadable};

/// The file with the secrets.
const FILE: &str = "secrets.sealed";
/// The file whose lock is held by whoever changes them. It is a file of its own because the other one is replaced.
const LOCK: &str = "secrets.lock";
/// The file with the key.
const KEY: &str = "secrets.key";

/// No more is read or written.
const LARGEST: u64 = 16 * 1024 * 1024;
/// The longest name of a secret, in bytes.
const LONGEST_NAME: usize = 2048;
/// The longest value, in bytes.
const LONGEST_VALUE: usize = 1024 * 1024;

/// Where secrets are kept, and with what they are sealed.
#[derive(Debug, Clone)]
pub struct Places {
    /// The folder of the sealed file.
    pub data: PathBuf,
    /// The folder of its key, if it has one of its own.
    pub config: PathBuf,
    /// What the key is made from instead.
    pub passphrase: Option<Secret>,
}

/// Who has the key of the sealed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// A file of its own.
    File,
    /// Whoever knows the passphrase.
    Passphrase,
    /// The keychain of the desktop.
    Keychain,
}

/// Named secrets of this user. Several processes may use them at once: whoever changes them waits for its turn.
#[derive(Debug)]
pub struct Secrets {
    folder: PathBuf,
    file: PathBuf,
    keys: Keys,
}

/// All secrets, opened.
type Opened = BTreeMap<String, Secret>;

impl Secrets {
    /// The secrets in these places. What is there already is opened once, so that whatever is wrong with it is said now;
    /// if there is nothing, nothing is made yet.
    pub fn open(places: Places) -> Result<Self, SecretError> {
        let file = places.data.join(FILE);
        let keys = Keys::new(&file, places.config.join(KEY), places.passphrase);
        let secrets = Self { folder: places.data, file, keys };
        secrets.read()?;
        Ok(secrets)
    }

    /// The secret of this name.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, SecretError> {
        Ok(self.read()?.1.remove(name))
    }

    /// All names, in order.
    pub fn names(&self) -> Result<Vec<String>, SecretError> {
        Ok(self.read()?.1.into_keys().collect())
    }

    /// Keeps a secret under a name, in place of another that may be there.
    pub fn set(&self, name: &str, value: Secret) -> Result<(), SecretError> {
        self.change(name, |_| Ok(Some(value)))
    }

    /// Forgets a secret; false if there was none of that name.
    pub fn remove(&self, name: &str) -> Result<bool, SecretError> {
        let mut was_there = false;
        self.change(name, |old| {
            was_there = old.is_some();
            Ok::<_, SecretError>(None)
        })?;
        Ok(was_there)
    }

    /// Puts into the place of a secret what `new` makes of it, while nobody else changes anything. None is no secret.
    pub fn change<E: From<SecretError>>(
        &self,
        name: &str,
        new: impl FnOnce(Option<&Secret>) -> Result<Option<Secret>, E>,
    ) -> Result<(), E> {
        let trouble = |error: io::Error| E::from(SecretError::Io(error));
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(SecretError::BadName.into());
        }
        make_folder(&self.folder).map_err(trouble)?;
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lock = options.open(self.folder.join(LOCK));
        // It goes with its handle.
        let lock = lock.map_err(trouble)?;
        lock.lock().map_err(trouble)?;
        let (header, mut opened) = self.read()?;
        match new(opened.get(name))? {
            Some(value) if value.expose().len() > LONGEST_VALUE => return Err(SecretError::TooLong.into()),
            Some(value) => drop(opened.insert(name.to_owned(), value)),
            None if opened.remove(name).is_none() => return Ok(()),
            None => {}
        }
        Ok(self.write(header, &opened)?)
    }

    /// The sealed file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Who has the key of the file, or would get it if there is no file yet.
    pub fn keeper(&self) -> Result<Keeper, SecretError> {
        Ok(match self.read()?.0 {
            Some(header) => header.keeper,
            None => self.keys.preferred(),
        })
    }

    /// The file that has the key, where a file has it.
    pub fn key_file(&self) -> &Path {
        self.keys.file()
    }

    /// How the file is sealed, and what is in it; no header if there is no file.
    fn read(&self) -> Result<(Option<Header>, Opened), SecretError> {
        let Some(sealed) = read_private(&self.file)? else { return Ok((None, Opened::new())) };
        let header = Header::read(&sealed).map_err(|unreadable| self.unreadable(unreadable))?;
        let key = self.keys.find(&header)?;
        if !header.is_locked_by(&key) {
            return Err(SecretError::WrongKey { file: self.file.clone(), keeper: header.keeper });
        }
        let plain = header.open(&key, &sealed).map_err(|unreadable| self.unreadable(unreadable))?;
        let opened: BTreeMap<String, String> = serde_json::from_slice(&plain)
            .map_err(|_| self.unreadable(Unreadable::Damaged("what is sealed in it is no list of secrets")))?;
        Ok((Some(header), opened.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()))
    }

    /// Replaces the file at once. It stays sealed as it was; a new one is sealed in the preferred way.
    fn write(&self, header: Option<Header>, opened: &Opened) -> Result<(), SecretError> {
        let (header, key) = match header {
            Some(header) => (header, self.keys.find(&header)?),
            None => self.keys.make()?,
        };
        let exposed: BTreeMap<_, _> = opened.iter().map(|(name, value)| (name, value.expose())).collect();
        let plain = Zeroizing::new(serde_json::to_vec(&exposed).map_err(io::Error::from)?);
        let sealed = header.seal(&key, &plain)?;
        if sealed.len() as u64 > LARGEST {
            return Err(SecretError::TooLong);
        }
        write_private(&self.file, &sealed)?.persist(&self.file).map_err(|error| error.error)?;
        Ok(())
    }

    fn unreadable(&self, unreadable: Unreadable) -> SecretError {
        let file = self.file.clone();
        match unreadable {
            Unreadable::Newer(version) => SecretError::Newer { file, version },
            Unreadable::Damaged(what) => SecretError::Damaged { file, what },
        }
    }
}

/// What is in a file that nobody else may read; none if there is no file.
fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, SecretError> {
    let file = match fs_err::File::open(path) {
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
    if file.take(LARGEST + 1).read_to_end(&mut bytes)? as u64 > LARGEST {
        return Err(SecretError::Damaged { file: path.to_owned(), what: "it is larger than it can be" });
    }
    Ok(Some(bytes))
}

/// A new file beside the one at this path, not in its place yet. It is readable by its owner alone from its first moment.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    make_folder(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Makes a folder for its owner alone, with the folders around it, unless it is there.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
