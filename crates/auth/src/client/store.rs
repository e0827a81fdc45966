//! Where tokens and registrations are kept between runs.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use gladhand_accord::Secret;
use serde::{Deserialize, Serialize};

use super::identity::Registration;
use crate::scopes::Scopes;

/// What is known of one server at one authorization server. Neither its tokens nor its registration are of any use
/// at another issuer, which is why both are kept under it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The address of the server.
    pub server: String,
    /// The issuer.
    pub issuer: String,
    /// As whom we registered there, if we did so ourselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// The token in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

/// A token and what is needed to use and renew it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grant {
    /// The token.
    #[serde(with = "exposed")]
    pub access_token: Secret,
    /// What a new one is had for.
    #[serde(default, with = "exposed::option", skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<Secret>,
    /// When to renew it, in seconds since 1970: shortly before it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_at: Option<u64>,
    /// The client that it was issued to.
    pub client_id: String,
    /// The identifier of the resource that it was asked for.
    pub resource: String,
    /// All scopes that were asked for.
    #[serde(default)]
    pub scopes: Scopes,
    /// The key that it is bound to, if any.
    #[serde(default, with = "exposed::option", skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
}

/// Keeps records. Methods block for the time of a small file at most.
pub trait TokenStore: std::fmt::Debug + Send + Sync {
    /// All records of a server, the latest first.
    fn records(&self, server: &str) -> io::Result<Vec<Record>>;

    /// Keeps a record in place of the one with the same server and issuer.
    fn keep(&self, record: &Record) -> io::Result<()>;
}

/// Forgets everything with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Vec<Record>>);

impl TokenStore for MemoryStore {
    fn records(&self, server: &str) -> io::Result<Vec<Record>> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(records.iter().filter(|record| record.server == server).cloned().collect())
    }

    fn keep(&self, record: &Record) -> io::Result<()> {
        replace(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), record);
        Ok(())
    }
}

/// A JSON file that only its owner can read.
///
/// The tokens in it are **not encrypted**: whoever can read the files of this user can use them, as with the files of
/// most command-line programs. Each write replaces the whole file at once, and processes take turns.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// The store in this file, which is made when something is kept.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn read(&self) -> io::Result<Vec<Record>> {
        match fs_err::read(&self.path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                // The place, and not the parser's words: they may quote a token.
                let (line, column) = (error.line(), error.column());
                let what = format!("{} is damaged at line {line}, column {column}", self.path.display());
                io::Error::new(io::ErrorKind::InvalidData, what)
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl TokenStore for FileStore {
    fn records(&self, server: &str) -> io::Result<Vec<Record>> {
        let mut records = self.read()?;
        records.retain(|record| record.server == server);
        Ok(records)
    }

    fn keep(&self, record: &Record) -> io::Result<()> {
        let folder =
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        fs_err::create_dir_all(folder)?;
        // The lock goes with its file handle. It is a file of its own because the other one is replaced.
        let lock = File::options().create(true).truncate(false).write(true).open(self.path.with_extension("lock"))?;
        lock.lock()?;
        let mut records = self.read()?;
        replace(&mut records, record);
        // A temporary file is readable by its owner alone from its first moment.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(&records)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

fn replace(records: &mut Vec<Record>, record: &Record) {
    records.retain(|old| (&old.server, &old.issuer) != (&record.server, &record.issuer));
    records.insert(0, record.clone());
}

/// How secrets are written where they are meant to be: in the store and nowhere else.
pub(super) mod exposed {
    use gladhand_accord::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }

    pub(crate) mod option {
        use gladhand_accord::Secret;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        pub(crate) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
            secret.as_ref().map(Secret::expose).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
            Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(server: &str, issuer: &str, token: &str) -> Record {
        let grant = Grant {
            access_token: Secret::new(token),
            refresh_token: None,
            renew_at: Some(7),
            client_id: "me".to_owned(),
            resource: server.to_owned(),
            scopes: Scopes::parse("a b"),
            key: None,
        };
        Record { server: server.to_owned(), issuer: issuer.to_owned(), registration: None, grant: Some(grant) }
    }

    fn tokens(store: &dyn TokenStore, server: &str) -> Vec<String> {
        let records = store.records(server).unwrap();
        records.into_iter().map(|record| record.grant.unwrap().access_token.expose().to_owned()).collect()
    }

    #[test]
    fn records_are_kept_by_server_and_issuer() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileStore::at(folder.path().join("deeper").join("tokens.json"));
        for store in [&MemoryStore::default() as &dyn TokenStore, &file] {
            assert!(store.records("s").unwrap().is_empty());
            store.keep(&record("s", "one", "old")).unwrap();
            store.keep(&record("s", "two", "second")).unwrap();
            store.keep(&record("t", "one", "other")).unwrap();
            store.keep(&record("s", "one", "new")).unwrap();
            assert_eq!(tokens(store, "s"), ["new", "second"]);
            assert_eq!(tokens(store, "t"), ["other"]);
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        FileStore::at(&path).keep(&record("s", "i", "t")).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_reported_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        fs_err::write(&path, r#"[{"server":"hush"}]"#).unwrap();
        let error = FileStore::at(&path).records("s").unwrap_err().to_string();
        assert!(error.contains("damaged") && !error.contains("hush"), "{error}");
    }

    #[test]
    fn secrets_do_not_print() {
        assert!(!format!("{:?}", record("s", "i", "hush")).contains("hush"));
    }
}
