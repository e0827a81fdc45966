//! Keeps the access rules of a service as the configuration has them now.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use gladhand_a2e_host::owner;
use gladhand_auth::resource::{Guard, Policy, Principal, Withdrawal};
use gladhand_auth::{AuthError, Scopes};
use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;
use gladhand_dialects::Pass;
use gladhand_dialects::mcp::http::called_tools;
use gladhand_server::access::Access;
use gladhand_server::http::{Authorize, Authorized};
use http::Response;
use http::request::Parts;

/// Whom the HTTP endpoint lets in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Admission {
    /// Every client that can reach it.
    #[default]
    Everyone,
    /// No client.
    NoOne,
    /// Clients with a token that the policy accepts.
    Policy(Box<Policy>),
}

impl Admission {
    /// The guard that decides so; none where every client is let in.
    fn guard(&self) -> Result<Option<Guard>, AuthError> {
        match self {
            Self::Everyone => Ok(None),
            Self::NoOne => Ok(Some(Guard::closed())),
            Self::Policy(policy) => Guard::new(Policy::clone(policy)).map(Some),
        }
    }
}

/// The access rules of a service, which follow the configuration.
#[derive(Debug, Default)]
pub struct FollowedAccess {
    access: Arc<Access>,
    followed: Mutex<Followed>,
}

/// The rules that are in force.
#[derive(Debug, Default)]
struct Followed {
    guard: Option<Arc<Guard>>,
    /// The settings that the guard was built from.
    admission: Admission,
    /// Whether the configuration has no pass any more, so that the pass in force is one that no one has.
    has_lost_passes: bool,
}

impl FollowedAccess {
    /// The access rules of a service that no configuration has changed yet.
    pub fn of(access: &Arc<Access>) -> Self {
        Self { access: Arc::clone(access), followed: Mutex::default() }
    }

    /// Lets in whom these two name and no one else, and returns whether that changed something. An unusable policy changes
    /// nothing.
    ///
    /// An endpoint that asked for tokens and has none any more lets in no one.
    pub fn follow(&self, admission: &Admission, passes: Vec<Pass>) -> Result<bool, AuthError> {
        let mut followed = self.followed.lock().unpoisoned();
        let is_new_guard = *admission != followed.admission;
        let guard = if is_new_guard { admission.guard()? } else { None };
        let is_new_pass = match followed.has_lost_passes {
            true => !passes.is_empty(),
            false => !are_same(&passes, &self.access.passes()),
        };
        if is_new_guard {
            followed.admission = admission.clone();
            if let Some((guard, withdrawal)) = followed.next_guard(guard) {
                followed.guard = Some(Arc::clone(&guard));
                self.access.set_guard(Arc::new(EndpointGuard(guard)), withdrawal);
            }
        }
        if is_new_pass {
            followed.has_lost_passes = passes.is_empty();
            self.access.set_passes(if passes.is_empty() { vec![unknown_pass()] } else { passes });
        }
        Ok(is_new_guard || is_new_pass)
    }
}

impl Followed {
    /// The guard that replaces the one in force, and the principals that lose access. `None`: there was no guard, and there
    /// is none now.
    fn next_guard(&self, next: Option<Guard>) -> Option<(Arc<Guard>, Withdrawal)> {
        let Some(old) = &self.guard else { return next.map(|next| (Arc::new(next), Withdrawal::default())) };
        let next = next.unwrap_or_else(|| {
            tracing::warn!(
                "[authorization] has no token and no issuer any more: no request is let in until a token is added; the next start is open to everybody who can reach it"
            );
            Guard::closed()
        });
        let withdrawal = old.withdrawn_by(&next);
        Some((Arc::new(next.succeeding(old)), withdrawal))
    }
}

/// The verifier of tokens, as the guard of the HTTP endpoint.
#[derive(Debug)]
struct EndpointGuard(Arc<Guard>);

impl Authorize for EndpointGuard {
    fn authorize<'a>(&'a self, head: &'a Parts) -> Pin<Box<dyn Future<Output = Authorized> + Send + 'a>> {
        Box::pin(async move {
            match self.0.check(head).await {
                Ok(principal) => Ok(Some(principal)),
                Err(refusal) => Err(Box::new(refusal.map(Bytes::from))),
            }
        })
    }

    fn permit(&self, principal: &Principal, message: &[u8]) -> Result<(), Box<Response<Bytes>>> {
        self.permit_tools(principal, &|| called_tools(message))
    }

    fn permit_tools(&self, principal: &Principal, tools: &dyn Fn() -> Vec<String>) -> Result<(), Box<Response<Bytes>>> {
        if !self.0.limits_tools() {
            return Ok(());
        }
        self.0.permits(principal, &tools()).map_err(|refusal| Box::new(refusal.map(Bytes::from)))
    }

    fn insufficient_scope(&self, principal: &Principal, needed: &Scopes) -> Box<Response<Bytes>> {
        Box::new(self.0.insufficient_scope(principal, needed).map(Bytes::from))
    }

    fn document(&self, path: &str) -> Option<Response<Bytes>> {
        self.0.metadata(path).map(|document| document.map(Bytes::from))
    }
}

