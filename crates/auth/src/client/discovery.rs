//! From a challenge to the authorization server: protected-resource metadata (RFC 9728), then the server's own
//! metadata.

use serde::Deserialize;
use url::Url;

use super::challenge::Challenge;
use crate::error::AuthError;
use crate::metadata::{AuthorizationServer, at};
use crate::scopes::Scopes;
use crate::web::Web;

/// Where tokens for a server are issued, and for which resource.
#[derive(Debug, Clone)]
pub(crate) struct TokenSource {
    /// The resource identifier for token requests, exactly as published.
    pub(crate) resource: String,
    /// The authorization server.
    pub(crate) server: AuthorizationServer,
    /// The scopes that the resource supports.
    pub(crate) scopes: Scopes,
    /// Whether tokens should be bound to our key.
    pub(crate) dpop: bool,
}

#[derive(Debug, Deserialize)]
struct ProtectedResource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Scopes,
    #[serde(default)]
    dpop_signing_alg_values_supported: Vec<String>,
    #[serde(default)]
    dpop_bound_access_tokens_required: bool,
}

impl TokenSource {
    /// Finds the authorization server of a server that challenged us.
    pub(crate) async fn discover(web: &Web, server: &Url, challenge: &Challenge) -> Result<Self, AuthError> {
        let Some(published) = protected_resource(web, server, challenge).await? else {
            let found = AuthorizationServer::discover_at_root(web, server).await?;
            let resource = at(server, server.path()).to_string();
            let dpop = challenge.dpop && signs_with_us(&found.dpop_signing_alg_values_supported);
            return Ok(Self { resource, server: found, scopes: Scopes::default(), dpop });
        };
        if !belongs(&published.resource, server) {
            let server = at(server, server.path()).to_string();
            return Err(AuthError::OtherResource { published: published.resource, server });
        }
        let issuer = published.authorization_servers.first().ok_or_else(|| AuthError::MissingFeature {
            issuer: published.resource.clone(),
            feature: "authorization server",
        })?;
        let found = AuthorizationServer::discover(web, issuer).await?;
        // DPoP requires support from both the resource and the authorization server.
        let welcome = challenge.dpop
            || published.dpop_bound_access_tokens_required
            || signs_with_us(&published.dpop_signing_alg_values_supported);
        let dpop = welcome && signs_with_us(&found.dpop_signing_alg_values_supported);
        Ok(Self { resource: published.resource, server: found, scopes: published.scopes_supported, dpop })
    }
}

/// The metadata that the challenge points to, otherwise the metadata at the well-known addresses.
async fn protected_resource(
    web: &Web,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<ProtectedResource>, AuthError> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    if let Some(location) = &challenge.resource_metadata {
        return match web.find(&web.admit(location)?).await? {
            Some(published) => Ok(Some(published)),
            None => Err(AuthError::InvalidResponse { address: location.clone(), problem: "no metadata".to_owned() }),
        };
    }
    let path = server.path().trim_end_matches('/');
    if !path.is_empty()
        && let Some(published) = web.find(&web.admit(at(server, &format!("{WELL_KNOWN}{path}")).as_str())?).await?
    {
        return Ok(Some(published));
    }
    web.find(&web.admit(at(server, WELL_KNOWN).as_str())?).await
}

/// Whether a published identifier covers the server: the same origin, and the same path or a parent of it.
fn belongs(published: &str, server: &Url) -> bool {
    let Ok(url) = Url::parse(published) else { return false };
    let parent = url.path().trim_end_matches('/');
    let inside = server.path().strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    url.origin() == server.origin() && url.fragment().is_none() && inside
}

fn signs_with_us(algorithms: &[String]) -> bool {
    algorithms.iter().any(|algorithm| algorithm == super::dpop::ALGORITHM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_identifier_covers_its_own_path_and_those_below() {
        let server = Url::parse("https://a.example/v1/mcp").unwrap();
        for good in ["https://a.example", "https://a.example/", "https://a.example/v1", "https://a.example/v1/mcp"] {
            assert!(belongs(good, &server), "{good}");
        }
        for bad in [
            "https://b.example/v1/mcp",
            "http://a.example/v1/mcp",
            "https://a.example/v",
            "https://a.example/v1/mcp2",
            "?",
        ] {
            assert!(!belongs(bad, &server), "{bad}");
        }
    }
}
