//! Keys and logins for services, in memory and in the vault.
//!
//! A login expires. Callers get a valid one: it is renewed a minute before it expires, and again if a service
//! rejects it. Only one renewal runs at a time. If another process has renewed the login meanwhile, its result is
//! used instead.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_core::Secret;
use gladhand_core::operations::Failure;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_models::{ActiveLogin, Credential, Login, ModelError, Provider, Requirement};
use serde::Deserialize;
use serde_json::{Value, json};

use super::settings::AccountSettings;
use super::vault::{self, Vault};
use super::web::{Answer, Web};

/// A login that expires within this many seconds is renewed before use.
const MARGIN: u64 = 60;

/// Keys and logins.
#[derive(Debug)]
pub(super) struct Credentials {
    pub(super) settings: Arc<AccountSettings>,
    pub(super) web: Web,
    vault: Vault,
    held: Mutex<HeldCredentials>,
    renewing: tokio::sync::Mutex<()>,
}

/// The current keys and logins.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldCredentials {
    /// The keys of providers that require a credential.
    pub(super) keys: HashMap<Provider, Secret>,
    pub(super) exa: Option<Secret>,
    pub(super) openai: Option<OpenAiLogin>,
    pub(super) google: Option<GoogleLogin>,
}

/// A ChatGPT login.
#[derive(Debug, Clone)]
pub(super) struct OpenAiLogin {
    pub(super) access: Secret,
    pub(super) account: Option<String>,
    pub(super) refresh: Option<Secret>,
    pub(super) id: Option<Secret>,
    pub(super) api_key: Option<Secret>,
}

/// A Google login.
#[derive(Debug, Clone)]
pub(super) struct GoogleLogin {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// When it expires, in Unix seconds.
    pub(super) expires: u64,
    pub(super) kind: String,
}

impl Credentials {
    /// Opens the credentials of the vault and those in the settings. The vault has priority.
    pub(super) fn open(settings: Arc<AccountSettings>, vault: Vault) -> Self {
        let key = |provider: Provider| {
            let stored = provider.key?.stored_as.and_then(|name| vault.get(name));
            Some((provider, stored.or_else(|| settings.providers[provider].key.clone())?))
        };
        let services = Provider::all().filter(|provider| provider.requires == Requirement::Credential);
        let held = HeldCredentials {
            keys: services.filter_map(key).collect(),
            exa: vault.get(vault::EXA).or_else(|| settings.exa_key.clone()),
            openai: vault.get(vault::OPENAI).and_then(|kept| OpenAiLogin::read(&kept)),
            google: vault.get(vault::GOOGLE).and_then(|kept| GoogleLogin::read(&kept)),
        };
        let web = Web::new(&settings.identity);
        Self { settings, web, vault, held: Mutex::new(held), renewing: tokio::sync::Mutex::default() }
    }

    /// The current keys and logins.
    pub(super) fn held(&self) -> HeldCredentials {
        self.lock().clone()
    }

    /// Whether a provider has the credential that it needs.
    pub(super) fn suffice(&self, provider: Provider) -> bool {
        let held = self.lock();
        provider.requires != Requirement::Credential || held.has_login(provider) || held.keys.contains_key(&provider)
    }

    /// Whether the credential of a provider is stored in the vault. One from the settings may be absent in the next
    /// run.
    pub(super) fn keeps(&self, provider: Provider) -> bool {
        let stored = provider.key.and_then(|key| key.stored_as);
        stored.is_some_and(|name| self.vault.get(name).is_some()) || self.lock().has_login(provider)
    }

    /// The login of a provider, for its client.
    pub(super) fn login(self: &Arc<Self>, provider: Provider) -> Option<ActiveLogin> {
        let held = self.lock();
        Some(match provider.login? {
            Login::ChatGpt => {
                let account = held.openai.as_ref()?.account.clone();
                ActiveLogin { credential: Arc::new(ChatGpt(Arc::clone(self))), account }
            }
            Login::Google => {
                held.google.as_ref()?;
                ActiveLogin { credential: Arc::new(Google(Arc::clone(self))), account: None }
            }
        })
    }

    /// The key of a provider, for its client. The key of a configured server belongs to its address.
    pub(super) fn key(&self, provider: Provider) -> Option<Secret> {
        match provider.requires {
            Requirement::Credential => self.lock().keys.get(&provider).cloned(),
            _ => self.settings.providers[provider].key.clone(),
        }
    }

    /// Stores a key for OpenRouter.
    pub(super) fn set_openrouter(&self, key: Secret) -> Result<(), Failure> {
        self.vault.set(vault::OPENROUTER, &key)?;
        self.lock().keys.insert(Provider::OPENROUTER, key);
        Ok(())
    }

