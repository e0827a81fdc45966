//! Authorization over HTTP, in both directions.
//!
//! [`resource`] guards our own endpoint: it decides who a request comes from, and words the refusal. [`client`] gets us
//! into the endpoints of others: it finds the authorization server, obtains and renews tokens, and signs requests.
//! The two share only the published metadata of authorization servers.
//!
//! This crate knows nothing of sessions, lines or tools, and never forwards a token that it was shown: what we present to
//! others was issued to us. It holds tokens in [`Secret`](gladhand_core::Secret) and writes none of them to a log, an
//! error or a `Debug` text.

pub mod client;
mod error;
mod metadata;
mod reach;
pub mod resource;
mod roots;
mod scopes;
mod time;
mod web;

pub use error::AuthError;
pub use roots::{BadRoots, Roots, SSL_CERT_FILE};
pub use scopes::Scopes;
