//! Who may use a console.
//!
//! The console shows the messages of all clients. Without a token it is open only if the endpoint is: on loopback, without
//! authorization, and not behind a proxy that serves another host. A browser presents the token once in the address and
//! then in a cookie. Pages of other origins are refused, also those that may use the endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gladhand_core::Secret;
use gladhand_server::access::Access;
use http::Uri;
use http::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderValue, ORIGIN};
use http::uri::Authority;

/// The path of the page.
const PATH: &str = "/console";

/// Headers that a proxy adds.
const FORWARDED: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// The beginning of the name of the cookie. The port follows, because cookies of all ports of a host are one set.
const COOKIE_NAME: &str = "gladhand_console_";

/// The fewest characters of a chosen token.
const SHORTEST: usize = 16;

/// Who may use a console.
#[derive(Debug)]
pub(super) struct ConsoleAccess {
    token: Secret,
    /// Whether the operator chose the token, and so knows it.
    is_chosen: bool,
    /// Whether the token is needed in any case.
    is_exposed: bool,
    /// The authorization of the endpoint, which may change while it runs.
    endpoint: Option<Arc<Access>>,
    /// Whether the address with the token was told.
    is_told: AtomicBool,
}

/// A chosen token that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token of the console must have at least {SHORTEST} characters, only letters, digits, `-`, `_` and `.`")]
pub(super) struct UnfitToken;

/// Whether a token is long enough, and fits into addresses and cookies as it is.
fn is_fit(token: &str) -> bool {
    token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConsoleRefusal {
    /// The token is missing or wrong.
    Token,
    /// The request comes from a page of another origin.
    Origin,
}

/// A request that may use the console.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    /// The cookie for later requests, if the token was in the address.
    pub(super) cookie: Option<HeaderValue>,
}

impl ConsoleAccess {
    /// Access with a new token, or with one that the operator chose. `is_exposed`: the token is needed in any case. A token
    /// that was chosen is always needed, a new one also if the endpoint has an authorization.
    pub(super) fn new(
        is_exposed: bool,
        endpoint: Option<Arc<Access>>,
        chosen: Option<Secret>,
    ) -> Result<Self, UnfitToken> {
        let is_chosen = chosen.is_some();
        if chosen.as_ref().is_some_and(|token| !is_fit(token.expose())) {
            return Err(UnfitToken);
        }
        let token = chosen.unwrap_or_else(gladhand_system::random_token);
        let is_exposed = is_exposed || is_chosen;
        Ok(Self { token, is_chosen, is_exposed, endpoint, is_told: AtomicBool::new(is_chosen) })
    }

    /// Whether a request needs the token.
    pub(super) fn needs_token(&self) -> bool {
        let is_closed = |access: &Arc<Access>| access.guard().is_some() || access.asks_for_passes();
        self.is_exposed || self.endpoint.as_ref().is_some_and(is_closed)
    }

    /// Whether the endpoint asks clients of MCP for a token.
    pub(super) fn endpoint_needs_token(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|access| access.guard().is_some())
    }

    /// The address of the page, with the token if it is needed.
    pub(super) fn address(&self, base: &str) -> String {
        match self.needs_token() && !self.is_chosen {
            true => {
                self.is_told.store(true, Ordering::Relaxed);
                format!("{base}/console?token={}", self.token.expose())
            }
            false => format!("{base}/console"),
        }
    }

    /// Whether the token is needed and was not told. From then on it counts as told.
    pub(super) fn must_tell(&self) -> bool {
        self.needs_token() && !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Decides about a request. The guard on `Host` and `Origin` has let it in.
    pub(super) fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<Admitted, ConsoleRefusal> {
        let authority = uri.authority().map(Authority::as_str);
        let host = authority.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()));
        if is_foreign(headers, host, uri.path()) {
            return Err(ConsoleRefusal::Origin);
        }
        if !self.needs_token() {
            // A proxy may lead here from other machines, under a host name of this one.
            if FORWARDED.iter().any(|name| headers.contains_key(*name)) {
                return Err(ConsoleRefusal::Origin);
            }
            return Ok(Admitted { cookie: None });
        }
        let in_address =
            uri.query().into_iter().flat_map(|query| query.split('&')).find_map(|part| part.strip_prefix("token="));
        if in_address.is_some_and(|token| self.is_token(token)) {
            return Ok(Admitted { cookie: self.cookie(host) });
        }
        let text = |name| headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        let in_cookies = text(COOKIE).flat_map(|cookies| cookies.split(';')).filter_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            name.starts_with(COOKIE_NAME).then_some(value)
        });
        let in_header = text(AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
        match in_cookies.chain(in_header).any(|token| self.is_token(token)) {
            true => Ok(Admitted { cookie: None }),
            false => Err(ConsoleRefusal::Token),
        }
    }

    fn is_token(&self, text: &str) -> bool {
        self.token.matches(&Secret::new(text))
    }

    fn cookie(&self, host: Option<&str>) -> Option<HeaderValue> {
        let port = host.and_then(|host| host.rsplit_once(':')).map_or("", |(_, port)| port);
        let port = if port.bytes().all(|byte| byte.is_ascii_digit()) { port } else { "" };
        let token = self.token.expose();
        HeaderValue::from_str(&format!("{COOKIE_NAME}{port}={token}; Path=/console; HttpOnly; SameSite=Strict")).ok()
    }
}

