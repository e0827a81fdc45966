use gladhand_core::Secret;
use jsonwebtoken::crypto::{sign, verify};
use jsonwebtoken::jwk::Jwk;

use super::*;
use crate::client::SigningKey;

const RSA_PKCS1: &str = include_str!("../tests/keys/rsa-pkcs1.pem");
const RSA: &str = include_str!("../tests/keys/rsa.pem");
const P256: &str = include_str!("../tests/keys/p256.pem");
const P384: &str = include_str!("../tests/keys/p384.pem");
const ED25519_KEY: &str = include_str!("../tests/keys/ed25519.pem");

/// Each supported algorithm, with a key for it as OpenSSL writes it.
const KEYS: [(&str, &str); 10] = [
    ("ES256", P256),
    ("ES384", P384),
    ("EdDSA", ED25519_KEY),
    ("RS256", RSA),
    ("RS256", RSA_PKCS1),
    ("RS384", RSA),
    ("RS512", RSA),
    ("PS256", RSA),
    ("PS384", RSA),
    ("PS512", RSA_PKCS1),
];

/// Signatures of OpenSSL.
const SIGNED_ELSEWHERE: [(&str, &str, &str); 3] = [
    ("ES256", P256, "0N1myQa01GaKgLrGFdOH7uOyoJU--7RFlOIxRrU8qxX-KUGQcgDPS9vXx5OXT5XKdKWUqu0wWNCt6QElcPS7Pg"),
    ("EdDSA", ED25519_KEY, "snJiX7Dpm4t1dlfilSgquM3goC4RyUpz6VU-_mg0MTca-pIjrciGEJImLhT35RmjD1IKA4_o0sG4HnOZReNyCg"),
    (
        "RS256",
        RSA,
        "mDKHl9TcYIFfZBNZlN_Vi9vWdbxEU3MRx9_qw2vCqTP9XlTPZapoGAC8cT26tk2LpGL2gE5Ar6ahel3Y1Gnahuqn-zJSwELMewEss0RM0eQaZKj\
         cUcUIZYO1uuIhcHgGKM_X_8N7lO1-arVx69LvgkUCybaVa7jinFOYv3HHxLmg82KetlN_yWcq-ds47OLCzzWpVjHk5KoObtDjcKz3NzhKSi6kWUU1\
         TDFJGfhAGeSm62dLtDQQnDIfLjgHtwHK-U_136aUcOzPj_seCOJUKMd3Y6u1FSoBYHmyyWL0iVcaV9XvK01WYhBJjI9gS4GOT8269DcssPqciPrg\
         Deo0Hw",
    ),
];

/// The private key, and the public key as another party reads it.
fn opened(algorithm: &str, pem: &str) -> (Algorithm, EncodingKey, DecodingKey) {
    let key = SigningKey { algorithm: algorithm.to_owned(), pem: Secret::new(pem) };
    let (algorithm, private) = key.open().unwrap();
    let public = Jwk::from_encoding_key(&private, algorithm).unwrap();
    (algorithm, private, DecodingKey::from_jwk(&public).unwrap())
}

#[test]
fn a_signature_is_verified_with_the_public_key() {
    for (name, pem) in KEYS {
        let (algorithm, private, public) = opened(name, pem);
        let signature = sign(b"message", &private, algorithm).unwrap();
        assert!(verify(&signature, b"message", &public, algorithm).unwrap(), "{name}");
        assert!(!verify(&signature, b"massage", &public, algorithm).unwrap(), "{name}");
        assert!(!verify(&signature[4..], b"message", &public, algorithm).unwrap(), "{name}");
    }
}

#[test]
fn signatures_of_other_programs_are_verified() {
    for (name, pem, signature) in SIGNED_ELSEWHERE {
        let (algorithm, private, public) = opened(name, pem);
        let message = b"signed by another program";
        assert!(verify(signature, message, &public, algorithm).unwrap(), "{name}");
        // The signatures of ECDSA contain a random number.
        let is_ours = sign(message, &private, algorithm).unwrap() == signature;
        assert_eq!(is_ours, name != "ES256", "{name}");
    }
}

#[test]
fn a_key_for_another_algorithm_signs_nothing() {
    for (name, pem) in [("ES256", P384), ("ES256", RSA), ("EdDSA", P256), ("RS256", ED25519_KEY), ("PS256", P256)] {
        let key = SigningKey { algorithm: name.to_owned(), pem: Secret::new(pem) };
        let (algorithm, private) = key.open().unwrap();
        assert!(sign(b"message", &private, algorithm).is_err(), "{name}");
        assert!(Jwk::from_encoding_key(&private, algorithm).is_err(), "{name}");
    }
}

#[test]
fn shared_keys_and_other_texts_are_no_signing_keys() {
    for (name, pem) in [("HS256", RSA), ("ES256", "secret"), ("none", P256)] {
        assert!(SigningKey { algorithm: name.to_owned(), pem: Secret::new(pem) }.open().is_err(), "{name}");
    }
    install_signatures();
    let shared = (EncodingKey::from_secret(b"secret"), DecodingKey::from_secret(b"secret"));
    assert!(sign(b"message", &shared.0, Algorithm::HS256).is_err());
    assert!(verify("c2lnbmF0dXJl", b"message", &shared.1, Algorithm::HS256).is_err());
}

#[test]
fn a_verifier_refuses_a_key_of_another_family() {
    let (_, _, public) = opened("ES256", P256);
    for algorithm in [Algorithm::RS256, Algorithm::EdDSA, Algorithm::HS256] {
        assert!(verify("c2lnbmF0dXJl", b"message", &public, algorithm).is_err(), "{algorithm:?}");
    }
}
