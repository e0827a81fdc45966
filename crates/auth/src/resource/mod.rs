//! Guarding our own endpoint, as an OAuth resource server (RFC 6750, RFC 9728).
//!
//! A [`Guard`] looks at the headers of a request and names the principal it comes from, or words the refusal. Two kinds of
//! tokens are known: those that were configured here, and JSON web tokens of configured issuers, made for us. It
//! answers from memory unless the keys of an issuer must be fetched. Tokens are taken from the `Authorization`
//! header and from nowhere else.

mod keys;
mod proof;
mod refusal;
mod token;
mod tools;
mod withdrawal;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use gladhand_core::Secret;
use http::request::Parts;
use http::{HeaderMap, Response, header};
use serde_json::json;
use url::Url;

use self::keys::Keys;
use self::proof::Proofs;
pub use self::refusal::Refused;
use self::refusal::{Refusal, Scheme, json_response};
use self::token::Verifier;
pub use self::tools::ToolScopes;
pub use self::withdrawal::Withdrawal;
use crate::error::AuthError;
use crate::scopes::Scopes;

/// Where the metadata of a protected resource is found (RFC 9728 section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Who may come in.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Our own address as callers know it, which tokens must be made for. Needed as soon as there is an issuer.
    pub resource: Option<Url>,
    /// The path at which our server has what `resource` names. Proofs for `resource` hold there and at no other path.
    pub endpoint: String,
    /// Further audiences that mean us.
    pub audiences: Vec<String>,
    /// Whose tokens we accept.
    pub issuers: Vec<Issuer>,
    /// Tokens that are known by heart.
    pub tokens: Vec<KnownToken>,
    /// Scopes that every request needs.
    pub scopes: Scopes,
    /// Scopes that single tools need besides.
    pub tools: ToolScopes,
    /// What is made of tokens that are bound to a key.
    pub dpop: Dpop,
}

/// What is made of tokens of issuers that are bound to a key of their owner (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dpop {
    /// They are not known.
    Off,
    /// They are accepted with a proof, beside others.
    #[default]
    Accepted,
    /// No others are accepted. Tokens that are known by heart still are.
    Required,
}

/// An authorization server whose tokens we accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Its identifier, exactly as it writes it.
    pub issuer: String,
    /// Where its keys are.
    pub keys: KeySource,
}

/// Where the public keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Where its metadata says.
    Metadata,
    /// At this address.
    Url(Url),
    /// In this file.
    File(PathBuf),
}

/// A configured token.
#[derive(Debug, Clone)]
pub struct KnownToken {
    /// Whom it stands for.
    pub name: String,
    /// The token.
    pub token: Secret,
    /// What it may be used for.
    pub scopes: Scopes,
}

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// One name for issuer and subject together: equal names are the same principal.
    pub name: Arc<str>,
    /// The subject.
    pub subject: String,
    /// Who vouches for it. None for a configured token.
    pub issuer: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// When its token ends, in seconds since 1970. None for a configured token.
    pub expires: Option<u64>,
    /// How it presented its token.
    scheme: Scheme,
}

impl Principal {
    /// Somebody known by a name alone.
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

    /// The answer to a request that needs scopes which this token lacks.
    pub fn insufficient_scope(&self, needed: &Scopes) -> Response<String> {
        Refusal::InsufficientScope.response(self.scheme, None, needed)
    }
}

/// Stands at the door of one endpoint.
pub struct Guard {
    tokens: Vec<KnownToken>,
    /// Those whose tokens the verifier accepts, as they were configured.
    issuers: Vec<Issuer>,
    verifier: Verifier,
    scopes: Scopes,
    tools: ToolScopes,
    dpop: Dpop,
    /// Checks what goes with tokens that are bound to a key, where we know our own address.
    proofs: Option<Proofs>,
    metadata: Option<Metadata>,
}

/// The document that says who issues tokens for us.
struct Metadata {
    url: String,
    paths: [String; 2],
    document: String,
}

impl Guard {
    /// A guard with this policy.
    pub fn new(policy: Policy) -> Result<Self, AuthError> {
        let metadata = match &policy.resource {
            Some(resource) if !policy.issuers.is_empty() => Some(Metadata::of(resource, &policy)),
            _ => None,
        };
        let mut audiences = policy.audiences;
        if let Some(resource) = &policy.resource {
            audiences.push(identifier(resource));
        }
        let mut issuers = Vec::new();
        for issuer in &policy.issuers {
            let keys = Keys::new(&issuer.issuer, issuer.keys.clone())?;
            issuers.push((issuer.issuer.clone(), keys));
        }
        let proofs = policy.resource.filter(|_| policy.dpop != Dpop::Off);
        let proofs = proofs.map(|resource| Proofs::new(resource, policy.endpoint));
        let verifier = Verifier::new(issuers, audiences);
        let Policy { tokens, issuers, scopes, tools, dpop, .. } =
            Policy { audiences: Vec::new(), resource: None, endpoint: String::new(), ..policy };
        Ok(Self { tokens, issuers, verifier, scopes, tools, dpop, proofs, metadata })
    }

    /// A guard that lets in no one.
    pub fn closed() -> Self {
        let verifier = Verifier::new(Vec::new(), Vec::new());
        let Policy { tokens, issuers, scopes, tools, dpop, .. } = Policy::default();
        Self { tokens, issuers, verifier, scopes, tools, dpop, proofs: None, metadata: None }
    }

