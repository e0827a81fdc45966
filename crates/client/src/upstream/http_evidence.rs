//! The HTTP results of an opening, which explain why it failed.

use gladhand_core::negotiation::Refusal;
use gladhand_dialects::Loss;

use super::open_error::Outage;
use super::transport::Inbound;

/// The last HTTP results of an opening.
#[derive(Debug, Clone, Default)]
pub struct HttpEvidence {
    /// The status of the last response.
    pub status: Option<u16>,
    /// How the last exchange was lost.
    pub loss: Option<Loss>,
}

impl HttpEvidence {
    /// Notes an input from the transport.
    pub fn note(&mut self, inbound: &Inbound) {
        match inbound {
            Inbound::Message(_, _, status) => self.status = status.or(self.status),
            Inbound::Lost(_, loss) => self.note_loss(loss.clone()),
            Inbound::Garbled(..) | Inbound::Room | Inbound::Gone => {}
        }
    }

    /// Notes how an exchange was lost.
    pub fn note_loss(&mut self, loss: Loss) {
        if let Loss::Status(status) = loss {
            self.status = Some(status);
        }
        self.loss = Some(loss);
    }

    /// The refusal if the HTTP client could not connect.
    pub fn refusal(&self) -> Refusal {
        match self.status {
            Some(status) => Refusal::PeerRefused { code: status.to_string(), message: format!("HTTP status {status}") },
            None => Refusal::PeerGone,
        }
    }

    /// The reason if the server as a whole is unusable.
    pub fn outage(&self) -> Option<Outage> {
        match (self.status, &self.loss) {
            (Some(status @ 500..), _) => Some(Outage::Status(status)),
            (_, Some(Loss::Unsent(why))) => Some(Outage::NotSent(why.clone())),
            (None, Some(Loss::Broken)) => Some(Outage::Broken),
            _ => None,
        }
    }

    /// Whether the server may support only the transport of the first revision.
    pub fn suggests_one_stream(&self) -> bool {
        matches!(self.status, Some(400 | 404 | 405))
    }
}
