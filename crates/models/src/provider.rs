//! The table of model providers.
//!
//! Each provider describes itself in its own file, as a [`ProviderInfo`]. All lists of providers read this table: keys,
//! settings, model lists, help texts. To add a provider, write its file and add one line to [`Provider::ALL`].

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use gladhand_core::Secret;
use serde::{Serialize, Serializer};

use crate::{Credential, ModelError, Models, Web, anthropic, antigravity, chat, embedded, openai};

/// A model provider: a line of the table.
#[derive(Clone, Copy)]
pub struct Provider(&'static ProviderInfo);

/// The description of a provider.
#[derive(Debug)]
pub struct ProviderInfo {
    /// The identifier in settings, options and files.
    pub id: &'static str,
    /// The display name.
    pub name: &'static str,
    /// What the provider requires before it can be used.
    pub requires: Requirement,
    /// The key that it accepts.
    pub key: Option<KeyInfo>,
    /// The login that it accepts.
    pub login: Option<Login>,
    /// The default address. `None`: there is none, or it depends on the credential.
    pub default_base: Option<&'static str>,
    /// The environment variable with another address.
    pub base_variable: Option<&'static str>,
    /// The environment variable with the model to use, if the provider returns no list.
    pub model_variable: Option<&'static str>,
    /// Whether loaf's reference implementation has the provider. The others exist only in Gladhand. Each start finds
    /// them again, so `state.json` does not list them.
    pub is_of_loaf: bool,
    /// Whether other providers run its models, and a request can name one of them.
    pub has_routing: bool,
    /// Whether a model id that is in no catalogue probably belongs to the provider. Receives the last part of the id.
    pub is_probable: fn(&str) -> bool,
    /// The error if a credential or a setting is missing.
    pub missing: &'static str,
    /// Creates the client. Returns [`ProviderInfo::missing`] if a required credential or setting is missing.
    pub connect: fn(Connection) -> Result<Arc<dyn Models>, ModelError>,
}

/// What a provider requires before it can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// A key or a login.
    Credential,
    /// A configured address. If the server requires a key, it belongs to the address.
    Address,
    /// A running server on this machine, which is found without configuration.
    LocalServer,
    /// A model that is embedded in the program.
    EmbeddedModel,
}

/// The key of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyInfo {
    /// The environment variable with the key.
    pub variable: &'static str,
    /// The name in the secret store, if clients can store a key.
    pub stored_as: Option<&'static str>,
}

/// The kinds of logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// At OpenAI, for a ChatGPT subscription.
    ChatGpt,
    /// At Google.
    Google,
}

/// The settings and credentials from which a provider creates its client.
#[derive(Debug)]
pub struct Connection {
    /// The HTTP client.
    pub web: Web,
    /// The configured address.
    pub base: Option<String>,
    /// The key.
    pub key: Option<Secret>,
    /// The login.
    pub login: Option<ActiveLogin>,
    /// The embedded model.
    pub embedded: Option<Arc<dyn Models>>,
}

/// A login that exists.
#[derive(Debug)]
pub struct ActiveLogin {
    /// Its credential.
    pub credential: Arc<dyn Credential>,
    /// The id of the account, if the service needs it and it is known.
    pub account: Option<String>,
}

impl Provider {
    /// All providers. The order is the display order, and the order of preference if no model is selected.
    pub const ALL: &[Self] = &[
        Self::OPENAI,
        Self::ANTIGRAVITY,
        Self::OPENROUTER,
        Self(&anthropic::PROVIDER),
        Self(&chat::COMPATIBLE),
        Self(&chat::OLLAMA),
        Self(&chat::LLAMACPP),
        Self(&embedded::PROVIDER),
    ];

    /// OpenAI, which methods of loaf name.
    pub const OPENAI: Self = Self(&openai::PROVIDER);
    /// Antigravity, which methods of loaf name.
    pub const ANTIGRAVITY: Self = Self(&antigravity::PROVIDER);
    /// OpenRouter, which methods of loaf name.
    pub const OPENROUTER: Self = Self(&chat::OPENROUTER);