    /// Who a request with this head comes from, or the answer that it gets instead.
    ///
    /// Waits for nothing but keys that are not there yet.
    pub async fn check(&self, head: &Parts) -> Result<Principal, Box<Response<String>>> {
        let presented = presented(&head.headers, self.dpop);
        let scheme = match (&presented, self.dpop) {
            (Ok((scheme, _)), Dpop::Accepted) => *scheme,
            (_, Dpop::Required) => Scheme::Dpop,
            _ => Scheme::Bearer,
        };
        let refuse = |refusal| self.refuse(refusal, scheme, &self.scopes);
        let (scheme, token) = presented.map_err(refuse)?;
        let principal = self.identify(head, scheme, &token).await.map_err(refuse)?;
        if !principal.scopes.cover(&self.scopes) {
            return Err(refuse(Refusal::InsufficientScope));
        }
        Ok(principal)
    }

    /// Whether there are tools that not everybody who was let in may call.
    pub fn limits_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Whether somebody who was let in may call these tools, or the answer that they get instead.
    pub fn permits(&self, principal: &Principal, tools: &[impl AsRef<str>]) -> Result<(), Box<Response<String>>> {
        let mut needed = self.scopes.clone();
        for tool in tools {
            needed.add(&self.tools.of(tool.as_ref()));
        }
        match principal.scopes.cover(&needed) {
            true => Ok(()),
            false => Err(self.refuse(Refusal::InsufficientScope, principal.scheme, &needed)),
        }
    }

    /// The answer to a principal whose token lacks scopes for what it asks for. It names our metadata too.
    pub fn insufficient_scope(&self, principal: &Principal, needed: &Scopes) -> Response<String> {
        let mut all = self.scopes.clone();
        all.add(needed);
        *self.refuse(Refusal::InsufficientScope, principal.scheme, &all)
    }

    /// The metadata document, if the path is one of its places.
    pub fn metadata(&self, path: &str) -> Option<Response<String>> {
        let metadata = self.metadata.as_ref()?;
        let found = metadata.paths.iter().any(|place| place == path);
        found.then(|| json_response(http::StatusCode::OK, metadata.document.clone()))
    }

    async fn identify(&self, head: &Parts, scheme: Scheme, token: &Secret) -> Result<Principal, Refusal> {
        // All are compared, so that the time does not tell which one was near.
        let mut known = None;
        for candidate in &self.tokens {
            if candidate.token.matches(token) {
                known = Some(candidate);
            }
        }
        if let Some(known) = known.filter(|_| scheme == Scheme::Bearer) {
            return Ok(Principal::named(&known.name, known.scopes.clone()));
        }
        let (principal, bound_to) = self.verifier.verify(token).await?;
        let wrong = |why| Err(Refusal::InvalidToken(why));
        match (scheme, bound_to, &self.proofs) {
            (Scheme::Dpop, Some(thumbprint), Some(proofs)) => {
                proofs.check(head, token, &thumbprint)?;
                Ok(principal)
            }
            (_, Some(_), None) => wrong("the token is bound to a key, which cannot be proven here"),
            // Whoever stole it could present it like that.
            (Scheme::Bearer, Some(_), _) => wrong("the token is bound to a key: it needs a proof of possession"),
            (Scheme::Dpop, None, _) => wrong("the token is not bound to a key"),
            (Scheme::Bearer, None, _) if self.dpop == Dpop::Required => wrong("the token must be bound to a key"),
            (Scheme::Bearer, None, _) => Ok(principal),
        }
    }

    fn refuse(&self, refusal: Refusal, scheme: Scheme, needed: &Scopes) -> Box<Response<String>> {
        Box::new(refusal.response(scheme, self.metadata.as_ref().map(|metadata| metadata.url.as_str()), needed))
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("tokens", &self.tokens).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl Metadata {
    fn of(resource: &Url, policy: &Policy) -> Self {
        let mut scopes = policy.scopes.clone();
        scopes.add(&policy.tools.all());
        let issuers: Vec<_> = policy.issuers.iter().map(|issuer| &issuer.issuer).collect();
        let mut document = json!({
            "resource": identifier(resource),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if !scopes.is_empty() {
            document["scopes_supported"] = scopes.iter().collect();
        }
        if policy.dpop != Dpop::Off {
            document["dpop_signing_alg_values_supported"] = json!(proof::ALGORITHMS);
        }
        if policy.dpop == Dpop::Required {
            document["dpop_bound_access_tokens_required"] = json!(true);
        }
        let specific = format!("{WELL_KNOWN}{}", resource.path().trim_end_matches('/'));
        let url = format!("{}{specific}", resource.origin().ascii_serialization());
        Self { url, paths: [specific, WELL_KNOWN.to_owned()], document: document.to_string() }
    }
}

/// An address as an identifier: without a slash where there is no path.
fn identifier(resource: &Url) -> String {
    match resource.path() {
        "/" => resource.origin().ascii_serialization(),
        _ => resource.to_string(),
    }
}

/// The token that a request presents, and how.
fn presented(headers: &HeaderMap, dpop: Dpop) -> Result<(Scheme, Secret), Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::NoToken)?;
    if values.next().is_some() {
        return Err(Refusal::Malformed("more than one Authorization header"));
    }
    let text = value.to_str().map_err(|_| Refusal::Malformed("the Authorization header is not text"))?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    let scheme = match scheme {
        bearer if bearer.eq_ignore_ascii_case("bearer") => Scheme::Bearer,
        bound if bound.eq_ignore_ascii_case("dpop") && dpop != Dpop::Off => Scheme::Dpop,
        _ => return Err(Refusal::NoToken),
    };
    let token = token.trim_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_token) {
        return Err(Refusal::Malformed("the token is malformed"));
    }
    Ok((scheme, Secret::new(token)))
}
