//! The clients of the model providers, each created on first use.

use std::sync::Arc;

use gladhand_core::operations::Failure;
use gladhand_models::{
    Account, Anthropic, Antigravity, Candidate, Compatible, Credential, ModelError, ModelOption, Models, OpenAi,
    OpenRouter, Thinking, detect,
};

use super::catalogue::Source;
use super::credentials::{ChatGpt, Google};
use super::models::Chosen;
use super::provider::Provider;
use super::{Accounts, Inner, NO_ANTIGRAVITY, NO_OPENAI, NO_OPENROUTER, failure};

impl Accounts {
    /// The client for the selected model. The session receives the error text (§12.6).
    pub fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String> {
        let provider = chosen.provider.as_deref().and_then(Provider::of_word);
        let provider = provider.ok_or_else(|| {
            // For providers of loaf, the message is always the one that loaf has.
            let trouble = self.trouble_of(|provider| !provider.is_of_loaf());
            trouble.unwrap_or_else(|| "select a model from an enabled provider first".to_owned())
        })?;
        if !self.enabled(&self.lock()).contains(&provider) {
            return Err(format!("provider {provider} is not enabled"));
        }
        self.client(provider).map_err(|error| match error {
            ModelError::Failed(text) => text,
            error => error.to_string(),
        })
    }

    /// Why no model is available although a provider is configured.
    pub fn trouble(&self) -> Option<String> {
        self.trouble_of(|_| true)
    }

    fn trouble_of(&self, fit: impl Fn(Provider) -> bool) -> Option<String> {
        let inner = self.lock();
        Provider::ALL.into_iter().filter(|provider| fit(*provider)).find_map(|one| inner.troubles.get(&one).cloned())
    }

    /// All enabled providers: those of loaf in the order of enabling, then the others that are available.
    pub(super) fn enabled(&self, inner: &Inner) -> Vec<Provider> {
        let is_there = |provider: &Provider| match provider {
            // The key of such a provider was passed in for this process only.
            Provider::OpenAi | Provider::Antigravity | Provider::OpenRouter => {
                !inner.state.enabled.contains(provider) && self.credentials.suffice(*provider)
            }
            Provider::Anthropic => self.credentials.suffice(Provider::Anthropic),
            Provider::Compatible => self.settings.compatible.is_some(),
            Provider::Local => self.settings.embedded.is_some(),
            Provider::Ollama | Provider::LlamaCpp => !inner.catalogues.of(*provider).is_empty(),
        };
        inner.state.enabled.iter().copied().chain(Provider::ALL.into_iter().filter(is_there)).collect()
    }

    /// Whether an enabled provider can be used.
    pub(super) fn is_usable(&self, provider: Provider) -> bool {
        self.credentials.suffice(provider)
    }

    /// The OpenRouter client, for requests that only OpenRouter supports.
    pub(super) fn openrouter(&self) -> Result<OpenRouter, Failure> {
        let key = self.credentials.held().openrouter;
        let key = key.ok_or_else(|| failure("openrouter api key is not configured"))?;
        OpenRouter::new(self.web.clone(), &self.settings.openrouter, Arc::new(key))
            .map_err(|error| failure(error.to_string()))
    }

    /// The Antigravity client, for requests that only Antigravity supports.
    pub(super) fn antigravity(&self) -> Result<Antigravity, ModelError> {
        let base = self.settings.google.base.as_deref().unwrap_or(Antigravity::BASE);
        Antigravity::new(self.web.clone(), base, Arc::new(Google(self.credentials.clone())))
    }

    /// Fetches the model list of a provider. Returns the number of models and the source of the list.
    pub(super) async fn fetch(&self, provider: Provider) -> (usize, Source) {
        let answered = match self.client(provider) {
            Ok(client) => client.catalogue().await,
            Err(error) => Err(error),
        };
        let trouble = answered.as_ref().err().map(|error| unlisted(provider, error));
        let answered = answered.ok().filter(|models| !models.is_empty()).or_else(|| self.named_model(provider));
        let mut inner = self.lock();
        match trouble.filter(|_| provider.is_configured() && answered.is_none()) {
            Some(why) => drop(inner.troubles.insert(provider, why)),
            None => drop(inner.troubles.remove(&provider)),
        }
        // The user may have deleted all credentials meanwhile.
        if self.is_usable(provider) { inner.catalogues.put(provider, answered) } else { (0, Source::Fallback) }
    }

    /// Fetches the lists of all usable providers, and looks for servers on this machine.
    pub(super) async fn refresh_catalogues(&self) {
        let enabled = self.enabled(&self.lock());
        let fetch = async |provider: Provider| {
            if enabled.contains(&provider) && self.is_usable(provider) {
                self.fetch(provider).await;
            }
        };
        tokio::join!(
            fetch(Provider::OpenAi),
            fetch(Provider::Antigravity),
            fetch(Provider::OpenRouter),
            fetch(Provider::Anthropic),
            fetch(Provider::Compatible),
            fetch(Provider::Local),
            self.find_servers(),
        );
    }

