//! Both sides of `rpc.handshake`: the offers, the result, and its parsing (`loaf` §6.1).
//!
//! A client that sends no handshake still gets a session. Its agreement shows this: the capability `handshake` is
//! provided but not wanted, and the client has no name.

use std::collections::BTreeSet;

use gladhand_core::negotiation::{
    Agreement, Capability, Defined, Minimum, Offer, Peer, Refusal, Rules, Side, VersionRule, Wants, agree,
};
use gladhand_core::wire::json::Kind;
use gladhand_core::wire::{Members, RawValue, json, values};
use serde::Serialize;

use super::methods::{METHODS, Method};
use super::params::Checked;
use crate::side::{ClientSetup, MAX_SETTINGS_BYTES, ServerSetup};

/// Maximum number of a server's capabilities that are read.
const MAX_CAPABILITIES: usize = 256;

/// The only version.
pub(super) const VERSION: &str = "1.0.0";

/// The name that the protocol page specifies. Our own name is in `implementation`.
const SERVER_NAME: &str = "loaf";

const HANDSHAKE: Capability = Capability::named("handshake");
const TOOLS: Capability = Capability::named("tools");
/// Not on the wire: a server with the method `session.send` has this capability.
const AGENT: Capability = Capability::named("agent");
const TOOLS_CALL: Capability = Capability::named("tools.call");

/// The reference's value of `image_inputs`.
const IMAGE_INPUTS: [&str; 2] = ["path", "data_url"];

/// The names of all capabilities, which the server provides.
pub const CAPABILITIES: [&str; 8] =
    ["handshake", "events", "command_execute", "multi_session", "image_inputs", "tools", "tools.call", "agent"];

fn rules(versions: VersionRule) -> Rules {
    Rules {
        dialect: "loaf",
        versions,
        minimum: Minimum::Nothing,
        defines: |_, side, name| match side {
            Side::Server if CAPABILITIES.contains(&name) => Defined::Yes,
            _ => Defined::Unknown,
        },
    }
}

/// The offer of our server.
fn our_offer(setup: &ServerSetup) -> Offer {
    let mut offer = Offer::new(setup.identity.clone(), [VERSION])
        .providing(HANDSHAKE)
        .providing(Capability::named("events"))
        .providing(Capability::named("multi_session"));
    if setup.menu.agent {
        offer = offer.providing(AGENT).providing(Capability::named("command_execute"));
        offer.provides.insert(Capability::named("image_inputs"), Some(json::to_raw(&IMAGE_INPUTS)));
    }
    if setup.menu.tools || setup.menu.agent {
        offer = offer.providing(TOOLS);
    }
    if setup.menu.tools {
        offer = offer.providing(TOOLS_CALL);
    }
    offer
}

/// The agreement with a client that sent a handshake.
pub(super) fn answer_handshake(setup: &ServerSetup, params: &Checked<'_>) -> Result<Agreement, Refusal> {
    let asked = params.text("protocol_version").map(|text| text.lossy().into_owned());
    // Neither is checked (`loaf` §6.1): a value that is not a string counts as no name.
    let text_of = |name: &str| params.text(name).map(|text| text.lossy().into_owned()).unwrap_or_default();
    let client = Offer::new(Peer::new(text_of("client_name"), text_of("client_version")), asked);
    let versions = if params.is_true("strict") { VersionRule::Common } else { VersionRule::ServerDecides };
    agree(&rules(versions), &client, &our_offer(setup))
}

/// The agreement with a client that sent no handshake.
pub(super) fn without_handshake(setup: &ServerSetup) -> Result<Agreement, Refusal> {
    let ours = our_offer(setup);
    let mut client = Offer::new(Peer::default(), None::<String>);
    client.wants = Wants::Only(ours.provides.keys().filter(|name| **name != HANDSHAKE).cloned().collect());
    agree(&rules(VersionRule::ServerDecides), &client, &ours)
}

/// The result of a handshake, in the member order of the reference. `implementation` is our addition.
#[derive(Debug, Serialize)]
pub(super) struct HandshakeResult<'a> {
    protocol_version: &'static str,
    server_name: &'static str,
    capabilities: Capabilities,
    methods: Vec<&'static str>,
    implementation: &'a Peer,
}

#[derive(Debug, Serialize)]
struct Capabilities {
    events: bool,
    command_execute: bool,
    multi_session: bool,
    image_inputs: &'static [&'static str],
}

