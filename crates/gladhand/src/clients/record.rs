//! Records of changes that `config install` made to a client's file, for `config uninstall`.
//!
//! One file for each client in the data folder. It holds entries that were taken out of the client's file, and these may
//! hold secrets, so only its owner can read it.

use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::Client;

/// The folder of all records in the data folder.
const FOLDER: &str = "clients";

/// The changes for one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) client: Client,
    /// Its file.
    pub(crate) file: PathBuf,
    /// The names of the entries that start us.
    pub(crate) names: Vec<String>,
    /// The servers that were taken out, in their order.
    #[serde(default)]
    pub(crate) moved: Vec<Moved>,
    /// How to get the old file back byte for byte, as long as nothing else has changed it.
    #[serde(default)]
    pub(crate) exact: Option<Exact>,
    /// The configuration that the servers were moved to.
    #[serde(default)]
    pub(crate) config: Option<PathBuf>,
    /// Whether there was no such file before.
    #[serde(default)]
    pub(crate) made_config: bool,
    /// The names of secrets that were put into the store for it.
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
}

/// A server that was taken out of a client's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// Its name in the client's file.
    pub(crate) name: String,
    /// The text of its entry.
    pub(crate) written: String,
    /// The upstream that has taken its place.
    pub(crate) upstream: String,
    /// The text that was added to our configuration; none if the upstream was there before.
    #[serde(default)]
    pub(crate) added: Option<String>,
}

/// The old file of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exact {
    /// The copy of the old file; none if there was no file.
    pub(crate) backup: Option<PathBuf>,
    /// The digest of the old file.
    pub(crate) before: String,
    /// The digest of the file that we wrote.
    pub(crate) after: String,
}

/// The records in a data folder.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    pub(crate) fn in_folder(data: &Path) -> Self {
        Self { folder: data.join(FOLDER) }
    }

    fn file(&self, client: Client) -> PathBuf {
        self.folder.join(format!("{}.json", client.name()))
    }

    /// The record of a client. A record that cannot be read is an error: without it servers would be lost.
    pub(crate) fn get(&self, client: Client) -> std::io::Result<Option<Record>> {
        let text = match super::read_file(&self.file(client)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = |error| {
            let file = self.file(client);
            std::io::Error::other(format!("{} is damaged: {error}", file.display()))
        };
        serde_json::from_str(&text).map(Some).map_err(damaged)
    }

    /// The records of all clients but one.
    pub(crate) fn others(&self, client: Client) -> std::io::Result<Vec<Record>> {
        let all = <Client as clap::ValueEnum>::value_variants().iter().filter(|other| **other != client);
        all.filter_map(|other| self.get(*other).transpose()).collect()
    }

    /// Keeps a record.
    pub(crate) fn put(&self, record: &Record) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(record)?;
        gladhand_store::files::replace(&self.file(record.client), &text)
    }

    /// Forgets a record.
    pub(crate) fn remove(&self, client: Client) -> std::io::Result<()> {
        fs_err::remove_file(self.file(client))
    }
}

/// The digest by which texts are compared.
pub(crate) fn fingerprint(text: &str) -> String {
    gladhand_core::hex::encode(digest(&SHA256, text.as_bytes()).as_ref())
}
