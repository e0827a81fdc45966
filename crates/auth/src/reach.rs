//! Decides which addresses a server may direct us to: no private ones, unless the server itself is on one.
//!
//! A server names the addresses of its metadata and its authorization server. Without this rule, any server on the
//! internet could make us send requests to services in our own network. The rule applies to the IP address of the
//! connection, not to the name: [`Reach`] is the resolver of the HTTP client, so a name cannot resolve differently
//! between check and use. If a proxy makes the connections, the proxy resolves names, and only IP addresses in URLs
//! are checked here.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_tls::is_localhost;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::OnceCell;
use url::{Host, Url};

/// The addresses that are allowed on behalf of one server. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Option<Host<String>>,
    /// Whether the server is on a private address. It is looked up once: later DNS answers change nothing.
    is_private: OnceCell<bool>,
    /// The requested host names. The name of a proxy is not among them, and may resolve to a private address.
    requested_names: Mutex<HashSet<String>>,
}

/// The requested address is private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address is private, and the server is not")]
pub(crate) struct Private;

impl Reach {
    pub(crate) fn of(server: &Url) -> Self {
        let server = server.host().map(|host| host.to_owned());
        Self { shared: Arc::new(Shared { server, is_private: OnceCell::new(), requested_names: Mutex::default() }) }
    }

    /// Whether an address is allowed, as far as that is known before connecting.
    pub(crate) async fn admits(&self, url: &Url) -> Result<(), Private> {
        let is_private = match url.host() {
            Some(Host::Ipv4(address)) => is_private(address.into()),
            Some(Host::Ipv6(address)) => is_private(address.into()),
            Some(Host::Domain(name)) => {
                self.requested_names().insert(name.to_ascii_lowercase());
                is_localhost(name)
            }
            None => true,
        };
        if is_private && !self.server_is_private().await { Err(Private) } else { Ok(()) }
    }

    /// The same check for an address that another program will connect to: its name must not resolve to private
    /// addresses either.
    pub(crate) async fn admits_for_others(&self, url: &Url) -> Result<(), Private> {
        self.admits(url).await?;
        let Some(Host::Domain(name)) = url.host() else { return Ok(()) };
        match look_up(name).await {
            Ok(found) if found.iter().any(|address| is_private(address.ip())) && !self.server_is_private().await => {
                Err(Private)
            }
            // A name that cannot be resolved is harmless.
            _ => Ok(()),
        }
    }

    async fn server_is_private(&self) -> bool {
        let look = || async {
            match &self.shared.server {
                Some(Host::Ipv4(address)) => is_private((*address).into()),
                Some(Host::Ipv6(address)) => is_private((*address).into()),
                Some(Host::Domain(name)) => {
                    let found = look_up(name).await.unwrap_or_default();
                    !found.is_empty() && found.iter().all(|address| is_private(address.ip()))
                }
                None => false,
            }
        };
        *self.shared.is_private.get_or_init(look).await
    }

    fn requested_names(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.shared.requested_names.lock().unpoisoned()
    }

    async fn resolved(&self, name: &str) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
        let mut found = look_up(name).await?;
        let is_checked = self.requested_names().contains(&name.to_ascii_lowercase());
        if is_checked && found.iter().any(|address| is_private(address.ip())) && !self.server_is_private().await {
            found.retain(|address| !is_private(address.ip()));
            if found.is_empty() {
                return Err(Private.into());
            }
        }
        Ok(found)
    }
}

impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.clone();
        Box::pin(async move {
            let found = reach.resolved(name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

async fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.collect())
}

/// Whether an error of the HTTP client has the cause [`Private`].
pub(crate) fn is_of_private(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<Private>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether an address is not part of the public internet.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        // This network, shared address space, protocol assignments, benchmarks, reserved.
        || matches!((a, b, c), (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240.., ..))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Unspecified, loopback, and all forms of embedded IPv4 addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => true,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => embedded(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => true,
        [0x2002, high, low, ..] => embedded(high, low),
        // Unique local, link-local, site-local, multicast, documentation.
        [first, ..] => {
            matches!(first, 0xfc00..=0xfdff | 0xfe80..=0xfeff | 0xff00..) || segments[..2] == [0x2001, 0xdb8]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(server: &str) -> Reach {
        Reach::of(&Url::parse(server).unwrap())
    }

    #[test]
    fn private_addresses_are_recognized_in_all_forms() {
        for private in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    #[tokio::test]
    async fn a_public_server_reaches_no_private_address_however_it_is_written() {
        let reach = reach("https://1.1.1.1/mcp");
        for address in [
            "https://10.0.0.1/",
            "https://0x7f.1/",
            "https://2130706433/",
            "https://[::ffff:169.254.169.254]/",
            "http://169.254.169.254/latest/meta-data",
        ] {
            assert_eq!(reach.admits(&Url::parse(address).unwrap()).await, Err(Private), "{address}");
        }
        assert_eq!(reach.admits(&Url::parse("https://8.8.8.8/").unwrap()).await, Ok(()));
        let by_name = Url::parse("https://a.localhost./").unwrap();
        assert_eq!(reach.admits(&by_name).await, Err(Private));
        // Any other name is checked when it is resolved.
        reach.requested_names().insert("localhost".to_owned());
        let refused = reach.resolved("localhost").await.unwrap_err();
        assert!(refused.is::<Private>(), "{refused}");
        assert_eq!(reach.admits_for_others(&by_name).await, Err(Private));
    }

    #[tokio::test]
    async fn a_private_server_reaches_private_addresses() {
        for server in
            ["http://127.0.0.1:1/mcp", "https://192.168.0.9/mcp", "https://[fd00::1]/mcp", "http://localhost/"]
        {
            let reach = reach(server);
            let url = Url::parse("https://localhost/").unwrap();
            assert_eq!(reach.admits(&Url::parse("https://10.0.0.1/").unwrap()).await, Ok(()), "{server}");
            assert_eq!(reach.admits_for_others(&url).await, Ok(()), "{server}");
            assert!(reach.resolved("localhost").await.is_ok(), "{server}");
        }
    }

    #[tokio::test]
    async fn a_proxy_may_be_private() {
        let found = reach("https://1.1.1.1/mcp").resolved("localhost").await;
        assert!(found.is_ok(), "a proxy name is not checked");
    }
}
