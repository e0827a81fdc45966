//! The way to services over HTTP: who we say that we are, how long we wait, and one request at a time.
//!
//! Nothing is retried here; see [`Exchange`](crate::exchange::Exchange). No redirect is followed: it would take a key to
//! somebody whom nobody named.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method};
use reqwest::Response;
use url::{Host, Url};

use crate::ModelError;

/// Who we say that we are.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Our name.
    pub name: String,
    /// Our version.
    pub version: String,
    /// Where people find us, for services that list who calls them.
    pub home: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "gladhand".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), home: None }
    }
}

/// How long to wait.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the beginning of an answer. Models that think long say nothing before.
    pub first_byte: Duration,
    /// For the next piece of an answer.
    pub idle: Duration,
    /// For the whole of an answer that cannot be had in pieces.
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

/// Waits between attempts, and the luck that keeps many callers from coming back at the same moment.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Waits.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// A number from 0 to 1.
    fn chance(&self) -> f64;
}

/// The clock on the wall.
#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn chance(&self) -> f64 {
        // Without randomness everybody waits equally long, which is no worse than what clients without jitter do.
        let number = getrandom::u32().unwrap_or(0);
        f64::from(number) / f64::from(u32::MAX)
    }
}

/// The way to services. Cheap to clone; connections are shared between clones.
#[derive(Debug, Clone)]
pub struct Web(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    identity: Identity,
    timeouts: Timeouts,
    clock: Arc<dyn Clock>,
    /// Made when it is first needed: reading the machine's certificates takes time that a start should not cost.
    away: OnceLock<reqwest::Client>,
    /// For services on this machine, of which no proxy knows.
    here: OnceLock<reqwest::Client>,
}

impl Default for Web {
    fn default() -> Self {
        Self::new(Identity::default(), Timeouts::default())
    }
}

impl Web {
    /// A way for somebody with this much patience.
    pub fn new(identity: Identity, timeouts: Timeouts) -> Self {
        Self::with_clock(identity, timeouts, Arc::new(WallClock))
    }

    /// The same with another clock.
    pub fn with_clock(identity: Identity, timeouts: Timeouts, clock: Arc<dyn Clock>) -> Self {
        let (away, here) = Default::default();
        Self(Arc::new(Inner { identity, timeouts, clock, away, here }))
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

    /// Makes a request and waits for the beginning of its answer, whatever that says.
    pub(crate) async fn send(&self, request: &Request, token: Option<&Secret>) -> Result<Response, ModelError> {
        let mut headers = request.headers.clone();
        headers.insert(USER_AGENT, header(&format!("{}/{}", self.0.identity.name, self.0.identity.version))?);
        if let Some(token) = token {
            learn(token.expose(), Life::Recent);
            let (name, value) = match request.shows {
                Shows::Bearer => (AUTHORIZATION, format!("Bearer {}", token.expose())),
                Shows::Key(name) => (HeaderName::from_static(name), token.expose().to_owned()),
            };
            let mut value =
                HeaderValue::from_str(&value).map_err(|_| failed("The key has characters that no header may have."))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut builder = self.client(&request.url)?.request(request.method.clone(), request.url.clone());
        if let Some(body) = &request.body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            builder = builder.body(body.clone());
        }
        let answer = tokio::time::timeout(self.0.timeouts.first_byte, builder.headers(headers).send()).await;
        // The error's own text repeats the address, and no two machines word it alike.
        answer.map_err(|_| timed_out())?.map_err(|error| match error.is_builder() {
            true => failed("This machine cannot make secure connections."),
            false => ModelError::Unreachable,
        })
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, ModelError> {
        let is_here = is_loopback(url);
        let cell = if is_here { &self.0.here } else { &self.0.away };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .connect_timeout(self.0.timeouts.connect);
        let builder = if is_here { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|_| failed("This machine cannot make secure connections."))?;
        Ok(cell.get_or_init(|| client))
    }
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    pub(crate) shows: Shows,
}

/// How a request shows its credential.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shows {
    /// As a bearer token.
    Bearer,
    /// In a header of this name.
    Key(&'static str),
}

impl Request {
    pub(crate) fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None, shows: Shows::Bearer }
    }

    pub(crate) fn post(url: Url, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, body: Some(body.into()), ..Self::get(url) }
    }

    pub(crate) fn with(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    pub(crate) fn showing(mut self, shows: Shows) -> Self {
        self.shows = shows;
        self
    }
}

/// The address under which a service has its endpoints.
#[derive(Debug, Clone)]
pub(crate) struct Base(Url);

impl Base {
    pub(crate) fn parse(address: &str) -> Result<Self, ModelError> {
        match Url::parse(address) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self(url)),
            // The address itself may hold a password.
            _ => Err(failed("The address of a model server must begin with http:// or https://.")),
        }
    }

    /// An endpoint below it.
    pub(crate) fn join(&self, path: &[&str]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// A header's value, out of text that we or people configured.
pub(crate) fn header(text: &str) -> Result<HeaderValue, ModelError> {
    HeaderValue::from_str(text).map_err(|_| failed("A configured name has characters that no header may have."))
}

pub(crate) fn failed(text: impl Into<String>) -> ModelError {
    ModelError::Failed(text.into())
}

pub(crate) fn timed_out() -> ModelError {
    failed("Request timed out.")
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
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
