//! Which models there are, and which of them is used.

use gladhand_core::operations::{Failure, FailureKind, ModelChoice};
use gladhand_core::wire::json;
use gladhand_models::{ModelOption, Thinking};
use serde::Serialize;
use serde_json::json;

use super::choice::{ANY, Choice, fitting, thinking_of_word};
use super::provider::Provider;
use super::{Accounts, Changed, Inner, failure};

/// What a turn is to be held with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The id of the model; empty when there is none.
    pub model: String,
    /// How much it is to think.
    pub thinking: Thinking,
    /// Who is to run it at OpenRouter; `any` pins nobody.
    pub routing: String,
    /// Who has it, as far as that can be told.
    pub provider: Option<String>,
    /// What is known of it.
    pub option: Option<ModelOption>,
}

/// The models that there are (§10.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelList {
    /// Who has them.
    pub providers: Vec<Provider>,
    /// The models.
    pub models: Vec<ModelOption>,
    /// What was chosen.
    pub selected_model: String,
    /// How much it is to think.
    pub selected_thinking: Thinking,
    /// Who has it.
    pub selected_provider: Option<String>,
    /// Who is to run it.
    pub selected_openrouter_provider: String,
}

/// What was chosen (§10.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Selected {
    /// The model.
    pub selected_model: String,
    /// Who has it.
    pub selected_provider: Provider,
    /// How much it is to think.
    pub selected_thinking: Thinking,
    /// Who is to run it.
    pub selected_openrouter_provider: String,
}

/// Who can run a model of OpenRouter (§10.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutingProviders {
    /// The model, as it was asked for.
    pub model_id: String,
    /// Who can run it.
    pub providers: Vec<String>,
}

impl Accounts {
    /// What a turn of this session is to be held with: what was chosen for it, else for everybody, else whatever there
    /// is. In that last case nothing is kept, and the first of these is taken: a provider that was set up, a server on
    /// this machine, the model that came with the program.
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

    /// What was chosen for everybody, without a substitute.
    pub(super) fn chosen_for_everybody(&self) -> Chosen {
        let inner = self.lock();
        self.resolve(&inner, &inner.state.choice)
    }

    /// The quickest ways to a model, for somebody who has none.
    pub fn hint(&self) -> Option<String> {
        self.chosen(None).provider.is_none().then(|| {
            "the quickest ways to a model: `auth.set.openrouter_key` or OPENROUTER_API_KEY, OPENAI_API_KEY or \
             ANTHROPIC_API_KEY in the environment, or a running Ollama or llama.cpp server"
                .to_owned()
        })
    }

