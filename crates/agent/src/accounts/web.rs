//! Fetches small documents from services, with limits on size and time and without redirects.

use std::sync::OnceLock;
use std::time::Duration;

use gladhand_core::wire::values;
use gladhand_models::Identity;
use gladhand_redaction::redact_with;
use serde::de::DeserializeOwned;

/// The maximum size of a document.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The timeout for a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP client for services.
#[derive(Debug)]
pub(super) struct Web {
    identity: String,
    /// For other hosts. Created on first use: reading the system certificates would slow down every start.
    remote_client: OnceLock<reqwest::Client>,
    /// For this machine: a proxy cannot reach our loopback address.
    local_client: OnceLock<reqwest::Client>,
}

/// A whole response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Why there is no response. The message is for users and omits the address, which may contain a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
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
    /// Creates a client with this identity.
    pub(super) fn new(identity: &Identity) -> Self {
        let identity = format!("{}/{}", identity.name, identity.version);
        Self { identity, remote_client: OnceLock::new(), local_client: OnceLock::new() }
    }

    /// Builds a GET request.
    pub(super) fn get(&self, address: &str) -> Result<reqwest::RequestBuilder, RequestError> {
        Ok(self.client(address)?.get(address))
    }

    /// Builds a POST request.
    pub(super) fn post(&self, address: &str) -> Result<reqwest::RequestBuilder, RequestError> {
        Ok(self.client(address)?.post(address))
    }

    fn client(&self, address: &str) -> Result<&reqwest::Client, RequestError> {
        let host = url::Url::parse(address).ok().and_then(|url| url.host_str().map(str::to_owned));
        let is_local = matches!(host.as_deref(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let cell = if is_local { &self.local_client } else { &self.remote_client };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let builder = gladhand_tls::client_builder()
            .user_agent(&self.identity)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            // Connections are not reused. Requests are rare, and a code is valid once: none should fail on a
            // connection that is being closed.
            .pool_max_idle_per_host(0);
        let client = if is_local { builder.no_proxy() } else { builder }.build()?;
        Ok(cell.get_or_init(|| client))
    }
}

impl Answer {
    /// Sends a request and reads the response.
    pub(super) async fn to(request: reqwest::RequestBuilder) -> Result<Self, RequestError> {
        let mut response = request.header("accept", "application/json").send().await?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(RequestError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Self { status, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Whether the status is a success.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Parses the body as JSON.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        values::read(&self.body).ok()
    }

    /// The body for error messages, without the secrets of the request, which some services repeat.
    pub(super) fn without(&self, secrets: &[&str]) -> String {
        redact_with(self.body.trim(), secrets.iter().copied()).into_owned()
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        match error {
            error if error.is_timeout() => Self::Late,
            error if error.is_connect() || error.is_builder() => Self::Unreachable,
            _ => Self::Broken,
        }
    }
}
