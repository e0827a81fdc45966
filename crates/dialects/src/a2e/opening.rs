//! The host's handshake: evaluates a `handshake/req` against our setup and writes the `handshake/resp`. The result is
//! an agreement, or one of the page's four reasons for a refusal (a2e §§5.1, 6).

use std::borrow::Cow;
use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_core::negotiation::{Agreement, Capability, Minimum, Offer, Peer, Refusal, Side, Wants, agree};
use gladhand_core::wire::{FrameKind, Frames};
use gladhand_core::wire::{Id, Members};

use super::capabilities::{self, MCP, TOOLS, VERSION};
use super::fields::Fields;
use super::message::{MessageWriter, Object, write_list};
use crate::ambient::Ambient;
use crate::side::{Menu, Pass, ServerSetup};

/// Maximum number of unknown names that are kept. They only serve for later explanations.
const MAX_UNKNOWN_NAMES: usize = 32;

/// Maximum sizes of the version, the agent id and the token in bytes. A session keeps them.
const MAX_VERSION_BYTES: usize = 128;
const MAX_AGENT_ID_BYTES: usize = 1024;
const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// A `handshake/req` with valid fields.
#[derive(Debug)]
pub(super) struct HandshakeRequest<'a> {
    agent_id: Cow<'a, str>,
    agent_caps: Vec<Cow<'a, str>>,
    auth_token: Secret,
    version: Option<Cow<'a, str>>,
}

impl<'a> HandshakeRequest<'a> {
    /// Reads the fields. No field is mandatory; absent ones have their defaults.
    pub(super) fn read(members: &Members<'a>) -> Result<Self, Vec<(String, String)>> {
        let mut fields = Fields::of(members);
        let version = fields.envelope();
        fields.at_most("version", version.as_deref().unwrap_or_default(), MAX_VERSION_BYTES);
        let request = Self {
            agent_id: fields.short_text("agent_id", MAX_AGENT_ID_BYTES),
            agent_caps: fields.texts("agent_caps"),
            auth_token: Secret::new(fields.short_text("auth_token", MAX_TOKEN_BYTES)),
            version,
        };
        fields.finish().map(|()| request)
    }

    /// The agent's self-reported id, and its token.
    pub(super) fn credentials(&self) -> Credentials {
        Credentials { agent_id: self.agent_id.clone().into_owned(), token: self.auth_token.clone() }
    }

    /// The requested names that are known, in order and without duplicates.
    pub(super) fn known_names(&self) -> Vec<&'static str> {
        let mut names = Vec::with_capacity(capabilities::NAMES.len());
        for name in self.agent_caps.iter().filter_map(|name| capabilities::known(name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Compares the request with our setup, in the order of the page's reasons.
    pub(super) fn evaluate(&self, setup: &ServerSetup) -> Result<Agreement, Refusal> {
        if setup.max_parallel == 0 {
            let problem = "max_parallel is 0, so no request could run".to_owned();
            return Err(Refusal::ServerError { problem });
        }
        if let Some(problem) = &setup.menu.outage {
            return Err(Refusal::ServerError { problem: problem.clone() });
        }
        let unknown = self.agent_caps.iter().filter(|name| !capabilities::is_known(name)).take(MAX_UNKNOWN_NAMES);
        let wanted = self.known_names().into_iter().map(Capability::named);
        let wanted = wanted.chain(unknown.map(|name| Capability::from_wire(name.as_ref())));
        let mut client = Offer {
            wants: Wants::Only(wanted.collect()),
            tokens: vec![self.auth_token.clone()],
            ..Offer::new(Peer::new(self.agent_id.as_ref(), ""), self.version.as_deref())
        };
        // An empty token in the configuration counts as no token. Otherwise it would admit every agent that sends none.
        let passes: Vec<_> = setup.passes.iter().filter(|pass| !pass.token.expose().is_empty()).collect();
        let tokens: Vec<_> =
            passes.iter().filter(|pass| is_for(pass, &self.agent_id)).map(|pass| pass.token.clone()).collect();
        let is_locked_out = tokens.is_empty() && !passes.is_empty();
        let mut server = Offer { tokens, ..Offer::new(setup.identity.clone(), [VERSION]) };
        // An agent that matches several passes gets the capabilities of all of them.
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
            // No pass is for this agent. It learns nothing but that.
            Ok(_) | Err(Refusal::NoCapabilities { .. }) if is_locked_out => return Err(Refusal::AuthFailed),
            agreed => agreed?,
        };
        // The agent may ask for `1` or `1.7`; the version in force is 1.0.
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

/// The credentials that an agent presented in a handshake.
#[derive(Debug)]
pub(super) struct Credentials {
    agent_id: String,
    token: Secret,
}

impl Credentials {
    /// Whether these passes grant a capability to the agent. Without any pass, all capabilities are granted.
    pub(super) fn open(&self, passes: &[Pass], capability: &str) -> bool {
        let opens =
            |pass: &Pass| pass.capabilities.as_ref().is_none_or(|open| open.iter().any(|open| open == capability));
        passes.iter().all(|pass| pass.token.expose().is_empty()) || self.presented(passes).any(opens)
    }

    /// The principal of the agent by these passes.
    pub(super) fn principal(&self, passes: &[Pass]) -> Option<Arc<str>> {
        // A pass for this agent alone is more specific than one for any agent.
        let mut presented = self.presented(passes);
        let pass = presented.clone().find(|pass| pass.client.is_some()).or_else(|| presented.next());
        pass.map(|pass| pass.principal.clone().unwrap_or_default())
    }

    /// The passes for this agent whose token it presented. An empty token matches none.
    fn presented<'p>(&self, passes: &'p [Pass]) -> impl Iterator<Item = &'p Pass> + Clone {
        let is_presented = |pass: &&Pass| !pass.token.expose().is_empty() && pass.token.matches(&self.token);
        passes.iter().filter(is_presented).filter(|pass| is_for(pass, &self.agent_id))
    }
}

fn is_for(pass: &Pass, agent_id: &str) -> bool {
    pass.client.as_deref().is_none_or(|client| client == agent_id)
}

/// Writes the `handshake/resp` of an agreement.
pub(super) fn grant(
    request: Option<&Id>,
    names: &[&'static str],
    menu: &Menu,
    agreement: &Agreement,
    ambient: &mut Ambient<'_>,
    wire: &mut Frames,
) {
    MessageWriter::answer("handshake/resp", request, ambient)
        .with("session_id", agreement.session.as_deref().unwrap_or_default())
        .written("accepted_caps", |out| {
            write_list(out, names, |out, name| write_capability(out, name, menu, agreement));
        })
        .with("max_parallel", &agreement.max_parallel)
        .with("ok", &true)
        .with("reason", "")
        .send(wire);
}

/// Writes the `handshake/resp` of a refusal.
pub(super) fn refuse(
    request: Option<&Id>,
    refusal: &Refusal,
    max_parallel: u32,
    ambient: &mut Ambient<'_>,
    wire: &mut Frames,
) {
    MessageWriter::answer("handshake/resp", request, ambient)
        .of_kind(FrameKind::Error { code: 0, names_request: request.is_some() })
        .with("session_id", "")
        .raw("accepted_caps", "[]")
        .with("max_parallel", &max_parallel)
        .with("ok", &false)
        .with("reason", reason(refusal))
        .send(wire);
}

/// The page's identifier of a refusal.
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
