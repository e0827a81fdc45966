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
use crate::roots::Roots;
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
    /// Whether that failed.
    is_away: bool,
}

impl State {
    /// What there is to say now; none if the keys must be fetched first.
    fn without_fetching(&self, suits: &impl Fn(&Key) -> bool) -> Option<Option<Arc<[Key]>>> {
        let is_fresh = self.fetched.is_some_and(|fetched| fetched.elapsed() < FRESH);
        let is_paused = self.tried.is_some_and(|tried| tried.elapsed() < PAUSE);
        (is_paused || is_fresh && self.has(suits)).then(|| self.answer(suits))
    }

    /// Old keys are better than none while the issuer is away, but one that is not among them may be new.
    fn answer(&self, suits: &impl Fn(&Key) -> bool) -> Option<Arc<[Key]>> {
        self.set.clone().filter(|_| !self.is_away || self.has(suits))
    }

    fn has(&self, suits: &impl Fn(&Key) -> bool) -> bool {
        self.set.as_ref().is_some_and(|set| set.iter().any(suits))
    }
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
        let web = Web::for_server(&address, &Roots::default())?;
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

    /// The keys. If they are old, or if none of them `suits`, they are fetched again, unless that was done just now. None if
    /// it cannot be told which keys there are.
    pub(crate) async fn get(&self, suits: impl Fn(&Key) -> bool) -> Option<Arc<[Key]>> {
        // Who knows the key need not wait for whoever fetches; who does not may find it among what comes.
        let is_fetching = self.turn.try_lock().is_err();
        let answer = {
            let state = self.state();
            match is_fetching {
                true => state.has(&suits).then(|| state.set.clone()),
                false => state.without_fetching(&suits),
            }
        };
        if let Some(answer) = answer {
            return answer;
        }
        let _turn = self.turn.lock().await;
        {
            // Somebody else may have fetched meanwhile, with success or without.
            let mut state = self.state();
            if let Some(answer) = state.without_fetching(&suits) {
                return answer;
            }
            state.tried = Some(Instant::now());
        }
        let fetched = self.fetch().await;
        let mut state = self.state();
        state.is_away = fetched.is_err();
        match fetched {
            Ok(fetched) => {
                state.fetched = Some(Instant::now());
                state.set = Some(fetched.into());
            }
            Err(error) => tracing::warn!(issuer = %self.issuer, %error, "could not fetch keys"),
        }
        state.answer(&suits)
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

    fn read(jwk: Value) -> Option<Self> {
        Self::of(&serde_json::from_value(jwk).ok()?)
    }

    /// The key, unless it is of a kind that we do not use. Symmetric keys are never used: whoever can check a
    /// signature with them can also make one.
    pub(crate) fn of(jwk: &Jwk) -> Option<Self> {
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
        Some(Self { id: jwk.common.key_id.clone(), algorithms, key: DecodingKey::from_jwk(jwk).ok()? })
    }
}

/// A set may hold keys of kinds that we do not know: they do not spoil the others.
fn readable(keys: Vec<Value>) -> Vec<Key> {
    keys.into_iter().filter_map(Key::read).collect()
}

#[cfg(test)]
mod tests;
