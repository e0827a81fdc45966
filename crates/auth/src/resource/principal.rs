//! Principals, and which of them lost access.

use std::sync::Arc;

use http::Response;

use super::refusal::{Refusal, Scheme};
use crate::scopes::Scopes;

/// The principal of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// One name for issuer and subject together: equal names are the same principal.
    pub name: Arc<str>,
    /// The subject.
    pub subject: String,
    /// The issuer of the token. `None` for a configured token.
    pub issuer: Option<String>,
    /// The scopes of the token.
    pub scopes: Scopes,
    /// When the token expires, in seconds since 1970. `None` for a configured token.
    pub expires: Option<u64>,
    /// The scheme of the `Authorization` header.
    pub(super) scheme: Scheme,
}

impl Principal {
    /// A principal that is known by a name alone.
    pub fn named(name: &str, scopes: Scopes) -> Self {
        Self {
            name: name.into(),
            subject: name.to_owned(),
            issuer: None,
            scopes,
            expires: None,
            scheme: Scheme::Bearer,
        }
    }

    /// The response to a request that needs scopes which this token lacks.
    pub fn insufficient_scope(&self, needed: &Scopes) -> Response<String> {
        Refusal::InsufficientScope.response(self.scheme, None, needed)
    }
}

/// Principals that lost their access.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Withdrawal {
    /// The names of configured tokens.
    pub names: Vec<String>,
    /// Issuers. All their principals lost access.
    pub issuers: Vec<String>,
}
