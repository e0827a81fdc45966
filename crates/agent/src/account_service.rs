//! The interface of the agent to accounts and models.

use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::operations::{Failure, ModelChoice};
use gladhand_core::wire::RawValue;
use gladhand_core::wire::json::to_raw;
use gladhand_models::{Models, Thinking};
use serde::Serialize;

use crate::accounts::{self, Accounts, Chosen, EventSink, Snapshot};

/// Accounts and models, as the agent sees them. JSON results are passed to clients unchanged.
#[async_trait]
pub trait AccountService: Send + Sync {
    /// The members of the snapshot about accounts.
    fn snapshot(&self) -> AccountSnapshot;

    /// The model of a session from its next turn on, or the global one.
    fn chosen(&self, session: Option<&str>) -> Chosen;

    /// The client for that model, or an error message for the user.
    fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String>;

    /// Why there is no model although a provider is configured.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// The result that [`Self::select`] would have, without a change.
    fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure>;

    /// Selects a model.
    fn select(&self, wanted: &ModelChoice<'_>) -> Result<Changed, Failure>;

    /// Selects the model of a saved chat. Returns the reason for the change event.
    fn resume(&self, provider: &str, model: &str, thinking: Thinking, routing: Option<&str>) -> &'static str;

    /// Removes the selection of a session that has ended.
    fn forget_session(&self, session: &str);

    /// Adds a prompt to the input history.
    fn remember_prompt(&self, prompt: &str);

    /// Whether web search is available.
    fn searches(&self) -> bool;

    /// The credentials.
    fn auth_status(&self) -> Box<RawValue>;

    /// The onboarding status.
    fn onboarding(&self) -> Box<RawValue>;

    /// Marks onboarding as completed.
    fn complete_onboarding(&self) -> Changed;

    /// The available models.
    fn models(&self, provider: Option<&str>) -> Result<Box<RawValue>, Failure>;

    /// Stores a key for web search.
    fn set_exa_key(&self, key: &str) -> Result<Changed, Failure>;

    /// Deletes all data.
    fn forget_everything(&self) -> Result<Changed, Failure>;

    /// Stores a key for OpenRouter.
    async fn set_openrouter_key(&self, key: &str) -> Result<Changed, Failure>;

    /// Runs an OpenAI login.
    async fn connect_openai(
        &self,
        mode: Option<&str>,
        originator: Option<&str>,
        events: EventSink<'_>,
    ) -> Result<Changed, Failure>;

    /// Runs an Antigravity login.
    async fn connect_antigravity(&self, events: EventSink<'_>) -> Result<Changed, Failure>;

    /// The remaining usage limits.
    async fn limits(&self) -> Result<Box<RawValue>, Failure>;

    /// The providers that can run a model at OpenRouter.
    async fn routing_providers(&self, model: &str) -> Result<Box<RawValue>, Failure>;
}

gladhand_core::debug_as_name!(AccountService);

/// The members of the snapshot about accounts, as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct AccountSnapshot {
    /// The credentials.
    pub auth: Box<RawValue>,
    /// The onboarding status.
    pub onboarding: Box<RawValue>,
    /// The selected model.
    pub model: Box<RawValue>,
}

/// The result of a change, as JSON.
pub type Changed = accounts::Changed<Box<RawValue>>;

#[async_trait]
impl AccountService for Accounts {
    fn snapshot(&self) -> AccountSnapshot {
        let Snapshot { auth, onboarding, model } = Self::snapshot(self);
        AccountSnapshot { auth: to_raw(&auth), onboarding: to_raw(&onboarding), model: to_raw(&model) }
    }

    fn chosen(&self, session: Option<&str>) -> Chosen {
        Self::chosen(self, session)
    }

    fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String> {
        Self::ready(self, chosen)
    }

    fn trouble(&self) -> Option<String> {
        Self::trouble(self)
    }

    fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure> {
        Self::consider(self, wanted)
    }

    fn select(&self, wanted: &ModelChoice<'_>) -> Result<Changed, Failure> {
        Self::select(self, wanted).map(written)
    }

    fn resume(&self, provider: &str, model: &str, thinking: Thinking, routing: Option<&str>) -> &'static str {
        Self::resume(self, provider, model, thinking, routing)
    }

    fn forget_session(&self, session: &str) {
        Self::forget_session(self, session);
    }

    fn remember_prompt(&self, prompt: &str) {
        Self::remember_prompt(self, prompt);
    }

    fn searches(&self) -> bool {
        self.exa_key().is_some()
    }

    fn auth_status(&self) -> Box<RawValue> {
        to_raw(&Self::auth_status(self))
    }

    fn onboarding(&self) -> Box<RawValue> {
        to_raw(&self.onboarding_status())
    }

    fn complete_onboarding(&self) -> Changed {
        written(Self::complete_onboarding(self))
    }

    fn models(&self, provider: Option<&str>) -> Result<Box<RawValue>, Failure> {
        Self::models(self, provider).map(|models| to_raw(&models))
    }

    fn set_exa_key(&self, key: &str) -> Result<Changed, Failure> {
        Self::set_exa_key(self, key).map(written)
    }

    fn forget_everything(&self) -> Result<Changed, Failure> {
        Self::forget_everything(self).map(written)
    }

    async fn set_openrouter_key(&self, key: &str) -> Result<Changed, Failure> {
        Self::set_openrouter_key(self, key).await.map(written)
    }

    async fn connect_openai(
        &self,
        mode: Option<&str>,
        originator: Option<&str>,
        events: EventSink<'_>,
    ) -> Result<Changed, Failure> {
        Self::connect_openai(self, mode, originator, events).await.map(written)
    }

    async fn connect_antigravity(&self, events: EventSink<'_>) -> Result<Changed, Failure> {
        Self::connect_antigravity(self, events).await.map(written)
    }

    async fn limits(&self) -> Result<Box<RawValue>, Failure> {
        Self::limits(self).await.map(|limits| to_raw(&limits))
    }

    async fn routing_providers(&self, model: &str) -> Result<Box<RawValue>, Failure> {
        Self::routing_providers(self, model).await.map(|providers| to_raw(&providers))
    }
}

fn written<T: Serialize>(changed: accounts::Changed<T>) -> Changed {
    Changed { reason: changed.reason, result: to_raw(&changed.result) }
}
