//! HTTP clients for requests to services: one cryptography library, a choice by address, and responses of bounded size.
//!
//! TLS uses `ring`, the one cryptography library of this program. `reqwest` is built without a cryptography library, and
//! panics when it builds a client before one is installed.

mod body;
mod clients;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::{CryptoProvider, ring};

pub use body::{BodyError, read_body};
pub use clients::{Clients, is_localhost, is_loopback};

/// Creates the builder of a client.
pub fn client_builder() -> ClientBuilder {
    if CryptoProvider::get_default().is_none() {
        // If this fails, another thread was faster, or the embedding program has installed its own library.
        let _ = ring::default_provider().install_default();
    }
    #[expect(clippy::disallowed_methods, reason = "the cryptography library is installed")]
    Client::builder()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_be_built_on_any_thread() {
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| client_builder().build().is_ok())).collect();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok_and(|is_built| is_built)));
    }
}