    /// The models of one provider, or of all that are enabled.
    pub fn models(&self, provider: Option<&str>) -> Result<ModelList, Failure> {
        let inner = self.lock();
        let providers = match provider {
            Some(word) => {
                let unknown = || wrong_provider("provider must be one of: openai, openrouter, antigravity");
                vec![Provider::of_word(word).ok_or_else(unknown)?]
            }
            None => {
                let (last, mut first): (Vec<_>, Vec<_>) =
                    self.enabled(&inner).into_iter().partition(|provider| *provider == Provider::Antigravity);
                first.extend(last.into_iter().filter(|provider| self.is_usable(*provider)));
                first
            }
        };
        let shown = Provider::ALL.into_iter().filter(|provider| providers.contains(provider));
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

    /// What a choice would come to. Nothing is changed, so that whatever else belongs to it can still fail.
    pub fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure> {
        let inner = self.lock();
        let (provider, choice, option) = self.weigh(&inner, wanted)?;
        let Choice { model, thinking, routing, .. } = choice;
        Ok(Chosen { model, thinking, routing, provider: Some(provider.word().to_owned()), option: Some(option) })
    }

    /// Chooses a model: for everybody, which is kept, or for one session alone, which lasts as long as that.
    pub fn select(&self, wanted: &ModelChoice<'_>) -> Result<Changed<Selected>, Failure> {
        let mut inner = self.lock();
        let (provider, choice, _) = self.weigh(&inner, wanted)?;
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

    /// A saved chat goes on with what it was held with (§11.4). This is not kept.
    pub fn resume(&self, provider: &str, model: &str, thinking: Thinking, routing: Option<&str>) -> &'static str {
        let mut inner = self.lock();
        let provider = Provider::of_word(provider);
        if let Some(provider) = provider.filter(|provider| provider.is_of_loaf())
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

    /// A session is over, and so is what was chosen for it alone.
    pub fn forget_session(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    /// Who can run a model of OpenRouter. Waits for its answer.
    pub async fn routing_providers(&self, model: &str) -> Result<RoutingProviders, Failure> {
        let client = self.openrouter()?;
        let providers = client.routing_providers(model).await.map_err(|error| failure(error.to_string()))?;
        self.lock().catalogues.route(Provider::OpenRouter, model, &providers);
        Ok(RoutingProviders { model_id: model.to_owned(), providers })
    }

    /// After catalogues have arrived: a choice that nobody has, or none at all, becomes the first model of whoever was
    /// set up. As long as somebody has not answered, it may yet turn out to be one.
    pub(super) fn settle_choice(&self) {
        let mut inner = self.lock();
        let providers = self.enabled(&inner);
        let mut asked = providers.into_iter().filter(|provider| provider.is_configured() && self.is_usable(*provider));
        let is_settled = asked.all(|provider| inner.catalogues.is_known(provider));
        let choice = &inner.state.choice;
        let is_none = choice.model.is_empty() || is_settled && self.whose(&inner, choice).is_none();
        if !is_none {
            return;
        }
        // What the environment or the configuration names may be gone next time; only what somebody signed in to is kept.
        let is_kept = |provider| matches!(provider, Provider::OpenAi | Provider::Antigravity | Provider::OpenRouter);
        if let Some((provider, option)) = self.first(&inner, is_kept) {
            inner.state.choice = adopt(choice, provider, option);
            self.save(&inner);
        }
    }

    fn weigh(&self, inner: &Inner, wanted: &ModelChoice<'_>) -> Result<(Provider, Choice, ModelOption), Failure> {
        let provider = Provider::of_word(&wanted.provider)
            .ok_or_else(|| wrong_provider("provider must be openai, openrouter, or antigravity"))?;
        let option = inner
            .catalogues
            .find(provider, &wanted.model)
            .ok_or_else(|| failure(format!("unknown model for provider {provider}: {}", wanted.model)))?;
        let routing = match provider {
            Provider::OpenRouter => wanted.routing.as_deref().map_or_else(|| ANY.to_owned(), str::to_lowercase),
            _ => inner.state.choice.routing.clone(),
        };
        let thinking = fitting(thinking_of_word(&wanted.thinking), option);
        let choice = Choice { model: option.id.clone(), provider: Some(provider), thinking, routing };
        Ok((provider, choice, option.clone()))
    }

    fn resolve(&self, inner: &Inner, choice: &Choice) -> Chosen {
        let provider = self.whose(inner, choice);
        Chosen {
            model: choice.model.clone(),
            thinking: choice.thinking,
            routing: choice.routing.clone(),
            option: provider.and_then(|provider| inner.catalogues.find(provider, &choice.model)).cloned(),
            provider: provider.map(|provider| provider.word().to_owned()),
        }
    }

    /// Who has what was chosen (§10.5). Whoever was named comes first: several may have a model of the same name.
    fn whose(&self, inner: &Inner, choice: &Choice) -> Option<Provider> {
        if choice.model.is_empty() {
            return None;
        }
        let enabled = self.enabled(inner);
        let named = choice.provider.filter(|provider| enabled.contains(provider));
        let mut candidates = named.into_iter().chain(enabled);
        candidates
            .find(|provider| inner.catalogues.find(*provider, &choice.model).is_some())
            .or_else(|| named.filter(|provider| !inner.catalogues.is_known(*provider)))
            // A server that does not run today was chosen all the same.
            .or_else(|| choice.provider.filter(|provider| !provider.is_of_loaf()))
            .or_else(|| Provider::guess(&choice.model))
    }

    /// The first model of the first provider that can be used and is `fit`.
    fn first<'a>(&self, inner: &'a Inner, fit: impl Fn(Provider) -> bool) -> Option<(Provider, &'a ModelOption)> {
        let enabled = self.enabled(inner);
        let mut providers = Provider::ALL
            .into_iter()
            .filter(|provider| enabled.contains(provider) && fit(*provider) && self.is_usable(*provider));
        providers.find_map(|provider| Some((provider, inner.catalogues.of(provider).first()?)))
    }
}

/// A choice with another model.
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
