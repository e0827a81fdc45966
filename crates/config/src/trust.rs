//! Which files of projects the user has trusted.
//!
//! A file in a cloned repository can start programs, so it is used only after the user has trusted exactly its content
//! (`gladhand config trust`). There is one record per file, in `trust/` of the data folder, named after the SHA-256 of the
//! file's place: the real path of its folder, and its name. A link to a trusted file is another place, because relative paths
//! in it mean other files. A record holds the content's hash, and the content itself to show a later difference.
//!
//! This module keeps records. It asks no questions and reads no project file.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use gladhand_core::Order as _;
use gladhand_core::hex;
use gladhand_core::time::Utc;
use gladhand_store::files;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The folder of the records, in the data folder.
const FOLDER: &str = "trust";

/// The records of trusted files.
#[derive(Debug, Clone, Default)]
pub struct TrustStore {
    /// Without a data folder there is no record, and no file is trusted.
    folder: Option<PathBuf>,
}

/// A file that was trusted, with the content that it had then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustRecord {
    /// The file's place.
    pub path: PathBuf,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// When it was trusted.
    pub since: String,
    /// The secrets, variables and logins that the file may use.
    pub grants: Grants,
    /// Its content.
    text: String,
}

/// Secrets, variables of the environment and logins that a project file may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Names of secrets, as in `${secret:NAME}`.
    pub secrets: BTreeSet<String>,
    /// Names of variables, as in `${NAME}`.
    pub variables: BTreeSet<String>,
    /// Addresses, as they are written, whose token from `gladhand login` may be used (`auth = "oauth"`).
    #[serde(default)]
    pub logins: BTreeSet<String>,
}

impl Grants {
    /// Everything that any of these grants.
    pub fn sum<'g>(all: impl IntoIterator<Item = &'g Self>) -> Self {
        let mut sum = Self::default();
        for grants in all {
            sum.secrets.extend(grants.secrets.iter().cloned());
            sum.variables.extend(grants.variables.iter().cloned());
            sum.logins.extend(grants.logins.iter().cloned());
        }
        sum
    }

    /// Whether these grants include others.
    pub fn covers(&self, others: &Self) -> bool {
        self.secrets.is_superset(&others.secrets)
            && self.variables.is_superset(&others.variables)
            && self.logins.is_superset(&others.logins)
    }

    /// Each grant alone, with the words for it.
    pub fn each(&self) -> impl Iterator<Item = (String, Self)> {
        let secrets = self
            .secrets
            .iter()
            .map(|name| (format!("the secret {name}"), Self { secrets: [name.clone()].into(), ..Self::default() }));
        let variables = self.variables.iter().map(|name| {
            let words = match name.as_str() {
                name if name.bytes().all(|byte| byte == b'*') => "all variables of your environment".to_owned(),
                name if name.contains('*') => format!("all variables of your environment that fit {name}"),
                name => format!("the variable {name}"),
            };
            (words, Self { variables: [name.clone()].into(), ..Self::default() })
        });
        let logins = self.logins.iter().map(|url| {
            (format!("your login token for {url}"), Self { logins: [url.clone()].into(), ..Self::default() })
        });
        secrets.chain(variables).chain(logins)
    }
}

/// Whether a file may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The user trusted exactly this content.
    Trusted(Grants),
    /// The user trusted another content of this file.
    Changed {
        /// The content that was trusted.
        before: String,
    },
    /// The user has not trusted this file.
    Unknown,
    /// The file is there and cannot be read.
    Unreadable {
        /// Why.
        why: String,
        /// The content that was trusted, if there was one.
        before: Option<String>,
    },
}

impl Standing {
    /// The content that the user trusted, of a file that is something else now.
    pub fn before(&self) -> Option<&str> {
        match self {
            Self::Changed { before } => Some(before),
            Self::Unreadable { before, .. } => before.as_deref(),
            Self::Trusted(_) | Self::Unknown => None,
        }
    }
}

impl TrustStore {
    /// The records in a data folder.
    pub fn in_folder(data: Option<&Path>) -> Self {
        Self { folder: data.map(|data| data.join(FOLDER)) }
    }

    /// How a file with this content stands. A record that cannot be read counts as none.
    pub fn standing(&self, path: &Path, text: &str) -> Standing {
        match self.record(path) {
            Some(record) if record.sha256 == sha256(text.as_bytes()) => Standing::Trusted(record.grants),
            Some(record) => Standing::Changed { before: record.text },
            None => Standing::Unknown,
        }
    }

    /// How a file stands that cannot be read.
    pub fn unreadable(&self, path: &Path, error: &io::Error) -> Standing {
        Standing::Unreadable { why: error.to_string(), before: self.record(path).map(|record| record.text) }
    }

