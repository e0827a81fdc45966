//! Guarding our own endpoint, as an OAuth resource server (RFC 6750, RFC 9728).
//!
//! A [`Guard`] looks at the headers of a request and names the principal it comes from, or words the refusal. Two kinds of
//! tokens are known: those that were configured here, and JSON web tokens of configured issuers, made for us. It
//! answers from memory unless the keys of an issuer must be fetched. Tokens are taken from the `Authorization`
//! header and from nowhere else.

mod keys;
mod refusal;
mod token;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use gladhand_accord::Secret;
use http::{HeaderMap, Response, header};
use serde_json::json;
use url::Url;

use self::keys::Keys;
use self::refusal::{Refusal, json_response};
use self::token::Verifier;
use crate::error::AuthError;
use crate::scopes::Scopes;

/// Where the metadata of a protected resource is found (RFC 9728 section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Who may come in.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Our own address as callers know it, which tokens must be made for. Needed as soon as there is an issuer.
    pub resource: Option<Url>,
    /// Further audiences that mean us.
    pub audiences: Vec<String>,
    /// Whose tokens we accept.
    pub issuers: Vec<Issuer>,
    /// Tokens that are known by heart.
    pub tokens: Vec<KnownToken>,
    /// Scopes that every request needs.
    pub scopes: Scopes,
    /// Scopes that single methods need besides.
    pub methods: BTreeMap<String, Scopes>,
    /// Scopes that single tools need besides.
    pub tools: BTreeMap<String, Scopes>,
}

/// An authorization server whose tokens we accept.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Its identifier, exactly as it writes it.
    pub issuer: String,
    /// Where its keys are.
    pub keys: KeySource,
}

/// Where the public keys of an issuer are.
#[derive(Debug, Clone)]
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
}

/// What a request is about, as far as scopes depend on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wants<'a> {
    /// The method that is called.
    pub method: Option<&'a str>,
    /// The tool that is called.
    pub tool: Option<&'a str>,
}

/// Stands at the door of one endpoint.
pub struct Guard {
    tokens: Vec<KnownToken>,
    verifier: Verifier,
    scopes: Scopes,
    methods: BTreeMap<String, Scopes>,
    tools: BTreeMap<String, Scopes>,
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
        for issuer in policy.issuers {
            let keys = Keys::new(&issuer.issuer, issuer.keys)?;
            issuers.push((issuer.issuer, keys));
        }
        let Policy { tokens, scopes, methods, tools, .. } =
            Policy { audiences: Vec::new(), issuers: Vec::new(), ..policy };
        Ok(Self { tokens, verifier: Verifier::new(issuers, audiences), scopes, methods, tools, metadata })
    }

    /// Who a request with these headers comes from, or the answer that it gets instead.
    ///
    /// Waits for nothing but keys that are not there yet.
    pub async fn check(&self, headers: &HeaderMap, wants: Wants<'_>) -> Result<Principal, Box<Response<String>>> {
        let needed = self.needed(wants);
        let refuse = |refusal: Refusal| {
            tracing::debug!(reason = refusal.why(), "request refused");
            Box::new(refusal.response(self.metadata.as_ref().map(|metadata| metadata.url.as_str()), &needed))
        };
        let principal = self.identify(headers).await.map_err(refuse)?;
        if !principal.scopes.cover(&needed) {
            return Err(refuse(Refusal::InsufficientScope));
        }
        Ok(principal)
    }

    /// The metadata document, if the path is one of its places.
    pub fn metadata(&self, path: &str) -> Option<Response<String>> {
        let metadata = self.metadata.as_ref()?;
        let found = metadata.paths.iter().any(|place| place == path);
        found.then(|| json_response(http::StatusCode::OK, metadata.document.clone()))
    }

    async fn identify(&self, headers: &HeaderMap) -> Result<Principal, Refusal> {
        let token = presented(headers)?;
        // All are compared, so that the time does not tell which one was near.
        let mut known = None;
        for candidate in &self.tokens {
            if candidate.token.matches(&token) {
                known = Some(candidate);
            }
        }
        if let Some(known) = known {
            return Ok(Principal {
                name: known.name.as_str().into(),
                subject: known.name.clone(),
                issuer: None,
                scopes: known.scopes.clone(),
            });
        }
        self.verifier.verify(&token).await
    }

    fn needed(&self, wants: Wants<'_>) -> Scopes {
        let mut needed = self.scopes.clone();
        let special = [(&self.methods, wants.method), (&self.tools, wants.tool)];
        for (table, name) in special {
            if let Some(scopes) = name.and_then(|name| table.get(name)) {
                needed.add(scopes);
            }
        }
        needed
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
        for special in policy.methods.values().chain(policy.tools.values()) {
            scopes.add(special);
        }
        let issuers: Vec<_> = policy.issuers.iter().map(|issuer| &issuer.issuer).collect();
        let mut document = json!({
            "resource": identifier(resource),
            "authorization_servers": issuers,
            "bearer_methods_supported": ["header"],
        });
        if !scopes.is_empty() {
            document["scopes_supported"] = scopes.iter().collect();
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

/// The token that a request presents.
fn presented(headers: &HeaderMap) -> Result<Secret, Refusal> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::NoToken)?;
    if values.next().is_some() {
        return Err(Refusal::Malformed("more than one Authorization header"));
    }
    let text = value.to_str().map_err(|_| Refusal::Malformed("the Authorization header is not text"))?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::NoToken);
    }
    let token = token.trim_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_token) {
        return Err(Refusal::Malformed("the bearer token is malformed"));
    }
    Ok(Secret::new(token))
}
