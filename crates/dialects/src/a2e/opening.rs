//! The host's handshake: one `handshake/req` against our setup becomes an agreement or one of the
//! page's four reasons, and its `handshake/resp` (a2e §§5.1, 6).

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_core::negotiation::{Agreement, Capability, Minimum, Offer, Peer, Refusal, Side, Wants, agree};
use gladhand_core::wire::{Id, Members};

use super::capabilities::{self, MCP, TOOLS, VERSION};
use super::fields::Fields;
use super::message::{Message, Object, write_list};
use crate::ambient::Ambient;
use crate::side::{Menu, Pass, ServerSetup};

/// Unknown names are remembered only to explain themselves later, so a few are enough.
const MOST_UNKNOWN_NAMES: usize = 32;

/// The longest version, id of an agent and token, in bytes: a session keeps them.
const LONGEST_VERSION: usize = 128;
const LONGEST_AGENT_ID: usize = 1024;
const LONGEST_TOKEN: usize = 8 * 1024;

/// A `handshake/req` whose fields are sound.
#[derive(Debug)]
pub(super) struct HandshakeRequest<'a> {
    agent_id: Cow<'a, str>,
    agent_caps: Vec<Cow<'a, str>>,
    auth_token: Secret,
    version: Option<Cow<'a, str>>,
}

impl<'a> HandshakeRequest<'a> {
    /// Reads the fields; nothing has a required value here, absent ones have their defaults.
    pub(super) fn read(members: &Members<'a>) -> Result<Self, Vec<(String, String)>> {
        let mut fields = Fields::of(members);
        let version = fields.envelope();
        fields.at_most("version", version.as_deref().unwrap_or_default(), LONGEST_VERSION);
        let request = Self {
            agent_id: fields.short_text("agent_id", LONGEST_AGENT_ID),
            agent_caps: fields.texts("agent_caps"),
            auth_token: Secret::new(fields.short_text("auth_token", LONGEST_TOKEN)),
            version,
        };
        fields.finish().map(|()| request)
    }

    /// Who the agent says it is, and the token that it presented.
    pub(super) fn credentials(&self) -> Credentials {
        Credentials { agent_id: self.agent_id.clone().into_owned(), token: self.auth_token.clone() }
    }

    /// The known names that were asked for, in order and without repeats.
    pub(super) fn known_names(&self) -> Vec<&'static str> {
        let mut names = Vec::with_capacity(capabilities::NAMES.len());
        for name in self.agent_caps.iter().filter_map(|name| capabilities::known(name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Compares the request with what we have, in the order that the page's reasons are given in.
    pub(super) fn evaluate(&self, setup: &ServerSetup) -> Result<Agreement, Refusal> {
        if setup.max_parallel == 0 {
            let problem = "max_parallel is 0, so that no request could ever run".to_owned();
            return Err(Refusal::ServerError { problem });
        }
        if let Some(problem) = &setup.menu.outage {
            return Err(Refusal::ServerError { problem: problem.clone() });
        }
        let unknown = self.agent_caps.iter().filter(|name| !capabilities::is_known(name)).take(MOST_UNKNOWN_NAMES);
        let wanted = self.known_names().into_iter().map(Capability::named);
        let wanted = wanted.chain(unknown.map(|name| Capability::from_wire(name.as_ref())));
        let mut client = Offer {
            wants: Wants::Only(wanted.collect()),
            tokens: vec![self.auth_token.clone()],
            ..Offer::new(Peer::new(self.agent_id.as_ref(), ""), self.version.as_deref())
        };
        // An empty token in the configuration is no token: it would be given to everybody who sends none.
        let passes: Vec<_> = setup.passes.iter().filter(|pass| !pass.token.expose().is_empty()).collect();
        let tokens: Vec<_> =
            passes.iter().filter(|pass| is_for(pass, &self.agent_id)).map(|pass| pass.token.clone()).collect();
        let is_locked_out = tokens.is_empty() && !passes.is_empty();
        let mut server = Offer { tokens, ..Offer::new(setup.identity.clone(), [VERSION]) };
        // Who may come in with several passes has what each of them opens.
        let credentials = self.credentials();
        let is_open = |name: &str| credentials.open(&setup.passes, name);
        let tools = setup.menu.tools.then_some(TOOLS);
        for name in tools.into_iter().chain(setup.menu.capabilities.iter().copied()).filter(|name| is_open(name)) {
            server = server.providing(Capability::named(name));
        }
        if is_open(MCP) && setup.menu.capabilities.contains(&MCP) && self.known_names().contains(&MCP) {
            client = client.providing(Capability::named("sampling")).providing(Capability::named("roots"));
        }
        let pass = credentials.principal(&setup.passes);
        let agreement = match agree(&capabilities::rules(Minimum::OneCapability), &client, &server) {
            // No pass is for this agent, which is told only that.
            Ok(_) | Err(Refusal::NoCapabilities { .. }) if is_locked_out => return Err(Refusal::AuthFailed),
            agreed => agreed?,
        };
        // `1` and `1.7` were asked for, 1.0 is what there is.
        let asked_version = self.version.as_deref().filter(|asked| *asked != VERSION).map(str::to_owned);
        Ok(Agreement {
            version: VERSION.to_owned(),
            asked_version,
            per_request: false,
            instructions: None,
            max_parallel: Some(setup.max_parallel),
            pass,
            ..agreement
        })
    }
}

/// What an agent presented in a handshake.
#[derive(Debug)]
pub(super) struct Credentials {
    agent_id: String,
    token: Secret,
}

impl Credentials {
    /// Whether these passes open a capability to the agent. Without any pass, everything is open.
    pub(super) fn open(&self, passes: &[Pass], capability: &str) -> bool {
        let opens =
            |pass: &Pass| pass.capabilities.as_ref().is_none_or(|open| open.iter().any(|open| open == capability));
        passes.iter().all(|pass| pass.token.expose().is_empty()) || self.presented(passes).any(opens)
    }

    /// Whom the agent stands for by these passes.
    pub(super) fn principal(&self, passes: &[Pass]) -> Option<Arc<str>> {
        // A pass of this agent alone says more of it than one that is good for any agent.
        let mut presented = self.presented(passes);
        let pass = presented.clone().find(|pass| pass.client.is_some()).or_else(|| presented.next());
        pass.map(|pass| pass.principal.clone().unwrap_or_default())
    }

    /// The passes whose token the agent presented, and that are for it. An empty token is none.
    fn presented<'p>(&self, passes: &'p [Pass]) -> impl Iterator<Item = &'p Pass> + Clone {
        let is_presented = |pass: &&Pass| !pass.token.expose().is_empty() && pass.token.matches(&self.token);
        passes.iter().filter(is_presented).filter(|pass| is_for(pass, &self.agent_id))
    }
}