    /// Whether the user trusted any content of a file.
    pub fn has_record(&self, path: &Path) -> bool {
        self.record(path).is_some()
    }

    /// Whether the user trusted exactly this content of a file.
    pub fn trusts(&self, path: &Path, text: &str) -> bool {
        matches!(self.standing(path, text), Standing::Trusted(_))
    }

    /// Trusts exactly this content of a file.
    pub fn trust(&self, path: &Path, text: &str, grants: Grants) -> io::Result<()> {
        let path = place(path)?;
        let file = self.file(&path).ok_or_else(|| io::Error::other("there is no data folder to keep trust in"))?;
        let now = gladhand_system::since_1970();
        let (sha256, since) = (sha256(text.as_bytes()), Utc::since_1970(now).to_string());
        let record = TrustRecord { path, sha256, since, grants, text: text.to_owned() };
        files::rewrite(&file, &serde_json::to_vec_pretty(&record)?)
    }

    /// Forgets that a file was trusted. Returns whether it was.
    pub fn revoke(&self, path: &Path) -> io::Result<bool> {
        let place = place(path).unwrap_or_else(|_| path.to_owned());
        let Some(file) = self.file(&place) else { return Ok(false) };
        match fs_err::remove_file(file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// All records, by path.
    pub fn records(&self) -> Vec<TrustRecord> {
        let entries = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        let mut records: Vec<_> = entries.into_iter().flatten().filter_map(|entry| read(&entry.ok()?.path())).collect();
        records.order_by(|one, other| one.path.cmp(&other.path));
        records
    }

    fn record(&self, path: &Path) -> Option<TrustRecord> {
        let place = place(path).ok()?;
        read(&self.file(&place)?).filter(|record| record.path == place)
    }

    /// The folder of the records.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn file(&self, place: &Path) -> Option<PathBuf> {
        let name = sha256(place.as_os_str().as_encoded_bytes());
        Some(self.folder.as_ref()?.join(format!("{name}.json")))
    }
}

/// Where a file is: the real path of its folder, and its own name. The last part is not followed if it is a link.
pub fn place(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    match (whole.parent(), whole.file_name()) {
        (Some(folder), Some(name)) => Ok(fs_err::canonicalize(folder)?.join(name)),
        _ => fs_err::canonicalize(whole),
    }
}

fn read(file: &Path) -> Option<TrustRecord> {
    serde_json::from_slice(&gladhand_store::read_state(file).ok()?).ok()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest(&SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_content_that_was_trusted_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (store, file) = (TrustStore::in_folder(Some(folder.path())), folder.path().join("g.toml"));
        std::fs::write(&file, "a").unwrap();
        assert_eq!(store.standing(&file, "a"), Standing::Unknown);
        store.trust(&file, "a", Grants::default()).unwrap();
        assert!(store.trusts(&file, "a"));
        assert_eq!(store.standing(&file, "b"), Standing::Changed { before: "a".to_owned() });
        assert!(store.revoke(&file).unwrap() && !store.revoke(&file).unwrap());
        assert!(!store.trusts(&file, "a"));
    }

    #[test]
    fn trust_belongs_to_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::in_folder(Some(folder.path()));
        let (file, copy) = (folder.path().join("g.toml"), folder.path().join("copy.toml"));
        std::fs::write(&file, "a").unwrap();
        std::fs::write(&copy, "a").unwrap();
        store.trust(&file, "a", Grants::default()).unwrap();
        assert!(!store.trusts(&copy, "a"), "the same content at another path");
        #[cfg(unix)]
        {
            let link = folder.path().join("link.toml");
            std::os::unix::fs::symlink(&file, &link).unwrap();
            assert!(!store.trusts(&link, "a"), "a link to the same file");
            let folder_link = folder.path().join("link");
            std::os::unix::fs::symlink(folder.path(), &folder_link).unwrap();
            assert!(store.trusts(&folder_link.join("g.toml"), "a"), "the same file through another way to its folder");
        }
        assert!(!TrustStore::in_folder(None).trusts(&file, "a"));
    }

    #[test]
    fn a_damaged_record_trusts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (store, file) = (TrustStore::in_folder(Some(folder.path())), folder.path().join("g.toml"));
        std::fs::write(&file, "a").unwrap();
        store.trust(&file, "a", Grants::default()).unwrap();
        let record = std::fs::read_dir(folder.path().join(FOLDER)).unwrap().next().unwrap().unwrap().path();
        std::fs::write(record, "{\"path\":").unwrap();
        assert_eq!((store.standing(&file, "a"), store.records()), (Standing::Unknown, Vec::new()));
    }
}
