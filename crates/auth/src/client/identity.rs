//! Our client identity at an authorization server: configured, described by a published document, or registered
//! dynamically.

use std::str::FromStr;

use gladhand_core::Secret;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, AlgorithmFamily, EncodingKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::store::exposed;
use super::{Options, unix_now};
use crate::error::AuthError;
use crate::metadata::AuthorizationServer;
use crate::signatures::install_signatures;
use crate::web::Web;

/// A client that was registered with the authorization server beforehand.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    /// The client id.
    pub id: String,
    /// How the client authenticates.
    pub proof: ClientProof,
    /// The issuer that knows the client. `None`: the issuer that the server names.
    pub issuer: Option<String>,
}

/// How a configured client authenticates at the token endpoint.
#[derive(Debug, Clone)]
pub enum ClientProof {
    /// Not at all: a public client.
    None,
    /// With a shared secret.
    Secret(Secret),
    /// With a signed assertion (`private_key_jwt`).
    Key(SigningKey),
}

/// A private key for assertions.
#[derive(Debug, Clone)]
pub struct SigningKey {
    /// The algorithm: `ES256`, `RS256`, `EdDSA` and so on.
    pub algorithm: String,
    /// The key in PEM format.
    pub pem: Secret,
}

impl SigningKey {
    pub(crate) fn open(&self) -> Result<(Algorithm, EncodingKey), AuthError> {
        let broken = |error: jsonwebtoken::errors::Error| AuthError::Key {
            key: "the client's private key",
            reason: error.to_string(),
        };
        let algorithm = Algorithm::from_str(&self.algorithm).map_err(broken)?;
        let document = PrivateKeyDer::from_pem_slice(self.pem.expose().as_bytes())
            .map_err(|_| broken(ErrorKind::InvalidKeyFormat.into()))?;
        let document = document.secret_der();
        let key = match algorithm.family() {
            AlgorithmFamily::Ec => EncodingKey::from_ec_der(document),
            AlgorithmFamily::Ed => EncodingKey::from_ed_der(document),
            AlgorithmFamily::Rsa => EncodingKey::from_rsa_der(document),
            AlgorithmFamily::Hmac => return Err(broken(ErrorKind::UnsupportedAlgorithm.into())),
        };
        install_signatures();
        Ok((algorithm, key))
    }
}

/// The result of a dynamic registration (RFC 7591).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Registration {
    /// The client id.
    pub client_id: String,
    /// The client secret, if the client has one.
    #[serde(default, with = "exposed::option", skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The authentication method.
    pub token_endpoint_auth_method: String,
    /// When the secret expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires: Option<u64>,
    /// The registered redirect address.
    pub redirect_uri: String,
}

/// A client that can request tokens.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) authentication: Authentication,
    /// Set if the client was registered dynamically. The caller stores the registration.
    pub(crate) registration: Option<Registration>,
}

/// How a client authenticates at the token endpoint.
#[derive(Debug, Clone)]
pub(crate) enum Authentication {
    None,
    Basic(Secret),
    Post(Secret),
    Assertion(SigningKey),
}

impl Client {
    /// Selects the client for this authorization server. A new client can only be registered with a redirect
    /// address.
    pub(crate) async fn identify(
        web: &Web,
        options: &Options,
        server: &AuthorizationServer,
        stored: Option<&Registration>,
        redirect_uri: Option<&str>,
    ) -> Result<Self, AuthError> {
        if let Some(known) = Self::known(options, server) {
            return Ok(known);
        }
        if let Some(registration) = stored
            && redirect_uri.is_none_or(|redirect| redirect == registration.redirect_uri)
            && registration.secret_expires.is_none_or(|end| unix_now() < end)
        {
            return Ok(Self::registered(registration.clone()));
        }
        match (&server.registration_endpoint, redirect_uri) {
            (Some(endpoint), Some(redirect_uri)) => register(web, options, server, endpoint, redirect_uri).await,
            _ => Err(AuthError::NoClient { issuer: server.issuer.clone() }),
        }
    }

    /// The client that needs no registration, if there is one.
    fn known(options: &Options, server: &AuthorizationServer) -> Option<Self> {
        if let Some(identity) = &options.client
            && identity.issuer.as_ref().is_none_or(|issuer| *issuer == server.issuer)
        {
            let authentication = match &identity.proof {
                ClientProof::None => Authentication::None,
                ClientProof::Secret(secret) => {
                    by_secret(preferred(server, &["client_secret_basic", "client_secret_post"]), secret)
                }
                ClientProof::Key(key) => Authentication::Assertion(key.clone()),
            };
            return Some(Self { id: identity.id.clone(), authentication, registration: None });
        }
        let document = options.client_metadata_url.as_ref().filter(|_| server.client_id_metadata_document_supported)?;
        Some(Self { id: document.to_string(), authentication: Authentication::None, registration: None })
    }

    fn registered(registration: Registration) -> Self {
        let authentication = match &registration.client_secret {
            Some(secret) => by_secret(&registration.token_endpoint_auth_method, secret),
            None => Authentication::None,
        };
        Self { id: registration.client_id.clone(), authentication, registration: Some(registration) }
    }
}

fn by_secret(method: &str, secret: &Secret) -> Authentication {
    match method {
        "none" => Authentication::None,
        "client_secret_post" => Authentication::Post(secret.clone()),
        _ => Authentication::Basic(secret.clone()),
    }
}

/// The first of our methods that the server supports. The default is `client_secret_basic` (RFC 8414).
fn preferred<'a>(server: &AuthorizationServer, ours: &[&'a str]) -> &'a str {
    let Some(theirs) = &server.token_endpoint_auth_methods_supported else { return "client_secret_basic" };
    ours.iter().find(|method| theirs.iter().any(|their| their == *method)).unwrap_or(&"client_secret_basic")
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default, with = "exposed::option")]
    client_secret: Option<Secret>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

async fn register(
    web: &Web,
    options: &Options,
    server: &AuthorizationServer,
    endpoint: &str,
    redirect_uri: &str,
) -> Result<Client, AuthError> {
    let url = web.admit(endpoint)?;
    let method = preferred(server, &["none", "client_secret_basic", "client_secret_post"]);
    let wish = json!({
        "client_name": options.client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        // The client runs on the user's machine, and the redirect address is on loopback.
        "application_type": "native",
    });
    let answer = web.post_json(&url, &wish).await?;
    if !answer.status.is_success() {
        let refused = super::token::refused(&server.issuer, &url, &answer, []);
        return Err(if server.is_assumed { AuthError::NoSignIn { why: Box::new(refused) } } else { refused });
    }
    let registered: Registered = answer.read(&url)?;
    Ok(Client::registered(Registration {
        client_id: registered.client_id,
        client_secret: registered.client_secret,
        token_endpoint_auth_method: registered.token_endpoint_auth_method.unwrap_or_else(|| method.to_owned()),
        // Zero means that the secret does not expire.
        secret_expires: registered.client_secret_expires_at.filter(|end| *end > 0),
        redirect_uri: redirect_uri.to_owned(),
    }))
}
