//! Verifies proofs of possession (RFC 9449 sections 4.3 and 7).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_core::Secret;
use gladhand_core::sync::Unpoisoned as _;
use http::request::Parts;
use jsonwebtoken::jwk::ThumbprintHash;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use ring::digest;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::keys::Key;
use crate::metadata::at;
use crate::resource::Refusal;
use crate::resource::refusal::ALGORITHMS;
use crate::time::unix_now;

/// The header with a proof.
const PROOF: &str = "dpop";

/// The maximum age of a proof in seconds.
const MAX_AGE_SECONDS: u64 = 60;
/// The accepted clock difference for a proof from the future, in seconds.
const MAX_SECONDS_AHEAD: u64 = 10;
/// How many proofs are remembered during the validity of one. Beyond that a replay could not be detected, so all
/// requests are refused. One key can use at most half of the capacity that the other keys leave free.
const MAX_PROOFS: usize = 1 << 18;
/// The maximum length of a proof's identifier.
const MAX_ID_BYTES: usize = 512;

/// Checks proofs, and remembers them for as long as they could be replayed.
pub(crate) struct Proofs {
    /// Our address as clients know it.
    resource: Url,
    /// The path at which our own server serves the resource. It differs from the path in `resource` behind some
    /// proxies.
    endpoint: String,
    seen: Arc<Mutex<RecentProofs>>,
}

#[derive(Deserialize)]
struct Claims {
    jti: String,
    htm: String,
    htu: String,
    iat: u64,
    ath: String,
}

impl Proofs {
    pub(crate) fn new(resource: Url, endpoint: String) -> Self {
        Self { resource, endpoint, seen: Arc::default() }
    }

    /// Shares the remembered proofs of another instance from now on.
    pub(crate) fn take_over(&mut self, other: &Self) {
        self.seen = Arc::clone(&other.seen);
    }

    /// Checks that the sender of this request has the key that the token is bound to.
    pub(crate) fn check(&self, head: &Parts, token: &Secret, thumbprint: &str) -> Result<(), Refusal> {
        let wrong = Refusal::InvalidProof;
        let mut given = head.headers.get_all(PROOF).iter();
        let proof = match (given.next(), given.next()) {
            (Some(proof), None) => proof.to_str().map_err(|_| wrong("the proof is not text"))?,
            (None, _) => return Err(wrong("there is no proof of possession")),
            (Some(_), Some(_)) => return Err(wrong("there is more than one proof")),
        };
        let claims = read(proof, thumbprint)?;
        if claims.htm != head.method.as_str() {
            return Err(wrong("the proof is made for another method"));
        }
        if !self.is_ours(&claims.htu, head.uri.path()) {
            return Err(wrong("the proof is made for another address"));
        }
        let hash = digest::digest(&digest::SHA256, token.expose().as_bytes());
        if claims.ath != URL_SAFE_NO_PAD.encode(hash) {
            return Err(wrong("the proof is made for another token"));
        }
        let now = unix_now();
        if claims.iat > now + MAX_SECONDS_AHEAD || claims.iat + MAX_AGE_SECONDS < now {
            return Err(wrong("the proof is too old or dated in the future"));
        }
        if claims.jti.is_empty() || claims.jti.len() > MAX_ID_BYTES {
            return Err(wrong("the proof has no usable identifier"));
        }
        let identity = digest::digest(&digest::SHA256, format!("{thumbprint} {}", claims.jti).as_bytes());
        self.seen.lock().unpoisoned().remember(thumbprint, identity.as_ref(), now)
    }

    /// Whether an address is the one of this request: the published address at our endpoint, or the same host with
    /// this path. Queries are ignored.
    fn is_ours(&self, address: &str, path: &str) -> bool {
        let Ok(address) = Url::parse(address) else { return false };
        let address = at(&address, address.path());
        let is_published = || path == self.endpoint && address == at(&self.resource, self.resource.path());
        address == at(&self.resource, path) || is_published()
    }
}

/// The claims of a proof, if the key with this thumbprint signed it.
fn read(proof: &str, thumbprint: &str) -> Result<Claims, Refusal> {
    let wrong = Refusal::InvalidProof;
    let header = decode_header(proof).map_err(|_| wrong("the proof cannot be read"))?;
    if header.typ.as_deref() != Some("dpop+jwt") || header.crit.is_some() || !is_welcome(header.alg) {
        return Err(wrong("the proof has an unsupported type or algorithm"));
    }
    let jwk = header.jwk.ok_or_else(|| wrong("the proof does not name its key"))?;
    if has_private_key(proof) {
        return Err(wrong("the proof contains its private key"));
    }
    if jwk.thumbprint(ThumbprintHash::SHA256).ok().as_deref() != Some(thumbprint) {
        return Err(wrong("the token is bound to another key"));
    }
    let key = Key::of(&jwk).filter(|key| key.suits(None, header.alg));
    let key = key.ok_or_else(|| wrong("the proof is signed with an unsupported algorithm"))?;
    let mut validation = Validation::new(header.alg);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    let data = decode::<Claims>(proof, &key.key, &validation);
    data.map(|data| data.claims).map_err(|_| wrong("the proof lacks a claim, or its signature is wrong"))
}

