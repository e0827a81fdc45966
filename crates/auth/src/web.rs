//! Fetches small documents: with limits on size and time, without redirects, and only from addresses that
//! credentials may be sent to (see [`reach`](crate::reach) for addresses of private networks).

use std::time::Duration;

use gladhand_core::wire::values::{self, ReadError};
use gladhand_tls::{BodyError, is_loopback, read_body};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;

use crate::error::AuthError;
use crate::reach::{Private, Reach, is_of_private};
use crate::roots::Roots;

/// The maximum size of a response. Metadata, key sets and token responses are never larger.
const MAX_BYTES: usize = 1024 * 1024;
/// The timeout for a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP client for authorization servers.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    client: reqwest::Client,
    /// Whether plain http to this machine is allowed: only if the server itself is on this machine. Otherwise any
    /// server on the internet could make us send requests to our own loopback services.
    loopback: bool,
    reach: Reach,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Web {
    /// Creates a client for requests on behalf of this server.
    pub(crate) fn for_server(server: &Url, roots: &Roots) -> Result<Self, AuthError> {
        let (loopback, reach) = (is_loopback(server), Reach::of(server));
        let client = roots.client(|builder| {
            let builder = builder.redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT);
            let builder = builder.dns_resolver(reach.clone());
            // Connections are not reused. Requests are rare, and a code is valid once: no request should fail on a
            // connection that is just being closed.
            let builder = builder.pool_max_idle_per_host(0);
            // A proxy cannot reach our loopback address.
            if loopback { builder.no_proxy() } else { builder }
        });
        let client = client.map_err(|error| unreachable(server, &error))?;
        Ok(Self { client, loopback, reach })
    }

    /// Parses and checks an address from a peer.
    pub(crate) fn admit(&self, address: &str) -> Result<Url, AuthError> {
        admitted(address, self.loopback)
    }

    /// Parses and checks an address from a peer that the user's browser will visit.
    pub(crate) async fn admit_for_browser(&self, address: &str) -> Result<Url, AuthError> {
        let url = self.admit(address)?;
        match self.reach.admits_for_others(&url).await {
            Ok(()) => Ok(url),
            Err(Private) => Err(AuthError::PrivateAddress { address: shown(&url) }),
        }
    }

    /// Fetches a JSON document. `None` if the response is not successful.
    pub(crate) async fn find<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, AuthError> {
        let request = self.client.get(url.clone()).header("accept", "application/json");
        let answer = self.whole(url, request).await?;
        if !answer.status.is_success() {
            return Ok(None);
        }
        answer.read(url).map(Some)
    }

    /// Posts a form.
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        headers: HeaderMap,
    ) -> Result<Answer, AuthError> {
        let request = self.client.post(url.clone()).header("accept", "application/json").headers(headers).form(form);
        self.whole(url, request).await
    }

    /// Posts a JSON document.
    pub(crate) async fn post_json(&self, url: &Url, document: &serde_json::Value) -> Result<Answer, AuthError> {
        let request = self.client.post(url.clone()).header("accept", "application/json").json(document);
        self.whole(url, request).await
    }

    async fn whole(&self, url: &Url, request: reqwest::RequestBuilder) -> Result<Answer, AuthError> {
        let private = |_: Private| AuthError::PrivateAddress { address: shown(url) };
        self.reach.admits(url).await.map_err(private)?;
        let mut response = request.send().await.map_err(|error| unreachable(url, &error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = read_body(&mut response, MAX_BYTES).await.map_err(|error| match error {
            BodyError::Failed(error) => unreachable(url, &error),
            BodyError::TooLarge => {
                AuthError::InvalidResponse { address: shown(url), problem: format!("more than {MAX_BYTES} bytes") }
            }
        })?;
        Ok(Answer { status, headers, body })
    }
}

impl Answer {
    /// Parses the body as JSON.
    pub(crate) fn read<T: DeserializeOwned>(&self, from: &Url) -> Result<T, AuthError> {
        // The parser's message could quote the document, and the document may contain a token.
        values::read_bytes(&self.body).map_err(|error| AuthError::InvalidResponse {
            address: shown(from),
            problem: match error {
                ReadError::Json(error) => format!("unexpected JSON (line {}, column {})", error.line(), error.column()),
                ReadError::TooManyValues => error.to_string(),
            },
        })
    }
}

/// Parses an address, and checks that credentials may be sent to it. `loopback` allows plain http to this machine.
pub(crate) fn admitted(address: &str, loopback: bool) -> Result<Url, AuthError> {
    match Url::parse(address) {
        // A user name before the host can look like a host to the user.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(AuthError::UnsafeAddress { address: shown(&url) })
        }
        Ok(url) if url.scheme() == "https" && url.has_host() => Ok(url),
        Ok(url) if url.scheme() == "http" && loopback && is_loopback(&url) => Ok(url),
        _ => Err(AuthError::UnsafeAddress { address: address.to_owned() }),
    }
}

fn unreachable(url: &Url, error: &reqwest::Error) -> AuthError {
    if is_of_private(error) {
        return AuthError::PrivateAddress { address: shown(url) };
    }
    // Only the kind of failure is reported: the full error would repeat the address with its query.
    let reason = match error {
        error if error.is_timeout() => "no answer in time",
        error if error.is_connect() => "no connection",
        error if error.is_builder() => "no secure connections on this machine",
        _ => "the exchange broke off",
    };
    tracing::debug!(address = %shown(url), reason, "authorization request failed");
    AuthError::Unreachable { address: shown(url), reason: reason.to_owned() }
}

/// An address without the parts that may be secret: user, password, query and fragment.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
