//! Signing in (§§9.4, 9.5): what a person agrees to elsewhere becomes a login here.
//!
//! A login lasts as long as its future: dropping that closes the port and forgets everything. Codes, verifiers and tokens
//! are in no event, error or log.

mod device;
mod google;
mod openai;
mod pages;

use std::time::Duration;

use gladhand_auth::client::{Callback, Page, Visit};
use gladhand_core::operations::{AgentEvent, Failure};
use gladhand_core::wire::json;
use serde::Serialize;
use serde_json::Value;

use super::credentials::{OpenAiLogin, claims};
use super::provider::Provider;
use super::web::{Answer, Unanswered};
use super::{Accounts, Changed, Tell, failure, files};

/// A browser goes at once where it is sent.
const LAST_PAGE: Duration = Duration::from_secs(5);

/// Somebody signed in to OpenAI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenAiConnected {
    /// `openai`.
    pub provider: Provider,
    /// In which way.
    pub login_method: Method,
    /// Which account it is, if that can be told.
    pub account_id: Option<String>,
}

/// A way to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// In a browser on this machine.
    Browser,
    /// In a browser anywhere, with a code.
    DeviceCode,
}

/// Somebody signed in to antigravity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AntigravityConnected {
    /// `antigravity`.
    pub provider: Provider,
    /// Who, if that can be told.
    pub profile: Option<Profile>,
}

/// Who somebody is at Google.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// An address.
    pub email: String,
    /// A name.
    pub name: String,
    /// The address of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

/// What is told while somebody signs in.
#[derive(Serialize)]
#[serde(untagged)]
enum Step<'a> {
    Started {
        provider: Provider,
    },
    Url {
        provider: Provider,
        url: &'a str,
    },
    DeviceCode {
        provider: Provider,
        verification_url: &'a str,
        user_code: &'a str,
        interval_seconds: u64,
        expires_in_seconds: u64,
    },
    Failed {
        provider: Provider,
        message: &'a str,
    },
}

impl Step<'_> {
    fn tell(&self, tell: Tell<'_>) {
        let kind = match self {
            Self::Started { .. } => "auth.flow.started",
            Self::Url { .. } => "auth.flow.url",
            Self::DeviceCode { .. } => "auth.flow.device_code",
            Self::Failed { .. } => "auth.flow.failed",
        };
        tell(AgentEvent { kind, payload: json::to_raw(self) });
    }
}

impl Accounts {
    /// Signs somebody in to OpenAI. `mode` is `auto`, `browser` or `device_code`; whatever else it is means a browser.
    pub async fn connect_openai(
        &self,
        mode: Option<&str>,
        originator: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<Changed<OpenAiConnected>, Failure> {
        let provider = Provider::OpenAi;
        Step::Started { provider }.tell(tell);
        let (login_method, login) =
            openai::sign_in(self, mode, originator, tell).await.map_err(fails(provider, tell))?;
        let account_id = login.account.clone();
        self.credentials.set_openai(login);
        self.write_auth(account_id.as_deref());
        let result = OpenAiConnected { provider, login_method, account_id };
        self.connected(provider, &result, tell).await;
        Ok(Changed { reason: "auth_openai_connected", result })
    }

    /// Signs somebody in to antigravity.
    pub async fn connect_antigravity(&self, tell: Tell<'_>) -> Result<Changed<AntigravityConnected>, Failure> {
        let provider = Provider::Antigravity;
        Step::Started { provider }.tell(tell);
        let login = google::sign_in(self, tell).await.map_err(fails(provider, tell))?;
        self.credentials.set_google(login);
        self.refresh_profile().await;
        let result = AntigravityConnected { provider, profile: self.lock().profile.clone() };
        self.connected(provider, &result, tell).await;
        Ok(Changed { reason: "auth_antigravity_connected", result })
    }

    /// Asks Google who is signed in.
    pub(super) async fn refresh_profile(&self) {
        if let Some(login) = self.credentials.google().await {
            let profile = google::profile(self, &login).await;
            self.lock().profile = profile;
        }
    }

    /// What follows every login: the models that it gives, and one of them if none was chosen.
    async fn connected(&self, provider: Provider, result: &impl Serialize, tell: Tell<'_>) {
        self.enable(provider);
        self.fetch(provider).await;
        self.settle_choice();
        tell(AgentEvent { kind: "auth.flow.completed", payload: json::to_raw(result) });
    }

    /// `auth.json`: for other programs, that somebody is signed in. No secret is in it.
    fn write_auth(&self, account: Option<&str>) {
        #[derive(Serialize)]
        struct Tokens<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            account_id: Option<&'a str>,
        }
        #[derive(Serialize)]
        struct Auth<'a> {
            auth_mode: &'a str,
            tokens: Tokens<'a>,
            last_refresh: String,
        }
        let auth = Auth { auth_mode: "chatgpt", tokens: Tokens { account_id: account }, last_refresh: files::now() };
        let written = serde_json::to_string_pretty(&auth).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|text| files::replace(&self.file("auth.json"), &(text + "\n"))) {
            tracing::warn!(%error, "auth.json is not written");
        }
    }

    /// A port for redirects: this one, or if it is taken any other.
    async fn callback(&self, port: u16) -> Result<Callback, String> {
        // A page of the login before this one may still be shown on it.
        let mut pages = std::mem::take(&mut *self.pages());
        pages.shutdown().await;
        let bound = match Callback::bind(port).await {
            Err(_) if port != 0 => Callback::bind(0).await,
            bound => bound,
        };
        bound.map_err(|error| format!("could not listen for the browser: {error}"))
    }

    /// Goes on showing pages for a moment: a browser that brought its code is sent to one.
    fn show_last_page(&self, callback: Callback, greet: fn(&Visit) -> (Page, Option<()>)) {
        self.pages().spawn(async move {
            let _ = tokio::time::timeout(LAST_PAGE, callback.wait(greet)).await;
        });
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, tokio::task::JoinSet<()>> {
        self.pages.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Tells that a login failed, and why.
fn fails(provider: Provider, tell: Tell<'_>) -> impl Fn(String) -> Failure {
    move |message| {
        Step::Failed { provider, message: &message }.tell(tell);
        failure(message)
    }
}

/// Something that was asked for failed: what, and why.
fn unanswered(what: &'static str) -> impl Fn(Unanswered) -> String {
    move |error| format!("{what} failed: {error}")
}

/// The beginning of an answer, as error texts quote it, without what was secret in the request.
fn quoted(answer: &Answer, secrets: &[&str]) -> String {
    answer.without(secrets).chars().take(180).collect()
}

/// A number that may be written as a text; whole, and at least 1.
fn number(value: &Value, usual: u64) -> u64 {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number| *number >= 1.0).map_or(usual, |number| number as u64)
}

/// The account that a ChatGPT login belongs to.
fn account(login: &OpenAiLogin) -> Option<String> {
    let claims = claims(login.id.as_ref()?)?;
    claims["https://api.openai.com/auth"]["chatgpt_account_id"].as_str().map(str::to_owned)
}