fn is_welcome(algorithm: Algorithm) -> bool {
    ALGORITHMS.contains(&format!("{algorithm:?}").as_str())
}

/// Whether the key in the header includes its private part. The parsed key does not show that.
fn has_private_key(proof: &str) -> bool {
    let header = proof.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok()).unwrap_or_default();
    let header: Value = serde_json::from_slice(&header).unwrap_or_default();
    ["d", "k"].iter().any(|member| header["jwk"].get(member).is_some())
}

/// Recent proofs, in two generations. After the validity of a proof has passed, the older generation can be
/// dropped.
#[derive(Default)]
struct RecentProofs {
    newer: HashSet<[u8; 16]>,
    older: HashSet<[u8; 16]>,
    /// How many proofs of the newer generation each key made, by its thumbprint.
    by_key: HashMap<Box<str>, usize>,
    /// When the generations were last rotated.
    turned: u64,
}

impl RecentProofs {
    fn remember(&mut self, thumbprint: &str, identity: &[u8], now: u64) -> Result<(), Refusal> {
        if now.saturating_sub(self.turned) > MAX_AGE_SECONDS + MAX_SECONDS_AHEAD {
            self.older = std::mem::take(&mut self.newer);
            if now.saturating_sub(self.turned) > 2 * (MAX_AGE_SECONDS + MAX_SECONDS_AHEAD) {
                self.older.clear();
            }
            self.turned = now;
            self.by_key.clear();
        }
        let mut short = [0; 16];
        short.copy_from_slice(&identity[..16]);
        if self.newer.contains(&short) || self.older.contains(&short) {
            return Err(Refusal::InvalidProof("the proof was already used"));
        }
        let own = self.by_key.get_mut(thumbprint);
        if own.as_deref().copied().unwrap_or_default() >= MAX_PROOFS - self.newer.len() {
            return Err(Refusal::Undecided("too many proofs to remember"));
        }
        match own {
            Some(own) => *own += 1,
            None => drop(self.by_key.insert(thumbprint.into(), 1)),
        }
        self.newer.insert(short);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(number: usize) -> [u8; 32] {
        let mut identity = [0; 32];
        identity[..8].copy_from_slice(&number.to_le_bytes());
        identity
    }

    #[test]
    fn a_proof_is_remembered_for_as_long_as_it_is_good() {
        let mut seen = RecentProofs::default();
        let start = 1_000_000;
        assert_eq!(seen.remember("key", &identity(1), start), Ok(()));
        for later in 0..=MAX_AGE_SECONDS + MAX_SECONDS_AHEAD {
            let again = seen.remember("key", &identity(1), start + later);
            assert_eq!(again, Err(Refusal::InvalidProof("the proof was already used")), "{later}");
        }
        assert_eq!(
            seen.remember("key", &identity(1), start + 10 * MAX_AGE_SECONDS),
            Ok(()),
            "an expired proof is not remembered any more"
        );
    }

    #[test]
    fn a_full_memory_refuses_proofs_and_one_key_cannot_fill_it() {
        let mut seen = RecentProofs::default();
        let full = Err(Refusal::Undecided("too many proofs to remember"));
        let mut numbers = 0..;
        let mut fill = |seen: &mut RecentProofs, key: &str| {
            let numbers = numbers.by_ref().map(identity);
            numbers.take_while(|identity| seen.remember(key, identity, 5).is_ok()).take(2 * MAX_PROOFS).count()
        };
        assert_eq!(fill(&mut seen, "first"), MAX_PROOFS / 2);
        assert_eq!(fill(&mut seen, "second"), MAX_PROOFS / 4);
        assert_eq!(seen.remember("first", &identity(usize::MAX), 5), full);
        for key in 0..100 {
            fill(&mut seen, &key.to_string());
        }
        assert_eq!(seen.remember("another", &identity(usize::MAX), 5), full);
        assert_eq!(seen.remember("first", &identity(usize::MAX), 5 + MAX_AGE_SECONDS + MAX_SECONDS_AHEAD + 1), Ok(()));
        assert!(seen.newer.len() + seen.older.len() <= 2 * MAX_PROOFS);
    }
}
