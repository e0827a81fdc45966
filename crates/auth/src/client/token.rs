//! The token endpoint: requests for each kind of grant, with client authentication.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gladhand_core::Secret;
use gladhand_redaction::{Life, learn};
use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::Header;
use serde::Deserialize;
use serde_json::json;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::challenge::shortened;
use super::dpop::{self, Prover};
use super::identity::{Authentication, Client};
use super::store::exposed;
use super::{random, unix_now};
use crate::error::AuthError;
use crate::web::{Answer, Web, shown};

/// The type of an assertion that authenticates a client.
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The lifetime of an assertion. It is used immediately.
const ASSERTION_SECONDS: u64 = 60;
/// A token is renewed this long before it expires, because it could expire on its way to the server.
const MARGIN_SECONDS: u64 = 30;
/// The form fields that are secret. They are removed from errors in case the server repeats them.
const SECRET: [&str; 7] =
    ["code", "code_verifier", "refresh_token", "assertion", "client_assertion", "subject_token", "client_secret"];

/// A token endpoint, as used by one client.
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) web: &'a Web,
    pub(crate) url: Url,
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a Client,
    /// Creates proofs, if the token is to be bound to a key.
    pub(crate) prover: Option<&'a Prover>,
}

/// The response of the endpoint.
#[derive(Debug, Deserialize)]
pub(crate) struct Issued {
    #[serde(with = "exposed")]
    pub(crate) access_token: Secret,
    #[serde(default)]
    pub(crate) token_type: String,
    #[serde(default, with = "exposed::option")]
    pub(crate) refresh_token: Option<Secret>,
    /// A number. Some servers write it as text.
    expires_in: Option<serde_json::Value>,
    pub(crate) issued_token_type: Option<String>,
}

impl Issued {
    /// When to renew the token, in seconds since 1970: shortly before it expires.
    pub(crate) fn renew_at(&self) -> Option<u64> {
        let seconds = match self.expires_in.as_ref()? {
            serde_json::Value::Number(number) => number.as_u64(),
            serde_json::Value::String(text) => text.parse().ok(),
            _ => None,
        }?;
        // A token with a lifetime of seconds must not be renewed before its first use.
        Some(unix_now().saturating_add(seconds - MARGIN_SECONDS.min(seconds / 4)))
    }

    /// Whether the token is bound to our key.
    pub(crate) fn is_bound(&self) -> bool {
        self.token_type.eq_ignore_ascii_case("dpop")
    }

    /// Checks that we can use a token of this type.
    pub(crate) fn presentable(self, endpoint: &TokenEndpoint<'_>) -> Result<Self, AuthError> {
        let bearer = self.token_type.eq_ignore_ascii_case("bearer");
        if bearer || self.is_bound() && endpoint.prover.is_some() {
            return Ok(self);
        }
        Err(AuthError::InvalidResponse {
            address: shown(&endpoint.url),
            problem: "a token of a type that was not requested".to_owned(),
        })
    }
}

impl TokenEndpoint<'_> {
    /// Requests a token.
    pub(crate) async fn request(&self, form: &[(&str, &str)]) -> Result<Issued, AuthError> {
        let mut answer = self.post(form, None).await?;
        // A server that requires a nonce in proofs rejects the first request (RFC 9449 section 8).
        if !answer.status.is_success()
            && self.prover.is_some()
            && let Some(nonce) = answer.headers.get(dpop::NONCE).and_then(|nonce| nonce.to_str().ok())
            && code(&answer).as_deref() == Some("use_dpop_nonce")
        {
            answer = self.post(form, Some(nonce)).await?;
        }
        // Some servers send errors with status 200.
        if !answer.status.is_success() || code(&answer).is_some() {
            let secrets = form.iter().filter(|(name, _)| SECRET.contains(name)).map(|(_, value)| *value);
            return Err(refused(self.issuer, &self.url, &answer, secrets));
        }
        answer.read(&self.url)
    }

    /// Revokes a token (RFC 7009). The endpoint must be a revocation endpoint.
    pub(crate) async fn revoke(&self, token: &Secret, kind: &str) -> Result<(), AuthError> {
        let answer = self.post(&[("token", token.expose()), ("token_type_hint", kind)], None).await?;
        // A token that the server cannot revoke expires on its own.
        if answer.status.is_success() || code(&answer).as_deref() == Some("unsupported_token_type") {
            return Ok(());
        }
        Err(refused(self.issuer, &self.url, &answer, [token.expose()]))
    }

    async fn post(&self, form: &[(&str, &str)], nonce: Option<&str>) -> Result<Answer, AuthError> {
        let mut form = form.to_vec();
        let mut headers = HeaderMap::new();
        let id = self.client.id.as_str();
        let assertion;
        if let Authentication::Post(secret) | Authentication::Basic(secret) = &self.client.authentication {
            learn(secret.expose(), Life::Recent);
        }
        match &self.client.authentication {
            Authentication::None => form.push(("client_id", id)),
            Authentication::Post(secret) => form.extend([("client_id", id), ("client_secret", secret.expose())]),
            Authentication::Basic(secret) => {
                headers.insert(header::AUTHORIZATION, basic(id, secret));
            }
            Authentication::Assertion(key) => {
                let (algorithm, key) = key.open()?;
                let now = unix_now();
                let claims = json!({
                    "iss": id, "sub": id, "aud": self.issuer, "jti": random(), "iat": now, "exp": now + ASSERTION_SECONDS,
                });
                assertion = jsonwebtoken::encode(&Header::new(algorithm), &claims, &key)
                    .map_err(|error| AuthError::Key { key: "the client's private key", reason: error.to_string() })?;
                form.extend([
                    ("client_id", id),
                    ("client_assertion_type", CLIENT_ASSERTION),
                    ("client_assertion", &assertion),
                ]);
            }
        }
        if let Some(prover) = self.prover {
            headers.insert(dpop::PROOF, prover.prove_request(&self.url, nonce)?);
        }
        self.web.post_form(&self.url, &form, headers).await
    }
}

fn basic(id: &str, secret: &Secret) -> HeaderValue {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret.expose())));
    let mut value = HeaderValue::try_from(format!("Basic {pair}")).expect("base64 is visible ASCII");
    value.set_sensitive(true);
    value
}

#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
}

/// The error code of a response, if it is an error.
fn code(answer: &Answer) -> Option<String> {
    serde_json::from_slice::<ErrorResponse>(&answer.body).ok().map(|error_response| error_response.error)
}

/// Converts an error response, without secrets that it may repeat.
pub(crate) fn refused<'a>(
    issuer: &str,
    url: &Url,
    answer: &Answer,
    secrets: impl IntoIterator<Item = &'a str> + Clone,
) -> AuthError {
    match serde_json::from_slice::<ErrorResponse>(&answer.body) {
        Ok(error_response) => {
            refusal_from(issuer, &error_response.error, error_response.error_description.as_deref(), secrets)
        }
        Err(_) => {
            AuthError::InvalidResponse { address: shown(url), problem: format!("status {}", answer.status.as_u16()) }
        }
    }
}

/// The refusal with the error code and description of the authorization server.
pub(crate) fn refusal_from<'a>(
    issuer: &str,
    code: &str,
    description: Option<&str>,
    secrets: impl IntoIterator<Item = &'a str> + Clone,
) -> AuthError {
    let shortened = |text: &str| shortened(text, secrets.clone());
    AuthError::Refused { issuer: issuer.to_owned(), code: shortened(code), description: description.map(shortened) }
}
