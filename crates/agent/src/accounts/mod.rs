//! Accounts: credentials for providers, the models that they give access to, and the selected model.
//!
//! [`Accounts`] owns `state.json`, the catalogues and the credentials. Its results have the format of loaf (§§6.4,
//! 9, 10). The agent announces changes, because it owns the whole snapshot. So every operation that changes
//! something returns the reason ([`Changed`]). Secrets leave this module only as [`Secret`]s, and only for requests
//! to services.
//!
//! Only async functions wait for a service, and they hold no lock while they wait.

mod catalogue;
mod choice;
mod clients;
mod credentials;
mod default_model;
mod files;
mod limits;
mod login;
mod models;
mod settings;
mod state;
mod vault;
mod web;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use gladhand_core::Order as _;
use gladhand_core::Secret;
use gladhand_core::operations::{AgentEvent, Failure, FailureKind};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_models::{Models, Thinking, Web};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use gladhand_models::Provider;

pub use self::catalogue::Source;
pub use self::default_model::{DefaultModel, ModelAccess};
pub use self::limits::Limits;
pub use self::login::{AntigravityConnected, OpenAiConnected, Profile};
pub use self::models::{Chosen, ModelList, RoutingProviders, Selected};
pub use self::settings::{
    AccountSettings, GoogleEndpoints, OpenAiEndpoints, ProviderSettings, ProviderTable, env, secret_variables,
};

use self::catalogue::Catalogues;
use self::choice::Choice;
use self::credentials::Credentials;
use self::state::State;
use self::vault::Vault;

/// Receives events while an operation runs.
pub type EventSink<'a> = &'a (dyn Fn(AgentEvent) + Send + Sync);

/// Credentials, models and the selected model.
#[derive(Debug)]
pub struct Accounts {
    settings: Arc<AccountSettings>,
    credentials: Arc<Credentials>,
    web: Web,
    inner: Mutex<Inner>,
    /// Whether the first refresh is done.
    refreshed: watch::Sender<bool>,
    /// Tasks that serve a last page to browsers. They end by themselves, or when this value is dropped.
    pages: Mutex<JoinSet<()>>,
}

/// The mutable state.
#[derive(Debug)]
struct Inner {
    state: State,
    catalogues: Catalogues,
    profile: Option<Profile>,
    /// The models selected for single sessions.
    sessions: HashMap<String, Choice>,
    /// The clients in use. They are removed when a credential changes.
    clients: HashMap<Provider, Arc<dyn Models>>,
    /// Why configured providers returned no model list.
    troubles: HashMap<Provider, String>,
}

/// The result of a change, with the reason that is announced to all clients.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed<T> {
    /// The reason in `state.changed`.
    pub reason: &'static str,
    /// The result for the caller.
    pub result: T,
}

/// The members of the snapshot about accounts (§6.4).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// The credentials.
    pub auth: AuthSnapshot,
    /// The onboarding status.
    pub onboarding: Onboarding,
    /// The selected model.
    pub model: ModelSnapshot,
}

/// The credentials, in the format of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthSnapshot {
    /// In the order of enabling.
    pub enabled_providers: Vec<Provider>,
    /// Whether there is an OpenAI login.
    pub has_open_ai_token: bool,
    /// Whether there is an OpenRouter key.
    pub has_open_router_key: bool,
    /// Whether there is an Antigravity login.
    pub has_antigravity_token: bool,
    /// The profile of the Antigravity login.
    pub antigravity_profile: Option<Profile>,
}

/// The credentials, in the format of `auth.status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AuthStatus {
    /// In the order of enabling.
    pub enabled_providers: Vec<Provider>,
    /// Whether there is an OpenAI login.
    pub has_openai_token: bool,
    /// Whether there is an OpenRouter key.
    pub has_openrouter_key: bool,
    /// Whether there is an Antigravity login.
    pub has_antigravity_token: bool,
    /// The profile of the Antigravity login.
    pub antigravity_profile: Option<Profile>,
}

/// The onboarding status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Onboarding {
    /// Whether onboarding is completed.
    pub completed: bool,
}

/// The selected model, in the format of the snapshot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSnapshot {
    /// The model id; empty if none is selected.
    pub selected_model: String,
    /// The thinking level.
    pub selected_thinking: Thinking,
    /// The provider that runs the model at OpenRouter.
    pub selected_open_router_provider: String,
    /// The provider of the model.
    pub selected_provider: Option<Provider>,
}

/// The result of setting an OpenRouter key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OpenRouterKeySet {
    /// Always true.
    pub configured: bool,
    /// The number of models.
    pub model_count: usize,
    /// The source of the model list.
    pub source: Source,
}

/// The result of setting or skipping a key for web search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ExaKeySet {
    /// Whether there is a key.
    pub configured: bool,
    /// Whether the user skipped the key.
    pub skipped: bool,
}

/// The result of deleting all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// Always true.
    pub cleared: bool,
}

