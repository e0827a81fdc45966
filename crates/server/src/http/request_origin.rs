//! The origin of a request, as far as it is known.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use gladhand_auth::resource::Principal;
use gladhand_dialects::Party;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visitor {
    /// The party whose share this origin uses.
    pub(super) party: Party,
    pub(super) address: PeerAddress,
}

/// The origin of a connection, as the log names it.
#[derive(Debug, Clone, Copy)]
pub(super) enum PeerAddress {
    Address(IpAddr),
    /// A Unix socket, with the user id if the system provides it.
    Socket(Option<u32>),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{}", address.to_canonical()),
            Self::Socket(Some(user)) => write!(f, "user {user}"),
            Self::Socket(None) => f.write_str("unknown user"),
        }
    }
}

impl Visitor {
    /// A client at an IP address. `secret` keeps a client from choosing a party that collides with another.
    pub(super) fn at(address: IpAddr, secret: &RandomState) -> Self {
        let prefix = match address.to_canonical() {
            // The owner of one IPv6 address usually controls its whole /64 prefix.
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
            other => other,
        };
        Self { party: Party(secret.hash_one((1, prefix))), address: PeerAddress::Address(address) }
    }

    /// A local user on a Unix socket.
    #[cfg(unix)]
    pub(super) fn on_socket(user: Option<u32>, secret: &RandomState) -> Self {
        Self { party: Party(secret.hash_one((2, user))), address: PeerAddress::Socket(user) }
    }

    /// The IP address. `None` on a Unix socket.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.address {
            PeerAddress::Address(address) => Some(address),
            PeerAddress::Socket(_) => None,
        }
    }

    /// Whether requests of this origin carry a host to check.
    pub(super) fn is_by_name(&self) -> bool {
        matches!(self.address, PeerAddress::Address(_))
    }
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestOrigin {
    /// The authenticated principal. Only this principal may use its sessions.
    pub(super) principal: Option<Arc<str>>,
    /// The scopes of the request's token, separated by spaces.
    pub(super) scopes: Option<Arc<str>>,
    /// The party whose share of the common limits the caller uses.
    pub(super) party: Party,
    /// The epoch in which the caller was admitted: see [`Access`](crate::access::Access).
    pub(super) epoch: u64,
}

impl RequestOrigin {
    /// An anonymous caller.
    pub(super) const NOBODY: Self = Self { principal: None, scopes: None, party: Party(0), epoch: u64::MAX };

    /// A principal, or else all callers at an address, admitted in an epoch.
    pub(super) fn new(principal: Option<&Principal>, visitor: &Visitor, secret: &RandomState, epoch: u64) -> Self {
        let by_name = |principal: &Principal| Party(secret.hash_one((0, &principal.name)));
        let party = principal.map_or(visitor.party, by_name);
        let scopes = principal.map(|principal| principal.scopes.to_string().into());
        Self { principal: principal.map(|principal| Arc::clone(&principal.name)), scopes, party, epoch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gladhand_auth::Scopes;

    #[test]
    fn parties_are_principals_or_else_places() {
        let secret = RandomState::new();
        let party = |principal: Option<&str>, address: &str| {
            let principal = principal.map(|name| Principal::named(name, Scopes::default()));
            RequestOrigin::new(principal.as_ref(), &Visitor::at(address.parse().unwrap(), &secret), &secret, 0).party
        };
        assert_eq!(party(Some("alice"), "10.0.0.1"), party(Some("alice"), "10.0.0.2"));
        assert_ne!(party(Some("alice"), "10.0.0.1"), party(Some("bob"), "10.0.0.1"));
        assert_ne!(party(None, "10.0.0.1"), party(None, "10.0.0.2"));
        assert_eq!(party(None, "10.0.0.1"), party(None, "::ffff:10.0.0.1"));
        assert_eq!(party(None, "2001:db8::1"), party(None, "2001:db8::ffff:2"));
        assert_ne!(party(None, "2001:db8::1"), party(None, "2001:db8:0:1::1"));
        let user = |user| Visitor::on_socket(user, &secret).party;
        assert!(user(Some(1)) == user(Some(1)) && user(Some(1)) != user(Some(2)) && user(Some(1)) != user(None));
    }
}
