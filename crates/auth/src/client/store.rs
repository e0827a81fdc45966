//! What is kept of tokens and registrations. Where it is kept between runs is for whoever uses this crate to say.

use std::io;
use std::sync::{Mutex, PoisonError};

use gladhand_core::Secret;
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

impl Record {
    /// Puts it before all others, in place of the one with the same server and issuer.
    pub fn put_among(&self, records: &mut Vec<Self>) {
        records.retain(|old| (&old.server, &old.issuer) != (&self.server, &self.issuer));
        records.insert(0, self.clone());
    }
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

    /// Forgets all records of a server.
    fn forget(&self, server: &str) -> io::Result<()>;
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
        record.put_among(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    fn forget(&self, server: &str) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|record| record.server != server);
        Ok(())
    }
}

/// How secrets are written where they are meant to be: in the store and nowhere else.
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
    fn what_is_kept_is_read_back_whole() {
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
