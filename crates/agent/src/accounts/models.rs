//! Lists models, and selects the model for a turn.

use gladhand_core::operations::{Failure, FailureKind, ModelChoice};
use gladhand_core::wire::json;
use gladhand_models::{ModelOption, Thinking};
use serde::Serialize;
use serde_json::json;

use super::choice::{ANY, Choice, fitting, thinking_of_word};
use super::{Accounts, Changed, Inner, failure};
use gladhand_models::Provider;

/// The model for a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The model id; empty if there is none.
    pub model: String,
    /// The thinking level.
    pub thinking: Thinking,
    /// The provider that runs the model at OpenRouter; `any` pins none.
    pub routing: String,
    /// The provider, as far as known.
    pub provider: Option<String>,
    /// The catalogue entry of the model, if known.
    pub option: Option<ModelOption>,
}

/// The available models (§10.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelList {
    /// Their providers.
    pub providers: Vec<Provider>,
    /// The models.
    pub models: Vec<ModelOption>,
    /// The selected model.
    pub selected_model: String,
    /// The thinking level.
    pub selected_thinking: Thinking,
    /// The provider of the selected model.
    pub selected_provider: Option<String>,
    /// The provider that runs it at OpenRouter.
    pub selected_openrouter_provider: String,
}

/// A selected model (§10.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selected {
    /// The model.
    pub selected_model: String,
    /// The provider.
    pub selected_provider: Provider,
    /// The thinking level.
    pub selected_thinking: Thinking,
    /// The provider that runs it at OpenRouter.
    pub selected_openrouter_provider: String,
}

/// The providers that can run a model at OpenRouter (§10.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutingProviders {
    /// The model id from the request.
    pub model_id: String,
    /// The providers.
    pub providers: Vec<String>,
}

impl Accounts {
    /// The model for a turn of this session: the one selected for the session, else the global one, else the first
    /// available model. The last case looks at configured providers first, then at servers on this machine, then at
    /// the embedded model. It does not change the selection.
    pub fn chosen(&self, session: Option<&str>) -> Chosen {
        let inner = self.lock();
        let own = session.and_then(|session| inner.sessions.get(session));
        let choice = own.unwrap_or(&inner.state.choice);
        if !choice.model.is_empty() {
            return self.resolve(&inner, choice);
        }
        match self.first(&inner, |_| true) {
            Some((provider, option)) => self.resolve(&inner, &adopt(choice, provider, option)),
            None => self.resolve(&inner, choice),
        }
    }

    /// The globally selected model, without a substitute.
    pub(super) fn chosen_globally(&self) -> Chosen {
        let inner = self.lock();
        self.resolve(&inner, &inner.state.choice)
    }

    /// The models of one provider, or of all enabled providers.
    pub fn models(&self, provider: Option<&str>) -> Result<ModelList, Failure> {
        let inner = self.lock();
        let providers = match provider {
            Some(word) => {
                let unknown = || wrong_provider("provider must be one of: openai, openrouter, antigravity");
                vec![Provider::of_id(word).ok_or_else(unknown)?]
            }
            None => {
                let (last, mut first): (Vec<_>, Vec<_>) =
                    self.enabled(&inner).into_iter().partition(|provider| *provider == Provider::ANTIGRAVITY);
                first.extend(last.into_iter().filter(|provider| self.is_usable(*provider)));
                first
            }
        };
        let shown = Provider::all().filter(|provider| providers.contains(provider));
        let models = shown.flat_map(|provider| inner.catalogues.of(provider)).cloned().collect();
        let chosen = self.resolve(&inner, &inner.state.choice);
        Ok(ModelList {
            models,
            providers,
            selected_model: chosen.model,
            selected_thinking: chosen.thinking,
            selected_provider: chosen.provider,
            selected_openrouter_provider: chosen.routing,
        })
    }

    /// The result that [`Self::select`] would have. Nothing is changed, so the caller can still fail in a later
    /// step.
    pub fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure> {
        let inner = self.lock();
        let (provider, choice, option) = self.resolve_choice(&inner, wanted)?;
        let Choice { model, thinking, routing, .. } = choice;
        Ok(Chosen { model, thinking, routing, provider: Some(provider.id.to_owned()), option: Some(option) })
    }

    /// Selects a model: globally, which is stored, or for one session only, which lasts as long as the session.
    pub fn select(&self, wanted: &ModelChoice<'_>) -> Result<Changed<Selected>, Failure> {
        let mut inner = self.lock();
        let (provider, choice, _) = self.resolve_choice(&inner, wanted)?;
        let selected = Selected {
            selected_model: choice.model.clone(),
            selected_provider: provider,
            selected_thinking: choice.thinking,
            selected_openrouter_provider: choice.routing.clone(),
        };
        match wanted.session.as_deref().filter(|_| wanted.only_session) {
            Some(session) => {
                inner.sessions.insert(session.to_owned(), choice);
            }
            None => {
                inner.state.choice = choice;
                self.save(&inner);
            }
        }
        Ok(Changed { reason: "model_selected", result: selected })
    }

