//! Why there is no session: typed, so that each dialect can say it in its own words.

use serde::Serialize;

use crate::negotiation::offer::{Capability, shorten};

/// Why two sides did not come to an agreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// No version in common.
    #[error("no version in common: the client asked for {}, the server {}", list(asked), speaks(spoken))]
    VersionMismatch {
        /// What the client asked for.
        asked: Vec<String>,
        /// What the server speaks, so far as it said so.
        spoken: Vec<String>,
    },
    /// The token was missing or wrong.
    #[error("the token was not accepted")]
    AuthFailed,
    /// Nothing that was asked for is available.
    #[error("none of the requested capabilities is available: {}", list(wanted))]
    NoCapabilities {
        /// What was asked for.
        wanted: Vec<Capability>,
    },
    /// The peer answered the opening with an error.
    #[error("the peer refused the opening: {} (code {})", shorten(message.clone()), shorten(code.clone()))]
    PeerRefused {
        /// The dialect's code for it.
        code: String,
        /// The peer's words.
        message: String,
    },
    /// The peer's answer to the opening makes no sense in this dialect.
    #[error("the peer broke the protocol while opening: {problem}")]
    PeerMisbehaved {
        /// What was wrong with it.
        problem: String,
    },
    /// The peer went away before a session was open.
    #[error("the peer closed the channel before the session was open")]
    PeerGone,
    /// Nobody answered in time.
    #[error("the peer did not answer the opening within {seconds} s")]
    TimedOut {
        /// How long we waited.
        seconds: u64,
    },
    /// We could not evaluate the offer.
    #[error("internal failure while opening: {problem}")]
    ServerError {
        /// What failed.
        problem: String,
    },
}

impl Refusal {
    /// A stable word for it.
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

/// How many items of a list a message shows.
const MOST_SHOWN: usize = 16;

fn speaks(versions: &[String]) -> String {
    match versions {
        [] => "did not say what it speaks".to_owned(),
        versions => format!("speaks {}", list(versions)),
    }
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    if items.is_empty() {
        return "nothing".to_owned();
    }
    // What a peer listed may be long, and refusals are logged.
    let shown: Vec<_> = items.iter().take(MOST_SHOWN).map(|item| shorten(item.to_string())).collect();
    let more = if items.len() > MOST_SHOWN { ", …" } else { "" };
    shown.join(", ") + more
}
