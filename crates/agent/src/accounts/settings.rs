//! The settings of accounts: folders, addresses of services, and client identities.
//!
//! The client uses its own identity. Some services require a registered client id. That id is a setting, and
//! without it login is not possible.

use std::ops::{Index, IndexMut};
use std::path::PathBuf;
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_models::{Identity, Models, Provider, Requirement};
use gladhand_redaction::{self as redaction, Life};
use gladhand_store::Secrets;

/// The names of the environment variables that belong to no provider or to a login. The table of providers
/// ([`Provider`]) has the others.
pub mod env {
    /// The address for the usage of a ChatGPT subscription.
    pub const OPENAI_BACKEND_BASE: &str = "GLADHAND_OPENAI_BACKEND_BASE";
    /// The OAuth issuer of OpenAI.
    pub const OPENAI_ISSUER: &str = "GLADHAND_OPENAI_ISSUER";
    /// The client id at OpenAI.
    pub const OPENAI_CLIENT_ID: &str = "GLADHAND_OPENAI_CLIENT_ID";
    /// The authorization endpoint of Google.
    pub const GOOGLE_AUTHORIZE_URL: &str = "GLADHAND_GOOGLE_AUTHORIZE_URL";
    /// The token endpoint of Google.
    pub const GOOGLE_TOKEN_URL: &str = "GLADHAND_GOOGLE_TOKEN_URL";
    /// The profile endpoint of Google.
    pub const GOOGLE_PROFILE_URL: &str = "GLADHAND_GOOGLE_PROFILE_URL";
    /// The client id at Google.
    pub const GOOGLE_CLIENT_ID: &str = "GLADHAND_GOOGLE_CLIENT_ID";
    /// The client secret at Google.
    pub const GOOGLE_CLIENT_SECRET: &str = "GLADHAND_GOOGLE_CLIENT_SECRET";
    /// A key for web search.
    pub const EXA_API_KEY: &str = "EXA_API_KEY";
}

/// The settings of accounts.
#[derive(Debug, Clone)]
pub struct AccountSettings {
    /// The folder of `state.json` and related files.
    pub data: PathBuf,
    /// The folder in which the program was started. Older versions stored their state there.
    pub started_in: Option<PathBuf>,
    /// The secret store. `None`: secrets are only kept in memory.
    pub secrets: Option<Arc<Secrets>>,
    /// Whether files are written. If not, they are only read. The exception is a renewed login: it is always
    /// stored, because the old one is not valid any more.
    pub keeps: bool,
    /// The identity of this client.
    pub identity: Identity,
    /// The settings of each provider.
    pub providers: ProviderTable,
    /// A key for web search that was passed in and is not stored. A key that a client has stored has priority.
    pub exa_key: Option<Secret>,
    /// Addresses and client identity for the login at OpenAI.
    pub openai: OpenAiEndpoints,
    /// Addresses and client identity for the login at Google.
    pub google: GoogleEndpoints,
    /// The embedded model.
    pub embedded: Option<Arc<dyn Models>>,
    /// Whether the machine probably has no browser for the user. Then a login with a device code is preferred.
    pub headless: bool,
}

/// The settings of all providers, by provider.
#[derive(Debug, Clone)]
pub struct ProviderTable(Vec<ProviderSettings>);

/// The settings of a provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// The address. `None`: the default for the credential, or no address: then a provider that requires an address is
    /// not configured, and a server on this machine is not looked for.
    pub base: Option<String>,
    /// A key that was passed in and is not stored. A key that a client has stored has priority.
    pub key: Option<Secret>,
    /// The model to use, if the provider returns no list.
    pub model: Option<String>,
}

/// Addresses and client identity for OpenAI.
#[derive(Debug, Clone)]
pub struct OpenAiEndpoints {
    /// The address for the usage of a subscription.
    pub backend: String,
    /// The OAuth issuer.
    pub issuer: String,
    /// The client id.
    pub client_id: Option<String>,
}

