//! Authorization over HTTP, for our own endpoint and for our requests to other servers.
//!
//! `resource` guards our own endpoint: it identifies the principal of a request, or builds the refusal.
//! `client` authorizes our requests to other servers: it finds the authorization server, obtains and renews
//! tokens, and signs requests. Both share only the published metadata of authorization servers.
//!
//! Without features, the crate only has plain data and the responses of RFC 6750: scopes, principals and refusals.
//! The feature `guard` adds the verification of tokens, the feature `client` the requests to other servers.
//!
//! This crate knows nothing of sessions, lines or tools. It never forwards a token that it received: the tokens
//! that we send were issued to us. Tokens are held in [`Secret`](gladhand_core::Secret) and never appear in a log,
//! an error or `Debug` output.
#![cfg_attr(
    not(all(feature = "guard", feature = "client")),
    allow(dead_code, reason = "each of the two features uses a part of what both share")
)]

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "net")]
mod error;
#[cfg(feature = "net")]
mod metadata;
#[cfg(feature = "net")]
mod reach;
pub mod resource;
#[cfg(feature = "net")]
mod roots;
mod scopes;
#[cfg(feature = "net")]
mod signatures;
#[cfg(feature = "net")]
mod time;
#[cfg(feature = "net")]
mod web;

#[cfg(feature = "net")]
pub use error::{AuthError, NO_SIGN_IN};
#[cfg(feature = "net")]
pub use roots::{BadRoots, Roots, SSL_CERT_FILE};
pub use scopes::Scopes;
#[cfg(feature = "net")]
pub use signatures::install_signatures;