    /// Stores a key for web search, or deletes it.
    pub(super) fn set_exa(&self, key: Option<Secret>) -> Result<(), Failure> {
        match &key {
            Some(key) => self.vault.set(vault::EXA, key)?,
            None => self.vault.remove(vault::EXA)?,
        }
        self.lock().exa = key;
        Ok(())
    }

    /// Stores a ChatGPT login. If that fails, the login is still valid for this process.
    pub(super) fn set_openai(&self, login: OpenAiLogin) {
        let kept = self.vault.set(vault::OPENAI, &login.written());
        self.lock().openai = Some(login);
        warn_unless(kept);
    }

    /// Stores a Google login. If that fails, the login is still valid for this process.
    pub(super) fn set_google(&self, login: GoogleLogin) {
        let kept = self.vault.set(vault::GOOGLE, &login.written());
        self.lock().google = Some(login);
        warn_unless(kept);
    }

    /// Deletes all credentials, including those from the settings.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        self.vault.clear()?;
        *self.lock() = HeldCredentials::default();
        Ok(())
    }

    /// The ChatGPT login, renewed if necessary.
    pub(super) async fn openai(&self) -> Option<OpenAiLogin> {
        let login = self.held().openai?;
        let ends = claims(&login.access).and_then(|claims| claims["exp"].as_u64());
        if ends.is_none_or(|ends| ends > unix_now() + MARGIN) {
            return Some(login);
        }
        // The clock of the service may differ, so a login that could not be renewed is still tried.
        Some(self.renew_openai(&login.access).await.unwrap_or(login))
    }

    /// The Google login, renewed if necessary.
    pub(super) async fn google(&self) -> Option<GoogleLogin> {
        let login = self.held().google?;
        if login.expires > unix_now() + MARGIN {
            return Some(login);
        }
        Some(self.renew_google(&login.access).await.unwrap_or(login))
    }

    /// Replaces a ChatGPT login that expires or was rejected.
    pub(super) async fn renew_openai(&self, old: &Secret) -> Option<OpenAiLogin> {
        let _turn = self.renewing.lock().await;
        let held = self.held().openai?;
        let newer = [Some(held.clone()), self.vault.get(vault::OPENAI).and_then(|kept| OpenAiLogin::read(&kept))];
        if let Some(newer) = newer.into_iter().flatten().find(|login| !login.access.matches(old)) {
            self.lock().openai = Some(newer.clone());
            return Some(newer);
        }
        let openai = &self.settings.openai;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", held.refresh.as_ref()?.expose()),
            ("client_id", openai.client_id.as_deref()?),
        ];
        let issued = self.issue(&format!("{}/oauth/token", openai.issuer), &form).await?;
        let renewed = OpenAiLogin {
            access: Secret::new(issued.access_token?),
            refresh: issued.refresh_token.map(Secret::new).or(held.refresh),
            id: issued.id_token.map(Secret::new).or(held.id),
            ..held
        };
        // If the user signed out meanwhile, the new login is discarded.
        if self.held().openai.is_some_and(|held| held.access.matches(old)) {
            self.set_openai(renewed);
        }
        self.held().openai
    }

    /// Replaces a Google login that expires or was rejected.
    pub(super) async fn renew_google(&self, old: &Secret) -> Option<GoogleLogin> {
        let _turn = self.renewing.lock().await;
        let held = self.held().google?;
        let newer = [Some(held.clone()), self.vault.get(vault::GOOGLE).and_then(|kept| GoogleLogin::read(&kept))];
        if let Some(newer) = newer.into_iter().flatten().find(|login| !login.access.matches(old)) {
            self.lock().google = Some(newer.clone());
            return Some(newer);
        }
        let google = &self.settings.google;
        let secret = google.client_secret.as_ref();
        let mut form = vec![
            ("client_id", google.client_id.as_deref()?),
            ("refresh_token", held.refresh.as_ref()?.expose()),
            ("grant_type", "refresh_token"),
        ];
        form.extend(secret.map(|secret| ("client_secret", secret.expose())));
        let issued = self.issue(&google.token, &form).await?;
        let renewed = GoogleLogin {
            access: Secret::new(issued.access_token?),
            refresh: issued.refresh_token.map(Secret::new).or(held.refresh),
            expires: unix_now() + issued.expires_in.unwrap_or(GoogleLogin::USUAL),
            ..held
        };
        // If the user signed out meanwhile, the new login is discarded.
        if self.held().google.is_some_and(|held| held.access.matches(old)) {
            self.set_google(renewed);
        }
        self.held().google
    }

    async fn issue(&self, address: &str, form: &[(&str, &str)]) -> Option<Issued> {
        let answer = match self.web.post(address) {
            Ok(request) => Answer::to(request.form(form)).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) if answer.is_success() => answer.read(),
            Ok(answer) => {
                tracing::warn!(status = answer.status, "could not renew a login");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "could not renew a login");
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeldCredentials> {
        self.held.lock().unpoisoned()
    }
}