/// Addresses and client identity for Google.
#[derive(Debug, Clone)]
pub struct GoogleEndpoints {
    /// The authorization endpoint.
    pub authorize: String,
    /// The token endpoint.
    pub token: String,
    /// The profile endpoint.
    pub profile: String,
    /// The client id.
    pub client_id: Option<String>,
    /// The client secret.
    pub client_secret: Option<Secret>,
}

impl Default for ProviderTable {
    fn default() -> Self {
        let default = |provider: Provider| ProviderSettings {
            base: provider.default_base.map(str::to_owned),
            ..ProviderSettings::default()
        };
        Self(Provider::all().map(default).collect())
    }
}

impl Index<Provider> for ProviderTable {
    type Output = ProviderSettings;

    fn index(&self, provider: Provider) -> &ProviderSettings {
        &self.0[provider.position()]
    }
}

impl IndexMut<Provider> for ProviderTable {
    fn index_mut(&mut self, provider: Provider) -> &mut ProviderSettings {
        &mut self.0[provider.position()]
    }
}

/// The environment variables whose values are secrets of the agent.
pub fn secret_variables() -> impl Iterator<Item = &'static str> {
    let keys = Provider::all().filter_map(|provider| Some(provider.key?.variable));
    keys.chain([env::EXA_API_KEY, env::GOOGLE_CLIENT_SECRET])
}

