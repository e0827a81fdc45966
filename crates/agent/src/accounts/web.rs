//! Fetches small documents from services, with limits on size and time and without redirects.

use std::time::Duration;

use gladhand_core::wire::values;
use gladhand_models::Identity;
use gladhand_redaction::redact_with;
use gladhand_tls::{BodyError, Clients, read_body};
use http::Method;
use serde::de::DeserializeOwned;
use url::Url;

/// The maximum size of a document.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The timeout for a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP client for services.
#[derive(Debug)]
pub(super) struct Web(Clients);

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
        // Connections are not reused. Requests are rare, and a code is valid once: none should fail on a connection that
        // is being closed.
        Self(Clients::new(move |builder| builder.user_agent(&identity).timeout(TIMEOUT).pool_max_idle_per_host(0)))
    }

    /// Builds a GET request.
    pub(super) fn get(&self, address: &str) -> Result<reqwest::RequestBuilder, RequestError> {
        self.request(Method::GET, address)
    }

    /// Builds a POST request.
    pub(super) fn post(&self, address: &str) -> Result<reqwest::RequestBuilder, RequestError> {
        self.request(Method::POST, address)
    }

    fn request(&self, method: Method, address: &str) -> Result<reqwest::RequestBuilder, RequestError> {
        let url = Url::parse(address).map_err(|_| RequestError::Unreachable)?;
        Ok(self.0.client(&url)?.request(method, url))
    }
}

impl Answer {
    /// Sends a request and reads the response.
    pub(super) async fn to(request: reqwest::RequestBuilder) -> Result<Self, RequestError> {
        let mut response = request.header("accept", "application/json").send().await?;
        let status = response.status().as_u16();
        let body = read_body(&mut response, MAX_BYTES).await.map_err(|error| match error {
            BodyError::TooLarge => RequestError::TooLarge,
            BodyError::Failed(error) => error.into(),
        })?;
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
