//! PKCE: proves that the client that redeems a code is the one that requested it (RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_core::Secret;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

/// A verifier, and its challenge with method `S256`.
#[derive(Debug, Clone)]
pub struct Pkce {
    /// Sent with the code.
    pub verifier: Secret,
    /// Sent with the authorization request.
    pub challenge: String,
}

impl Pkce {
    /// Generates a new pair.
    pub fn generate() -> Self {
        let verifier = Secret::new(random() + &random());
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.expose().as_bytes()));
        Self { verifier, challenge }
    }
}

/// 32 random bytes as 43 characters, for instance for `state`.
pub fn random() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the operating system provides random bytes after it has booted");
    URL_SAFE_NO_PAD.encode(bytes)
}
