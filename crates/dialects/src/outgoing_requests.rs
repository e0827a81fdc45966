//! Requests of a client side that have no response yet, for dialects whose clients only list and call tools.
//!
//! Ids are numbers that count up from 1. Each dialect writes them in its own notation.

use std::collections::BTreeMap;

use gladhand_core::negotiation::Refusal;
use gladhand_core::operations::{CallId, Failure, FailureKind};
use gladhand_core::wire::Fault;

use crate::side::Event;

/// Maximum number of requests without a response.
const MAX_OUTGOING: usize = 4_096;

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutgoingRequest {
    /// The handshake of the opening.
    Opening,
    /// Lists the tools for a call.
    List(CallId),
    /// Calls a tool.
    Call(CallId),
    /// The closing message. Its response is ignored.
    Closing,
}

/// The requests without a response, by their ids.
#[derive(Debug, Default)]
pub(crate) struct OutgoingRequests {
    requests: BTreeMap<u64, OutgoingRequest>,
    last_id: u64,
}

impl OutgoingRequests {
    /// Adds a request under a new id.
    pub(crate) fn add(&mut self, request: OutgoingRequest) -> u64 {
        self.last_id += 1;
        self.requests.insert(self.last_id, request);
        self.last_id
    }

    /// Fails if too many requests have no response.
    pub(crate) fn check_room(&self) -> Result<(), Failure> {
        match self.requests.len() < MAX_OUTGOING {
            true => Ok(()),
            false => Err(Failure::new(FailureKind::Busy, "too many requests without an answer")),
        }
    }

    /// The request with this id.
    pub(crate) fn get(&self, id: u64) -> Option<OutgoingRequest> {
        self.requests.get(&id).copied()
    }

    /// Removes the request that a response names.
    pub(crate) fn take(&mut self, id: u64) -> Option<OutgoingRequest> {
        self.requests.remove(&id)
    }

    /// Removes the request that a response without an id belongs to. A server that cannot read a line responds like
    /// this. If only one request has no response, it was that one.
    pub(crate) fn take_only(&mut self) -> Option<OutgoingRequest> {
        match self.requests.len() {
            1 => self.requests.pop_first().map(|(_, request)| request),
            _ => None,
        }
    }

    /// The event for a line that cannot be read, and that may name a request.
    pub(crate) fn unreadable(&mut self, id: Option<u64>, fault: &Fault) -> Event {
        match id.and_then(|id| self.take(id)) {
            Some(OutgoingRequest::List(call) | OutgoingRequest::Call(call)) => {
                Event::Answered(call, Err(Failure::unreadable(fault)))
            }
            Some(OutgoingRequest::Opening) => {
                Event::Refused(Refusal::PeerMisbehaved { problem: Failure::unreadable(fault).message })
            }
            Some(OutgoingRequest::Closing) | None => Event::Dropped("a line that cannot be read"),
        }
    }

    /// Cancels a call: its request is forgotten, and a response to it is dropped. `None` if it has no request.
    pub(crate) fn cancel(&mut self, call: CallId) -> Option<Event> {
        let is_it = |request: &OutgoingRequest| matches!(request, OutgoingRequest::List(id) | OutgoingRequest::Call(id) if *id == call);
        let id = self.requests.iter().find(|(_, request)| is_it(request)).map(|(id, _)| *id)?;
        self.requests.remove(&id);
        Some(Event::Answered(call, Err(Failure::new(FailureKind::Cancelled, "cancelled by the caller"))))
    }

    /// Ends all requests, because the server disconnected.
    pub(crate) fn disconnect(&mut self) -> impl Iterator<Item = Event> + use<> {
        std::mem::take(&mut self.requests).into_values().filter_map(|request| match request {
            OutgoingRequest::Opening => Some(Event::Refused(Refusal::PeerGone)),
            OutgoingRequest::List(call) | OutgoingRequest::Call(call) => {
                let failure = Failure::new(FailureKind::UpstreamLost, "the server disconnected");
                Some(Event::Answered(call, Err(failure)))
            }
            OutgoingRequest::Closing => None,
        })
    }
}
