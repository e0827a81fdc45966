//! Records of tokens and registrations. The user of this crate decides where they are stored between runs.

use std::io;
use std::sync::Mutex;

use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;
use serde::{Deserialize, Serialize};

use super::identity::Registration;
use crate::scopes::Scopes;

/// The tokens and the registration for one server at one authorization server. Both are only valid at their issuer,
/// so a record belongs to one issuer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The address of the server.
    pub server: String,
    /// The issuer.
    pub issuer: String,
    /// Our dynamic registration there, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// The current token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

impl Record {
    /// Inserts this record before all others, replacing the one with the same server and issuer.
    pub fn put_among(&self, records: &mut Vec<Self>) {
        records.retain(|old| (&old.server, &old.issuer) != (&self.server, &self.issuer));
        records.insert(0, self.clone());
    }
}

/// A token, and everything needed to use and renew it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grant {
    /// The access token.
    #[serde(with = "exposed")]
    pub access_token: Secret,
    /// The refresh token.
    #[serde(default, with = "exposed::option", skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<Secret>,
    /// When to renew the token, in seconds since 1970: shortly before it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_at: Option<u64>,
    /// The client that the token was issued to.
    pub client_id: String,
    /// The identifier of the resource that the token was requested for.
    pub resource: String,
    /// All scopes that were requested.
    #[serde(default)]
    pub scopes: Scopes,
    /// The key that the token is bound to, if any.
    #[serde(default, with = "exposed::option", skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
}

/// Stores records. Methods may block for the time of a small file access.
pub trait TokenStore: Send + Sync {
    /// All records of a server, the latest first.
    fn records(&self, server: &str) -> io::Result<Vec<Record>>;

    /// Stores a record, replacing the one with the same server and issuer.
    fn keep(&self, record: &Record) -> io::Result<()>;

    /// Deletes all records of a server.
    fn forget(&self, server: &str) -> io::Result<()>;
}

gladhand_core::debug_as_name!(TokenStore);

/// Stores records in memory only.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Vec<Record>>);

impl TokenStore for MemoryStore {
    fn records(&self, server: &str) -> io::Result<Vec<Record>> {
        let records = self.0.lock().unpoisoned();
        Ok(records.iter().filter(|record| record.server == server).cloned().collect())
    }

    fn keep(&self, record: &Record) -> io::Result<()> {
        record.put_among(&mut self.0.lock().unpoisoned());
        Ok(())
    }

    fn forget(&self, server: &str) -> io::Result<()> {
        self.0.lock().unpoisoned().retain(|record| record.server != server);
        Ok(())
    }
}

/// Serializes secrets in clear text. Only the token store uses this.
pub(super) mod exposed {
    use gladhand_core::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }

    pub(crate) mod option {
        use gladhand_core::Secret;
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
        let store = MemoryStore::default();
        assert!(store.records("s").unwrap().is_empty());
        store.keep(&record("s", "one", "old")).unwrap();
        store.keep(&record("s", "two", "second")).unwrap();
        store.keep(&record("t", "one", "other")).unwrap();
        store.keep(&record("s", "one", "new")).unwrap();
        assert_eq!(tokens(&store, "s"), ["new", "second"]);
        store.forget("s").unwrap();
        assert_eq!((tokens(&store, "s"), tokens(&store, "t")), (vec![], vec!["other".to_owned()]));
    }

    #[test]
    fn a_stored_record_is_read_back_unchanged() {
        let text = serde_json::to_string(&record("s", "i", "hush")).unwrap();
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(text.contains("hush"));
    }

    #[test]
    fn secrets_do_not_print() {
        assert!(!format!("{:?}", record("s", "i", "hush")).contains("hush"));
    }
}
