//! Sends HTTP requests to services: client identity, timeouts, and one request at a time.
//!
//! This module does not retry; see [`Exchange`](crate::exchange::Exchange). It follows no redirects, because a
//! redirect would send the key to a host that the user did not configure.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};
use gladhand_tls::Clients;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method};
use reqwest::Response;
use url::Url;

use crate::ModelError;

/// The identity that this client sends to services.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// The home page, for services that list their clients.
    pub home: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "gladhand".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), home: None }
    }
}

/// Timeouts for requests.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the connection. Default: 10 seconds.
    pub connect: Duration,
    /// For the first byte of a response. Default: 600 seconds, because a model can think for a long time before it
    /// responds.
    pub first_byte: Duration,
    /// For the next part of a response. Default: 300 seconds.
    pub idle: Duration,
    /// For a whole response that is not streamed. Default: 60 seconds.
    pub whole: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(600),
            idle: Duration::from_secs(300),
            whole: Duration::from_secs(60),
        }
    }
}

/// Delays between attempts, and the random jitter that prevents many clients from retrying at the same moment.
pub trait Clock: Send + Sync {
    /// Waits for this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// A random number from 0 to 1.
    fn chance(&self) -> f64;
}

gladhand_core::debug_as_name!(Clock);

/// The system clock.
#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn chance(&self) -> f64 {
        // If randomness is unavailable, all clients wait equally long, as clients without jitter do.
        let number = getrandom::u32().unwrap_or(0);
        f64::from(number) / f64::from(u32::MAX)
    }
}

/// The HTTP client for services. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Web(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    identity: Identity,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
    clients: Clients,
}

impl Default for Web {
    fn default() -> Self {
        Self::new(Identity::default(), Timeouts::default())
    }
}

impl Web {
    /// Creates a client with this identity and these timeouts.
    pub fn new(identity: Identity, timeouts: Timeouts) -> Self {
        Self::with_clock(identity, timeouts, Arc::new(WallClock))
    }

    /// Creates a client with another clock.
    pub fn with_clock(identity: Identity, timeouts: Timeouts, clock: Arc<dyn Clock>) -> Self {
        let clients = Clients::new(move |builder| builder.tcp_nodelay(true).connect_timeout(timeouts.connect));
        Self(Arc::new(Inner { identity, timeouts, clock, clients }))
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.0.timeouts
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Sends a request and waits for the response headers. Any status is returned as success.
    pub(crate) async fn send(&self, request: &Request, token: Option<&Secret>) -> Result<Response, ModelError> {
        let mut headers = request.headers.clone();
        headers.insert(USER_AGENT, header(&format!("{}/{}", self.0.identity.name, self.0.identity.version))?);
        if let Some(token) = token {
            learn(token.expose(), Life::Recent);
            let (name, value) = match request.credential_header {
                CredentialHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", token.expose())),
                CredentialHeader::Key(name) => (HeaderName::from_static(name), token.expose().to_owned()),
            };
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| failed("The key contains characters that are not allowed in an HTTP header."))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = self.0.clients.client(&request.url).map_err(|_| no_secure_connections())?;
        let mut builder = client.request(request.method.clone(), request.url.clone());
        if let Some(body) = &request.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            builder = builder.body(body.clone());
        }
        let answer = tokio::time::timeout(self.0.timeouts.first_byte, builder.headers(headers).send()).await;
        // The error's own text contains the address, and its wording differs between systems.
        answer.map_err(|_| timed_out())?.map_err(|error| match error.is_builder() {
            true => no_secure_connections(),
            false => ModelError::Unreachable,
        })
    }
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    pub(crate) credential_header: CredentialHeader,
}

/// How a request carries its credential.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CredentialHeader {
    /// As a bearer token.
    Bearer,
    /// In the header with this name.
    Key(&'static str),
}

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            credential_header: CredentialHeader::Bearer,
        }
    }

    pub(crate) fn post(url: Url, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, body: Some(body.into()), ..Self::get(url) }
    }

    pub(crate) fn with(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    pub(crate) fn with_credential_header(mut self, credential_header: CredentialHeader) -> Self {
        self.credential_header = credential_header;
        self
    }
}

/// The base address of a service's endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Base(Url);

impl Base {
    pub(crate) fn parse(address: &str) -> Result<Self, ModelError> {
        match Url::parse(address) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self(url)),
            // The address is not repeated in the message, because it may contain a password.
            _ => Err(failed("The address of a model server must begin with http:// or https://.")),
        }
    }

    /// The address of an endpoint below the base.
    pub(crate) fn join(&self, path: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// A header value from configured text.
pub(crate) fn header(text: &str) -> Result<HeaderValue, ModelError> {
    HeaderValue::from_str(text)
        .map_err(|_| failed("A configured name contains characters that are not allowed in an HTTP header."))
}

pub(crate) fn failed(text: impl Into<String>) -> ModelError {
    ModelError::Failed(text.into())
}

pub(crate) fn timed_out() -> ModelError {
    failed("Request timed out.")
}

fn no_secure_connections() -> ModelError {
    failed("This machine cannot make secure connections.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_lie_below_their_base() {
        let base = Base::parse("https://example.test/api/v1/").unwrap();
        assert_eq!(base.join(&["models", "a", "b/c"]).as_str(), "https://example.test/api/v1/models/a/b%2Fc");
        let bare = Base::parse("http://127.0.0.1:8080").unwrap();
        assert_eq!(bare.join(&["v1internal:generate"]).as_str(), "http://127.0.0.1:8080/v1internal:generate");
    }

    #[test]
    fn other_addresses_are_refused_without_being_repeated() {
        for address in ["", "example.test", "file:///etc/passwd", "ftp://user:password@example.test"] {
            let error = Base::parse(address).unwrap_err().to_string();
            assert!(!error.contains("password"), "{error}");
        }
    }
}
