//! Which model answers where nobody chooses another, and what it is reached with. For people: no value of a secret is in it.

use super::Accounts;
use super::provider::Provider;
use super::settings::env;

/// Which model answers where nobody chooses another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// This one.
    Model {
        /// Its id.
        model: String,
        /// Who has it.
        provider: Provider,
        /// What it is reached with.
        means: Means,
    },
    /// One was chosen or set up and cannot answer, for this reason.
    Trouble(String),
    /// None is known: these were set up, and their lists of models could not be had.
    Unlisted(Vec<(Provider, Means)>),
    /// None, and nobody was set up.
    Nobody,
}

/// What a model is reached with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Somebody is signed in.
    Login,
    /// A key that is kept.
    Key,
    /// A key in this variable of the environment.
    Variable(&'static str),
    /// A server, whose address this variable of the environment can say.
    Server(&'static str),
    /// The program itself.
    Program,
}

impl Accounts {
    /// Which model answers where nobody chooses another, as far as that is known by now.
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