/// Whether a request comes from a page of another origin. A browser says so in `Sec-Fetch-Site` or in `Origin`.
fn is_foreign(headers: &HeaderMap, host: Option<&str>, path: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_other_site = text("sec-fetch-site").is_some_and(|site| !["same-origin", "none"].contains(&site));
    // A link on another page opens the console, but that page cannot read it.
    let is_page = path.trim_end_matches('/') == PATH;
    let is_link = is_page && text("sec-fetch-mode") == Some("navigate") && text("sec-fetch-dest") == Some("document");
    let is_other_origin = text(ORIGIN.as_str()).is_some_and(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_none() || authority != host
    });
    is_other_origin || is_other_site && !is_link
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8080"));
        pairs.iter().for_each(|(name, value)| {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        });
        headers
    }

    fn page() -> Uri {
        Uri::from_static("/console")
    }

    fn with(query: &str) -> Uri {
        format!("/console?{query}").parse().unwrap()
    }

    #[test]
    fn a_console_that_is_exposed_needs_its_token_in_the_address_a_cookie_or_a_header() {
        let access = ConsoleAccess::new(true, None, None).unwrap();
        let token = access.token.expose().to_owned();
        assert_eq!(access.admit(&headers(&[]), &page()), Err(ConsoleRefusal::Token));
        assert_eq!(access.admit(&headers(&[]), &with("token=wrong")), Err(ConsoleRefusal::Token));
        assert_eq!(access.admit(&headers(&[]), &with(&format!("xtoken={token}"))), Err(ConsoleRefusal::Token));
        let admitted = access.admit(&headers(&[]), &with(&format!("a=1&token={token}"))).unwrap();
        let cookie = admitted.cookie.unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.starts_with("gladhand_console_8080=") && cookie.contains("HttpOnly"), "the cookie has its port");
        let cookie = cookie.split(';').next().unwrap();
        assert!(access.admit(&headers(&[("cookie", &format!("a=b; {cookie}"))]), &page()).is_ok());
        assert!(access.admit(&headers(&[("authorization", &format!("Bearer {token}"))]), &page()).is_ok());
        assert_eq!(
            access.admit(&headers(&[("cookie", "gladhand_console_8080=")]), &page()),
            Err(ConsoleRefusal::Token)
        );
        assert_eq!(access.address("http://h:1"), format!("http://h:1/console?token={token}"));
        assert!(!access.must_tell(), "the address was told");
    }

    #[test]
    fn pages_of_other_origins_are_refused_and_links_are_not() {
        let access = ConsoleAccess::new(false, None, None).unwrap();
        for (pairs, is_admitted) in [
            (&[][..], true),
            (&[("origin", "http://127.0.0.1:8080")], true),
            (&[("origin", "http://127.0.0.1:9090")], false),
            (&[("origin", "null")], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], false),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], true),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")], false),
        ] {
            assert_eq!(access.admit(&headers(pairs), &page()).is_ok(), is_admitted, "{pairs:?}");
        }
    }

    #[test]
    fn a_link_of_another_page_leads_to_the_page_only() {
        let access = ConsoleAccess::new(false, None, None).unwrap();
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        let admit = |path| access.admit(&headers(&link), &Uri::from_static(path));
        assert!(admit("/console").is_ok() && admit("/console/").is_ok());
        assert_eq!(admit("/console/data/approve"), Err(ConsoleRefusal::Origin));
    }

    #[test]
    fn a_console_without_a_token_refuses_requests_of_a_proxy() {
        for name in FORWARDED {
            let through = headers(&[(name, "192.0.2.1")]);
            let open = ConsoleAccess::new(false, None, None).unwrap();
            assert_eq!(open.admit(&through, &page()), Err(ConsoleRefusal::Origin), "{name}");
            let guarded = ConsoleAccess::new(true, None, None).unwrap();
            let token = with(&format!("token={}", guarded.token.expose()));
            assert!(guarded.admit(&through, &token).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_endpoint_that_asks_for_passes_closes_the_console_while_it_runs() {
        let endpoint = Arc::<Access>::default();
        let access = ConsoleAccess::new(false, Some(Arc::clone(&endpoint)), None).unwrap();
        assert!(access.admit(&headers(&[]), &page()).is_ok() && !access.must_tell());
        endpoint.set_passes(vec![gladhand_dialects::Pass::any(Secret::new("pass"))]);
        assert_eq!(access.admit(&headers(&[]), &page()), Err(ConsoleRefusal::Token));
        assert!(access.must_tell() && !access.must_tell());
    }

    #[test]
    fn a_chosen_token_is_always_needed_and_never_printed() {
        let chosen = |token: &str| ConsoleAccess::new(false, None, Some(Secret::new(token)));
        let access = chosen("0123456789-abc_D.").unwrap();
        assert_eq!(access.admit(&headers(&[]), &page()), Err(ConsoleRefusal::Token));
        assert!(access.admit(&headers(&[]), &with("token=0123456789-abc_D.")).is_ok());
        assert_eq!(access.address("http://h:1"), "http://h:1/console");
        for token in ["short", "0123456789abcde;f", "0123456789abcde f", "0123456789abcdé"] {
            assert_eq!(chosen(token).err(), Some(UnfitToken), "{token}");
        }
    }
}
