//! `[agent]`: whether the agent is enabled, its permissions, and the addresses of its models.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Hidden;

/// Settings of the agent.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Whether the agent is enabled.
    pub enabled: bool,
    /// Whether clients of dialects without agent sessions get the agent as tools.
    pub tools: bool,
    /// Who approves a tool that may do harm.
    pub approve: Approve,
    /// Tools that run without asking, by name or by what they do: `reads`, `writes`, `runs`, `network`.
    pub allow: Vec<String>,
    /// Tools that run only with the user's approval.
    pub ask: Vec<String>,
    /// Tools that never run.
    pub deny: Vec<String>,
    /// Where chats, skills and custom tools are kept; by default in the data folder.
    pub folder: Option<PathBuf>,
    /// Folders that its file tools use without asking, besides the folder of a session.
    pub roots: Vec<PathBuf>,
    /// The address of OpenRouter.
    pub openrouter_base: Option<String>,
    /// The address of OpenAI's models.
    pub openai_base: Option<String>,
    /// The address that reports the remaining quota of a ChatGPT subscription.
    pub openai_backend_base: Option<String>,
    /// The OAuth issuer of OpenAI.
    pub openai_issuer: Option<String>,
    /// Our OAuth client id at that issuer.
    pub openai_client_id: Option<String>,
    /// The address of Google Cloud Code.
    pub antigravity_base: Option<String>,
    /// Our OAuth client id at Google.
    pub google_client_id: Option<String>,
    /// The client secret that belongs to it, as it is. `GLADHAND_GOOGLE_CLIENT_SECRET` keeps it out of the file.
    pub google_client_secret: Option<Hidden>,
    /// The address of Anthropic.
    pub anthropic_base: Option<String>,
    /// The address of any server with an OpenAI-compatible API.
    pub compatible_base: Option<String>,
    /// The key for it, as it is. `GLADHAND_COMPATIBLE_KEY` keeps it out of the file.
    pub compatible_key: Option<Hidden>,
    /// The model to use there, if it does not list its models.
    pub compatible_model: Option<String>,
    /// The address of the service that searches the web.
    pub exa_base: Option<String>,
}

/// The keys of one model provider.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProviderKeys<'a> {
    /// The address.
    pub base: Option<&'a str>,
    /// The key, which belongs to the address.
    pub key: Option<&'a Hidden>,
    /// The model to use, if the provider does not list its models.
    pub model: Option<&'a str>,
}

impl AgentConfig {
    /// Returns the keys of the model provider with this id. They begin with the id.
    pub fn provider(&self, id: &str) -> ProviderKeys<'_> {
        let is_of_provider = |(key, _): &(&str, _)| key.strip_suffix("_base") == Some(id);
        let base = self.provider_addresses().into_iter().find(is_of_provider);
        let base = base.and_then(|(_, address)| address.as_deref());
        match id {
            "compatible" => {
                ProviderKeys { base, key: self.compatible_key.as_ref(), model: self.compatible_model.as_deref() }
            }
            _ => ProviderKeys { base, ..ProviderKeys::default() },
        }
    }

    /// Returns the addresses of model providers with their keys.
    fn provider_addresses(&self) -> [(&'static str, &Option<String>); 5] {
        [
            ("openai_base", &self.openai_base),
            ("antigravity_base", &self.antigravity_base),
            ("openrouter_base", &self.openrouter_base),
            ("anthropic_base", &self.anthropic_base),
            ("compatible_base", &self.compatible_base),
        ]
    }

    /// Returns invalid addresses, and references where they are not read, as key and message.
    pub(crate) fn mistakes(&self) -> Vec<(String, String)> {
        let addresses = [
            ("openai_backend_base", &self.openai_backend_base),
            ("openai_issuer", &self.openai_issuer),
            ("exa_base", &self.exa_base),
        ];
        let addresses = self.provider_addresses().into_iter().chain(addresses);
        let is_address = |text: &str| {
            url::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host())
        };
        let wrong = addresses.filter(|(_, address)| address.as_deref().is_some_and(|text| !is_address(text)));
        let wrong = wrong.map(|(key, _)| (key, "must be an address that begins with http:// or https://".to_owned()));
        let secrets = [
            ("google_client_secret", &self.google_client_secret, "GLADHAND_GOOGLE_CLIENT_SECRET"),
            ("compatible_key", &self.compatible_key, "GLADHAND_COMPATIBLE_KEY"),
        ];
        let is_reference =
            |value: &Option<Hidden>| value.as_ref().is_some_and(|value| value.0.expose().starts_with("${"));
        let references = secrets.into_iter().filter(|(_, value, _)| is_reference(value));
        let references = references.map(|(key, _, variable)| {
            (key, format!("references are not expanded here: set the variable {variable} instead"))
        });
        wrong.chain(references).map(|(key, message)| (format!("agent.{key}"), message)).collect()
    }
}

/// Who approves a tool that may do harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// The client. If the client cannot answer, such tools are refused.
    #[default]
    Ask,
    /// No approval: every tool runs unless it is denied.
    All,
    /// No approval: every tool that needs approval is refused.
    None,
}

impl Approve {
    /// Returns the stricter of the two values.
    pub fn or_stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::Ask, _) | (_, Self::Ask) => Self::Ask,
            (Self::All, Self::All) => Self::All,
        }
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            tools: false,
            approve: Approve::default(),
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
            folder: None,
            roots: Vec::new(),
            openrouter_base: None,
            openai_base: None,
            openai_backend_base: None,
            openai_issuer: None,
            openai_client_id: None,
            antigravity_base: None,
            google_client_id: None,
            google_client_secret: None,
            anthropic_base: None,
            compatible_base: None,
            compatible_key: None,
            compatible_model: None,
            exa_base: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_checked() {
        let keys = serde_json::to_value(AgentConfig::default()).unwrap();
        for key in keys.as_object().unwrap().keys().filter(|key| key.ends_with("_base") || key.ends_with("_issuer")) {
            let mut section = serde_json::Map::new();
            section.insert(key.clone(), "example.test".into());
            let config: AgentConfig = serde_json::from_value(section.into()).unwrap();
            let mistakes: Vec<String> = config.mistakes().into_iter().map(|(key, _)| key).collect();
            assert_eq!(mistakes, [format!("agent.{key}")]);
        }
    }
}
