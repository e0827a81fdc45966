//! Getting into the endpoints of others.
//!
//! An [`Authorizer`] belongs to one server. Before each request it adds the token that it holds, if any; when the server
//! answers 401 or 403 it is asked whether to try again, and meanwhile finds the authorization server, obtains a token
//! or widens the one it has. Several requests may be challenged at once: one of them does the work, the others then
//! use its result.

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

/// The scope that stands for refresh tokens.
const OFFLINE: &str = "offline_access";

/// How to get into one server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address of the server.
    pub server: Url,
    /// How tokens are obtained.
    pub flow: Flow,
    /// Who we are, if that was settled beforehand.
    pub client: Option<ClientIdentity>,
    /// A published document that describes us, and whose address is our client id where that is supported.
    pub client_metadata_url: Option<Url>,
    /// The name under which we register.
    pub client_name: String,
    /// Where tokens are kept.
    pub store: Arc<dyn TokenStore>,
    /// Whose certificates are trusted beside those that the system trusts.
    pub roots: Roots,
}

/// How tokens are obtained.
#[derive(Clone)]
pub enum Flow {
    /// A person agrees in a browser.
    Code(Arc<dyn Browser>),
    /// The client stands for itself.
    ClientCredentials,
    /// The platform that we run on vouches for us with an assertion (workload identity federation).
    Workload(Arc<dyn Assertion>),
    /// The organisation's identity provider vouches for the person (enterprise-managed authorization).
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

/// Supplies assertions about the workload that we are. They are short-lived, so each token request asks for one.
pub trait Assertion: Send + Sync {
    /// The assertion to use now.
    fn current(&self) -> std::io::Result<Secret>;
}

/// An assertion that does not change.
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

/// An identity provider that trades an identity token for a grant (ID-JAG).
#[derive(Debug, Clone)]
pub struct IdentityProvider {
    /// Its issuer.
    pub issuer: String,
    /// Its token endpoint. None: the one in its metadata.
    pub token_endpoint: Option<String>,
    /// As whom we are known there.
    pub client: ClientIdentity,
    /// The person's identity token.
    pub id_token: Secret,
}

/// What an answer 401 or 403 says, where there is nobody who could do something about it. `sent` are the headers of the
/// request; what is secret in them is not repeated.
pub fn denial(status: http::StatusCode, headers: &http::HeaderMap, sent: &http::HeaderMap) -> crate::AuthError {
    let sent = sent.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
    // A scheme in front of a secret is none itself.
    let secrets = sent.map(|value| value.split_once(' ').map_or(value, |(_, secret)| secret));
    let complaint = challenge::Challenge::read(headers).complaint(secrets);
    crate::AuthError::Denied { status: status.as_u16(), complaint }
}