/// A pass that no one has: the last one was taken back, and an empty list would let in everyone.
fn unknown_pass() -> Pass {
    tracing::warn!("[a2e] has no token any more: no agent is let in until the next start");
    Pass::any(gladhand_system::random_token())
}

/// A pass for a token that any agent may use. A token without a name is its own principal.
pub fn unnamed_pass(token: Secret) -> Pass {
    Pass { principal: Some(owner::of_token(&token)), ..Pass::any(token) }
}

fn are_same(some: &[Pass], others: &[Pass]) -> bool {
    let is_same = |one: &Pass, other: &Pass| {
        one.token.matches(&other.token)
            && (&one.client, &one.capabilities, &one.principal)
                == (&other.client, &other.capabilities, &other.principal)
    };
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}

#[cfg(test)]
mod tests {
    use gladhand_auth::Scopes;
    use gladhand_auth::resource::{Issuer, KeySource, KnownToken};

    use super::*;

    fn config(tokens: &[(&str, &str)]) -> Admission {
        let known = |(name, token): &(&str, &str)| KnownToken {
            name: (*name).to_owned(),
            token: Secret::new(*token),
            scopes: Scopes::default(),
        };
        match tokens {
            [] => Admission::Everyone,
            _ => {
                let tokens = tokens.iter().map(known).collect();
                Admission::Policy(Box::new(Policy { tokens, ..Policy::default() }))
            }
        }
    }

    fn with_issuer(issuer: &str) -> Admission {
        let issuers = vec![Issuer { issuer: issuer.to_owned(), keys: KeySource::File("/nowhere".into()) }];
        let resource = Some("https://me.example".parse().unwrap());
        Admission::Policy(Box::new(Policy { issuers, resource, ..Policy::default() }))
    }

    fn pass(token: &str) -> Pass {
        Pass::any(Secret::new(token))
    }

    #[test]
    fn only_the_principal_of_a_removed_token_loses_access() {
        let access = FollowedAccess::default();
        assert!(access.access.guard().is_none());
        assert!(access.follow(&config(&[("ann", "a"), ("bob", "b")]), Vec::new()).unwrap());
        let since = access.access.epoch();
        assert!(access.access.guard().is_some());
        assert!(access.access.has_withdrawn(None, 0), "who came in before there was a guard");
        assert!(!access.follow(&config(&[("ann", "a"), ("bob", "b")]), Vec::new()).unwrap(), "nothing is different");
        assert_eq!(access.access.epoch(), since);
        assert!(access.follow(&config(&[("bob", "b")]), Vec::new()).unwrap());
        assert!(access.access.has_withdrawn(Some("ann"), since) && !access.access.has_withdrawn(Some("bob"), since));
        assert!(access.follow(&config(&[("bob", "b"), ("ann", "new")]), Vec::new()).unwrap());
        assert!(
            access.access.has_withdrawn(Some("ann"), since)
                && !access.access.has_withdrawn(Some("ann"), access.access.epoch())
        );
    }

    #[test]
    fn a_closed_endpoint_stays_closed_after_a_reload() {
        let access = FollowedAccess::default();
        access.follow(&config(&[("ann", "a")]), vec![pass("p")]).unwrap();
        let since = access.access.epoch();
        access.follow(&config(&[]), Vec::new()).unwrap();
        assert!(access.access.guard().is_some() && access.access.has_withdrawn(Some("ann"), since));
        assert!(access.access.asks_for_passes() && !access.access.passes()[0].token.matches(&Secret::new("p")));
        assert!(!access.follow(&config(&[]), Vec::new()).unwrap(), "nothing is different");
        // With a token again, it is open to that one.
        access.follow(&config(&[("bob", "b")]), vec![pass("q")]).unwrap();
        assert!(are_same(&access.access.passes(), &[pass("q")]));
    }

    #[test]
    fn a_pass_that_stands_for_another_principal_is_another_one() {
        let of = |principal: &str| vec![Pass { principal: Some(principal.into()), ..pass("p") }];
        let access = FollowedAccess::default();
        access.access.set_passes(of("named:team"));
        assert!(!access.follow(&config(&[]), of("named:team")).unwrap());
        assert!(access.follow(&config(&[]), of("named:ops")).unwrap());
        assert_eq!(access.access.passes()[0].principal.as_deref(), Some("named:ops"));
    }

    #[test]
    fn a_policy_that_cannot_be_used_changes_nothing() {
        let access = FollowedAccess::default();
        access.follow(&config(&[("ann", "a")]), vec![pass("p")]).unwrap();
        let since = access.access.epoch();
        access.follow(&with_issuer("no address"), Vec::new()).unwrap_err();
        assert_eq!(access.access.epoch(), since);
        assert!(are_same(&access.access.passes(), &[pass("p")]));
    }

    #[test]
    fn all_principals_of_a_removed_issuer_lose_access() {
        let with = |issuer: &str| with_issuer(&format!("https://{issuer}.example"));
        let access = FollowedAccess::default();
        access.follow(&with("one"), Vec::new()).unwrap();
        let since = access.access.epoch();
        access.follow(&with("two"), Vec::new()).unwrap();
        assert!(access.access.has_withdrawn(Some("https://one.example ann"), since));
        assert!(!access.access.has_withdrawn(Some("https://two.example ann"), since));
    }
}
