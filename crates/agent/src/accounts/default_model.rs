//! The default model and its credential, for display. It contains no secret.

use super::Accounts;
use super::provider::Provider;
use super::settings::env;

/// The model that answers if no other one is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultModel {
    /// This model.
    Model {
        /// The model id.
        model: String,
        /// The provider.
        provider: Provider,
        /// The kind of access.
        access: ModelAccess,
    },
    /// A model is selected or a provider is configured, but it does not work, for this reason.
    Trouble(String),
    /// No model is known: these providers are configured, but their model lists could not be fetched.
    Unlisted(Vec<(Provider, ModelAccess)>),
    /// There is no model, and no provider is configured.
    NoProvider,
}

/// The kind of access to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelAccess {
    /// A login.
    Login,
    /// A stored key.
    Key,
    /// A key in this environment variable.
    Variable(&'static str),
    /// A server whose address this environment variable can set.
    Server(&'static str),
    /// The program itself.
    Program,
}

impl Accounts {
    /// The model that answers if no other one is selected, as far as known now.
    pub fn default_model(&self) -> DefaultModel {
        let chosen = self.chosen(None);
        let Some(provider) = chosen.provider.as_deref().and_then(Provider::of_word) else {
            return self.trouble().map_or_else(|| self.unlisted(), DefaultModel::Trouble);
        };
        let request_failed = self.lock().troubles.get(&provider).cloned();
        match (request_failed, self.ready(&chosen)) {
            (Some(why), _) => DefaultModel::Trouble(why),
            (None, Err(why)) => DefaultModel::Trouble(format!("{} of {provider} was chosen: {why}", chosen.model)),
            (None, Ok(_)) => DefaultModel::Model { model: chosen.model, provider, access: self.access(provider) },
        }
    }

    fn unlisted(&self) -> DefaultModel {
        let mut providers = self.enabled(&self.lock());
        providers.retain(|provider| provider.is_configured() && self.is_usable(*provider));
        match providers.is_empty() {
            true => DefaultModel::NoProvider,
            false => DefaultModel::Unlisted(providers.into_iter().map(|one| (one, self.access(one))).collect()),
        }
    }

    fn access(&self, provider: Provider) -> ModelAccess {
        match provider {
            Provider::Antigravity => ModelAccess::Login,
            Provider::OpenAi if self.credentials.keeps(provider) => ModelAccess::Login,
            Provider::OpenRouter if self.credentials.keeps(provider) => ModelAccess::Key,
            Provider::OpenAi => ModelAccess::Variable(env::OPENAI_API_KEY),
            Provider::OpenRouter => ModelAccess::Variable(env::OPENROUTER_API_KEY),
            Provider::Anthropic => ModelAccess::Variable(env::ANTHROPIC_API_KEY),
            Provider::Compatible => ModelAccess::Server(env::COMPATIBLE_BASE),
            Provider::Ollama => ModelAccess::Server(env::OLLAMA_BASE),
            Provider::LlamaCpp => ModelAccess::Server(env::LLAMACPP_BASE),
            Provider::Local => ModelAccess::Program,
        }
    }
}
