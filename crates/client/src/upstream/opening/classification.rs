//! What a failed attempt says about the server: its era, its dialect, and whether another attempt may succeed.

use gladhand_core::negotiation::Refusal;
use gladhand_dialects::mcp::revision::Revision;

use super::super::eras::Era;
use super::OpenError;

impl OpenError {
    /// Whether the upstream sent no response.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::PeerGone | Refusal::TimedOut { .. }, .. })
    }

    /// Whether no answer came in time.
    pub(super) fn is_late(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::TimedOut { .. }, .. })
    }

    /// Whether a server that speaks the attempted dialect would refuse in this way.
    pub(super) fn is_understood(&self) -> bool {
        let refusal = match self {
            Self::Refused { refusal, .. } => refusal,
            _ => return false,
        };
        matches!(refusal, Refusal::AuthFailed | Refusal::NoCapabilities { .. } | Refusal::VersionMismatch { .. })
    }

    /// Whether a server of either era would have failed in this way.
    pub(super) fn is_independent_of_era(&self) -> bool {
        matches!(
            self,
            Self::NotStarted { .. } | Self::Unauthorized { .. } | Self::Forbidden { .. } | Self::NotOverHttp(_)
        )
    }

    /// Whether the server cannot be reached, or is out of order.
    pub(super) fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether a server that fails in this way does not speak an era. A process that ended may have had another reason, but
    /// servers that know only the handshake also end at a question of the other era.
    pub(super) fn rules_out(&self, era: Era) -> bool {
        let Self::Refused { refusal, .. } = self else { return false };
        match refusal {
            Refusal::TimedOut { .. } => false,
            Refusal::PeerGone => era == Era::Stateless,
            _ => true,
        }
    }

    /// Whether the server may speak another dialect than MCP: it answered with a 4xx status, or with "invalid request".
    pub(super) fn may_be_another_dialect(&self) -> bool {
        let is_blank = |code: &str| code.starts_with('4') || code == "-32600";
        matches!(self, Self::Refused { refusal: Refusal::PeerRefused { code, .. }, .. } if is_blank(code))
    }

    /// Whether a server of the stateless era refused in a way that no server of the handshake era would.
    pub(super) fn is_of_stateless_era(&self) -> bool {
        matches!(self, Self::Refused { refusal, .. } if !may_be_of_the_handshake(refusal))
    }
}

/// Whether a server of the handshake era may have sent this refusal to a request of the stateless era.
fn may_be_of_the_handshake(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::VersionMismatch { spoken, .. } => {
            spoken.iter().filter_map(|version| Revision::named(version)).any(Revision::has_initialize)
        }
        // Only the stateless era has these codes.
        Refusal::PeerRefused { code, .. } => !matches!(code.as_str(), "-32020" | "-32021" | "-32022"),
        _ => true,
    }
}