    /// Continues a saved chat with its model (§11.4). The selection is not stored.
    pub fn resume(&self, provider: &str, model: &str, thinking: Thinking, routing: Option<&str>) -> &'static str {
        let mut inner = self.lock();
        let provider = Provider::of_id(provider);
        if let Some(provider) = provider.filter(|provider| provider.is_of_loaf)
            && !inner.state.enabled.contains(&provider)
        {
            inner.state.enabled.push(provider);
        }
        let choice = &mut inner.state.choice;
        (choice.model, choice.provider, choice.thinking) = (model.to_owned(), provider, thinking);
        if let Some(routing) = routing {
            choice.routing = routing.to_owned();
        }
        "session_resumed"
    }

    /// Removes the selection of a session that has ended.
    pub fn forget_session(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    /// The providers that can run a model at OpenRouter. Waits for its response.
    pub async fn routing_providers(&self, model: &str) -> Result<RoutingProviders, Failure> {
        let client = self.openrouter()?;
        let providers = client.routing_providers(model).await.map_err(|error| failure(error.to_string()))?;
        self.lock().catalogues.route(Provider::OPENROUTER, model, &providers);
        Ok(RoutingProviders { model_id: model.to_owned(), providers })
    }

    /// Corrects the selection after catalogues have arrived. If no model is selected, or no provider has it, the
    /// first model of a configured provider is selected. While a provider has not responded, the selected model may
    /// still turn out to exist.
    pub(super) fn settle_choice(&self) {
        let mut inner = self.lock();
        let providers = self.enabled(&inner);
        let mut usable = providers.into_iter().filter(|provider| provider.is_configured() && self.is_usable(*provider));
        let is_settled = usable.all(|provider| inner.catalogues.is_known(provider));
        let choice = &inner.state.choice;
        let is_none = choice.model.is_empty() || is_settled && self.provider_of(&inner, choice).is_none();
        if !is_none {
            return;
        }
        // Providers from the environment or the configuration may be absent in the next run. Only those with a
        // login or a stored key are selected permanently.
        if let Some((provider, option)) = self.first(&inner, Provider::can_store_credential) {
            inner.state.choice = adopt(choice, provider, option);
            self.save(&inner);
        }
    }

    fn resolve_choice(
        &self,
        inner: &Inner,
        wanted: &ModelChoice<'_>,
    ) -> Result<(Provider, Choice, ModelOption), Failure> {
        let provider = Provider::of_id(&wanted.provider)
            .ok_or_else(|| wrong_provider("provider must be openai, openrouter, or antigravity"))?;
        let option = inner
            .catalogues
            .find(provider, &wanted.model)
            .ok_or_else(|| failure(format!("unknown model for provider {provider}: {}", wanted.model)))?;
        let routing = match provider.has_routing {
            true => wanted.routing.as_deref().map_or_else(|| ANY.to_owned(), str::to_lowercase),
            false => inner.state.choice.routing.clone(),
        };
        let thinking = fitting(thinking_of_word(&wanted.thinking), option);
        let choice = Choice { model: option.id.clone(), provider: Some(provider), thinking, routing };
        Ok((provider, choice, option.clone()))
    }

    fn resolve(&self, inner: &Inner, choice: &Choice) -> Chosen {
        let provider = self.provider_of(inner, choice);
        Chosen {
            model: choice.model.clone(),
            thinking: choice.thinking,
            routing: choice.routing.clone(),
            option: provider.and_then(|provider| inner.catalogues.find(provider, &choice.model)).cloned(),
            provider: provider.map(|provider| provider.id.to_owned()),
        }
    }

    /// The provider of the selected model (§10.5). The provider in the selection has priority, because several can
    /// have a model of the same name.
    fn provider_of(&self, inner: &Inner, choice: &Choice) -> Option<Provider> {
        if choice.model.is_empty() {
            return None;
        }
        let enabled = self.enabled(inner);
        let named = choice.provider.filter(|provider| enabled.contains(provider));
        let mut candidates = named.into_iter().chain(enabled);
        candidates
            .find(|provider| inner.catalogues.find(*provider, &choice.model).is_some())
            .or_else(|| named.filter(|provider| !inner.catalogues.is_known(*provider)))
            // A server that does not run today can still be the selected one.
            .or_else(|| choice.provider.filter(|provider| !provider.is_of_loaf))
            .or_else(|| Provider::guess(&choice.model))
    }

    /// The first model of the first usable provider that is `fit`.
    fn first<'a>(&self, inner: &'a Inner, fit: impl Fn(Provider) -> bool) -> Option<(Provider, &'a ModelOption)> {
        let enabled = self.enabled(inner);
        let mut providers = Provider::all()
            .filter(|provider| enabled.contains(provider) && fit(*provider) && self.is_usable(*provider));
        providers.find_map(|provider| Some((provider, inner.catalogues.of(provider).first()?)))
    }
}

/// A selection with another model.
fn adopt(choice: &Choice, provider: Provider, option: &ModelOption) -> Choice {
    Choice {
        model: option.id.clone(),
        provider: Some(provider),
        thinking: fitting(Some(choice.thinking), option),
        routing: choice.routing.clone(),
    }
}

fn wrong_provider(message: &str) -> Failure {
    let data = Some(json::to_raw(&json!({"field": "provider"})));
    Failure { data, ..Failure::new(FailureKind::InvalidArguments, message) }
}
