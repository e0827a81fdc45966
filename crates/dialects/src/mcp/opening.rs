//! The handshake: `initialize`, our result, `notifications/initialized`.
//!
//! A version that we speak is echoed; any other gets our newest of that era, which is an offer and
//! not a failure: the client decides, and the agreement keeps what it had asked for. A second
//! `initialize` before `initialized` begins anew; in an open session it is refused.

use std::sync::Arc;

use gladhand_core::negotiation::{Agreement, Offer, Refusal, Side};
use gladhand_core::wire::json::{self, Kind, RawValue};
use gladhand_core::wire::{Members, rpc};

use super::capabilities::{self, HANDSHAKE_RULES, InForce, offer_of_menu};
use super::errors;
use super::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION};
use super::revision::Revision;
use super::server::{McpServer, Phase, Request, Session};
use crate::side::{Action, FirstLine, Output};
use crate::storage::Place;
use gladhand_core::wire::pick;

/// An agreement up to this size does not count in the memory that sessions share.
const SMALL_AGREEMENT: usize = 8 * 1024;

impl McpServer {
    pub(super) fn initialize(&mut self, request: Request<'_>, out: &mut Output<'_>) {
        let error = if request.to.way.batch.is_some() {
            errors::invalid_request("`initialize` must not be part of a batch")
        } else if matches!(self.phase, Phase::Open(_)) {
            errors::invalid_request("the session is already open; it cannot be initialized again")
        } else {
            let agreed = read_offer(request.all_params()).and_then(|offer| self.negotiate(&offer));
            match agreed.and_then(|in_force| Ok((self.place_for(&in_force.agreement)?, in_force))) {
                Ok((place, in_force)) => {
                    out.go(request.to.way.lane);
                    self.render.initialize_result(&mut out.wire, &request.to.id, in_force.revision);
                    // Whatever the session before it watched is not watched by this one.
                    self.watches.clear(out);
                    let session = Session { in_force: Arc::new(in_force), level: None, _place: place };
                    self.phase = Phase::ExpectInitialized(session);
                    return;
                }
                Err(error) => {
                    out.actions.push(Action::Refused(Refusal::PeerMisbehaved { problem: error.message.to_string() }));
                    error
                }
            }
        };
        self.refuse(&request.to, &error, out);
    }

    /// The client has read our result: from now on we may speak.
    pub(super) fn initialized(&mut self, out: &mut Output<'_>) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::ExpectInitialize) {
            Phase::ExpectInitialized(session) => {
                out.actions.push(Action::Opened(Arc::clone(&session.in_force.agreement)));
                Phase::Open(session)
            }
            unchanged => {
                out.actions.push(Action::Dropped("an `initialized` that nothing was waiting for"));
                unchanged
            }
        };
        self.send_waiting_questions(out);
        self.tell_what_is_owed(out);
    }

    /// The place of an agreement in the memory that sessions share. A small one needs none: sessions have a bound.
    fn place_for(&self, agreement: &Agreement) -> Result<Option<Box<dyn Place>>, rpc::Error<'static>> {
        let bytes = agreement.client_weight();
        if bytes <= SMALL_AGREEMENT {
            return Ok(None);
        }
        let mut place = self.setup.storage.place(None);
        if place.resize(bytes) { Ok(Some(place)) } else { Err(errors::busy("sessions with large capabilities")) }
    }

    fn negotiate(&self, client: &Offer) -> Result<InForce, rpc::Error<'static>> {
        let server = offer_of_menu(&self.setup.identity, &self.setup.menu, Revision::HANDSHAKE);
        InForce::between(&HANDSHAKE_RULES, client, &server)
            .map(|in_force| in_force.with_switches_of(&self.setup.menu))
            .map_err(|refusal| errors::invalid_params(refusal.to_string()))
    }
}

/// What the parameters of `initialize` offer, or which of them is wrong.
fn read_offer(params: Option<&RawValue>) -> Result<Offer, rpc::Error<'static>> {
    let wrong = |field: &str, expected: &str| errors::invalid_params(format!("`{field}` must be {expected}"));
    let names = ["protocolVersion", "capabilities", "clientInfo"];
    let [version, declared, info] = params.and_then(|params| pick(params, names)).unwrap_or_default();
    let version = version.and_then(json::string).ok_or_else(|| wrong("protocolVersion", "a string"))?;
    let declared = declared.and_then(Members::of).ok_or_else(|| wrong("capabilities", "an object"))?;
    let info = info.filter(|info| Kind::of(info) == Kind::Object).ok_or_else(|| wrong("clientInfo", "an object"))?;
    let members = Members::of(info).unwrap_or_default();
    for name in ["name", "version"] {
        let text = members.raw(name).and_then(json::string);
        text.ok_or_else(|| wrong(&format!("clientInfo.{name}"), "a string"))?;
    }
    let peer = capabilities::peer(Some(info), capabilities::CLIENT_DESCRIPTION);
    let provides = capabilities::declared(Side::Client, &declared)
        .map_err(|_| wrong("capabilities", "an object of at most 256 capabilities and 65536 bytes"))?;
    Ok(Offer { provides, ..Offer::new(peer, [version]) })
}

/// What the client that begins with this line declares, in `initialize` or in `_meta`, as far as it can be read.
pub(super) fn foreseen_offer(line: &FirstLine<'_>) -> Offer {
    let params = line.members.as_ref().and_then(|members| members.object("params")).unwrap_or_default();
    let meta = params.object("_meta").unwrap_or_default();
    let is_handshake = params.raw("protocolVersion").is_some();
    let (version, declared, info) = if is_handshake {
        (params.str("protocolVersion"), params.object("capabilities"), params.raw("clientInfo"))
    } else {
        (meta.str(PROTOCOL_VERSION), meta.object(CLIENT_CAPABILITIES), meta.raw(CLIENT_INFO))
    };
    let known = version.and_then(|version| Revision::named(&version));
    // A client that asks for a revision which nobody knows is offered the newest one with a handshake.
    let revision = known.or_else(|| is_handshake.then_some(Revision::HANDSHAKE[0]));
    let peer = capabilities::peer(info, capabilities::CLIENT_DESCRIPTION);
    let provides = declared.and_then(|members| capabilities::declared(Side::Client, &members).ok()).unwrap_or_default();
    Offer { provides, ..Offer::new(peer, revision.map(Revision::as_str)) }
}
