//! Accounts: who is signed in where, which models that gives, and which of them was chosen.
//!
//! [`Accounts`] owns `state.json`, the catalogues and the credentials. What it answers is written as clients of loaf read
//! it (§§6.4, 9, 10); what changes is told by the agent, which owns the whole snapshot, so whatever changes something
//! returns the word for why ([`Changed`]). Secrets leave only as [`Secret`]s, and only to those who ask services with them.
//!
//! Nothing here waits for a service unless it says so by being async, and no lock is held meanwhile.

mod catalogue;
mod choice;
mod clients;
mod credentials;
mod files;
mod limits;
mod login;
mod models;
mod outlook;
mod provider;
mod settings;
mod state;
mod vault;
mod web;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gladhand_core::Secret;
use gladhand_core::operations::{AgentEvent, Failure, FailureKind};
use gladhand_models::{Models, Thinking, Web};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::catalogue::Source;
pub use self::limits::Limits;
pub use self::login::{AntigravityConnected, OpenAiConnected, Profile};
pub use self::models::{Chosen, ModelList, RoutingProviders, Selected};
pub use self::outlook::{Means, Outlook};
pub use self::provider::Provider;
pub use self::settings::{CompatibleServer, GooglePlaces, Keys, OpenAiPlaces, Settings, env};

use self::catalogue::Catalogues;
use self::choice::Choice;
use self::credentials::Credentials;
use self::state::State;
use self::vault::Vault;

/// Said when OpenAI is to be used without a login or a key.
const NO_OPENAI: &str = "openai model selected, but no chatgpt oauth token is available";
/// Said when OpenRouter is to be used without a key.
const NO_OPENROUTER: &str = "openrouter model selected, but no openrouter api key is available";
/// Said when antigravity is to be used without a login.
const NO_ANTIGRAVITY: &str = "antigravity model selected, but no antigravity oauth token is available";

/// Hears what happens while it happens.
pub type Tell<'a> = &'a (dyn Fn(AgentEvent) + Send + Sync);

/// Who is signed in where, which models that gives, and which of them was chosen.
#[derive(Debug)]
pub struct Accounts {
    settings: Arc<Settings>,
    credentials: Arc<Credentials>,
    web: Web,
    inner: Mutex<Inner>,
    /// Whether the first refresh is over.
    refreshed: watch::Sender<bool>,
    /// Show a last page to browsers. They end by themselves, and with us.
    pages: Mutex<JoinSet<()>>,
}

/// What changes.
#[derive(Debug)]
struct Inner {
    state: State,
    catalogues: Catalogues,
    profile: Option<Profile>,
    /// What was chosen for one session alone.
    sessions: HashMap<String, Choice>,
    /// Whoever answers at the moment, until a credential changes.
    clients: HashMap<Provider, Arc<dyn Models>>,
    /// Why those who were set up and asked for their models gave none.
    troubles: HashMap<Provider, String>,
}

/// Something was changed, and everybody is to be told why.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed<T> {
    /// The reason that `state.changed` gives.
    pub reason: &'static str,
    /// What the caller gets.
    pub result: T,
}

/// The members of the snapshot that are about accounts (§6.4).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// Who is signed in.
    pub auth: AuthSnapshot,
    /// Whether the first steps are done.
    pub onboarding: Onboarding,
    /// What was chosen.
    pub model: ModelSnapshot,
}

/// Who is signed in, in the words of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthSnapshot {
    /// In the order in which they were enabled.
    pub enabled_providers: Vec<Provider>,
    /// Whether somebody is signed in.
    pub has_open_ai_token: bool,
    /// Whether there is a key.
    pub has_open_router_key: bool,
    /// Whether somebody is signed in.
    pub has_antigravity_token: bool,
    /// Who.
    pub antigravity_profile: Option<Profile>,
}

/// Who is signed in, in the words of `auth.status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuthStatus {
    /// In the order in which they were enabled.
    pub enabled_providers: Vec<Provider>,
    /// Whether somebody is signed in.
    pub has_openai_token: bool,
    /// Whether there is a key.
    pub has_openrouter_key: bool,
    /// Whether somebody is signed in.
    pub has_antigravity_token: bool,
    /// Who.
    pub antigravity_profile: Option<Profile>,
}

