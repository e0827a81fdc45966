//! Typed reasons why a session did not open. Each dialect renders them as its own error.

use serde::Serialize;

use crate::negotiation::offer::{Capability, shorten};

/// Why two sides did not reach an agreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// The sides have no common version.
    #[error("no version in common: the client asked for {}, the server {}", list(asked), speaks(spoken))]
    VersionMismatch {
        /// The versions that the client asked for.
        asked: Vec<String>,
        /// The versions that the server speaks, if it listed any.
        spoken: Vec<String>,
    },
    /// The token is missing or wrong.
    #[error("the token was not accepted")]
    AuthFailed,
    /// None of the requested capabilities is available.
    #[error("none of the requested capabilities is available: {}", list(wanted))]
    NoCapabilities {
        /// The requested capabilities.
        wanted: Vec<Capability>,
    },
    /// The peer answered the opening with an error.
    #[error("the peer refused the opening: {} (code {})", shorten(message.clone()), shorten(code.clone()))]
    PeerRefused {
        /// The error code of the dialect.
        code: String,
        /// The peer's error message.
        message: String,
    },
    /// The peer's answer to the opening is not valid in this dialect.
    #[error("the peer broke the protocol while opening: {problem}")]
    PeerMisbehaved {
        /// Description of the violation.
        problem: String,
    },
    /// The peer disconnected before the session was open.
    #[error("the peer closed the channel before the session was open")]
    PeerGone,
    /// The peer did not answer before the timeout.
    #[error("the peer did not answer the opening within {seconds} s")]
    TimedOut {
        /// The timeout in seconds.
        seconds: u64,
    },
    /// An internal error kept us from evaluating the offer.
    #[error("internal failure while opening: {problem}")]
    ServerError {
        /// Description of the error.
        problem: String,
    },
}

impl Refusal {
    /// A stable identifier of the reason.
    pub fn word(&self) -> &'static str {
        match self {
            Self::VersionMismatch { .. } => "version_mismatch",
            Self::AuthFailed => "auth_failed",
            Self::NoCapabilities { .. } => "no_capabilities",
            Self::PeerRefused { .. } => "peer_refused",
            Self::PeerMisbehaved { .. } => "peer_misbehaved",
            Self::PeerGone => "peer_gone",
            Self::TimedOut { .. } => "timed_out",
            Self::ServerError { .. } => "server_error",
        }
    }
}

/// Maximum number of list items in a message.
const MAX_SHOWN: usize = 16;

fn speaks(versions: &[String]) -> String {
    match versions {
        [] => "did not list its versions".to_owned(),
        versions => format!("speaks {}", list(versions)),
    }
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    if items.is_empty() {
        return "nothing".to_owned();
    }
    // A peer can send a long list, and refusals are logged.
    let shown: Vec<_> = items.iter().take(MAX_SHOWN).map(|item| shorten(item.to_string())).collect();
    let more = if items.len() > MAX_SHOWN { ", …" } else { "" };
    shown.join(", ") + more
}
