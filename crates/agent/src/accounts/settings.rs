//! The settings of accounts: folders, addresses of services, and client identities.
//!
//! The client uses its own identity. Some services require a registered client id. That id is a setting, and
//! without it login is not possible.

use std::path::PathBuf;
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_models::{Identity, Models};
use gladhand_redaction::{self as redaction, Life};
use gladhand_store::Secrets;

/// The names of the environment variables.
pub mod env {
    /// The address of OpenRouter.
    pub const OPENROUTER_BASE: &str = "GLADHAND_OPENROUTER_BASE";
    /// The address of OpenAI's models, for logins and keys.
    pub const OPENAI_BASE: &str = "GLADHAND_OPENAI_BASE";
    /// The address for the usage of a ChatGPT subscription.
    pub const OPENAI_BACKEND_BASE: &str = "GLADHAND_OPENAI_BACKEND_BASE";
    /// The OAuth issuer of OpenAI.
    pub const OPENAI_ISSUER: &str = "GLADHAND_OPENAI_ISSUER";
    /// The client id at OpenAI.
    pub const OPENAI_CLIENT_ID: &str = "GLADHAND_OPENAI_CLIENT_ID";
    /// The address of Google Cloud Code.
    pub const ANTIGRAVITY_BASE: &str = "GLADHAND_ANTIGRAVITY_BASE";
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
    /// The address of Anthropic.
    pub const ANTHROPIC_BASE: &str = "GLADHAND_ANTHROPIC_BASE";
    /// The address of any server that is compatible with OpenAI.
    pub const COMPATIBLE_BASE: &str = "GLADHAND_COMPATIBLE_BASE";
    /// The key for that server.
    pub const COMPATIBLE_KEY: &str = "GLADHAND_COMPATIBLE_KEY";
    /// The model to use there, if the server returns no list.
    pub const COMPATIBLE_MODEL: &str = "GLADHAND_COMPATIBLE_MODEL";
    /// The address of an Ollama server; empty: do not look for one.
    pub const OLLAMA_BASE: &str = "GLADHAND_OLLAMA_BASE";
    /// The address of a llama.cpp server; empty: do not look for one.
    pub const LLAMACPP_BASE: &str = "GLADHAND_LLAMACPP_BASE";
    /// A key for OpenAI.
    pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
    /// A key for OpenRouter.
    pub const OPENROUTER_API_KEY: &str = "OPENROUTER_API_KEY";
    /// A key for Anthropic.
    pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";
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
    /// Keys that were passed in and are not stored.
    pub keys: Keys,
    /// Addresses and client identity for OpenAI.
    pub openai: OpenAiEndpoints,
    /// Addresses and client identity for Google.
    pub google: GoogleEndpoints,
    /// The address of OpenRouter.
    pub openrouter: String,
    /// The address of Anthropic.
    pub anthropic: String,
    /// A server that is compatible with OpenAI.
    pub compatible: Option<CompatibleServer>,
    /// Where to look for an Ollama server.
    pub ollama: Option<String>,
    /// Where to look for a llama.cpp server.
    pub llamacpp: Option<String>,
    /// The embedded model.
    pub embedded: Option<Arc<dyn Models>>,
    /// Whether the machine probably has no browser for the user. Then a login with a device code is preferred.
    pub headless: bool,
}

/// Keys that were passed in. A key that a client has stored has priority.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    /// For OpenAI.
    pub openai: Option<Secret>,
    /// For OpenRouter.
    pub openrouter: Option<Secret>,
    /// For Anthropic.
    pub anthropic: Option<Secret>,
    /// For web search.
    pub exa: Option<Secret>,
}

