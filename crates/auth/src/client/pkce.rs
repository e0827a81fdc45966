//! Proof that whoever brings a code is whoever asked for it (RFC 7636).

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gladhand_core::Secret;

/// A verifier, and the challenge that announces it with method `S256`.
#[derive(Debug, Clone)]
pub struct Pkce {
    /// Goes with the code.
    pub verifier: Secret,
    /// Goes with the question.
    pub challenge: String,
}

impl Pkce {
    /// A new pair.
    pub fn generate() -> Self {
        let verifier = Secret::new(random() + &random());
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.expose().as_bytes()));
        Self { verifier, challenge }
    }
}

/// 32 random bytes as 43 letters: a `state`, for instance.
pub fn random() -> String {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system has random bytes once it has booted");
    URL_SAFE_NO_PAD.encode(bytes)
}