impl Accounts {
    /// Reads the stored state. No service is contacted; see [`Accounts::refresh`].
    pub fn open(settings: AccountSettings) -> Arc<Self> {
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
            // A secret that cannot be moved stays in the old file.
            if value.is_empty() || vault.get(name).is_some() || vault.set(name, &Secret::new(value)).is_ok() {
                state.drop_other(member);
            }
        }
        let credentials = Arc::new(Credentials::open(settings.clone(), vault));
        // Providers with a key precede those with a login, as in loaf.
        let mut providers: Vec<Provider> = Provider::all().collect();
        providers.order_by_key(|provider| provider.login.is_some());
        for provider in providers {
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

    /// Fetches the model lists of all providers with credentials, and looks for servers on this machine. Providers
    /// that do not respond are skipped. A selected model that does not exist is replaced (§18.1).
    pub async fn refresh(&self) {
        tokio::join!(self.refresh_profile(), self.refresh_catalogues());
        self.settle_choice();
        self.refreshed.send_replace(true);
    }

    /// Waits until the first [`Accounts::refresh`] is done. The caller must have started it.
    pub async fn refreshed(&self) {
        let mut refreshed = self.refreshed.subscribe();
        // The sender is part of `self`, so the wait cannot fail.
        let _ = refreshed.wait_for(|is_over| *is_over).await;
    }

    /// The members of the snapshot about accounts.
    pub fn snapshot(&self) -> Snapshot {
        let status = self.auth_status();
        let chosen = self.chosen_globally();
        let provider = chosen.provider.as_deref().and_then(Provider::of_id);
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

    /// The credentials.
    pub fn auth_status(&self) -> AuthStatus {
        let held = self.credentials.held();
        let inner = self.lock();
        AuthStatus {
            enabled_providers: self.enabled(&inner),
            has_openai_token: held.openai.is_some(),
            has_openrouter_key: held.keys.contains_key(&Provider::OPENROUTER),
            has_antigravity_token: held.google.is_some(),
            antigravity_profile: inner.profile.clone(),
        }
    }

    /// Stores this key for OpenRouter. Waits for the model list; if it cannot be fetched, that is not an error.
    pub async fn set_openrouter_key(&self, key: &str) -> Result<Changed<OpenRouterKeySet>, Failure> {
        self.credentials.set_openrouter(Secret::new(key.trim()))?;
        self.enable(Provider::OPENROUTER);
        let (model_count, source) = self.fetch(Provider::OPENROUTER).await;
        let result = OpenRouterKeySet { configured: true, model_count, source };
        Ok(Changed { reason: "openrouter_key_updated", result })
    }

    /// Stores this key for web search; `skip` means none.
    pub fn set_exa_key(&self, key: &str) -> Result<Changed<ExaKeySet>, Failure> {
        let key = key.trim();
        let skipped = key.eq_ignore_ascii_case("skip");
        self.credentials.set_exa((!skipped).then(|| Secret::new(key)))?;
        let reason = if skipped { "exa_key_skipped" } else { "exa_key_updated" };
        Ok(Changed { reason, result: ExaKeySet { configured: !skipped, skipped } })
    }

    /// The key for web search.
    pub fn exa_key(&self) -> Option<Secret> {
        self.credentials.held().exa
    }

    /// The onboarding status.
    pub fn onboarding_status(&self) -> Onboarding {
        Onboarding { completed: self.lock().state.onboarded }
    }

    /// Marks onboarding as completed.
    pub fn complete_onboarding(&self) -> Changed<Onboarding> {
        let mut inner = self.lock();
        inner.state.onboarded = true;
        self.save(&inner);
        Changed { reason: "onboarding_complete", result: Onboarding { completed: true } }
    }

    /// Adds a prompt to the input history.
    pub fn remember_prompt(&self, prompt: &str) {
        let mut inner = self.lock();
        inner.state.remember(prompt);
        self.save(&inner);
    }

    /// The input history, oldest first.
    pub fn prompts(&self) -> Vec<String> {
        self.lock().state.prompts().map(str::to_owned).collect()
    }

    /// Deletes keys, logins, models, selections, prompts and the onboarding status (§8). Returns an error if some
    /// of it could not be removed from disk; it is not used any more in any case.
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
        removed.map_err(|error| failure(format!("could not delete all data: {error}")))?;
        Ok(Changed { reason: "forgeteverything", result: Forgotten { cleared: true } })
    }

    /// Enables a provider of loaf. Existing clients are dropped, because a credential has changed.
    fn enable(&self, provider: Provider) {
        let mut inner = self.lock();
        inner.clients.clear();
        if !inner.state.enabled.contains(&provider) {
            inner.state.enabled.push(provider);
        }
        self.save(&inner);
    }

    /// Writes the state. Errors are only logged: a full disk must not stop a conversation.
    fn save(&self, inner: &Inner) {
        if !self.settings.keeps {
            return;
        }
        if let Err(error) = inner.state.write(&self.file("state.json")) {
            tracing::warn!(%error, "could not write the state");
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.settings.data.join(name)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unpoisoned()
    }
}

/// A failure whose message clients see.
fn failure(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Internal, message)
}