/// Addresses and client identity for OpenAI.
#[derive(Debug, Clone)]
pub struct OpenAiEndpoints {
    /// The address of the models. `None`: the default for the login or the key.
    pub base: Option<String>,
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
    /// The address of Cloud Code. `None`: the default for the account.
    pub base: Option<String>,
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

/// A server that is compatible with OpenAI.
#[derive(Debug, Clone)]
pub struct CompatibleServer {
    /// The address, which usually ends in `/v1`.
    pub base: String,
    /// The key.
    pub key: Option<Secret>,
    /// The model to use, if the server returns no list.
    pub model: Option<String>,
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
            keys: Keys::default(),
            openai: OpenAiEndpoints {
                base: None,
                backend: "https://chatgpt.com/backend-api".to_owned(),
                issuer: "https://auth.openai.com".to_owned(),
                client_id: None,
            },
            google: GoogleEndpoints {
                base: None,
                authorize: "https://accounts.google.com/o/oauth2/v2/auth".to_owned(),
                token: "https://oauth2.googleapis.com/token".to_owned(),
                profile: "https://www.googleapis.com/oauth2/v2/userinfo".to_owned(),
                client_id: None,
                client_secret: None,
            },
            openrouter: gladhand_models::OpenRouter::BASE.to_owned(),
            anthropic: gladhand_models::Anthropic::BASE.to_owned(),
            compatible: None,
            ollama: Some("http://127.0.0.1:11434/v1".to_owned()),
            llamacpp: Some("http://127.0.0.1:8080/v1".to_owned()),
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
        put(&mut self.openrouter, address(env::OPENROUTER_BASE));
        put(&mut self.anthropic, address(env::ANTHROPIC_BASE));
        put(&mut self.openai.backend, address(env::OPENAI_BACKEND_BASE));
        put(&mut self.openai.issuer, address(env::OPENAI_ISSUER));
        put(&mut self.google.authorize, address(env::GOOGLE_AUTHORIZE_URL));
        put(&mut self.google.token, address(env::GOOGLE_TOKEN_URL));
        put(&mut self.google.profile, address(env::GOOGLE_PROFILE_URL));
        self.openai.base = address(env::OPENAI_BASE).or(self.openai.base);
        self.openai.client_id = text(env::OPENAI_CLIENT_ID).or(self.openai.client_id);
        self.google.base = address(env::ANTIGRAVITY_BASE).or(self.google.base);
        self.google.client_id = text(env::GOOGLE_CLIENT_ID).or(self.google.client_id);
        self.google.client_secret = secret(env::GOOGLE_CLIENT_SECRET).or(self.google.client_secret);
        self.keys = Keys {
            openai: secret(env::OPENAI_API_KEY).or(self.keys.openai),
            openrouter: secret(env::OPENROUTER_API_KEY).or(self.keys.openrouter),
            anthropic: secret(env::ANTHROPIC_API_KEY).or(self.keys.anthropic),
            exa: secret(env::EXA_API_KEY).or(self.keys.exa),
        };
        if let Some(base) = address(env::COMPATIBLE_BASE) {
            let (key, model) = (secret(env::COMPATIBLE_KEY), text(env::COMPATIBLE_MODEL));
            self.compatible = Some(CompatibleServer { base, key, model });
        }
        for (address_field, name) in [(&mut self.ollama, env::OLLAMA_BASE), (&mut self.llamacpp, env::LLAMACPP_BASE)] {
            if value_of(name).is_some() {
                *address_field = address(name);
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
            (env::OPENROUTER_BASE, " http://127.0.0.1:9/or/ "),
            (env::OPENAI_ISSUER, ""),
            (env::OPENAI_API_KEY, "sk-1"),
            (env::COMPATIBLE_BASE, "http://house:1/v1"),
            (env::OLLAMA_BASE, ""),
            ("DISPLAY", ":0"),
        ];
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let settings = AccountSettings::new("/data").with_environment(variable);
        assert_eq!(settings.openrouter, "http://127.0.0.1:9/or");
        assert_eq!(settings.openai.issuer, "https://auth.openai.com");
        assert!(settings.keys.openai.as_ref().is_some_and(|key| key.expose() == "sk-1"));
        assert_eq!(settings.compatible.as_ref().map(|server| server.base.as_str()), Some("http://house:1/v1"));
        assert_eq!(settings.ollama, None);
        assert!(settings.llamacpp.is_some());
        assert!(!settings.headless);
        assert!(!format!("{settings:?}").contains("sk-1"));
    }

    #[test]
    fn a_remote_shell_counts_as_headless() {
        let only = |name: &'static str| move |asked: &str| (asked == name).then(|| "x".to_owned());
        assert!(AccountSettings::new("/data").with_environment(only("SSH_TTY")).headless);
        assert_eq!(AccountSettings::new("/data").with_environment(|_| None).headless, cfg!(target_os = "linux"));
    }
}
