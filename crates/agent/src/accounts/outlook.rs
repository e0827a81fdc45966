//! The default model and its credential, for display. It contains no secret.

use super::Accounts;
use super::provider::Provider;
use super::settings::env;

/// The model that answers if no other one is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// This model.
    Model {
        /// The model id.
        model: String,
        /// The provider.
        provider: Provider,
        /// The kind of access.
        means: Means,
    },
    /// A model is selected or a provider is configured, but it does not work, for this reason.
    Trouble(String),
    /// No model is known: these providers are configured, but their model lists could not be fetched.
    Unlisted(Vec<(Provider, Means)>),
    /// There is no model, and no provider is configured.
    Nobody,
}

/// The kind of access to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
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
    pub fn outlook(&self) -> Outlook {
        let chosen = self.chosen(None);
        let Some(provider) = chosen.provider.as_deref().and_then(Provider::of_word) else {
            return self.trouble().map_or_else(|| self.unlisted(), Outlook::Trouble);
        };
        let unanswered = self.lock().troubles.get(&provider).cloned();
        match (unanswered, self.ready(&chosen)) {
            (Some(why), _) => Outlook::Trouble(why),
            (None, Err(why)) => Outlook::Trouble(format!("{} of {provider} was chosen: {why}", chosen.model)),
            (None, Ok(_)) => Outlook::Model { model: chosen.model, provider, means: self.means(provider) },
        }
    }

    fn unlisted(&self) -> Outlook {
        let mut providers = self.enabled(&self.lock());
        providers.retain(|provider| provider.is_configured() && self.is_usable(*provider));
        match providers.is_empty() {
            true => Outlook::Nobody,
            false => Outlook::Unlisted(providers.into_iter().map(|one| (one, self.means(one))).collect()),
        }
    }

    fn means(&self, provider: Provider) -> Means {
        match provider {
            Provider::Antigravity => Means::Login,
            Provider::OpenAi if self.credentials.keeps(provider) => Means::Login,
            Provider::OpenRouter if self.credentials.keeps(provider) => Means::Key,
            Provider::OpenAi => Means::Variable(env::OPENAI_API_KEY),
            Provider::OpenRouter => Means::Variable(env::OPENROUTER_API_KEY),
            Provider::Anthropic => Means::Variable(env::ANTHROPIC_API_KEY),
            Provider::Compatible => Means::Server(env::COMPATIBLE_BASE),
            Provider::Ollama => Means::Server(env::OLLAMA_BASE),
            Provider::LlamaCpp => Means::Server(env::LLAMACPP_BASE),
            Provider::Local => Means::Program,
        }
    }
}
