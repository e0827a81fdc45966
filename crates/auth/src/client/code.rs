//! The authorization-code grant with PKCE: the user gives consent in a browser, and the redirect contains a code.

use gladhand_core::Secret;
use url::form_urlencoded;

use super::browser::Browser;
use super::discovery::TokenSource;
use super::pkce::{Pkce, random};
use super::token::{Issued, TokenEndpoint, refusal_from};
use crate::error::AuthError;
use crate::scopes::Scopes;

/// Asks the user for consent, then exchanges the code for a token.
pub(crate) async fn ask(
    browser: &dyn Browser,
    source: &TokenSource,
    endpoint: &TokenEndpoint<'_>,
    scopes: &Scopes,
) -> Result<Issued, AuthError> {
    let server = &source.server;
    let lacks = |feature| AuthError::MissingFeature { issuer: server.issuer.clone(), feature };
    if !server.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return Err(lacks("PKCE with S256"));
    }
    let authorization_endpoint =
        server.authorization_endpoint.as_deref().ok_or_else(|| lacks("authorization endpoint"))?;
    let mut url = endpoint.web.admit_for_browser(authorization_endpoint).await?;

    let (Pkce { verifier, challenge }, state) = (Pkce::generate(), random());
    let redirect_uri = browser.redirect_uri();
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &endpoint.client.id)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("state", &state)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &source.resource);
    if !scopes.is_empty() {
        url.query_pairs_mut().append_pair("scope", &scopes.to_string());
    }
    if scopes.has(super::OFFLINE) {
        // OpenID providers issue refresh tokens only after explicit consent.
        url.query_pairs_mut().append_pair("prompt", "consent");
    }

    let query = browser.visit(&url, &state).await?;
    let code = read_redirect(source, &state, &query)?;
    endpoint
        .request(&[
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier.expose()),
            ("resource", &source.resource),
        ])
        .await
}

/// The code in a redirect, after verifying the sender of the redirect (RFC 9207).
fn read_redirect(source: &TokenSource, state: &str, query: &str) -> Result<Secret, AuthError> {
    let server = &source.server;
    let value = |name: &str| {
        form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let forged = |why| Err(AuthError::Forged { issuer: server.issuer.clone(), why });
    if !value("state").is_some_and(|echo| Secret::new(echo).matches(&Secret::new(state))) {
        return forged("it does not carry our state");
    }
    match value("iss") {
        Some(issuer) if issuer != server.issuer => return forged("it names another issuer"),
        None if server.authorization_response_iss_parameter_supported => return forged("it names no issuer"),
        _ => {}
    }
    if let Some(error) = value("error") {
        return Err(refusal_from(&server.issuer, &error, value("error_description").as_deref(), [state]));
    }
    match value("code") {
        Some(code) => Ok(Secret::new(code)),
        None => forged("it carries no code"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::AuthorizationServer;

    fn source(iss_supported: bool) -> TokenSource {
        let server = AuthorizationServer {
            issuer: "https://as.example".to_owned(),
            authorization_response_iss_parameter_supported: iss_supported,
            ..AuthorizationServer::default()
        };
        TokenSource { resource: String::new(), server, scopes: Scopes::default(), dpop: false }
    }

    #[test]
    fn a_redirect_must_prove_where_it_comes_from() {
        let good = [(false, "code=c&state=s"), (true, "code=c&state=s&iss=https%3A%2F%2Fas.example")];
        for (supported, query) in good {
            assert_eq!(read_redirect(&source(supported), "s", query).unwrap().expose(), "c", "{query}");
        }
        let bad = [
            (false, "code=c"),
            (false, "code=c&state=t"),
            (false, "state=s"),
            (false, "code=c&state=s&iss=https%3A%2F%2Fas.example%2F"),
            (true, "code=c&state=s"),
            (true, "error=access_denied&state=s&iss=https%3A%2F%2Fevil.example"),
        ];
        for (supported, query) in bad {
            let error = read_redirect(&source(supported), "s", query).unwrap_err();
            assert!(matches!(error, AuthError::Forged { .. }), "{query}: {error}");
        }
        let error = read_redirect(&source(false), "s", "error=access_denied&state=s").unwrap_err();
        assert_eq!(error.to_string(), "https://as.example refused: access_denied");
    }
}
