//! What the agent has to know of accounts and models, and what it passes on to them.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use gladhand_models::{ModelOption, Models, Thinking};
use gladhand_operations::{AgentEvent, Failure, ModelChoice};
use gladhand_wire::RawValue;
use serde::Serialize;

/// Hears what happens while it happens.
pub type Tell<'a> = &'a (dyn Fn(AgentEvent) + Send + Sync);

/// Whoever knows the accounts. What it answers is passed on to clients as it is.
#[async_trait]
pub trait Desk: fmt::Debug + Send + Sync {
    /// Who is signed in, whether the first steps are done, and what is chosen.
    fn snapshot(&self) -> Standing;

    /// The model that a session uses from its next turn on, or that everybody uses.
    fn chosen(&self, session: Option<&str>) -> Chosen;

    /// Who answers for that model; otherwise what people are told.
    fn ready(&self, chosen: &Chosen) -> Result<Arc<dyn Models>, String>;

    /// What would be chosen, without choosing it.
    fn consider(&self, wanted: &ModelChoice<'_>) -> Result<Chosen, Failure>;

    /// Chooses a model.
    fn select(&self, wanted: &ModelChoice<'_>) -> Result<Changed, Failure>;

    /// Chooses what a saved chat was held with.
    fn resume(&self, provider: &str, model: &str, thinking: Thinking, routing: Option<&str>);

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

/// A model that was chosen, and how it is to be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Its id; empty when none was chosen.
    pub model: String,
    /// How much it is to think.
    pub thinking: Thinking,
    /// Who is to run it, where that can be chosen; `any` otherwise.
    pub routing: String,
    /// Who has it.
    pub provider: Option<String>,
    /// What is known of it.
    pub option: Option<ModelOption>,
}

/// Something was changed, and everybody is to be told why.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The reason that everybody is told.
    pub reason: &'static str,
    /// What the caller gets.
    pub result: Box<RawValue>,
}