/// Whether the first steps are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Onboarding {
    /// Whether they are.
    pub completed: bool,
}

/// What was chosen, in the words of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSnapshot {
    /// Empty when none was.
    pub selected_model: String,
    /// How much it is to think.
    pub selected_thinking: Thinking,
    /// Who is to run it at OpenRouter.
    pub selected_open_router_provider: String,
    /// Who has it.
    pub selected_provider: Option<Provider>,
}

/// A key for OpenRouter was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpenRouterKeySet {
    /// It was.
    pub configured: bool,
    /// How many models it gives.
    pub model_count: usize,
    /// Where their list comes from.
    pub source: Source,
}

/// A key for searching the web was set, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExaKeySet {
    /// Whether there is one.
    pub configured: bool,
    /// Whether there is to be none.
    pub skipped: bool,
}

/// Everything was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// It was.
    pub cleared: bool,
}

impl Accounts {
    /// Reads what was kept. No service is asked; see [`Accounts::refresh`].
    pub fn open(settings: Settings) -> Arc<Self> {
        let settings = Arc::new(settings);
        let file = settings.data.join("state.json");
        if let Some(folder) = settings.started_in.as_ref().filter(|_| settings.keeps) {
            State::migrate(&file, folder);
        }
        let mut state = State::read(&file);
        let vault = Vault::open(settings.secrets.clone(), &settings.data);
        if settings.keeps {
            vault.take_over();
        }
        for (member, name) in state::PLAIN {
            let can_move = settings.keeps && settings.secrets.is_some();
            let Some(value) = state.other(member).filter(|_| can_move) else { continue };
            // A secret that cannot be moved stays where it is.
            if value.is_empty() || vault.get(name).is_some() || vault.set(name, &Secret::new(value)).is_ok() {
                state.drop_other(member);
            }
        }
        let credentials = Arc::new(Credentials::open(settings.clone(), vault));
        for provider in [Provider::OpenRouter, Provider::OpenAi, Provider::Antigravity] {
            if credentials.keeps(provider) && !state.enabled.contains(&provider) {
                state.enabled.push(provider);
            }
        }
        let accounts = Self {
            web: Web::new(settings.identity.clone(), gladhand_models::Timeouts::default()),
            inner: Mutex::new(Inner {
                state,
                catalogues: Catalogues::read(settings.data.join("models-cache.json"), settings.keeps),
                profile: None,
                sessions: HashMap::new(),
                clients: HashMap::new(),
                troubles: HashMap::new(),
            }),
            refreshed: watch::Sender::new(false),
            pages: Mutex::default(),
            settings,
            credentials,
        };
        accounts.save(&accounts.lock());
        Arc::new(accounts)
    }

    /// Asks every provider that somebody is signed in to what it has, and looks for servers on this machine. Whoever does
    /// not answer is passed over. A choice that turns out to be none is replaced (§18.1).
    pub async fn refresh(&self) {
        tokio::join!(self.refresh_profile(), self.refresh_catalogues());
        self.settle_choice();
        self.refreshed.send_replace(true);
    }

    /// Waits until the first [`Accounts::refresh`] is over, which somebody must have begun.
    pub async fn refreshed(&self) {
        let mut refreshed = self.refreshed.subscribe();
        // The sender is ours, and so it is there as long as we are.
        let _ = refreshed.wait_for(|is_over| *is_over).await;
    }

    /// What everybody may know.
    pub fn snapshot(&self) -> Snapshot {
        let status = self.auth_status();
        let chosen = self.chosen_for_everybody();
        let provider = chosen.provider.as_deref().and_then(Provider::of_word);
        Snapshot {
            auth: AuthSnapshot {
                enabled_providers: status.enabled_providers,
                has_open_ai_token: status.has_openai_token,
                has_open_router_key: status.has_openrouter_key,
                has_antigravity_token: status.has_antigravity_token,
                antigravity_profile: status.antigravity_profile,
            },
            onboarding: self.onboarding_status(),
            model: ModelSnapshot {
                selected_model: chosen.model,
                selected_thinking: chosen.thinking,
                selected_open_router_provider: chosen.routing,
                selected_provider: provider,
            },
        }
    }

