//! HTTP exchanges at the tap: method, path, status and the headers that say how a message was understood.
//!
//! Credentials never pass: only the headers in [`HEADERS`] do, ids of sessions are masked, and a path has no query.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, HeaderName, Method, StatusCode};

use crate::tap::{Tap, TappedSession};

/// The headers that pass, in lower case.
const HEADERS: [&str; 17] = [
    "accept",
    "allow",
    "content-encoding",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "referer",
    "retry-after",
    "server",
    "user-agent",
    "www-authenticate",
    "x-session-id",
    "location",
];

/// Ids of sessions. Who knows one may be able to use the session, so the tap shows only that there is one.
const SESSION_IDS: [&str; 2] = ["mcp-session-id", "x-session-id"];

/// The longest value of a header that passes whole, in bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// An HTTP request whose response has begun. Its bodies are not part of it.
#[derive(Debug, Clone, Copy)]
pub struct HttpExchange<'a> {
    /// Its session. [`SessionId::NONE`](gladhand_hub::SessionId::NONE) if no session is known, for example because the
    /// request was refused.
    pub session: TappedSession,
    /// When the response began, on the monotonic clock.
    pub at: Instant,
    /// The method of the request.
    pub method: &'a Method,
    /// The path, without the query.
    pub path: &'a str,
    /// The headers of the request.
    pub request: &'a HeaderMap,
    /// The status of the response.
    pub status: StatusCode,
    /// The headers of the response.
    pub response: &'a HeaderMap,
}

impl HttpExchange<'_> {
    /// The headers of the request that may be shown.
    pub fn shown_request(&self) -> Vec<(String, String)> {
        shown(self.request)
    }

    /// The headers of the response that may be shown.
    pub fn shown_response(&self) -> Vec<(String, String)> {
        shown(self.response)
    }
}

/// The headers that may be shown, in the order of [`HEADERS`].
fn shown(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for name in HEADERS {
        let name = HeaderName::from_static(name);
        for value in headers.get_all(&name) {
            let value = match String::from_utf8_lossy(value.as_bytes()) {
                _ if SESSION_IDS.contains(&name.as_str()) => "***".to_owned(),
                value => cut(&value),
            };
            shown.push((name.as_str().to_owned(), value));
        }
    }
    shown
}

fn cut(value: &str) -> String {
    if value.len() <= MAX_VALUE_BYTES {
        return value.to_owned();
    }
    format!("{}…", &value[..value.floor_char_boundary(MAX_VALUE_BYTES)])
}

/// The tap, as the HTTP client of one session uses it.
#[derive(Debug, Clone)]
pub struct SessionExchanges {
    tap: Arc<Tap>,
    session: TappedSession,
}

impl SessionExchanges {
    /// The exchanges of a session with an upstream that begins.
    pub fn of_new_upstream(tap: Arc<Tap>) -> Self {
        Self { tap, session: TappedSession::next_upstream() }
    }

    /// The session.
    pub fn session(&self) -> TappedSession {
        self.session
    }

    /// A request got its response.
    pub fn answered(&self, method: &Method, path: &str, request: &HeaderMap, status: StatusCode, response: &HeaderMap) {
        if self.tap.is_on() {
            let (session, at) = (self.session, Instant::now());
            self.tap.exchange(&HttpExchange { session, at, method, path, request, status, response });
        }
    }
}

impl Default for SessionExchanges {
    fn default() -> Self {
        Self::of_new_upstream(Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn no_credential_passes_the_tap_with_the_headers_of_an_exchange() {
        let mut request = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer abc"),
            ("cookie", "session=abc"),
            ("proxy-authorization", "Basic abc"),
            ("dpop", "abc"),
            ("x-api-key", "abc"),
            ("mcp-param-key", "abc"),
            ("mcp-session-id", "abc"),
            ("x-session-id", "abc"),
            ("accept", "text/event-stream"),
        ] {
            request.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let shown = shown(&request);
        assert!(shown.iter().all(|(_, value)| !value.contains("abc")), "{shown:?}");
        assert_eq!(shown[0], ("accept".to_owned(), "text/event-stream".to_owned()));
        assert_eq!(shown.len(), 3, "{shown:?}");
    }

    #[test]
    fn a_long_header_is_cut_between_characters() {
        let value = HeaderValue::from_str(&format!("x{}", "é".repeat(MAX_VALUE_BYTES))).unwrap();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("accept"), value)]);
        let (_, value) = shown(&headers).remove(0);
        assert!(value.ends_with("é…") && value.len() <= MAX_VALUE_BYTES + 3, "{}", value.len());
    }
}
