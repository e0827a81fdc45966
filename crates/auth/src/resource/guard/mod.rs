//! Verifies the tokens of requests to our own endpoint.
//!
//! A [`Guard`] reads the headers of a request and returns its principal, or the refusal. It accepts two kinds of
//! tokens: configured tokens, and JSON web tokens of configured issuers that are made for us. It answers from
//! memory unless it must fetch the keys of an issuer. Tokens are only read from the `Authorization` header.

mod keys;
mod proof;
mod token;
mod tools;
mod withdrawal;

use std::fmt;
use std::path::PathBuf;

use gladhand_core::Secret;
use http::request::Parts;
use http::{HeaderMap, Response, header};
use serde_json::json;
use url::Url;

use self::keys::Keys;
use self::proof::Proofs;
use self::token::Verifier;
pub use self::tools::ToolScopes;
use super::refusal::{ALGORITHMS, json_response};
use super::{Principal, Refusal, Scheme};
use crate::error::AuthError;
use crate::scopes::Scopes;

/// The location of protected-resource metadata (RFC 9728 section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Which requests are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Our own address as clients know it, and the audience of tokens. Required if there is an issuer.
    pub resource: Option<Url>,
    /// The path at which our server serves `resource`. Proofs for `resource` are valid there and at no other path.
    pub endpoint: String,
    /// Further audiences that mean us.
    pub audiences: Vec<String>,
    /// The issuers whose tokens are accepted.
    pub issuers: Vec<Issuer>,
    /// The configured tokens.
    pub tokens: Vec<KnownToken>,
    /// The scopes that every request needs.
    pub scopes: Scopes,
    /// The additional scopes of individual tools.
    pub tools: ToolScopes,
    /// How tokens that are bound to a key are handled.
    pub dpop: Dpop,
}

/// How tokens of issuers that are bound to a key of their owner are handled (RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dpop {
    /// They are not supported.
    Off,
    /// They are accepted with a proof. Other tokens are accepted too.
    #[default]
    Accepted,
    /// Only they are accepted. Configured tokens still are.
    Required,
}

/// An authorization server whose tokens are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// The identifier, exactly as the issuer writes it.
    pub issuer: String,
    /// The source of its keys.
    pub keys: KeySource,
}

impl Issuer {
    /// Whether a guard can use it: without this, `Guard::new` fails.
    pub fn check(&self) -> Result<(), AuthError> {
        keys::address(&self.issuer, &self.keys).map(drop)
    }

    /// Whether the file of its keys, if it has one, is a key set with a key that can be used.
    pub fn check_file(&self) -> Result<(), AuthError> {
        let KeySource::File(path) = &self.keys else { return Ok(()) };
        match keys::keys_in(&self.issuer, path)?.is_empty() {
            true => Err(AuthError::MissingFeature { issuer: path.display().to_string(), feature: "usable key" }),
            false => Ok(()),
        }
    }
}

/// The source of an issuer's public keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The address in its metadata.
    Metadata,
    /// This address.
    Url(Url),
    /// This file.
    File(PathBuf),
}

/// A configured token.
#[derive(Debug, Clone)]
pub struct KnownToken {
    /// The name of the principal.
    pub name: String,
    /// The token.
    pub token: Secret,
    /// The scopes of the token.
    pub scopes: Scopes,
}

impl PartialEq for KnownToken {
    fn eq(&self, other: &Self) -> bool {
        self.token.matches(&other.token) && (&self.name, &self.scopes) == (&other.name, &other.scopes)
    }
}

impl Eq for KnownToken {}

/// Checks the requests to one endpoint.
pub struct Guard {
    tokens: Vec<KnownToken>,
    /// The issuers whose tokens the verifier accepts, as configured.
    issuers: Vec<Issuer>,
    verifier: Verifier,
    scopes: Scopes,
    tools: ToolScopes,
    dpop: Dpop,
    /// Checks proofs for tokens that are bound to a key. `None` if our own address is unknown or DPoP is off.
    proofs: Option<Proofs>,
    metadata: Option<Metadata>,
}

/// The document that lists the issuers of tokens for us.
struct Metadata {
    url: String,
    paths: [String; 2],
    document: String,
}

impl Guard {
    /// Creates a guard with this policy.
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

    /// A guard that refuses every request.
    pub fn closed() -> Self {
        let verifier = Verifier::new(Vec::new(), Vec::new());
        let Policy { tokens, issuers, scopes, tools, dpop, .. } = Policy::default();
        Self { tokens, issuers, verifier, scopes, tools, dpop, proofs: None, metadata: None }
    }

    /// Returns the principal of a request, or the response that refuses it.
    ///
    /// Only waits if the keys of an issuer must be fetched.
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

    /// Whether some tools need additional scopes.
    pub fn limits_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Whether a principal may call these tools. Otherwise returns the response that refuses the call.
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

    /// The response to a principal whose token lacks scopes for a request. It also names our metadata.
    pub fn insufficient_scope(&self, principal: &Principal, needed: &Scopes) -> Response<String> {
        let mut all = self.scopes.clone();
        all.add(needed);
        *self.refuse(Refusal::InsufficientScope, principal.scheme, &all)
    }

    /// The metadata document, if the path is one of its locations.
    pub fn metadata(&self, path: &str) -> Option<Response<String>> {
        let metadata = self.metadata.as_ref()?;
        let found = metadata.paths.iter().any(|place| place == path);
        found.then(|| json_response(http::StatusCode::OK, metadata.document.clone()))
    }

    async fn identify(&self, head: &Parts, scheme: Scheme, token: &Secret) -> Result<Principal, Refusal> {
        // All tokens are compared, so that the time reveals nothing about a partial match.
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
            (_, Some(_), None) => wrong("the token is bound to a key, which is not supported here"),
            // A thief could present a stolen token in this way.
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
            document["dpop_signing_alg_values_supported"] = json!(ALGORITHMS);
        }
        if policy.dpop == Dpop::Required {
            document["dpop_bound_access_tokens_required"] = json!(true);
        }
        let specific = format!("{WELL_KNOWN}{}", resource.path().trim_end_matches('/'));
        let url = format!("{}{specific}", resource.origin().ascii_serialization());
        Self { url, paths: [specific, WELL_KNOWN.to_owned()], document: document.to_string() }
    }
}

/// An address as an identifier: without a trailing slash if the path is empty.
fn identifier(resource: &Url) -> String {
    match resource.path() {
        "/" => resource.origin().ascii_serialization(),
        _ => resource.to_string(),
    }
}

/// The token of a request, and its scheme.
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
