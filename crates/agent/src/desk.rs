//! What the agent has to know of accounts and models, and what it passes on to them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use gladhand_core::operations::{Failure, ModelChoice};
use gladhand_core::wire::RawValue;
use gladhand_core::wire::json::to_raw;
use gladhand_models::{Models, Thinking};
use serde::Serialize;

use crate::accounts::{self, Accounts, Chosen, Snapshot, Tell};

/// Whoever knows the accounts. What it answers is passed on to clients as it is.
#[async_trait]
pub trait Desk: fmt::Debug + Send + Sync {
    /// Who is signed in, whether the first steps are done, and what is chosen.
    fn snapshot(&self) -> Standing;

    /// The model that a session uses from its next turn on, or that everybody uses.
    fn chosen(&self, session: Option<&str>) -> Chosen;

    /// Who answers for that model; otherwise what people are told.
    fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String>;

    /// Why there is no model, where there should be one.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What would be chosen, without choosing it.
    fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure>;

    /// Chooses a model.
    fn select(&self, wanted: &ModelChoice<'_>) -> Result<Changed, Failure>;

    /// Chooses what a saved chat was held with. The reason that everybody is told.
    fn resume(&self, provider: &str, model: &str, thinking: Thinking, routing: Option<&str>) -> &'static str;

    /// A session is gone, and what was chosen for it alone.
    fn forget_session(&self, session: &str);

    /// Keeps a prompt for those who want to find it again.
    fn remember_prompt(&self, prompt: &str);

    /// Whether the web can be searched.
    fn searches(&self) -> bool;

    /// Who is signed in where.
    fn auth_status(&self) -> Box<RawValue>;

    /// Whether the first steps are done.
    fn onboarding(&self) -> Box<RawValue>;

    /// The first steps are done.
    fn complete_onboarding(&self) -> Changed;

    /// Which models there are.
    fn models(&self, provider: Option<&str>) -> Result<Box<RawValue>, Failure>;

    /// Uses this key for searching the web.
    fn set_exa_key(&self, key: &str) -> Result<Changed, Failure>;

    /// Forgets everything.
    fn forget_everything(&self) -> Result<Changed, Failure>;

    /// Uses this key for OpenRouter.
    async fn set_openrouter_key(&self, key: &str) -> Result<Changed, Failure>;

    /// Signs in to OpenAI.
    async fn connect_openai(
        &self,
        mode: Option<&str>,
        originator: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<Changed, Failure>;

    /// Signs in to antigravity.
    async fn connect_antigravity(&self, tell: Tell<'_>) -> Result<Changed, Failure>;

    /// What is left of what was paid for.
    async fn limits(&self) -> Result<Box<RawValue>, Failure>;

    /// Who can run a model of OpenRouter.
    async fn routing_providers(&self, model: &str) -> Result<Box<RawValue>, Failure>;
}

/// The members of the snapshot that are about accounts.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    /// Who is signed in.
    pub auth: Box<RawValue>,
    /// Whether the first steps are done.
    pub onboarding: Box<RawValue>,
    /// What is chosen.
    pub model: Box<RawValue>,
}

/// Something was changed, and this is what the caller gets.
pub type Changed = accounts::Changed<Box<RawValue>>;

#[async_trait]
impl Desk for Accounts {
    fn snapshot(&self) -> Standing {
        let Snapshot { auth, onboarding, model } = Self::snapshot(self);
        Standing { auth: to_raw(&auth), onboarding: to_raw(&onboarding), model: to_raw(&model) }
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
        tell: Tell<'_>,
    ) -> Result<Changed, Failure> {
        Self::connect_openai(self, mode, originator, tell).await.map(written)
    }

    async fn connect_antigravity(&self, tell: Tell<'_>) -> Result<Changed, Failure> {
        Self::connect_antigravity(self, tell).await.map(written)
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
