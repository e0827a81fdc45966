//! `[agent]`: whether there is an agent, what it may do, and where its models are.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Hidden;

/// Settings of the agent.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Whether it is there.
    pub enabled: bool,
    /// Whether peers of dialects without agent sessions get it as tools.
    pub tools: bool,
    /// Who is asked before a tool runs that may do harm.
    pub approve: Approve,
    /// Tools that run without asking, by name or by what they do: `reads`, `writes`, `runs`, `network`.
    pub allow: Vec<String>,
    /// Tools that run only if somebody says so.
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
    /// The address that tells what is left of a ChatGPT subscription.
    pub openai_backend_base: Option<String>,
    /// Who signs people in to OpenAI.
    pub openai_issuer: Option<String>,
    /// As whom we are known there.
    pub openai_client_id: Option<String>,
    /// The address of Google Cloud Code.
    pub antigravity_base: Option<String>,
    /// As whom we are known at Google.
    pub google_client_id: Option<String>,
    /// What Google gave us with it.
    pub google_client_secret: Option<Hidden>,
    /// The address of Anthropic.
    pub anthropic_base: Option<String>,
    /// The address of any server that speaks as OpenAI does.
    pub compatible_base: Option<String>,
    /// The key for it.
    pub compatible_key: Option<Hidden>,
    /// The model to use there, if it does not list its models.
    pub compatible_model: Option<String>,
    /// The address of the service that searches the web.
    pub exa_base: Option<String>,
}

impl AgentConfig {
    /// The addresses that are none, by key.
    pub(super) fn malformed(&self) -> Vec<&'static str> {
        let all = [
            ("openrouter_base", &self.openrouter_base),
            ("openai_base", &self.openai_base),
            ("openai_backend_base", &self.openai_backend_base),
            ("openai_issuer", &self.openai_issuer),
            ("antigravity_base", &self.antigravity_base),
            ("anthropic_base", &self.anthropic_base),
            ("compatible_base", &self.compatible_base),
            ("exa_base", &self.exa_base),
        ];
        let is_address = |text: &str| {
            url::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host())
        };
        let is_wrong = |address: &Option<String>| address.as_deref().is_some_and(|text| !is_address(text));
        all.into_iter().filter(|(_, address)| is_wrong(address)).map(|(key, _)| key).collect()
    }
}

/// Who is asked before a tool runs that may do harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// The client, if it can be asked; else such tools are refused.
    #[default]
    Ask,
    /// Nobody: everything runs that is not denied.
    All,
    /// Nobody: nothing that would have to be asked about runs.
    None,
}

impl Approve {
    /// The other one if it is stricter, else this one.
    pub(crate) fn or_stricter(self, other: Self) -> Self {
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