    /// Looks again for servers on this machine. A server that does not respond at once counts as absent.
    pub async fn find_servers(&self) {
        tokio::join!(
            self.find_server(Provider::Ollama, self.settings.ollama.as_deref()),
            self.find_server(Provider::LlamaCpp, self.settings.llamacpp.as_deref()),
        );
    }

    async fn find_server(&self, provider: Provider, base: Option<&str>) {
        let Some(base) = base else { return };
        let found = detect(&self.web, &[Candidate { provider: provider.word(), base }]).await;
        let mut inner = self.lock();
        match found {
            Some((_, models)) => drop(inner.catalogues.put(provider, Some(models))),
            None => inner.catalogues.remove(provider),
        }
    }

    /// The client of a provider.
    fn client(&self, provider: Provider) -> Result<Arc<dyn Models>, ModelError> {
        // The lock is held while the client is created. A credential that changes later removes the client.
        let mut inner = self.lock();
        if let Some(client) = inner.clients.get(&provider) {
            return Ok(client.clone());
        }
        let client = self.connect(provider)?;
        inner.clients.insert(provider, client.clone());
        Ok(client)
    }

    fn connect(&self, provider: Provider) -> Result<Arc<dyn Models>, ModelError> {
        let (web, settings, held) = (self.web.clone(), &self.settings, self.credentials.held());
        let missing = |text: &str| ModelError::Failed(text.to_owned());
        let server =
            |base: &str, key: Option<Arc<dyn Credential>>| Compatible::new(web.clone(), provider.word(), base, key);
        let nowhere = || missing("this provider is not configured");
        Ok(match provider {
            Provider::OpenAi => {
                let (base, account, token): (_, _, Arc<dyn Credential>) = match (held.openai, held.openai_key) {
                    (Some(login), _) => {
                        let account = Account::ChatGpt { id: login.account };
                        (OpenAi::CHATGPT_BASE, account, Arc::new(ChatGpt(self.credentials.clone())))
                    }
                    (None, Some(key)) => (OpenAi::API_BASE, Account::Key, Arc::new(key)),
                    (None, None) => return Err(missing(NO_OPENAI)),
                };
                Arc::new(OpenAi::new(web, settings.openai.base.as_deref().unwrap_or(base), account, token)?)
            }
            Provider::Antigravity => {
                held.google.ok_or_else(|| missing(NO_ANTIGRAVITY))?;
                Arc::new(self.antigravity()?)
            }
            Provider::OpenRouter => {
                let key = held.openrouter.ok_or_else(|| missing(NO_OPENROUTER))?;
                Arc::new(OpenRouter::new(web, &settings.openrouter, Arc::new(key))?)
            }
            Provider::Anthropic => {
                let key = held.anthropic.ok_or_else(nowhere)?;
                Arc::new(Anthropic::new(web, &settings.anthropic, Arc::new(key))?)
            }
            Provider::Compatible => {
                let place = settings.compatible.as_ref().ok_or_else(nowhere)?;
                let key = place.key.clone().map(|key| Arc::new(key) as Arc<dyn Credential>);
                Arc::new(server(&place.base, key)?)
            }
            Provider::Ollama => Arc::new(server(settings.ollama.as_deref().ok_or_else(nowhere)?, None)?),
            Provider::LlamaCpp => Arc::new(server(settings.llamacpp.as_deref().ok_or_else(nowhere)?, None)?),
            Provider::Local => settings.embedded.clone().ok_or_else(nowhere)?,
        })
    }

    /// The configured model of a server that returns no list.
    fn named_model(&self, provider: Provider) -> Option<Vec<ModelOption>> {
        let server = self.settings.compatible.as_ref().filter(|_| provider == Provider::Compatible)?;
        let id = server.model.clone()?;
        Some(vec![ModelOption {
            label: id.clone(),
            id,
            provider: provider.word().to_owned(),
            description: String::new(),
            supported_thinking_levels: Some(vec![Thinking::Off]),
            default_thinking_level: Some(Thinking::Off),
            routing_providers: None,
            context_window_tokens: None,
        }])
    }
}

/// The error message when a provider returns no model list.
fn unlisted(provider: Provider, error: &ModelError) -> String {
    let name = provider.name();
    match error {
        ModelError::Unreachable => format!("{name} unreachable"),
        ModelError::Status { status: 401 | 403, .. } => format!("{name} does not accept the key or login: {error}"),
        error => format!("{name} gives no list of models: {error}"),
    }
}
