//! The four secrets of loaf (§18.2), in the sealed secret store.
//!
//! Without a keychain, loaf itself stores them in a plain file. Such a file is imported once and then removed, so
//! that no readable copy is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_core::operations::{Failure, FailureKind};
use gladhand_core::wire::Members;
use gladhand_redaction::{self as redaction, Life};
use gladhand_store::Secrets;

use super::files;

/// The key for OpenRouter.
pub(super) const OPENROUTER: &str = "openrouter_api_key";
/// The key for web search.
pub(super) const EXA: &str = "exa_api_key";
/// The ChatGPT login.
pub(super) const OPENAI: &str = "openai_chatgpt_auth";
/// The Google login.
pub(super) const GOOGLE: &str = "antigravity_oauth_token_info";

/// All names.
const NAMES: [&str; 4] = [OPENROUTER, EXA, OPENAI, GOOGLE];

/// The plain file of loaf.
const PLAIN: &str = "secrets-fallback.json";

/// Stores the secrets.
#[derive(Debug)]
pub(super) struct Vault {
    secrets: Option<Arc<Secrets>>,
    plain: PathBuf,
}

impl Vault {
    /// Opens the vault.
    pub(super) fn open(secrets: Option<Arc<Secrets>>, data: &Path) -> Self {
        Self { secrets, plain: data.join(PLAIN) }
    }

    /// Reads a secret. `None` if it does not exist or cannot be read.
    pub(super) fn get(&self, name: &str) -> Option<Secret> {
        let secret = self.find(name)?;
        // A login is a JSON object whose members are secrets.
        redaction::learn(secret.expose(), Life::Recent);
        redaction::learn_text(secret.expose(), Life::Recent);
        Some(secret)
    }

    fn find(&self, name: &str) -> Option<Secret> {
        let Some(secrets) = &self.secrets else {
            return self.plain().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        };
        secrets.get(name).unwrap_or_else(|error| {
            tracing::warn!(name, %error, "could not read a secret");
            None
        })
    }

    /// Stores a secret.
    pub(super) fn set(&self, name: &str, value: &Secret) -> Result<(), Failure> {
        let Some(secrets) = &self.secrets else {
            tracing::warn!(name, "there is no secret store: this secret is only kept in memory");
            return Ok(());
        };
        secrets.set(name, value.clone()).map_err(|error| unkept(&error))
    }

    /// Deletes a secret.
    pub(super) fn remove(&self, name: &str) -> Result<(), Failure> {
        let Some(secrets) = &self.secrets else { return Ok(()) };
        secrets.remove(name).map(drop).map_err(|error| unkept(&error))
    }

    /// Deletes all secrets.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        files::remove(&self.plain).map_err(|error| unkept(&error))?;
        NAMES.into_iter().try_for_each(|name| self.remove(name))
    }

    /// Imports the plain file of loaf from the data folder.
    pub(super) fn take_over(&self) {
        let Some(secrets) = &self.secrets else { return };
        if !self.plain.exists() {
            return;
        }
        for (name, value) in self.plain() {
            // A secret in the store is newer than the one in the file.
            let taken = secrets.change(name, |old| Ok(Some(old.cloned().unwrap_or(value))));
            if let Err(error) = taken {
                let error: gladhand_store::SecretError = error;
                tracing::warn!(name, %error, "could not import a secret from the plain file");
                return;
            }
        }
        if let Err(error) = files::remove(&self.plain) {
            tracing::warn!(%error, "secrets were imported, but their plain file could not be removed");
        }
    }

    /// The content of the plain file.
    fn plain(&self) -> Vec<(&'static str, Secret)> {
        let text = files::read(&self.plain).unwrap_or_default();
        let Ok(members) = Members::parse(&text) else { return Vec::new() };
        let secret =
            |name| members.str(name).filter(|value| !value.is_empty()).map(|value| Secret::new(value.as_ref()));
        NAMES.into_iter().filter_map(|name| Some((name, secret(name)?))).collect()
    }
}

fn unkept(error: &dyn std::error::Error) -> Failure {
    Failure::new(FailureKind::Internal, format!("could not use the secret store: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_store::SecretLocations;

    fn store(folder: &Path) -> Arc<Secrets> {
        let places = SecretLocations { data: folder.join("data"), config: folder.join("config"), passphrase: None };
        Arc::new(Secrets::open(places).unwrap())
    }

    fn value(vault: &Vault, name: &str) -> Option<String> {
        vault.get(name).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn every_key_that_a_provider_stores_is_among_the_names() {
        for provider in gladhand_models::Provider::all() {
            let stored = provider.key.and_then(|key| key.stored_as);
            assert!(stored.is_none_or(|name| NAMES.contains(&name)), "{provider}");
        }
    }

    #[test]
    fn a_plain_file_is_imported_once_and_stored_secrets_have_priority() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let secrets = store(folder.path());
        secrets.set(EXA, Secret::new("newer")).unwrap();
        let plain = data.join(PLAIN);
        std::fs::write(&plain, r#"{"openrouter_api_key":"k","exa_api_key":"older","openai_chatgpt_auth":"","x":"y"}"#)
            .unwrap();
        let vault = Vault::open(Some(secrets.clone()), &data);
        vault.take_over();
        assert_eq!(value(&vault, OPENROUTER).as_deref(), Some("k"));
        assert_eq!(value(&vault, EXA).as_deref(), Some("newer"));
        assert_eq!(secrets.names().unwrap(), [EXA, OPENROUTER]);
        assert!(!plain.exists());
        vault.clear().unwrap();
        assert!(secrets.names().unwrap().is_empty());
    }

    #[test]
    fn without_a_store_the_plain_file_is_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join(PLAIN);
        for (text, expected) in [(r#"{"exa_api_key":"e"}"#, Some("e")), ("{", None), ("[]", None)] {
            std::fs::write(&plain, text).unwrap();
            let vault = Vault::open(None, folder.path());
            assert_eq!(value(&vault, EXA).as_deref(), expected);
            assert!(plain.exists());
        }
    }
}
