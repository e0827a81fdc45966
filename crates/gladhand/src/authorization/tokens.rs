//! Tokens that servers gave us, kept in the secret store: one secret for each server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gladhand_auth::client::{Record, TokenStore};
use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_store::{SecretError, Secrets};
use zeroize::Zeroizing;

use crate::config::env;
use crate::secrets::{self, NoSecrets};

/// The prefix of the names of these secrets; the address of the server follows.
const PREFIX: &str = "oauth:";
/// The file that tokens were kept in before, unencrypted.
const PLAIN: &str = "tokens.json";
/// The file that it was locked with.
const PLAIN_LOCK: &str = "tokens.lock";

/// Keeps tokens in the secrets of a data folder. They are opened when a token is first needed.
#[derive(Debug)]
pub struct KeptTokens {
    data: PathBuf,
    secrets: Mutex<Option<Arc<Secrets>>>,
}

impl KeptTokens {
    /// The tokens in this data folder.
    pub fn at(data: impl Into<PathBuf>) -> Self {
        Self { data: data.into(), secrets: Mutex::default() }
    }

    fn secrets(&self) -> io::Result<Arc<Secrets>> {
        let mut secrets = self.secrets.lock().unpoisoned();
        if let Some(secrets) = &*secrets {
            return Ok(Arc::clone(secrets));
        }
        let opened = secrets::open(&self.data).map_err(|error| with_hint(&error, error.hint()))?;
        take_in(&self.data, &opened)?;
        Ok(Arc::clone(secrets.insert(Arc::new(opened))))
    }

    /// Changes the records of a server while no other writer does.
    fn change(&self, server: &str, change: impl FnOnce(&mut Vec<Record>)) -> io::Result<()> {
        change_in(&*self.secrets()?, server, change)
    }
}

impl TokenStore for KeptTokens {
    fn records(&self, server: &str) -> io::Result<Vec<Record>> {
        let kept = self.secrets()?.get(&name(server)).map_err(described)?;
        read(kept.as_ref())
    }

    fn keep(&self, record: &Record) -> io::Result<()> {
        self.change(&record.server, |records| record.put_among(records))
    }

    fn forget(&self, server: &str) -> io::Result<()> {
        self.change(server, Vec::clear)
    }
}

/// Takes in what an earlier version kept unencrypted, and removes it.
fn take_in(data: &Path, secrets: &Secrets) -> io::Result<()> {
    let plain = data.join(PLAIN);
    let text = match gladhand_store::read_state(&plain) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => Zeroizing::new(read?),
    };
    let Ok(records) = serde_json::from_slice::<Vec<Record>>(&text) else {
        tracing::warn!(file = %plain.display(), "not a list of tokens any more: it can be removed");
        return Ok(());
    };
    for record in records.iter().rev() {
        change_in(secrets, &record.server, |kept| {
            // An existing record is newer.
            if !kept.iter().any(|known| known.issuer == record.issuer) {
                record.put_among(kept);
            }
        })?;
    }
    fs_err::remove_file(&plain)?;
    // It is of no use any more, and of no harm.
    let _ = fs_err::remove_file(data.join(PLAIN_LOCK));
    tracing::info!(file = %plain.display(), "tokens are in the secret store now");
    Ok(())
}

fn change_in(secrets: &Secrets, server: &str, change: impl FnOnce(&mut Vec<Record>)) -> io::Result<()> {
    let changed = secrets.change(&name(server), |kept| {
        let mut records = read(kept)?;
        change(&mut records);
        let text = || serde_json::to_string(&records).map_err(io::Error::from);
        Ok::<_, SecretError>(if records.is_empty() { None } else { Some(Secret::new(text()?)) })
    });
    changed.map_err(described)
}

fn read(kept: Option<&Secret>) -> io::Result<Vec<Record>> {
    let Some(kept) = kept else { return Ok(Vec::new()) };
    // The parser's words may quote a token.
    serde_json::from_str(kept.expose())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "what is kept for this server is no list of tokens"))
}

fn name(server: &str) -> String {
    format!("{PREFIX}{server}")
}

fn described(error: SecretError) -> io::Error {
    let hint = error.hint(env::PASSPHRASE);
    with_hint(&NoSecrets::Closed(error), hint)
}

/// The only place where an error and its hint become one line, because the reader sees no other.
fn with_hint(error: &NoSecrets, hint: Option<String>) -> io::Error {
    io::Error::other(match hint {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(server: &str, issuer: &str, token: &str) -> Record {
        let grant = serde_json::json!({"access_token": token, "client_id": "me", "resource": server});
        let record = serde_json::json!({"server": server, "issuer": issuer, "grant": grant});
        serde_json::from_value(record).expect("a record")
    }

    fn opened(folder: &Path) -> KeptTokens {
        let places = gladhand_store::SecretLocations {
            data: folder.to_owned(),
            config: folder.join("config"),
            passphrase: None,
        };
        let secrets = Secrets::open(places).expect("nothing is in the way");
        take_in(folder, &secrets).expect("nothing is in the way");
        KeptTokens { data: folder.to_owned(), secrets: Mutex::new(Some(Arc::new(secrets))) }
    }

    fn tokens(store: &KeptTokens, server: &str) -> Vec<String> {
        let records = store.records(server).expect("it can be read");
        records
            .into_iter()
            .filter_map(|record| record.grant)
            .map(|grant| grant.access_token.expose().to_owned())
            .collect()
    }

    #[test]
    fn records_are_kept_by_server_and_issuer_and_forgotten_by_server() {
        let folder = tempfile::tempdir().unwrap();
        let store = opened(folder.path());
        for (server, issuer, token) in [("s", "one", "old"), ("s", "two", "second"), ("t", "one", "other")] {
            store.keep(&record(server, issuer, token)).unwrap();
        }
        store.keep(&record("s", "one", "new")).unwrap();
        let store = opened(folder.path());
        assert_eq!(
            (tokens(&store, "s"), tokens(&store, "t")),
            (vec!["new".into(), "second".into()], vec!["other".into()])
        );
        store.forget("s").unwrap();
        assert!(tokens(&store, "s").is_empty());
        assert_eq!(store.secrets().unwrap().names().unwrap(), ["oauth:t"]);
    }

    #[test]
    fn tokens_of_an_earlier_version_are_taken_in_once() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join(PLAIN);
        opened(folder.path()).keep(&record("s", "one", "newer")).unwrap();
        let old = [record("s", "one", "old"), record("s", "two", "second"), record("t", "one", "hush")];
        fs_err::write(&plain, serde_json::to_string(&old).unwrap()).unwrap();
        let store = opened(folder.path());
        assert!(!plain.exists());
        assert_eq!(tokens(&store, "s"), ["second", "newer"]);
        assert_eq!(tokens(&store, "t"), ["hush"]);
        let sealed = fs_err::read(store.secrets().unwrap().file()).unwrap();
        assert!(!sealed.windows(4).any(|part| part == b"hush"));
    }

    #[test]
    fn a_plain_file_that_cannot_be_read_stays_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join(PLAIN), "[{").unwrap();
        assert!(tokens(&opened(folder.path()), "s").is_empty());
        assert!(folder.path().join(PLAIN).exists());
    }
}