impl HeldCredentials {
    /// Whether there is a login of the kind that a provider accepts.
    pub(super) fn has_login(&self, provider: Provider) -> bool {
        match provider.login {
            Some(Login::ChatGpt) => self.openai.is_some(),
            Some(Login::Google) => self.google.is_some(),
            None => false,
        }
    }
}

/// The response of a token endpoint.
#[derive(Deserialize)]
pub(super) struct Issued {
    pub(super) access_token: Option<String>,
    pub(super) refresh_token: Option<String>,
    pub(super) id_token: Option<String>,
    pub(super) expires_in: Option<u64>,
    pub(super) token_type: Option<String>,
}

impl OpenAiLogin {
    fn read(kept: &Secret) -> Option<Self> {
        let kept: Value = serde_json::from_str(kept.expose()).ok()?;
        let text = |name: &str| kept[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        let secret = |name: &str| text(name).map(Secret::new);
        Some(Self {
            access: secret("accessToken")?,
            account: text("accountId").map(str::to_owned),
            refresh: secret("refreshToken"),
            id: secret("idToken"),
            api_key: secret("apiKey"),
        })
    }

    fn written(&self) -> Secret {
        let mut kept = json!({"version": 1, "accessToken": self.access.expose(), "accountId": self.account});
        let others = [("refreshToken", &self.refresh), ("idToken", &self.id), ("apiKey", &self.api_key)];
        for (name, value) in others {
            if let Some(value) = value {
                kept[name] = value.expose().into();
            }
        }
        Secret::new(kept.to_string())
    }
}

impl GoogleLogin {
    /// The lifetime in seconds of a login that does not state one.
    pub(super) const USUAL: u64 = 3600;

    fn read(kept: &Secret) -> Option<Self> {
        let kept: Value = serde_json::from_str(kept.expose()).ok()?;
        let text = |name: &str| kept[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        Some(Self {
            access: Secret::new(text("accessToken")?),
            refresh: text("refreshToken").map(Secret::new),
            expires: kept["expiryDateSeconds"].as_f64().map_or(0, |seconds| seconds as u64),
            kind: text("tokenType").unwrap_or("Bearer").to_owned(),
        })
    }

    fn written(&self) -> Secret {
        let refresh = self.refresh.as_ref().map_or("", Secret::expose);
        let kept = json!({
            "version": 1, "accessToken": self.access.expose(), "refreshToken": refresh,
            "expiryDateSeconds": self.expires, "tokenType": self.kind,
        });
        Secret::new(kept.to_string())
    }
}

/// The ChatGPT login as a credential for model requests.
pub(super) struct ChatGpt(pub(super) Arc<Credentials>);

#[async_trait]
impl Credential for ChatGpt {
    async fn token(&self) -> Result<Secret, ModelError> {
        let login = self.0.openai().await;
        login.map(|login| login.access).ok_or_else(|| ModelError::Failed(Provider::OPENAI.missing.to_owned()))
    }

    async fn another(&self, refused: &Secret) -> Option<Secret> {
        Some(self.0.renew_openai(refused).await?.access)
    }
}

/// The Google login as a credential for model requests.
pub(super) struct Google(pub(super) Arc<Credentials>);

#[async_trait]
impl Credential for Google {
    async fn token(&self) -> Result<Secret, ModelError> {
        let login = self.0.google().await;
        login.map(|login| login.access).ok_or_else(|| ModelError::Failed(Provider::ANTIGRAVITY.missing.to_owned()))
    }

    async fn another(&self, refused: &Secret) -> Option<Secret> {
        Some(self.0.renew_google(refused).await?.access)
    }
}

impl fmt::Debug for ChatGpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChatGpt")
    }
}

impl fmt::Debug for Google {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Google")
    }
}

fn warn_unless(kept: Result<(), Failure>) {
    if let Err(error) = kept {
        tracing::warn!(%error, "could not store a login");
    }
}

/// The claims of a token, if it is a JSON web token. The signature is not verified: the token came directly from
/// its issuer.
pub(super) fn claims(token: &Secret) -> Option<Value> {
    let payload = token.expose().split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?).ok()
}

/// Seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