impl<'a> HandshakeResult<'a> {
    /// The result under an agreement.
    pub(super) fn new(agreement: &Agreement, identity: &'a Peer) -> Self {
        let has = |name| agreement.allows(Side::Server, name);
        let methods = METHODS.iter().filter(|method| is_open(method, agreement)).map(|method| method.name);
        Self {
            protocol_version: VERSION,
            server_name: SERVER_NAME,
            capabilities: Capabilities {
                events: has("events"),
                command_execute: has("command_execute"),
                multi_session: has("multi_session"),
                image_inputs: if has("image_inputs") { &IMAGE_INPUTS } else { &[] },
            },
            methods: methods.collect(),
            implementation: identity,
        }
    }
}

/// Whether a method is available under an agreement.
pub(super) fn is_open(method: &Method, agreement: &Agreement) -> bool {
    method.needs.is_none_or(|name| agreement.allows(Side::Server, name))
}

/// Whether there is an agent under an agreement.
pub(super) fn has_agent(agreement: &Agreement) -> bool {
    agreement.allows(Side::Server, "agent")
}

/// The parameters of a client's handshake.
#[derive(Debug, Serialize)]
pub(super) struct HandshakeParams<'a> {
    client_name: &'a str,
    client_version: &'a str,
    protocol_version: &'a str,
    strict: bool,
}

impl<'a> HandshakeParams<'a> {
    /// A flexible handshake: this side compares the version in the answer.
    pub(super) fn new(setup: &'a ClientSetup) -> Self {
        Self {
            client_name: &setup.identity.name,
            client_version: &setup.identity.version,
            protocol_version: &setup.version,
            strict: false,
        }
    }
}

/// Parses a server's answer to our handshake: the agreement and the server's methods.
pub(super) fn read_answer(setup: &ClientSetup, result: &RawValue) -> Result<(Agreement, BTreeSet<String>), Refusal> {
    let misbehaved = |problem: &str| Refusal::PeerMisbehaved { problem: problem.to_owned() };
    let result = Members::of(result).ok_or_else(|| misbehaved("the result of `rpc.handshake` is not an object"))?;
    let version = result.str("protocol_version").ok_or_else(|| misbehaved("`protocol_version` is not a string"))?;
    let mut methods: BTreeSet<String> = result
        .raw("methods")
        .and_then(|raw| values::read(raw.get()).ok())
        .ok_or_else(|| misbehaved("`methods` is not a list of strings"))?;
    methods.retain(|name| METHODS.iter().any(|method| method.name == name));
    let peer = match result.object("implementation") {
        Some(own) => Peer::new(
            own.str("name").unwrap_or_default().into_owned(),
            own.str("version").unwrap_or_default().into_owned(),
        ),
        None => Peer::new(result.str("server_name").unwrap_or_default().into_owned(), ""),
    };
    let mut server = Offer::new(peer, [version.into_owned()]).providing(HANDSHAKE);
    for (name, value) in result.object("capabilities").unwrap_or_default().iter().take(MAX_CAPABILITIES) {
        let settings = match (Kind::of(value), value.get()) {
            (_, "false" | "null" | "[]") => continue,
            (Kind::Bool, _) => None,
            (_, text) if text.len() > MAX_SETTINGS_BYTES => None,
            _ => Some(value.to_owned()),
        };
        server.provides.insert(Capability::from_wire(name), settings);
    }
    if methods.contains("session.send") {
        server.provides.insert(AGENT, None);
    }
    if methods.contains("tools.list") {
        server.provides.insert(TOOLS, None);
    }
    if methods.contains("tools.call") {
        server.provides.insert(TOOLS_CALL, None);
    }
    let mut client = Offer::new(setup.identity.clone(), [setup.version.clone()]);
    client.provides = setup.provides.iter().cloned().collect();
    if let Some(wants) = &setup.wants {
        client.wants = Wants::Only(wants.iter().cloned().collect());
    }
    // The server may choose any version, but we only accept one that we speak.
    let agreement = agree(&rules(VersionRule::Common), &client, &server)?;
    Ok((agreement, methods))
}

/// The refusal in a server's error response to our handshake.
pub(super) fn read_refusal(setup: &ClientSetup, error: &RawValue) -> Refusal {
    let error = Members::of(error).unwrap_or_default();
    let data = error.object("data").unwrap_or_default();
    if data.str("reason").as_deref() == Some("unsupported_protocol_version") {
        let spoken = data.str("supported").map(|version| version.into_owned());
        return Refusal::VersionMismatch { asked: vec![setup.version.clone()], spoken: spoken.into_iter().collect() };
    }
    Refusal::PeerRefused {
        code: error.raw("code").map_or("none", RawValue::get).to_owned(),
        message: error.raw("message").map(words).unwrap_or_default(),
    }
}

/// A peer's message, which should be a string.
pub(super) fn words(raw: &RawValue) -> String {
    json::string(raw).map_or_else(|| raw.get().to_owned(), |text| text.into_owned())
}
