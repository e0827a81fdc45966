//! One HTTP request and what may stand between it and its response: authorization, redirects, the network.

use std::time::Duration;

use gladhand_auth::AuthError;
use gladhand_auth::client::denial;
use gladhand_dialects::Loss;
use gladhand_dialects::mcp::http::error_message;
use gladhand_redaction::redact;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use reqwest::Response;
use reqwest::redirect::Policy;
use url::{Host, Url};

use super::authorizer::Attempt;
use super::connect_error::connect_error;
use super::exchange::{MAX_COMPLAINT, read};
use super::{Endpoint, Shared, Style};
use gladhand_process::open_files::OpenFiles;

const SESSION: &str = "mcp-session-id";
const AGENT_SESSION: &str = "x-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) const EVENT_STREAM: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";

/// How long it may take to reach a server at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often one request is made at most: with a stored token, a renewed, a new and a few wider ones.
const MAX_TRIES: usize = 8;

/// How many unused connections to a server are kept at most.
const MAX_IDLE: usize = 64;

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 4;

/// How the reason begins if the server does not accept the header `Authorization` of the endpoint.
pub const HEADER_REFUSED: &str = "it refused the Authorization header that was given";

/// A client that speaks to one origin.
pub(super) fn client(endpoint: &Endpoint) -> reqwest::Client {
    // A redirect to another origin would send credentials and calls to a server that the user did not name.
    let redirects = || {
        Policy::custom(|attempt| {
            let first = attempt.previous().first().map(Url::origin);
            match first {
                Some(origin) if origin == attempt.url().origin() && attempt.previous().len() <= MAX_REDIRECTS => {
                    attempt.follow()
                }
                _ => attempt.stop(),
            }
        })
    };
    let is_loopback = match endpoint.url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let client = endpoint.roots.client(|builder| {
        let builder = builder.tcp_nodelay(true).connect_timeout(CONNECT_TIMEOUT).redirect(redirects());
        // An unused connection is an open file too, and there may be many clients.
        let builder = builder.pool_max_idle_per_host((OpenFiles::now().exchanges / 64).clamp(2, MAX_IDLE));
        // No proxy knows our loopback.
        if is_loopback { builder.no_proxy() } else { builder }
    });
    client.expect("the options are ours and do not depend on the machine")
}

/// A request to be made, as often as it takes.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<String>,
}

impl Shared {
    /// The headers that every request of a session carries.
    pub(super) fn usual_headers(&self) -> HeaderMap {
        let mut headers = self.endpoint.headers.clone();
        if let Some(session) = self.session().and_then(|session| HeaderValue::from_str(&session).ok()) {
            headers.insert(if self.style == Style::Agent { AGENT_SESSION } else { SESSION }, session);
        }
        headers
    }