impl AccountSettings {
    /// The default addresses, without any credentials.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            started_in: None,
            secrets: None,
            keeps: true,
            identity: Identity::default(),
            providers: ProviderTable::default(),
            exa_key: None,
            openai: OpenAiEndpoints {
                backend: "https://chatgpt.com/backend-api".to_owned(),
                issuer: "https://auth.openai.com".to_owned(),
                client_id: None,
            },
            google: GoogleEndpoints {
                authorize: "https://accounts.google.com/o/oauth2/v2/auth".to_owned(),
                token: "https://oauth2.googleapis.com/token".to_owned(),
                profile: "https://www.googleapis.com/oauth2/v2/userinfo".to_owned(),
                client_id: None,
                client_secret: None,
            },
            embedded: None,
            headless: false,
        }
    }

    /// Applies the environment. `variable` looks up a variable.
    pub fn with_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let value_of = |name: &str| variable(name).map(|value| value.trim().to_owned());
        let text = |name: &str| value_of(name).filter(|value| !value.is_empty());
        // Paths are appended with a slash, so the address must not end with one.
        let address = |name: &str| text(name).map(|value| value.trim_end_matches('/').to_owned());
        let learned = |value: &String| redaction::learn(value, Life::Process);
        let secret = |name: &str| text(name).inspect(learned).map(Secret::new);
        let put = |address_field: &mut String, value: Option<String>| {
            if let Some(value) = value {
                *address_field = value;
            }
        };
        put(&mut self.openai.backend, address(env::OPENAI_BACKEND_BASE));
        put(&mut self.openai.issuer, address(env::OPENAI_ISSUER));
        put(&mut self.google.authorize, address(env::GOOGLE_AUTHORIZE_URL));
        put(&mut self.google.token, address(env::GOOGLE_TOKEN_URL));
        put(&mut self.google.profile, address(env::GOOGLE_PROFILE_URL));
        self.openai.client_id = text(env::OPENAI_CLIENT_ID).or(self.openai.client_id);
        self.google.client_id = text(env::GOOGLE_CLIENT_ID).or(self.google.client_id);
        self.google.client_secret = secret(env::GOOGLE_CLIENT_SECRET).or(self.google.client_secret);
        self.exa_key = secret(env::EXA_API_KEY).or(self.exa_key);
        for provider in Provider::all() {
            let settings = &mut self.providers[provider];
            let base = provider.base_variable.and_then(address);
            let key = provider.key.and_then(|key| secret(key.variable));
            match provider.requires {
                Requirement::Credential => {
                    settings.base = base.or_else(|| settings.base.take());
                    settings.key = key.or_else(|| settings.key.take());
                }
                // A key and a model of the file belong to its address, so another address does not get them.
                Requirement::Address => {
                    let before = if base.is_some() { ProviderSettings::default() } else { settings.clone() };
                    let model = provider.model_variable.and_then(text);
                    *settings = ProviderSettings {
                        base: base.or(before.base),
                        key: key.or(before.key),
                        model: model.or(before.model),
                    };
                }
                // An empty variable means that no server is looked for.
                Requirement::LocalServer if provider.base_variable.and_then(value_of).is_some() => settings.base = base,
                Requirement::LocalServer | Requirement::EmbeddedModel => {}
            }
        }
        let is_set = |names: &[&str]| names.iter().any(|name| variable(name).is_some_and(|value| !value.is_empty()));
        self.headless = is_set(&["CI", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"])
            || cfg!(target_os = "linux") && !is_set(&["DISPLAY", "WAYLAND_DISPLAY"]);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrides_the_defaults() {
        let variables = [
            ("GLADHAND_OPENROUTER_BASE", " http://127.0.0.1:9/or/ "),
            (env::OPENAI_ISSUER, ""),
            ("OPENAI_API_KEY", "sk-1"),
            ("GLADHAND_COMPATIBLE_BASE", "http://house:1/v1"),
            ("GLADHAND_OLLAMA_BASE", ""),
            ("DISPLAY", ":0"),
        ];
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let settings = AccountSettings::new("/data").with_environment(variable);
        let base = |id: &str| settings.providers[Provider::of_id(id).unwrap()].base.as_deref();
        assert_eq!(base("openrouter"), Some("http://127.0.0.1:9/or"));
        assert_eq!(settings.openai.issuer, "https://auth.openai.com");
        assert!(settings.providers[Provider::OPENAI].key.as_ref().is_some_and(|key| key.expose() == "sk-1"));
        assert_eq!(base("compatible"), Some("http://house:1/v1"));
        assert_eq!(base("ollama"), None);
        assert!(base("llamacpp").is_some());
        assert!(!settings.headless);
        assert!(!format!("{settings:?}").contains("sk-1"));
    }

    #[test]
    fn a_variable_can_hold_the_key_of_a_server_in_the_file_but_not_the_reverse() {
        let server = Provider::of_id("compatible").unwrap();
        for (base, key, expected) in [
            (None, None, ("http://file", Some("file-key"))),
            (None, Some("variable-key"), ("http://file", Some("variable-key"))),
            (Some("http://variable"), None, ("http://variable", None)),
            (Some("http://variable"), Some("variable-key"), ("http://variable", Some("variable-key"))),
        ] {
            let mut settings = AccountSettings::new("/data");
            let (file_base, file_key) = (Some("http://file".to_owned()), Some(Secret::new("file-key")));
            settings.providers[server] = ProviderSettings { base: file_base, key: file_key, model: None };
            let settings = settings.with_environment(|name| match name {
                "GLADHAND_COMPATIBLE_BASE" => base.map(str::to_owned),
                "GLADHAND_COMPATIBLE_KEY" => key.map(str::to_owned),
                _ => None,
            });
            let ProviderSettings { base, key, .. } = &settings.providers[server];
            assert_eq!((base.as_deref().unwrap(), key.as_ref().map(Secret::expose)), expected);
        }
    }

    #[test]
    fn a_remote_shell_counts_as_headless() {
        let only = |name: &'static str| move |asked: &str| (asked == name).then(|| "x".to_owned());
        assert!(AccountSettings::new("/data").with_environment(only("SSH_TTY")).headless);
        assert_eq!(AccountSettings::new("/data").with_environment(|_| None).headless, cfg!(target_os = "linux"));
    }
}
