//! Signatures of JSON web tokens, made and verified with `ring`.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::jwk::{EllipticCurve, ThumbprintHash};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
    RsaKeyPair, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use ring::{digest, error::Unspecified};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory,
    verifier_factory,
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: rsa_public_key,
        // Only a certificate or a PEM file contains such a key, and no caller reads one.
        rsa_pub_components_from_public_key: |_| Err(ErrorKind::InvalidKeyFormat.into()),
        ec_pub_components_from_private_key: ec_public_key,
        ed_pub_components_from_private_key: ed_public_key,
        compute_digest,
    },
};

/// Installs this module as the cryptography of `jsonwebtoken`. This crate does so where it needs it; a caller that
/// uses `jsonwebtoken` itself calls this first.
pub fn install_signatures() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // If this fails, the embedding program has installed its own cryptography.
        let _ = PROVIDER.install_default();
    });
}

/// A private key, and the algorithm that it signs with.
struct PrivateKey {
    algorithm: Algorithm,
    pair: Pair,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
}

fn signer_factory(algorithm: &Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    let document = key.as_bytes();
    let rsa = |encoding| rsa_pair(document).map(|pair| Pair::Rsa(pair, encoding));
    let pair = match algorithm {
        Algorithm::ES256 | Algorithm::ES384 => ec_pair(document, *algorithm).map(Pair::Ec),
        Algorithm::EdDSA => ed_pair(document).map(Pair::Ed),
        Algorithm::RS256 => rsa(&RSA_PKCS1_SHA256),
        Algorithm::RS384 => rsa(&RSA_PKCS1_SHA384),
        Algorithm::RS512 => rsa(&RSA_PKCS1_SHA512),
        Algorithm::PS256 => rsa(&RSA_PSS_SHA256),
        Algorithm::PS384 => rsa(&RSA_PSS_SHA384),
        Algorithm::PS512 => rsa(&RSA_PSS_SHA512),
        // A shared key proves nothing about its holder, so we neither make nor accept such tokens.
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    Ok(Box::new(PrivateKey { algorithm: *algorithm, pair: pair? }))
}

impl JwtSigner for PrivateKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Signer<Vec<u8>> for PrivateKey {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ec(pair) => pair.sign(&random, message).map(|signature| signature.as_ref().to_vec()),
            Pair::Ed(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(*encoding, &random, message, &mut signature).map(|()| signature)
            }
        }
        .map_err(|Unspecified| signature::Error::new())
    }
}

/// A public key, and the algorithm that it verifies.
struct PublicKey {
    algorithm: Algorithm,
    key: DecodingKey,
    verification: Verification,
}

#[derive(Clone, Copy)]
enum Verification {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    let verification = match algorithm {
        Algorithm::ES256 => Verification::Other(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Verification::Other(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Verification::Other(&ED25519),
        Algorithm::RS256 => Verification::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Verification::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Verification::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Verification::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Verification::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Verification::Rsa(&RSA_PSS_2048_8192_SHA512),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    Ok(Box::new(PublicKey { algorithm: *algorithm, key: key.clone(), verification }))
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        let verified = match (self.verification, self.key.kind()) {
            (Verification::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Verification::Rsa(parameters), DecodingKeyKind::SecretOrDer(document)) => {
                UnparsedPublicKey::new(parameters, document).verify(message, signature)
            }
            (Verification::Other(algorithm), DecodingKeyKind::SecretOrDer(document)) => {
                UnparsedPublicKey::new(algorithm, document).verify(message, signature)
            }
            (Verification::Other(_), DecodingKeyKind::RsaModulusExponent { .. }) => Err(Unspecified),
        };
        verified.map_err(|Unspecified| signature::Error::new())
    }
}

fn ec_pair(document: &[u8], algorithm: Algorithm) -> Result<EcdsaKeyPair> {
    let signing = match algorithm {
        Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
        Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
        _ => return Err(ErrorKind::InvalidEcdsaKey.into()),
    };
    let pair = EcdsaKeyPair::from_pkcs8(signing, document, &SystemRandom::new());
    pair.map_err(|_| ErrorKind::InvalidEcdsaKey.into())
}

/// The document may lack the public key, as those of OpenSSL do.
fn ed_pair(document: &[u8]) -> Result<Ed25519KeyPair> {
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(document).map_err(|_| ErrorKind::InvalidEddsaKey.into())
}

/// The document has the form PKCS #1 or PKCS #8.
fn rsa_pair(document: &[u8]) -> Result<RsaKeyPair> {
    let pair = RsaKeyPair::from_der(document).or_else(|error| RsaKeyPair::from_pkcs8(document).map_err(|_| error));
    pair.map_err(|error| ErrorKind::InvalidRsaKey(error.to_string()).into())
}

fn rsa_public_key(document: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let RsaPublicKeyComponents { n, e } = rsa_pair(document)?.public().into();
    Ok((n, e))
}

fn ec_public_key(document: &[u8], algorithm: Algorithm) -> Result<(EllipticCurve, Vec<u8>, Vec<u8>)> {
    let curve = if algorithm == Algorithm::ES256 { EllipticCurve::P256 } else { EllipticCurve::P384 };
    let pair = ec_pair(document, algorithm)?;
    // The number four, which stands for an uncompressed point, and both coordinates.
    let Some((4, point)) = pair.public_key().as_ref().split_first() else {
        return Err(ErrorKind::InvalidEcdsaKey.into());
    };
    let (x, y) = point.split_at(point.len() / 2);
    Ok((curve, x.to_vec(), y.to_vec()))
}

fn ed_public_key(document: &[u8], curve: &EllipticCurve) -> Result<Vec<u8>> {
    match curve {
        EllipticCurve::Ed25519 => Ok(ed_pair(document)?.public_key().as_ref().to_vec()),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

fn compute_digest(data: &[u8], hash: ThumbprintHash) -> Result<Vec<u8>> {
    let algorithm = match hash {
        ThumbprintHash::SHA256 => &digest::SHA256,
        ThumbprintHash::SHA384 => &digest::SHA384,
        ThumbprintHash::SHA512 => &digest::SHA512,
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    Ok(digest::digest(algorithm, data).as_ref().to_vec())
}

#[cfg(test)]
#[path = "signatures_tests.rs"]
mod tests;
