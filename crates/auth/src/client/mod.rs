//! The client side: authorizes our requests to protected servers.
//!
//! An [`Authorizer`] belongs to one server. Before each request it adds the current token, if there is one. When
//! the server responds with 401 or 403, the authorizer decides whether to repeat the request. For that it finds the
//! authorization server, obtains a token or requests wider scopes. If several requests are challenged at the same
//! time, one of them does the work and the others use its result.

mod authorizer;
mod browser;
mod callback;
mod challenge;
mod code;
mod discovery;
mod dpop;
mod identity;
mod pkce;
mod sign_out;
mod store;
mod token;

use std::fmt;
use std::sync::Arc;

use gladhand_core::Secret;
use url::Url;

use crate::roots::Roots;
use crate::time::unix_now;

pub use authorizer::{Attempt, Authorizer};
pub use browser::{Browser, Loopback, Pending, open_in_browser};
pub use callback::{Callback, Page, Visit};
pub use identity::{ClientIdentity, ClientProof, Registration, SigningKey};
pub use pkce::{Pkce, random};
pub use sign_out::Revocation;
pub use store::{Grant, MemoryStore, Record, TokenStore};

/// The scope that requests refresh tokens.
const OFFLINE: &str = "offline_access";

/// How to authorize requests to one server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address of the server.
    pub server: Url,
    /// How tokens are obtained.
    pub flow: Flow,
    /// The configured client identity, if there is one.
    pub client: Option<ClientIdentity>,
    /// The address of a published document that describes this client. It is the client id at servers that support
    /// that.
    pub client_metadata_url: Option<Url>,
    /// The client name for registrations.
    pub client_name: String,
    /// Where tokens are stored.
    pub store: Arc<dyn TokenStore>,
    /// The certificate authorities that are trusted in addition to the system's.
    pub roots: Roots,
}

/// How tokens are obtained.
#[derive(Clone)]
pub enum Flow {
    /// The user gives consent in a browser.
    Code(Arc<dyn Browser>),
    /// The client authenticates as itself.
    ClientCredentials,
    /// The platform identifies this workload with an assertion (workload identity federation).
    Workload(Arc<dyn Assertion>),
    /// The identity provider of the organisation identifies the user (enterprise-managed authorization).
    Enterprise(IdentityProvider),
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Code(_) => "Code",
            Self::ClientCredentials => "ClientCredentials",
            Self::Workload(_) => "Workload",
            Self::Enterprise(_) => "Enterprise",
        })
    }
}

/// Supplies assertions about this workload. They are short-lived, so each token request fetches one.
pub trait Assertion: Send + Sync {
    /// The current assertion.
    fn current(&self) -> std::io::Result<Secret>;
}

/// An assertion that never changes.
impl Assertion for Secret {
    fn current(&self) -> std::io::Result<Secret> {
        Ok(self.clone())
    }
}

/// An assertion in a file that the platform renews.
impl Assertion for std::path::PathBuf {
    fn current(&self) -> std::io::Result<Secret> {
        Ok(Secret::new(fs_err::read_to_string(self)?.trim()))
    }
}

/// An identity provider that exchanges an identity token for a grant (ID-JAG).
#[derive(Debug, Clone)]
pub struct IdentityProvider {
    /// The issuer.
    pub issuer: String,
    /// The token endpoint. `None`: the one in its metadata.
    pub token_endpoint: Option<String>,
    /// Our client identity at the provider.
    pub client: ClientIdentity,
    /// The user's identity token.
    pub id_token: Secret,
}

/// The error for a response with status 401 or 403 to a request without an authorizer. `sent` are the headers of
/// the request; secrets in them are not repeated.
pub fn denial(status: http::StatusCode, headers: &http::HeaderMap, sent: &http::HeaderMap) -> crate::AuthError {
    let sent = sent.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
    // Only the part after the scheme is secret.
    let secrets = sent.map(|value| value.split_once(' ').map_or(value, |(_, secret)| secret));
    let error_text = challenge::Challenge::read(headers).error_text(secrets);
    crate::AuthError::Denied { status: status.as_u16(), error_text }
}
