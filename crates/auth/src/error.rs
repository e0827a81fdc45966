//! What can stand in the way of authorization. No variant carries a credential.

use crate::scopes::Scopes;

/// Why we are not let in, or could not find out how to be.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// An address that credentials must not travel to.
    #[error("{address} is not an address to send credentials to: it must be https, or loopback for a loopback server")]
    UnsafeAddress {
        /// The address as it was given.
        address: String,
    },
    /// An address of a private network, named by a server that is not on one.
    #[error("{address} is on a private address, where a server on the internet must not send us")]
    PrivateAddress {
        /// The address, without its query.
        address: String,
    },
    /// Nobody answered, or the answer broke off.
    #[error("could not reach {address}: {reason}")]
    Unreachable {
        /// Who was asked.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// Somebody answered something that cannot be used.
    #[error("{address} answered {what}")]
    Nonsense {
        /// Who answered.
        address: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// The protected-resource metadata speaks of another server.
    #[error("the server's metadata is for {published}, not for {server}")]
    OtherResource {
        /// The resource that the metadata names.
        published: String,
        /// The server that we talk to.
        server: String,
    },
    /// The metadata of an authorization server names another issuer.
    #[error("the metadata of {expected} was issued by {published}")]
    OtherIssuer {
        /// The issuer that we asked for.
        expected: String,
        /// The issuer that the document names.
        published: String,
    },
    /// No location has metadata of the authorization server.
    #[error("{issuer} publishes no metadata")]
    NoMetadata {
        /// The issuer.
        issuer: String,
    },
    /// The authorization server lacks something that we cannot do without.
    #[error("{issuer} has no {what}")]
    Lacks {
        /// The issuer.
        issuer: String,
        /// What it lacks.
        what: &'static str,
    },
    /// We are nobody to this authorization server, and it registers no strangers.
    #[error("{issuer} does not know us: configure a client id for it")]
    NoClient {
        /// The issuer.
        issuer: String,
    },
    /// The redirect came back with a sign that it is not from whom we asked.
    #[error("the answer of {issuer} is not trustworthy: {why}")]
    Forged {
        /// The issuer that was asked.
        issuer: String,
        /// What gave it away.
        why: &'static str,
    },
    /// The authorization server said no.
    #[error("{issuer} refused: {code}{}", described(.description))]
    Refused {
        /// Who refused.
        issuer: String,
        /// The error code of OAuth.
        code: String,
        /// Its explanation.
        description: Option<String>,
    },
    /// An old token could not be renewed, and a new one not obtained.
    #[error("{refused}; {error}")]
    NotRenewed {
        /// Why it could not be renewed.
        refused: Box<Self>,
        /// Why there is no new one.
        error: Box<Self>,
    },
    /// The interactive step failed.
    #[error("could not ask for consent: {0}")]
    Browser(String),
    /// The server turns down the very token that was obtained for it.
    #[error("{server} does not accept the token that was issued for it{}", described(.complaint))]
    TokenRejected {
        /// The server.
        server: String,
        /// What it says about that.
        complaint: Option<String>,
    },
    /// The server forbids this, and no wider scope would help.
    #[error("{server} forbids this request{}", described(.complaint))]
    Forbidden {
        /// The server.
        server: String,
        /// What it says about that.
        complaint: Option<String>,
    },
    /// The server wants authorization, or other than it got.
    #[error("HTTP status {status}{}", described(.complaint))]
    Denied {
        /// 401 or 403.
        status: u16,
        /// What the server says about it.
        complaint: Option<String>,
    },
    /// Scopes that we asked for and that do not suffice, or that keep growing.
    #[error("{server} still asks for scope `{scopes}`")]
    ScopeNotGranted {
        /// The server.
        server: String,
        /// What it asks for.
        scopes: Scopes,
    },
    /// A key that cannot sign.
    #[error("could not sign with {key}: {reason}")]
    Key {
        /// Which key.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The store of tokens failed.
    #[error("could not use the token store: {0}")]
    Store(#[from] std::io::Error),
}

fn described(description: &Option<String>) -> String {
    description.as_deref().map(|text| format!(" ({text})")).unwrap_or_default()
}