    /// All providers, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied()
    }

    /// The provider with this identifier.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::all().find(|provider| provider.id == id)
    }

    /// The probable provider of a model id that is in no catalogue.
    pub fn guess(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next().unwrap_or(model);
        Self::all().find(|provider| (provider.is_probable)(name))
    }

    /// The line of the table.
    pub fn position(self) -> usize {
        Self::all().position(|provider| provider == self).unwrap_or_default()
    }

    /// Whether the user configured the provider. The others are found or embedded.
    pub fn is_configured(self) -> bool {
        matches!(self.requires, Requirement::Credential | Requirement::Address)
    }

    /// Whether a credential can be stored. All others may be absent in the next run.
    pub fn can_store_credential(self) -> bool {
        self.login.is_some() || self.key.is_some_and(|key| key.stored_as.is_some())
    }

    /// The environment variables with the keys of services.
    pub fn key_variables() -> Vec<&'static str> {
        let services = Self::all().filter(|provider| provider.requires == Requirement::Credential);
        services.filter_map(|provider| Some(provider.key?.variable)).collect()
    }

    /// The names of the servers that are found on this machine.
    pub fn local_servers() -> Vec<&'static str> {
        let servers = Self::all().filter(|provider| provider.requires == Requirement::LocalServer);
        servers.map(|provider| provider.name).collect()
    }
}

/// Words as a phrase: `a, b or c`.
pub fn alternatives(words: &[&str]) -> String {
    match words {
        [first @ .., before, last] => {
            first.iter().map(|word| format!("{word}, ")).collect::<String>() + before + " or " + last
        }
        words => words.concat(),
    }
}

/// No model id is probably of this provider.
pub(crate) fn never(_: &str) -> bool {
    false
}

impl Deref for Provider {
    type Target = ProviderInfo;

    fn deref(&self) -> &ProviderInfo {
        self.0
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Provider {}

impl Hash for Provider {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Ord for Provider {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl PartialOrd for Provider {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_in_the_order_of_the_table() {
        for provider in Provider::all() {
            assert_eq!(Provider::of_id(provider.id), Some(provider));
        }
        assert!(Provider::ALL.is_sorted());
        assert_eq!(Provider::all().map(|provider| provider.id).collect::<HashSet<_>>().len(), Provider::ALL.len());
        assert_eq!(Provider::of_id("vertex"), None);
    }

    #[test]
    fn descriptions_agree_with_the_requirements_of_the_provider() {
        for provider in Provider::all() {
            let has_credential = provider.key.is_some() || provider.login.is_some();
            let (is_embedded, address) = (provider.requires == Requirement::EmbeddedModel, provider.base_variable);
            assert!(has_credential || provider.requires != Requirement::Credential, "{provider}");
            assert!(provider.default_base.is_some() || provider.requires != Requirement::LocalServer, "{provider}");
            let variable = format!("GLADHAND_{}_BASE", provider.id.to_uppercase());
            assert_eq!(address, (!is_embedded).then_some(variable.as_str()), "{provider}");
            assert!(provider.is_of_loaf || !provider.can_store_credential(), "{provider}: `state.json` must list it");
        }
    }

    #[test]
    fn a_client_is_created_only_if_its_provider_has_all_that_it_requires() {
        let connection = |with: bool| Connection {
            web: Web::default(),
            base: with.then(|| "http://127.0.0.1:1/v1".to_owned()),
            key: with.then(|| Secret::new("sk-test")),
            login: with.then(|| ActiveLogin { credential: Arc::new(Secret::new("token")), account: None }),
            embedded: None,
        };
        for provider in Provider::all().filter(|provider| provider.requires != Requirement::EmbeddedModel) {
            let error = (provider.connect)(connection(false)).unwrap_err();
            assert_eq!(error, ModelError::Failed(provider.missing.to_owned()), "{provider}");
            assert_eq!((provider.connect)(connection(true)).unwrap().provider(), provider.id);
        }
    }

    #[test]
    fn unknown_ids_are_guessed_by_their_last_part() {
        for (model, provider) in [
            ("gpt-5", Some(Provider::OPENAI)),
            ("openai/o3-mini", Some(Provider::OPENAI)),
            ("x/some-codex-1", Some(Provider::OPENAI)),
            ("google/gemini-3", Some(Provider::OPENROUTER)),
            ("claude-5", Some(Provider::OPENROUTER)),
            ("gpt-5/acme", None),
            ("acme/plain-1", None),
            ("", None),
        ] {
            assert_eq!(Provider::guess(model), provider, "{model}");
        }
    }

    #[test]
    fn alternatives_are_separated_by_commas_and_a_last_or() {
        for (words, expected) in
            [(&[][..], ""), (&["a"], "a"), (&["a", "b"], "a or b"), (&["a", "b", "c"], "a, b or c")]
        {
            assert_eq!(alternatives(words), expected);
        }
    }
}
