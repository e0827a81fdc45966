//! Asking services for small documents: bounded in size and time, and never redirected.

use std::sync::OnceLock;
use std::time::Duration;

use gladhand_models::Identity;
use gladhand_redaction::redact_with;
use serde::de::DeserializeOwned;

/// No document is larger.
const LARGEST: usize = 4 * 1024 * 1024;
/// A service that takes longer is away.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way to services.
#[derive(Debug)]
pub(super) struct Web {
    identity: String,
    /// Made when it is first needed: reading the machine's certificates takes time that a start should not cost.
    far: OnceLock<reqwest::Client>,
    /// No proxy knows our loopback.
    near: OnceLock<reqwest::Client>,
}

/// An answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Why there is no answer: for people, and without the address, which may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("no answer in time")]
    Late,
    #[error("no connection")]
    Unreachable,
    #[error("the exchange broke off")]
    Broken,
    #[error("the answer is too large")]
    TooLarge,
}

impl Web {
    /// We say who we are.
    pub(super) fn new(identity: &Identity) -> Self {
        let identity = format!("{}/{}", identity.name, identity.version);
        Self { identity, far: OnceLock::new(), near: OnceLock::new() }
    }

    /// A request that only asks.
    pub(super) fn get(&self, address: &str) -> Result<reqwest::RequestBuilder, Unanswered> {
        Ok(self.client(address)?.get(address))
    }

    /// A request that brings something.
    pub(super) fn post(&self, address: &str) -> Result<reqwest::RequestBuilder, Unanswered> {
        Ok(self.client(address)?.post(address))
    }

    fn client(&self, address: &str) -> Result<&reqwest::Client, Unanswered> {
        let host = url::Url::parse(address).ok().and_then(|url| url.host_str().map(str::to_owned));
        let is_near = matches!(host.as_deref(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let place = if is_near { &self.near } else { &self.far };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder()
            .user_agent(&self.identity)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            // Requests are few, and a code is good once: none of them should meet a connection that is being closed.
            .pool_max_idle_per_host(0);
        let client = if is_near { builder.no_proxy() } else { builder }.build()?;
        Ok(place.get_or_init(|| client))
    }
}

impl Answer {
    /// Sends a request and reads what comes back.
    pub(super) async fn to(request: reqwest::RequestBuilder) -> Result<Self, Unanswered> {
        let mut response = request.header("accept", "application/json").send().await?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > LARGEST {
                return Err(Unanswered::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Self { status, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Whether it is what was asked for.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body, if it is such a document.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.body).ok()
    }

    /// The body as error texts quote it: without what was secret in the request, which some repeat.
    pub(super) fn without(&self, secrets: &[&str]) -> String {
        redact_with(self.body.trim(), secrets.iter().copied()).into_owned()
    }
}

impl From<reqwest::Error> for Unanswered {
    fn from(error: reqwest::Error) -> Self {
        match error {
            error if error.is_timeout() => Self::Late,
            error if error.is_connect() || error.is_builder() => Self::Unreachable,
            _ => Self::Broken,
        }
    }
}
