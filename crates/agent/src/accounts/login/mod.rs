//! Logins (§§9.4, 9.5): the user gives consent in a browser, and the result is stored as a login.
//!
//! A login runs as long as its future. Dropping the future closes the port and discards all state. Codes, verifiers
//! and tokens never appear in events, errors or logs.

mod device;
mod google;
mod openai;
mod pages;

use std::time::Duration;

use gladhand_auth::client::{Callback, Page, Visit};
use gladhand_core::operations::{AgentEvent, Failure};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::json;
use serde::Serialize;
use serde_json::Value;

use super::credentials::{OpenAiLogin, claims};
use super::web::{Answer, RequestError};
use super::{Accounts, Changed, EventSink, failure, files};
use crate::moment::Moment;
use gladhand_models::Provider;

/// How long the last page stays available. A browser follows a redirect immediately.
const LAST_PAGE: Duration = Duration::from_secs(5);

/// The result of an OpenAI login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenAiConnected {
    /// Always `openai`.
    pub provider: Provider,
    /// The method of the login.
    pub login_method: Method,
    /// The id of the account, if known.
    pub account_id: Option<String>,
}

/// A login method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// In a browser on this machine.
    Browser,
    /// In a browser on any device, with a code.
    DeviceCode,
}

/// The result of an Antigravity login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AntigravityConnected {
    /// Always `antigravity`.
    pub provider: Provider,
    /// The profile of the user, if known.
    pub profile: Option<Profile>,
}

/// The Google profile of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// The email address.
    pub email: String,
    /// The name.
    pub name: String,
    /// The address of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

/// An event during a login.
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
    fn send(&self, events: EventSink<'_>) {
        let kind = match self {
            Self::Started { .. } => "auth.flow.started",
            Self::Url { .. } => "auth.flow.url",
            Self::DeviceCode { .. } => "auth.flow.device_code",
            Self::Failed { .. } => "auth.flow.failed",
        };
        events(AgentEvent { kind, payload: json::to_raw(self) });
    }
}

impl Accounts {
    /// Runs an OpenAI login. `mode` is `auto`, `browser` or `device_code`. Any other value means `browser`.
    pub async fn connect_openai(
        &self,
        mode: Option<&str>,
        originator: Option<&str>,
        events: EventSink<'_>,
    ) -> Result<Changed<OpenAiConnected>, Failure> {
        let provider = Provider::OPENAI;
        Step::Started { provider }.send(events);
        let (login_method, login) =
            openai::sign_in(self, mode, originator, events).await.map_err(login_failed(provider, events))?;
        let account_id = login.account.clone();
        self.credentials.set_openai(login);
        self.write_auth(account_id.as_deref());
        let result = OpenAiConnected { provider, login_method, account_id };
        self.connected(provider, &result, events).await;
        Ok(Changed { reason: "auth_openai_connected", result })
    }

    /// Runs an Antigravity login.
    pub async fn connect_antigravity(&self, events: EventSink<'_>) -> Result<Changed<AntigravityConnected>, Failure> {
        let provider = Provider::ANTIGRAVITY;
        Step::Started { provider }.send(events);
        let login = google::sign_in(self, events).await.map_err(login_failed(provider, events))?;
        self.credentials.set_google(login);
        self.refresh_profile().await;
        let result = AntigravityConnected { provider, profile: self.lock().profile.clone() };
        self.connected(provider, &result, events).await;
        Ok(Changed { reason: "auth_antigravity_connected", result })
    }

    /// Fetches the Google profile of the user.
    pub(super) async fn refresh_profile(&self) {
        if let Some(login) = self.credentials.google().await {
            let profile = google::profile(self, &login).await;
            self.lock().profile = profile;
        }
    }

    /// The last steps of every login: fetches the models, and selects one if none is selected.
    async fn connected(&self, provider: Provider, result: &impl Serialize, events: EventSink<'_>) {
        self.enable(provider);
        self.fetch(provider).await;
        self.settle_choice();
        events(AgentEvent { kind: "auth.flow.completed", payload: json::to_raw(result) });
    }

    /// Writes `auth.json`, which tells other programs that the user is signed in. It contains no secret.
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
        let auth =
            Auth { auth_mode: "chatgpt", tokens: Tokens { account_id: account }, last_refresh: Moment::now().text() };
        let written = serde_json::to_string_pretty(&auth).map_err(std::io::Error::from);
        if let Err(error) = written.and_then(|text| files::replace(&self.file("auth.json"), &(text + "\n"))) {
            tracing::warn!(%error, "could not write auth.json");
        }
    }

    /// Binds a port for redirects: this one, or any other if it is in use.
    async fn callback(&self, port: u16) -> Result<Callback, String> {
        // A page of an earlier login may still be served on this port.
        let mut pages = std::mem::take(&mut *self.pages());
        pages.shutdown().await;
        let bound = match Callback::bind(port).await {
            Err(_) if port != 0 => Callback::bind(0).await,
            bound => bound,
        };
        bound.map_err(|error| format!("could not listen for the browser: {error}"))
    }

    /// Continues to serve pages for a moment, because the browser is redirected to one after the login.
    fn show_last_page(&self, callback: Callback, respond: fn(&Visit) -> (Page, Option<()>)) {
        self.pages().spawn(async move {
            let _ = tokio::time::timeout(LAST_PAGE, callback.wait(respond)).await;
        });
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, tokio::task::JoinSet<()>> {
        self.pages.lock().unpoisoned()
    }
}

/// Sends an event about a failed login, and returns the failure.
fn login_failed(provider: Provider, events: EventSink<'_>) -> impl Fn(String) -> Failure {
    move |message| {
        Step::Failed { provider, message: &message }.send(events);
        failure(message)
    }
}

/// The error message for a request that failed.
fn request_failed(request_name: &'static str) -> impl Fn(RequestError) -> String {
    move |error| format!("{request_name} failed: {error}")
}

/// The beginning of a response for error messages, without the secrets of the request.
fn quoted(answer: &Answer, secrets: &[&str]) -> String {
    answer.without(secrets).chars().take(180).collect()
}

/// A number that may be written as text. It is an integer of at least 1.
fn number(value: &Value, usual: u64) -> u64 {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number| *number >= 1.0).map_or(usual, |number| number as u64)
}

/// The account id of a ChatGPT login.
fn account(login: &OpenAiLogin) -> Option<String> {
    let claims = claims(login.id.as_ref()?)?;
    claims["https://api.openai.com/auth"]["chatgpt_account_id"].as_str().map(str::to_owned)
}
