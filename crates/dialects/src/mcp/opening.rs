//! The handshake: `initialize`, our result, `notifications/initialized`.
//!
//! If we speak the requested version, we echo it. Otherwise we offer the newest version of the handshake era. This is
//! not an error: the client decides, and the agreement records the requested version. A second `initialize` before
//! `initialized` restarts the opening; in an open session it is refused.

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
use crate::storage::Reservation;
use gladhand_core::wire::pick;

/// An agreement up to this size in bytes does not count towards the memory that sessions share.
const SMALL_AGREEMENT: usize = 8 * 1024;

impl McpServer {
    pub(super) fn initialize(&mut self, request: Request<'_, '_>, out: &mut Output<'_>) {
        let error = if request.to.route.batch.is_some() {
            errors::invalid_request("`initialize` must not be part of a batch")
        } else if matches!(self.phase, Phase::Open(_)) {
            errors::invalid_request("the session is already open; it cannot be initialized again")
        } else {
            let agreed = read_offer(request.all_params()).and_then(|offer| self.negotiate(&offer));
            match agreed.and_then(|in_force| Ok((self.reserve_for(&in_force.agreement)?, in_force))) {
                Ok((place, in_force)) => {
                    out.go(request.to.route.lane);
                    self.render.initialize_result(&mut out.wire, &request.to.id, in_force.revision);
                    // The subscriptions of the previous session do not carry over.
                    self.watches.clear(out);
                    let session = Session { in_force: Arc::new(in_force), level: None, _reservation: place };
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

    /// The client has read our result. From now on, we may send notices and requests.
    pub(super) fn initialized(&mut self, out: &mut Output<'_>) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::ExpectInitialize) {
            Phase::ExpectInitialized(session) => {
                out.actions.push(Action::Opened(Arc::clone(&session.in_force.agreement)));
                Phase::Open(session)
            }
            unchanged => {
                out.actions.push(Action::Dropped("an unexpected `initialized`"));
                unchanged
            }
        };
        self.send_waiting_questions(out);
        self.send_unreported_changes(out);
    }

    /// Reserves memory that sessions share for an agreement. A small one needs none, because the number of sessions is bounded.
    fn reserve_for(&self, agreement: &Agreement) -> Result<Option<Box<dyn Reservation>>, rpc::Error<'static>> {
        let bytes = agreement.client_weight();
        if bytes <= SMALL_AGREEMENT {
            return Ok(None);
        }
        let mut place = self.setup.storage.reserve(None);
        if place.resize(bytes) { Ok(Some(place)) } else { Err(errors::busy("sessions with large capabilities")) }
    }

    fn negotiate(&self, client: &Offer) -> Result<InForce, rpc::Error<'static>> {
        let server = offer_of_menu(&self.setup.identity, &self.setup.menu, Revision::HANDSHAKE);
        InForce::between(&HANDSHAKE_RULES, client, &server)
            .map(|in_force| in_force.with_switches_of(&self.setup.menu))
            .map_err(|refusal| errors::invalid_params(refusal.to_string()))
    }
}

/// The declarations of a client, in the parameters of `initialize` or in `_meta`, as far as they can be parsed.
struct Declarations<'a> {
    version: Option<String>,
    capabilities: Option<Members<'a>>,
    info: Option<&'a RawValue>,
}

impl<'a> Declarations<'a> {
    const IN_INITIALIZE: [&'static str; 3] = ["protocolVersion", "capabilities", "clientInfo"];
    const IN_META: [&'static str; 3] = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO];

    fn read(object: Option<&'a RawValue>, names: [&'static str; 3]) -> Self {
        let [version, capabilities, info] = object.and_then(|object| pick(object, names)).unwrap_or_default();
        let version = version.and_then(json::string).map(Into::into);
        Self { version, capabilities: capabilities.and_then(Members::of), info }
    }
}

/// Parses the offer in the parameters of `initialize`, or returns which of them is wrong.
fn read_offer(params: Option<&RawValue>) -> Result<Offer, rpc::Error<'static>> {
    let wrong = |field: &str, expected: &str| errors::invalid_params(format!("`{field}` must be {expected}"));
    let Declarations { version, capabilities, info } = Declarations::read(params, Declarations::IN_INITIALIZE);
    let version = version.ok_or_else(|| wrong("protocolVersion", "a string"))?;
    let declared = capabilities.ok_or_else(|| wrong("capabilities", "an object"))?;
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

/// The offer in a client's first line, from `initialize` or from `_meta`, as far as it can be parsed.
pub(super) fn offer_in_first_line(line: &FirstLine<'_>) -> Offer {
    let params = line.members.as_ref().and_then(|members| members.raw("params"));
    let meta = params.and_then(|params| pick(params, ["_meta"])).and_then(|[meta]| meta);
    let is_handshake = params.and_then(|params| pick(params, ["protocolVersion"])).is_some_and(|[v]| v.is_some());
    let Declarations { version, capabilities, info } = match is_handshake {
        true => Declarations::read(params, Declarations::IN_INITIALIZE),
        false => Declarations::read(meta, Declarations::IN_META),
    };
    let known = version.and_then(|version| Revision::named(&version));
    // A client that requests an unknown revision is offered the newest handshake revision.
    let revision = known.or_else(|| is_handshake.then_some(Revision::HANDSHAKE[0]));
    let peer = capabilities::peer(info, capabilities::CLIENT_DESCRIPTION);
    let provides = capabilities.and_then(|members| capabilities::declared(Side::Client, &members).ok());
    Offer { provides: provides.unwrap_or_default(), ..Offer::new(peer, revision.map(Revision::as_str)) }
}
