//! The clients of the model providers, each created on first use.

use std::sync::Arc;

use futures_util::future::join_all;
use gladhand_core::operations::Failure;
use gladhand_models::{
    Antigravity, Connection, ModelError, ModelOption, Models, OpenRouter, Provider, Requirement, Thinking, detect,
};

use super::catalogue::Source;
use super::credentials::Google;
use super::models::Chosen;
use super::{Accounts, Inner, failure};

impl Accounts {
    /// The client for the selected model. The session receives the error text (§12.6).
    pub fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String> {
        let provider = chosen.provider.as_deref().and_then(Provider::of_id);
        let provider = provider.ok_or_else(|| {
            // For providers of loaf, the message is always the one that loaf has.
            let trouble = self.trouble_of(|provider| !provider.is_of_loaf);
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
        Provider::all().filter(|provider| fit(*provider)).find_map(|one| inner.troubles.get(&one).cloned())
    }

    /// All enabled providers: those of loaf in the order of enabling, then the others that are available.
    pub(super) fn enabled(&self, inner: &Inner) -> Vec<Provider> {
        let is_there = |provider: &Provider| match provider.requires {
            // A provider of loaf that is not in the list: its key was passed in for this process only.
            Requirement::Credential => !inner.state.enabled.contains(provider) && self.credentials.suffice(*provider),
            Requirement::Address => self.settings.providers[*provider].base.is_some(),
            Requirement::LocalServer => !inner.catalogues.of(*provider).is_empty(),
            Requirement::EmbeddedModel => self.settings.embedded.is_some(),
        };
        inner.state.enabled.iter().copied().chain(Provider::all().filter(is_there)).collect()
    }

    /// Whether an enabled provider can be used.
    pub(super) fn is_usable(&self, provider: Provider) -> bool {
        self.credentials.suffice(provider)
    }

    /// The OpenRouter client, for requests that only OpenRouter supports.
    pub(super) fn openrouter(&self) -> Result<OpenRouter, Failure> {
        let provider = Provider::OPENROUTER;
        let key = self.credentials.key(provider).ok_or_else(|| failure("openrouter api key is not configured"))?;
        let base = self.settings.providers[provider].base.as_deref().unwrap_or(OpenRouter::BASE);
        OpenRouter::new(self.web.clone(), base, Arc::new(key)).map_err(|error| failure(error.to_string()))
    }

    /// The Antigravity client, for requests that only Antigravity supports.
    pub(super) fn antigravity(&self) -> Result<Antigravity, ModelError> {
        let base = self.settings.providers[Provider::ANTIGRAVITY].base.as_deref().unwrap_or(Antigravity::BASE);
        Antigravity::new(self.web.clone(), base, Arc::new(Google(self.credentials.clone())))
    }

    /// Fetches the model list of a provider. Returns the number of models and the source of the list.
    pub(super) async fn fetch(&self, provider: Provider) -> (usize, Source) {
        let answered = match self.client(provider) {
            Ok(client) => client.catalogue().await,
            Err(error) => Err(error),
        };
        let base = self.settings.providers[provider].base.as_deref();
        let trouble = answered.as_ref().err().map(|error| unlisted(provider, base, error));
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
        let mut providers = self.enabled(&self.lock());
        providers.retain(|provider| provider.requires != Requirement::LocalServer && self.is_usable(*provider));
        let fetches = join_all(providers.into_iter().map(|provider| self.fetch(provider)));
        tokio::join!(fetches, self.find_servers());
    }

    /// Looks again for servers on this machine. A server that does not respond at once counts as absent.
    pub async fn find_servers(&self) {
        let servers = Provider::all().filter(|provider| provider.requires == Requirement::LocalServer);
        join_all(servers.map(|provider| self.find_server(provider))).await;
    }

    async fn find_server(&self, provider: Provider) {
        let Ok(server) = self.connect(provider) else { return };
        let found = detect(&*server).await;
        let mut inner = self.lock();
        match found {
            Some(models) => drop(inner.catalogues.put(provider, Some(models))),
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
        (provider.connect)(Connection {
            web: self.web.clone(),
            base: self.settings.providers[provider].base.clone(),
            key: self.credentials.key(provider),
            login: self.credentials.login(provider),
            embedded: self.settings.embedded.clone(),
        })
    }

    /// The configured model of a server that returns no list.
    fn named_model(&self, provider: Provider) -> Option<Vec<ModelOption>> {
        let id = self.settings.providers[provider].model.clone()?;
        Some(vec![ModelOption {
            label: id.clone(),
            id,
            provider: provider.id.to_owned(),
            description: String::new(),
            supported_thinking_levels: Some(vec![Thinking::Off]),
            default_thinking_level: Some(Thinking::Off),
            routing_providers: None,
            context_window_tokens: None,
        }])
    }
}

/// The error message when a provider returns no model list.
fn unlisted(provider: Provider, base: Option<&str>, error: &ModelError) -> String {
    let name = provider.name;
    match error {
        // Its name does not tell which server it is.
        ModelError::Unreachable if provider.requires == Requirement::Address => {
            format!("{name} {} unreachable", gladhand_redaction::redact(base.unwrap_or_default()))
        }
        ModelError::Unreachable => format!("{name} unreachable"),
        ModelError::Status { status: 401 | 403, .. } => format!("{name} does not accept the key or login: {error}"),
        error => format!("{name} gives no list of models: {error}"),
    }
}
