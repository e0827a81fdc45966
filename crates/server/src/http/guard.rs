//! Which hosts a request may be addressed to, and which web pages it may come from.
//!
//! A page in a browser can make its own name resolve to a loopback address and then talk to any server that listens
//! there. The name is still in `Host`, and the page in `Origin`: both must be expected ones.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::{HeaderMap, Uri};

/// The expected values of `Host` and `Origin`.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard {
    /// The values that most requests have. They are compared without parsing.
    usual: Vec<String>,
    bound: Vec<IpAddr>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request to another host is refused. Clients and the log are told the same.
pub(super) const HOST_REFUSED: &str =
    "this Host is not served here; the operator adds it with --allow-host HOST or `http.allow_hosts`";

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// The request is addressed to another host.
    Host,
    /// It comes from a web page that is not expected.
    Origin,
}

impl Turned {
    /// The reason in words.
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Host => HOST_REFUSED,
            Self::Origin => {
                "this Origin is not allowed here; the operator adds it with --allow-origin ORIGIN or `http.allow_origins`"
            }
        }
    }
}

impl Guard {
    /// Whether a text has the form of a host, with or without a port. It says nothing of whether the host is served.
    pub(super) fn is_host(authority: &str) -> bool {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        authority.bytes().all(is_usual) && without_port(authority).is_some()
    }

    /// Loopback names, the addresses that are listened on, and what is listed.
    pub(super) fn new(bound: &[SocketAddr], hosts: Vec<String>, origins: Vec<String>) -> Self {
        let usual = bound.iter().flat_map(|address| [address.to_string(), format!("localhost:{}", address.port())]);
        Self { usual: usual.collect(), bound: bound.iter().map(SocketAddr::ip).collect(), hosts, origins }
    }

    /// Looks at a request, and says which page it comes from. `by_name` says whether there is a host in its address at
    /// all.
    pub(super) fn admit<'h>(
        &self,
        headers: &'h HeaderMap,
        uri: &Uri,
        by_name: bool,
    ) -> Result<Option<&'h HeaderValue>, Turned> {
        let host = only(headers, HOST).map_err(|()| Turned::Host)?;
        let origin = only(headers, ORIGIN).map_err(|()| Turned::Origin)?;
        if by_name {
            let host = host.and_then(|host| host.to_str().ok());
            let authority = uri.authority().map(http::uri::Authority::as_str).or(host);
            if !authority.is_some_and(|authority| self.knows_host(authority)) {
                return Err(Turned::Host);
            }
        }
        match origin {
            Some(origin) if !self.knows_origin(origin) => Err(Turned::Origin),
            known => Ok(known),
        }
    }

    fn knows_origin(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let page = origin.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        page.is_some_and(|(_, authority)| self.knows_host(authority))
    }

    fn knows_host(&self, authority: &str) -> bool {
        if self.usual.iter().any(|usual| usual == authority) {
            return true;
        }
        let Some(host) = without_port(authority) else { return false };
        let listed = |known: &String| known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(authority);
        if host.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(listed) {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || self.bound.contains(&address))
    }
}

/// A header that may be there once. If two values differ, a proxy may have checked the other one.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, ()> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    values.next().map_or(Ok(first), |_| Err(()))
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn without_port(authority: &str) -> Option<&str> {
    let end = match authority.find(']') {
        Some(bracket) if authority.starts_with('[') => bracket + 1,
        Some(_) => return None,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (is_port && !host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(
            &["192.168.1.5:80".parse().unwrap(), "0.0.0.0:80".parse().unwrap()],
            vec!["mcp.example.com".to_owned(), "other.example:81".to_owned()],
            vec!["https://app.example".to_owned()],
        )
    }

    fn admit(host: Option<&str>, origin: Option<&str>) -> Result<(), Turned> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        guard().admit(&headers, &Uri::from_static("/mcp"), true).map(|_| ())
    }

    #[test]
    fn only_expected_hosts_are_admitted() {
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
            "192.168.1.5:9",
            "192.168.1.5:80",
            "localhost:80",
            "mcp.example.com",
            "mcp.example.com:444",
            "other.example:81",
        ] {
            assert_eq!(admit(Some(host), None), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "other.example",
            "localhost:x",
            "[::1",
            "::1]",
            "192.168.1.6",
            "localhost@evil.example",
            "[::1]evil",
        ] {
            assert_eq!(admit(Some(host), None), Err(Turned::Host), "{host}");
        }
        assert_eq!(admit(None, None), Err(Turned::Host));
    }

    #[test]
    fn only_expected_origins_are_admitted() {
        for origin in ["http://localhost:3000", "https://127.0.0.1", "https://app.example", "http://mcp.example.com"] {
            assert_eq!(admit(Some("localhost"), Some(origin)), Ok(()), "{origin}");
        }
        for origin in
            ["null", "", "http://evil.example", "http://app.example", "file://localhost", "http://localhost/x"]
        {
            assert_eq!(admit(Some("localhost"), Some(origin)), Err(Turned::Origin), "{origin}");
        }
    }

    #[test]
    fn requests_with_several_hosts_or_origins_are_refused() {
        for (name, turned) in [(HOST, Turned::Host), (ORIGIN, Turned::Origin)] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost"));
            headers.insert(ORIGIN, HeaderValue::from_static("http://localhost"));
            let page = HeaderValue::from_static("http://localhost");
            assert_eq!(guard().admit(&headers, &Uri::from_static("/mcp"), true), Ok(Some(&page)));
            headers.append(name, HeaderValue::from_static("evil.example"));
            assert_eq!(guard().admit(&headers, &Uri::from_static("/mcp"), true), Err(turned));
        }
    }

    #[test]
    fn an_address_in_the_request_line_wins_over_the_header() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        let uri = Uri::from_static("http://evil.example/mcp");
        assert_eq!(guard().admit(&headers, &uri, true), Err(Turned::Host));
        assert_eq!(guard().admit(&headers, &uri, false), Ok(None));
    }
}
