//! Authorization over HTTP, for our own endpoint and for our requests to other servers.
//!
//! [`resource`] guards our own endpoint: it identifies the principal of a request, or builds the refusal.
//! [`client`] authorizes our requests to other servers: it finds the authorization server, obtains and renews
//! tokens, and signs requests. Both share only the published metadata of authorization servers.
//!
//! This crate knows nothing of sessions, lines or tools. It never forwards a token that it received: the tokens
//! that we send were issued to us. Tokens are held in [`Secret`](gladhand_core::Secret) and never appear in a log,
//! an error or `Debug` output.

pub mod client;
mod error;
mod metadata;
mod reach;
pub mod resource;
mod roots;
mod scopes;
mod signatures;
mod time;
mod web;

pub use error::AuthError;
pub use roots::{BadRoots, Roots, SSL_CERT_FILE};
pub use scopes::Scopes;
pub use signatures::install_signatures;
