//! Proofs of possession for tokens that are bound to a key (RFC 9449).

use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde::Serialize;
use url::Url;

use super::{random, unix_now};
use crate::error::AuthError;
use crate::metadata::at;
use crate::signatures::install_signatures;

/// The name of our signature algorithm.
pub(crate) const ALGORITHM: &str = "ES256";
/// The header with a proof.
pub(crate) const PROOF: HeaderName = HeaderName::from_static("dpop");
/// The header with the nonce that the server requires in the next proof.
pub(crate) const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// A key, and the proofs made with it.
pub(crate) struct Prover {
    key: EncodingKey,
    public: Jwk,
    /// The private key in storage format: base64.
    stored: Secret,
    /// The latest nonce of the protected server.
    nonce: Mutex<Option<String>>,
}

#[derive(Serialize)]
struct Claims<'a> {
    jti: String,
    htm: &'a str,
    htu: &'a str,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

impl Prover {
    /// Creates a prover with a new key.
    pub(crate) fn generate() -> Result<Self, AuthError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|error| broken(&error))?;
        Self::with_key(document.as_ref())
    }

    /// Creates a prover with the key of a stored token.
    pub(crate) fn restore(stored: &Secret) -> Result<Self, AuthError> {
        Self::with_key(&URL_SAFE_NO_PAD.decode(stored.expose()).map_err(|error| broken(&error))?)
    }

    fn with_key(document: &[u8]) -> Result<Self, AuthError> {
        install_signatures();
        let key = EncodingKey::from_ec_der(document);
        let mut public = Jwk::from_encoding_key(&key, Algorithm::ES256).map_err(|error| broken(&error))?;
        public.common.key_algorithm = None;
        let stored = Secret::new(URL_SAFE_NO_PAD.encode(document));
        Ok(Self { key, public, stored, nonce: Mutex::default() })
    }

    /// The key, to be stored with the tokens that are bound to it.
    pub(crate) fn stored(&self) -> &Secret {
        &self.stored
    }

    /// Remembers the nonce that the server requires in proofs. Returns true if it is a new one.
    pub(crate) fn take_nonce(&self, headers: &HeaderMap) -> bool {
        let Some(nonce) = headers.get(NONCE).and_then(|value| value.to_str().ok()) else { return false };
        let mut held = self.nonce.lock().unpoisoned();
        let new = held.as_deref() != Some(nonce);
        *held = Some(nonce.to_owned());
        new
    }

    /// The proof for a request with a token.
    pub(crate) fn prove_possession(
        &self,
        method: &Method,
        url: &Url,
        token: &Secret,
    ) -> Result<HeaderValue, AuthError> {
        let nonce = self.nonce.lock().unpoisoned().clone();
        let hash = digest::digest(&digest::SHA256, token.expose().as_bytes());
        self.prove(method, url, Some(URL_SAFE_NO_PAD.encode(hash)), nonce.as_deref())
    }

    /// The proof for a token request.
    pub(crate) fn prove_request(&self, url: &Url, nonce: Option<&str>) -> Result<HeaderValue, AuthError> {
        self.prove(&Method::POST, url, None, nonce)
    }

    fn prove(
        &self,
        method: &Method,
        url: &Url,
        ath: Option<String>,
        nonce: Option<&str>,
    ) -> Result<HeaderValue, AuthError> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("dpop+jwt".to_owned());
        header.jwk = Some(self.public.clone());
        let target = at(url, url.path());
        let claims = Claims { jti: random(), htm: method.as_str(), htu: target.as_str(), iat: unix_now(), ath, nonce };
        let proof = jsonwebtoken::encode(&header, &claims, &self.key).map_err(|error| broken(&error))?;
        HeaderValue::try_from(proof).map_err(|error| broken(&error))
    }
}

fn broken(error: &dyn std::fmt::Display) -> AuthError {
    AuthError::Key { key: "the key for proofs of possession", reason: error.to_string() }
}
