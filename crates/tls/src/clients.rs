//! Two clients with the same options: one for other hosts, and one for this machine.

use std::fmt;
use std::sync::OnceLock;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};

/// Clients for requests that carry a credential. They follow no redirect, because a redirect would send the credential
/// to a host that the user did not configure.
///
/// Requests to this machine use a client of their own, because a proxy cannot reach our loopback address. Each client is
/// created on first use: reading the system certificates would slow down every start.
pub struct Clients {
    options: Box<dyn Fn(ClientBuilder) -> ClientBuilder + Send + Sync>,
    remote: OnceLock<Client>,
    local: OnceLock<Client>,
}

impl Clients {
    /// Creates clients with these further options.
    pub fn new(options: impl Fn(ClientBuilder) -> ClientBuilder + Send + Sync + 'static) -> Self {
        Self { options: Box::new(options), remote: OnceLock::new(), local: OnceLock::new() }
    }

    /// The client for this address.
    pub fn client(&self, url: &Url) -> reqwest::Result<&Client> {
        let is_local = is_loopback(url);
        let cell = if is_local { &self.local } else { &self.remote };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let builder = (self.options)(crate::client_builder().redirect(Policy::none()));
        let client = if is_local { builder.no_proxy() } else { builder }.build()?;
        Ok(cell.get_or_init(|| client))
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("remote", &self.remote).field("local", &self.local).finish_non_exhaustive()
    }
}

/// Whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    // An IPv6 address has brackets here.
    match host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => is_localhost(host),
    }
}

/// Whether a name refers to this machine by definition.
pub fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_recognized() {
        for (address, expected) in [
            ("http://localhost:1/", true),
            ("http://LOCALHOST./", true),
            ("http://models.localhost/", true),
            ("http://127.0.0.1/", true),
            ("http://127.9.9.9:80/", true),
            ("http://[::1]:8080/", true),
            ("http://0x7f.1/", true),
            ("http://localhost.example.test/", false),
            ("http://notlocalhost/", false),
            ("http://10.0.0.1/", false),
            ("http://[::2]/", false),
            ("https://127.0.0.1.example.test/", false),
            ("file:///etc/hosts", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(address).unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn this_machine_has_a_client_of_its_own() {
        let clients = Clients::new(|builder| builder);
        let client = |address: &str| std::ptr::from_ref(clients.client(&Url::parse(address).unwrap()).unwrap());
        let (local, remote) = (client("http://127.0.0.1/"), client("http://example.test/"));
        assert_ne!(local, remote);
        assert_eq!((client("http://localhost/a"), client("https://example.test/b")), (local, remote));
    }
}