    /// A request that posts a line.
    pub(super) fn posting<'a>(&'a self, line: &str, headers: &[(String, String)]) -> Wanted<'a> {
        let mut all = self.usual_headers();
        all.insert(ACCEPT, HeaderValue::from_static(BOTH));
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            // A value that is not a valid header value cannot be mirrored; the server reports the missing header.
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
                all.insert(name, value);
            }
        }
        Wanted { method: Method::POST, url: &self.post_to, headers: all, body: Some(line.to_owned()) }
    }

    /// A request for a stream, or for the rest of one.
    pub(super) fn streaming(&self, after: Option<&str>) -> Wanted<'_> {
        let mut headers = self.usual_headers();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(version) = self.version().and_then(|version| HeaderValue::from_str(&version).ok()) {
            headers.insert(VERSION, version);
        }
        if let Some(after) = after.and_then(|after| HeaderValue::from_str(after).ok()) {
            headers.insert(LAST_EVENT_ID, after);
        }
        Wanted { method: Method::GET, url: &self.stream_from, headers, body: None }
    }

    /// Makes a request, and retries with better authorization as long as the authorizer can obtain it.
    pub(super) async fn fetch(&self, wanted: &Wanted<'_>) -> Result<Response, Loss> {
        let mut attempt = Attempt::default();
        for _ in 0..MAX_TRIES {
            let mut headers = wanted.headers.clone();
            if let Some(authorizer) = &self.endpoint.authorizer {
                let ready = authorizer.authorize(&mut attempt, &wanted.method, wanted.url, &mut headers).await;
                ready.map_err(|error| denied(&error))?;
            }
            let mut request = self.http.request(wanted.method.clone(), wanted.url.clone()).headers(headers.clone());
            if let Some(body) = &wanted.body {
                request = request.body(body.clone());
            }
            let response = request.send().await.map_err(|error| {
                // Without a connection nothing was sent.
                let loss = if error.is_connect() { Loss::Unsent(connect_error(wanted.url, &error)) } else { Loss::Broken };
                match distrust(&error) {
                    Some(why) => tracing::warn!(why, "the certificate of the upstream is not trusted: --ca, or `ca` of an upstream, names a file with its authority"),
                    None => tracing::debug!(error = %error.without_url(), "a request to the upstream failed"),
                }
                loss
            })?;
            let status = response.status();
            let (path, answer) = (wanted.url.path(), response.headers());
            self.endpoint.exchanges.answered(&wanted.method, path, &headers, status, answer);
            let is_denial = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            match &self.endpoint.authorizer {
                Some(authorizer) if is_denial => {
                    if let Err(error) = authorizer.challenged(&mut attempt, status, response.headers()).await {
                        return Err(match status {
                            StatusCode::UNAUTHORIZED => not_signed_in(&error),
                            _ => forbidden(&error, response).await,
                        });
                    }
                }
                None if is_denial => {
                    let error = denial(status, response.headers(), &headers);
                    return Err(match status {
                        StatusCode::FORBIDDEN => forbidden(&error, response).await,
                        _ if headers.contains_key(AUTHORIZATION) => {
                            Loss::Denied(format!("{HEADER_REFUSED}: {error}").into())
                        }
                        _ => denied(&error),
                    });
                }
                Some(authorizer) => {
                    authorizer.answered(response.headers());
                    return Ok(response);
                }
                None => return Ok(response),
            }
        }
        Err(Loss::Denied(format!("it still says no after {MAX_TRIES} tries").into()))
    }

    /// Tells the server that the session is over.
    pub(super) async fn end_session(&self) {
        if self.style != Style::Sessions || self.session().is_none() {
            return;
        }
        let mut wanted = self.streaming(None);
        wanted.method = Method::DELETE;
        // A server may not have it; then the session ends by itself.
        let _ = self.fetch(&wanted).await;
    }
}

/// Why a certificate was not accepted, if that is what went wrong.
fn distrust(error: &reqwest::Error) -> Option<String> {
    let mut causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.find_map(|cause| Some(cause.to_string()).filter(|text| text.starts_with("invalid peer certificate")))
}

/// Nothing will come of it, for a reason that the caller should hear.
fn denied(error: &AuthError) -> Loss {
    tracing::debug!(%error, "the upstream does not let us in");
    Loss::Denied(error.to_string().into())
}

/// The server answered with 403. If it asks for no other token and its body gives a reason, that is the reason;
/// otherwise the error is.
async fn forbidden(error: &AuthError, response: Response) -> Loss {
    if response.headers().contains_key(WWW_AUTHENTICATE) {
        return denied(error);
    }
    let body = read(response, MAX_COMPLAINT).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    match error_message(&body).map(|message| brief(&message)) {
        Some(reason) => Loss::Forbidden(reason.into()),
        None => denied(error),
    }
}

/// The reason of a server, cut to what can be shown. Secrets are taken out first: half a secret would not be found.
fn brief(reason: &str) -> String {
    const LONGEST: usize = 300;
    redact(reason).chars().take(LONGEST).collect()
}

/// The server wants a token, and there is none that it takes.
fn not_signed_in(error: &AuthError) -> Loss {
    let why = error.to_string();
    tracing::debug!(why, "the upstream does not let us in");
    Loss::Denied(match error {
        AuthError::Denied { .. } | AuthError::NoSignIn { .. } => why.into(),
        _ => format!("HTTP status 401; signing in failed: {why}").into(),
    })
}

/// The session that a response begins.
pub(super) fn session_of(response: &Response) -> Option<String> {
    response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// Whether a response is a stream of events.
pub(super) fn is_event_stream(response: &Response) -> bool {
    has_type(response, EVENT_STREAM)
}

/// Whether a response has this media type, with or without parameters.
pub(super) fn has_type(response: &Response, media_type: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.get(..media_type.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(media_type))
}