fn is_for(pass: &Pass, agent_id: &str) -> bool {
    pass.client.as_deref().is_none_or(|client| client == agent_id)
}

/// Writes `handshake/resp` for an agreement.
pub(super) fn grant(
    request: Option<&Id>,
    names: &[&'static str],
    menu: &Menu,
    agreement: &Agreement,
    ambient: &mut Ambient<'_>,
    wire: &mut Vec<u8>,
) {
    Message::answer("handshake/resp", request, ambient)
        .with("session_id", agreement.session.as_deref().unwrap_or_default())
        .written("accepted_caps", |out| {
            write_list(out, names, |out, name| write_capability(out, name, menu, agreement));
        })
        .with("max_parallel", &agreement.max_parallel)
        .with("ok", &true)
        .with("reason", "")
        .send(wire);
}

/// Writes `handshake/resp` for a refusal.
pub(super) fn refuse(
    request: Option<&Id>,
    refusal: &Refusal,
    max_parallel: u32,
    ambient: &mut Ambient<'_>,
    wire: &mut Vec<u8>,
) {
    Message::answer("handshake/resp", request, ambient)
        .with("session_id", "")
        .raw("accepted_caps", "[]")
        .with("max_parallel", &max_parallel)
        .with("ok", &false)
        .with("reason", reason(refusal))
        .send(wire);
}

/// The page's word for a refusal.
fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::VersionMismatch { .. } => "version_mismatch",
        Refusal::AuthFailed => "auth_failed",
        Refusal::NoCapabilities { .. } => "no_caps",
        Refusal::ServerError { .. }
        | Refusal::PeerRefused { .. }
        | Refusal::PeerMisbehaved { .. }
        | Refusal::PeerGone
        | Refusal::TimedOut { .. } => "server_error",
    }
}

fn write_capability(out: &mut Vec<u8>, name: &'static str, menu: &Menu, agreement: &Agreement) {
    let is_served = menu.capabilities.contains(&name) || (name == TOOLS && menu.tools);
    let enabled = agreement.allows(Side::Server, name);
    let entry = Object::open(out).with("capability", name).with("enabled", &enabled);
    let entry = entry.written("metadata", |out| {
        let metadata = Object::open(out);
        let metadata = match enabled {
            true => metadata
                .with("name", &agreement.server.name)
                .with("type", name)
                .with("priority", &0)
                .with("exclusive", &true),
            false if is_served => metadata.with("reason", "not opened by this token"),
            false => metadata.with("reason", "no plugin loaded"),
        };
        metadata.close();
    });
    entry.close();
}
