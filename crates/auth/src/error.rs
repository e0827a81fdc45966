//! Errors of the authorization client. No variant contains a credential.

use crate::scopes::Scopes;

/// How the text of [`AuthError::NoSignIn`] begins.
pub const NO_SIGN_IN: &str = "it requires a token, and offers no sign-in";

/// Why a request is not authorized, or why authorization failed.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Credentials must not be sent to this address.
    #[error("{address} is not an address to send credentials to: it must be https, or loopback for a loopback server")]
    UnsafeAddress {
        /// The address as given.
        address: String,
    },
    /// A server that is not on a private network named an address on one.
    #[error("{address} is on a private address, which a server on the internet must not name")]
    PrivateAddress {
        /// The address, without its query.
        address: String,
    },
    /// There was no response, or it broke off.
    #[error("could not reach {address}: {reason}")]
    Unreachable {
        /// The address of the request.
        address: String,
        /// The kind of network failure.
        reason: String,
    },
    /// The response is not usable.
    #[error("{address} answered {problem}")]
    InvalidResponse {
        /// The address of the request.
        address: String,
        /// The defect of the response.
        problem: String,
    },
    /// The protected-resource metadata is for another server.
    #[error("the server's metadata is for {published}, not for {server}")]
    OtherResource {
        /// The resource that the metadata names.
        published: String,
        /// The server of the request.
        server: String,
    },
    /// The metadata of an authorization server names another issuer.
    #[error("the metadata of {expected} was issued by {published}")]
    OtherIssuer {
        /// The expected issuer.
        expected: String,
        /// The issuer that the document names.
        published: String,
    },
    /// The metadata of the authorization server was not found at any location.
    #[error("{issuer} publishes no metadata")]
    NoMetadata {
        /// The issuer.
        issuer: String,
    },
    /// The authorization server lacks a required feature.
    #[error("{issuer} has no {feature}")]
    MissingFeature {
        /// The issuer.
        issuer: String,
        /// The missing feature.
        feature: &'static str,
    },
    /// This authorization server has no client for us, and dynamic registration is not possible.
    #[error("no client is registered at {issuer}: configure a client id for it")]
    NoClient {
        /// The issuer.
        issuer: String,
    },
    /// The server publishes no metadata of an authorization server, and none is at the usual addresses either.
    #[error("{NO_SIGN_IN} ({why})")]
    NoSignIn {
        /// The answer at the usual address.
        why: Box<Self>,
    },
    /// The redirect does not come from the expected authorization server.
    #[error("the redirect from {issuer} is not trusted: {why}")]
    Forged {
        /// The expected issuer.
        issuer: String,
        /// The evidence.
        why: &'static str,
    },
    /// The authorization server refused the request.
    #[error("{issuer} refused: {code}{}", described(.description))]
    Refused {
        /// The issuer.
        issuer: String,
        /// The OAuth error code.
        code: String,
        /// The error description.
        description: Option<String>,
    },
    /// The old token could not be renewed, and a new one could not be obtained.
    #[error("{refused}; {error}")]
    NotRenewed {
        /// Why the renewal failed.
        refused: Box<Self>,
        /// Why no new token was obtained.
        error: Box<Self>,
    },
    /// The interactive step failed.
    #[error("could not ask for consent: {0}")]
    Browser(String),
    /// The server rejects the token that was issued for it.
    #[error("{server} does not accept the token that was issued for it{}", described(.error_text))]
    TokenRejected {
        /// The server.
        server: String,
        /// The error of the server.
        error_text: Option<String>,
    },
    /// The server forbids the request, and no wider scope would help.
    #[error("{server} forbids this request{}", described(.error_text))]
    Forbidden {
        /// The server.
        server: String,
        /// The error of the server.
        error_text: Option<String>,
    },
    /// The server requires authorization, or rejects the one it got.
    #[error("HTTP status {status}{}", described(.error_text))]
    Denied {
        /// The status, 401 or 403.
        status: u16,
        /// The error of the server.
        error_text: Option<String>,
    },
    /// The requested scopes are not sufficient, or the server keeps requiring more.
    #[error("{server} still asks for scope `{scopes}`")]
    ScopeNotGranted {
        /// The server.
        server: String,
        /// The scopes that the server requires.
        scopes: Scopes,
    },
    /// A key that cannot sign.
    #[error("could not sign with {key}: {reason}")]
    Key {
        /// The name of the key.
        key: &'static str,
        /// The defect.
        reason: String,
    },
    /// The token store failed.
    #[error("could not use the token store: {0}")]
    Store(#[from] std::io::Error),
}

fn described(description: &Option<String>) -> String {
    description.as_deref().map(|text| format!(" ({text})")).unwrap_or_default()
}
