//! The public keys of an issuer: fetched on demand, cached, and fetched again for an unknown key.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use gladhand_tls::is_loopback;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::KeySource;
use crate::error::AuthError;
use crate::metadata::AuthorizationServer;
use crate::roots::Roots;
use crate::web::{Web, admitted};

/// Keys are fetched again after this time, so that a withdrawn key stops working.
const FRESH: Duration = Duration::from_secs(600);
/// The minimum time between fetches. Made-up key ids cannot cause more of them.
const PAUSE: Duration = Duration::from_secs(10);

/// The maximum size of a file with keys.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The keys of one issuer.
pub(crate) struct Keys {
    issuer: String,
    source: KeySource,
    web: Web,
    /// Held during a fetch.
    fetch_lock: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until the first successful fetch.
    set: Option<Arc<[Key]>>,
    /// When the last successful fetch was.
    fetched: Option<Instant>,
    /// When the last fetch was attempted.
    tried: Option<Instant>,
    /// Whether the last fetch failed.
    is_unavailable: bool,
}

/// The cached keys of an issuer.
enum Cached {
    /// The keys must be fetched first.
    Stale,
    /// The keys are not known, and a fetch would not help now.
    Unknown,
    /// The keys may be used.
    Usable(Arc<[Key]>),
}

impl State {
    /// The keys without a fetch, if they are fresh or a fetch was attempted just before.
    fn cached(&self, suits: &impl Fn(&Key) -> bool) -> Cached {
        let is_fresh = self.fetched.is_some_and(|fetched| fetched.elapsed() < FRESH);
        let is_paused = self.tried.is_some_and(|tried| tried.elapsed() < PAUSE);
        if is_paused || is_fresh && self.has(suits) { self.current(suits) } else { Cached::Stale }
    }

    /// The keys without a fetch, while another request fetches them.
    fn cached_during_fetch(&self, suits: &impl Fn(&Key) -> bool) -> Cached {
        if self.has(suits) { self.current(suits) } else { Cached::Stale }
    }

    /// While the issuer is unavailable, old keys stay in use. But an unknown key may be a new one, so the keys are then
    /// unknown.
    fn current(&self, suits: &impl Fn(&Key) -> bool) -> Cached {
        let set = self.set.clone().filter(|_| !self.is_unavailable || self.has(suits));
        set.map_or(Cached::Unknown, Cached::Usable)
    }

    fn has(&self, suits: &impl Fn(&Key) -> bool) -> bool {
        self.set.as_ref().is_some_and(|set| set.iter().any(suits))
    }
}

/// A key that verifies signatures.
pub(crate) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(crate) key: DecodingKey,
}

/// A key set, as issuers publish it.
#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// The address of an issuer, checked. Keys are fetched only from an address that credentials may be sent to.
pub(super) fn address(issuer: &str, source: &KeySource) -> Result<Url, AuthError> {
    let address = match source {
        KeySource::Url(url) => url.clone(),
        _ => Url::parse(issuer).map_err(|_| AuthError::UnsafeAddress { address: issuer.to_owned() })?,
    };
    match source {
        KeySource::File(_) => Ok(address),
        _ => admitted(address.as_str(), is_loopback(&address)),
    }
}

/// The keys of an issuer in a file.
pub(super) fn keys_in(issuer: &str, path: &Path) -> Result<Vec<Key>, AuthError> {
    let problem = "a file that is not a key set".to_owned();
    let no_set = |_| AuthError::InvalidResponse { address: issuer.to_owned(), problem };
    // A device or a pipe could be read without end.
    let about = fs_err::metadata(path)?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        let message = format!("{}: not a regular file of at most 1 MiB", path.display());
        return Err(std::io::Error::other(message).into());
    }
    let mut text = Vec::new();
    fs_err::File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
    let set: Set = serde_json::from_slice(&text).map_err(no_set)?;
    Ok(readable(set.keys))
}

impl Keys {
    /// The keys of this issuer, not fetched yet.
    pub(crate) fn new(issuer: &str, source: KeySource) -> Result<Self, AuthError> {
        let web = Web::for_server(&address(issuer, &source)?, &Roots::default())?;
        Ok(Self {
            issuer: issuer.to_owned(),
            source,
            web,
            fetch_lock: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    /// Returns the keys. If they are old, or none of them `suits`, they are fetched again, unless a fetch was
    /// attempted just before. `None` if the keys are unknown.
    pub(crate) async fn get(&self, suits: impl Fn(&Key) -> bool) -> Option<Arc<[Key]>> {
        // During a fetch, a request with a known key does not wait. A request with an unknown key waits for the
        // new keys.
        let is_fetching = self.fetch_lock.try_lock().is_err();
        let cached = {
            let state = self.state();
            if is_fetching { state.cached_during_fetch(&suits) } else { state.cached(&suits) }
        };
        match cached {
            Cached::Usable(keys) => return Some(keys),
            Cached::Unknown => return None,
            Cached::Stale => {}
        }
        let _guard = self.fetch_lock.lock().await;
        {
            // Another request may have fetched meanwhile, with success or without.
            let mut state = self.state();
            match state.cached(&suits) {
                Cached::Usable(keys) => return Some(keys),
                Cached::Unknown => return None,
                Cached::Stale => {}
            }
            state.tried = Some(Instant::now());
        }
        let fetched = self.fetch().await;
        let mut state = self.state();
        state.is_unavailable = fetched.is_err();
        match fetched {
            Ok(fetched) => {
                state.fetched = Some(Instant::now());
                state.set = Some(fetched.into());
            }
            Err(error) => tracing::warn!(issuer = %self.issuer, %error, "could not fetch keys"),
        }
        match state.current(&suits) {
            Cached::Usable(keys) => Some(keys),
            Cached::Unknown | Cached::Stale => None,
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, AuthError> {
        let nothing =
            |problem: &str| AuthError::InvalidResponse { address: self.issuer.clone(), problem: problem.to_owned() };
        let url = match &self.source {
            KeySource::File(path) => return keys_in(&self.issuer, path),
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
        self.state.lock().unpoisoned()
    }
}

impl Key {
    /// Whether this key can have made a signature with this key id and algorithm.
    pub(crate) fn suits(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm) && (id.is_none() || self.id.as_deref() == id)
    }

    fn read(jwk: Value) -> Option<Self> {
        Self::of(&serde_json::from_value(jwk).ok()?)
    }

    /// Reads a key. `None` for unsupported kinds. Symmetric keys are never used: every verifier could also sign
    /// with them.
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

/// Skips keys of unknown kinds, which a set may contain.
fn readable(keys: Vec<Value>) -> Vec<Key> {
    keys.into_iter().filter_map(Key::read).collect()
}

#[cfg(test)]
mod tests;