    /// Who is signed in where.
    pub fn auth_status(&self) -> AuthStatus {
        let held = self.credentials.held();
        let inner = self.lock();
        AuthStatus {
            enabled_providers: self.enabled(&inner),
            has_openai_token: held.openai.is_some(),
            has_openrouter_key: held.openrouter.is_some(),
            has_antigravity_token: held.google.is_some(),
            antigravity_profile: inner.profile.clone(),
        }
    }

    /// Uses this key for OpenRouter from now on. Waits for its list of models; a list that cannot be had is no failure.
    pub async fn set_openrouter_key(&self, key: &str) -> Result<Changed<OpenRouterKeySet>, Failure> {
        self.credentials.set_openrouter(Secret::new(key.trim()))?;
        self.enable(Provider::OpenRouter);
        let (model_count, source) = self.fetch(Provider::OpenRouter).await;
        let result = OpenRouterKeySet { configured: true, model_count, source };
        Ok(Changed { reason: "openrouter_key_updated", result })
    }

    /// Uses this key for searching the web from now on; the word `skip` stands for none.
    pub fn set_exa_key(&self, key: &str) -> Result<Changed<ExaKeySet>, Failure> {
        let key = key.trim();
        let skipped = key.eq_ignore_ascii_case("skip");
        self.credentials.set_exa((!skipped).then(|| Secret::new(key)))?;
        let reason = if skipped { "exa_key_skipped" } else { "exa_key_updated" };
        Ok(Changed { reason, result: ExaKeySet { configured: !skipped, skipped } })
    }

    /// The key for searching the web.
    pub fn exa_key(&self) -> Option<Secret> {
        self.credentials.held().exa
    }

    /// Whether the first steps are done.
    pub fn onboarding_status(&self) -> Onboarding {
        Onboarding { completed: self.lock().state.onboarded }
    }

    /// The first steps are done.
    pub fn complete_onboarding(&self) -> Changed<Onboarding> {
        let mut inner = self.lock();
        inner.state.onboarded = true;
        self.save(&inner);
        Changed { reason: "onboarding_complete", result: Onboarding { completed: true } }
    }

    /// Keeps a prompt for those who want to find it again.
    pub fn remember_prompt(&self, prompt: &str) {
        let mut inner = self.lock();
        inner.state.remember(prompt);
        self.save(&inner);
    }

    /// The prompts that were kept, oldest first.
    pub fn prompts(&self) -> Vec<String> {
        self.lock().state.prompts().map(str::to_owned).collect()
    }

    /// Forgets everything: keys, logins, models, choices, prompts and the first steps (§8). What could not be removed
    /// is said; nothing of it is used any more all the same.
    pub fn forget_everything(&self) -> Result<Changed<Forgotten>, Failure> {
        let cleared = self.credentials.clear();
        let mut inner = self.lock();
        inner.state = State::default();
        inner.profile = None;
        inner.sessions.clear();
        inner.clients.clear();
        let removed = inner.catalogues.clear().and_then(|()| files::remove(&self.file("auth.json")));
        self.save(&inner);
        cleared?;
        removed.map_err(|error| failure(format!("could not forget everything: {error}")))?;
        Ok(Changed { reason: "forgeteverything", result: Forgotten { cleared: true } })
    }

    /// Enables a provider of loaf. Whoever asked it before asks anew, because a credential has changed.
    fn enable(&self, provider: Provider) {
        let mut inner = self.lock();
        inner.clients.clear();
        if !inner.state.enabled.contains(&provider) {
            inner.state.enabled.push(provider);
        }
        self.save(&inner);
    }

    /// Writes the state. A disk that is full must not stop a conversation.
    fn save(&self, inner: &Inner) {
        if !self.settings.keeps {
            return;
        }
        if let Err(error) = inner.state.write(&self.file("state.json")) {
            tracing::warn!(%error, "the state is not kept");
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.settings.data.join(name)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that could not be done, in words that clients see.
fn failure(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}
