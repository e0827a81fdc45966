//! The public keys of an issuer: fetched when they are needed, kept for a while, fetched again for a key that is new.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::KeySource;
use crate::error::AuthError;
use crate::metadata::AuthorizationServer;
use crate::web::Web;

/// Keys are looked at again after this time, so that a withdrawn one stops working.
const FRESH: Duration = Duration::from_secs(600);
/// Nobody can have us fetch more often, whatever key ids they make up.
const PAUSE: Duration = Duration::from_secs(10);

/// The keys of one issuer.
pub(crate) struct Keys {
    issuer: String,
    source: KeySource,
    web: Web,
    /// Whoever fetches holds this.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None until they were fetched once.
    set: Option<Arc<[Key]>>,
    /// When that was.
    fetched: Option<Instant>,
    /// When it was last tried.
    tried: Option<Instant>,
}

/// A key that signatures can be checked with.
pub(crate) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(crate) key: DecodingKey,
}

impl Keys {
    /// The keys of this issuer, not fetched yet.
    pub(crate) fn new(issuer: &str, source: KeySource) -> Result<Self, AuthError> {
        let address = match &source {
            KeySource::Url(url) => url.clone(),
            _ => Url::parse(issuer).map_err(|_| AuthError::UnsafeAddress { address: issuer.to_owned() })?,
        };
        let web = Web::for_server(&address)?;
        if !matches!(source, KeySource::File(_)) {
            web.admit(address.as_str())?;
        }
        Ok(Self {
            issuer: issuer.to_owned(),
            source,
            web,
            turn: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// The keys. If they are old, or if none of them `suits`, they are fetched again, unless that was done just now.
    pub(crate) async fn get(&self, suits: impl Fn(&Key) -> bool) -> Option<Arc<[Key]>> {
        let good = |state: &State| {
            let set = state.set.clone()?;
            let fresh = state.fetched.is_some_and(|fetched| fetched.elapsed() < FRESH);
            let paused = state.tried.is_some_and(|tried| tried.elapsed() < PAUSE);
            (paused || fresh && set.iter().any(&suits)).then_some(set)
        };
        if let Some(set) = good(&self.state()) {
            return Some(set);
        }
        let _turn = self.turn.lock().await;
        // Somebody else may have fetched meanwhile, with success or without.
        let (set, paused) = {
            let mut state = self.state();
            let paused = state.tried.is_some_and(|tried| tried.elapsed() < PAUSE);
            if !paused {
                state.tried = Some(Instant::now());
            }
            (state.set.clone(), paused)
        };
        if paused {
            return set;
        }
        match self.fetch().await {
            Ok(fetched) => {
                let mut state = self.state();
                state.fetched = Some(Instant::now());
                state.set = Some(fetched.into());
                state.set.clone()
            }
            Err(error) => {
                tracing::warn!(issuer = %self.issuer, %error, "could not fetch keys");
                // Old keys are better than none while the issuer is away.
                set
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, AuthError> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let nothing = |what: &str| AuthError::Nonsense { address: self.issuer.clone(), what: what.to_owned() };
        let url = match &self.source {
            KeySource::File(path) => {
                let text = fs_err::read(path)?;
                let set: Set = serde_json::from_slice(&text).map_err(|_| nothing("a file that is no key set"))?;
                return Ok(readable(set.keys));
            }
            KeySource::Url(url) => url.clone(),
            KeySource::Metadata => {
                let published = AuthorizationServer::discover(&self.web, &self.issuer).await?;
                self.web.admit(&published.jwks_uri.ok_or_else(|| nothing("metadata without keys"))?)?
            }
        };
        let set: Set = self.web.find(&url).await?.ok_or_else(|| nothing("no key set"))?;
        Ok(readable(set.keys))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    /// Whether it may have made a signature under this key id and algorithm.
    pub(crate) fn suits(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm) && (id.is_none() || self.id.as_deref() == id)
    }

    /// The key, unless it is of a kind that we do not use. Symmetric keys are never used: whoever can check a
    /// signature with them can also make one.
    fn read(jwk: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(jwk).ok()?;
        if jwk.common.public_key_use.as_ref().is_some_and(|purpose| *purpose != PublicKeyUse::Signature) {
            return None;
        }
        let possible: &[Algorithm] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &[
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            _ => return None,
        };
        // A key that is meant for one algorithm is not used with another.
        let meant = jwk.common.key_algorithm;
        let allowed = |algorithm: &Algorithm| meant.is_none_or(|meant| meant == KeyAlgorithm::from(*algorithm));
        let algorithms: Vec<_> = possible.iter().copied().filter(allowed).collect();
        if algorithms.is_empty() {
            return None;
        }
        Some(Self { id: jwk.common.key_id.clone(), algorithms, key: DecodingKey::from_jwk(&jwk).ok()? })
    }
}

/// A set may hold keys of kinds that we do not know: they do not spoil the others.
fn readable(keys: Vec<Value>) -> Vec<Key> {
    keys.into_iter().filter_map(Key::read).collect()
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    use jsonwebtoken::EncodingKey;
    use serde_json::json;

    use super::*;

    fn public(id: &str) -> Value {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let mut jwk = Jwk::from_encoding_key(&EncodingKey::from_ec_der(document.as_ref()), Algorithm::ES256).unwrap();
        jwk.common.key_id = Some(id.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    async fn knows(keys: &Keys, id: &str) -> bool {
        let suits = |key: &Key| key.suits(Some(id), Algorithm::ES256);
        keys.get(suits).await.is_some_and(|set| set.iter().any(suits))
    }

    #[tokio::test]
    async fn a_new_key_is_fetched_but_not_at_everyones_whim() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let keys = Keys::new("https://as.example", KeySource::File(path.clone())).unwrap();
        assert!(!knows(&keys, "one").await, "there is no file yet");
        fs_err::write(&path, json!({"keys": [public("one")]}).to_string()).unwrap();
        assert!(!knows(&keys, "one").await, "it was tried just now");

        let a_pause_passes = || keys.state().tried = Instant::now().checked_sub(PAUSE);
        a_pause_passes();
        assert!(knows(&keys, "one").await);
        fs_err::write(&path, json!({"keys": [public("two")]}).to_string()).unwrap();
        assert!(!knows(&keys, "two").await && knows(&keys, "one").await, "it was fetched just now");
        a_pause_passes();
        assert!(knows(&keys, "one").await, "a known key needs no fetching");
        assert!(knows(&keys, "two").await && !knows(&keys, "one").await);

        fs_err::remove_file(&path).unwrap();
        a_pause_passes();
        keys.state().fetched = Instant::now().checked_sub(FRESH);
        assert!(knows(&keys, "two").await, "old keys stay while the issuer is away");
    }

    #[test]
    fn keys_that_cannot_be_used_do_not_spoil_the_others() {
        let secret = json!({"kty": "oct", "k": "aGVsbG8", "kid": "secret", "alg": "HS256"});
        let mut sealing = public("sealing");
        sealing["use"] = json!("enc");
        let mut other = public("other");
        other["alg"] = json!("ES384");
        let read = readable(vec![json!(7), json!({"kty": "new"}), secret, sealing, other, public("good")]);
        let ids: Vec<_> = read.iter().map(|key| (key.id.as_deref(), key.algorithms.as_slice())).collect();
        assert_eq!(ids, [(Some("good"), &[Algorithm::ES256][..])]);
    }
}
