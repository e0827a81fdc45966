//! The published metadata of an authorization server (RFC 8414, OpenID Connect Discovery), and its locations.

use serde::Deserialize;
use url::Url;

use crate::error::AuthError;
use crate::scopes::Scopes;
use crate::web::Web;

/// The published metadata. Unused members are not parsed.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct AuthorizationServer {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) jwks_uri: Option<String>,
    #[serde(default)]
    pub(crate) scopes_supported: Scopes,
    #[serde(default)]
    pub(crate) code_challenge_methods_supported: Vec<String>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(crate) dpop_signing_alg_values_supported: Vec<String>,
    /// Whether nothing was published, and these are the usual addresses.
    #[serde(skip)]
    pub(crate) is_assumed: bool,
}

impl AuthorizationServer {
    /// The metadata of an issuer, from the first location that has it.
    pub(crate) async fn discover(web: &Web, issuer: &str) -> Result<Self, AuthError> {
        for location in locations(&web.admit(issuer)?) {
            if let Some(found) = web.find::<Self>(&location).await? {
                // The comparison is exact: an issuer that differs only in a slash is another issuer.
                if found.issuer != issuer {
                    return Err(AuthError::OtherIssuer { expected: issuer.to_owned(), published: found.issuer });
                }
                return Ok(found);
            }
        }
        Err(AuthError::NoMetadata { issuer: issuer.to_owned() })
    }

    /// The metadata at the root of a server of revision 2025-03-26. If there is none, the default endpoints of this
    /// revision.
    pub(crate) async fn discover_at_root(web: &Web, server: &Url) -> Result<Self, AuthError> {
        let origin = server.origin().ascii_serialization();
        let root = web.admit(&origin)?;
        for location in locations(&root) {
            if let Some(found) = web.find::<Self>(&location).await? {
                if found.issuer.strip_suffix('/').unwrap_or(&found.issuer) != origin {
                    return Err(AuthError::OtherIssuer { expected: origin, published: found.issuer });
                }
                return Ok(found);
            }
        }
        Ok(Self {
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: Some(format!("{origin}/token")),
            registration_endpoint: Some(format!("{origin}/register")),
            code_challenge_methods_supported: vec!["S256".to_owned()],
            token_endpoint_auth_methods_supported: Some(vec!["none".to_owned()]),
            issuer: origin,
            is_assumed: true,
            ..Self::default()
        })
    }
}

/// The possible locations of an issuer's metadata, in order of preference.
fn locations(issuer: &Url) -> Vec<Url> {
    let tenant = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{tenant}"),
        format!("/.well-known/openid-configuration{tenant}"),
    ];
    if !tenant.is_empty() {
        paths.push(format!("{tenant}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| at(issuer, path)).collect()
}

/// The same host with this path, without query and fragment.
pub(crate) fn at(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_locations_are_tried_in_order() {
        let shown = |issuer: &str| -> Vec<String> {
            locations(&Url::parse(issuer).unwrap()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            shown("https://as.example"),
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            shown("https://as.example/tenant/"),
            [
                "https://as.example/.well-known/oauth-authorization-server/tenant",
                "https://as.example/.well-known/openid-configuration/tenant",
                "https://as.example/tenant/.well-known/openid-configuration",
            ]
        );
    }
}
