//! Both sides of the handshake: the offers, the results in both forms, and their parsing (`fluxloop` §§3, 4, 9).
//!
//! A client that sends no handshake is served too. Its agreement shows this: the capability `handshake` is provided but
//! not wanted.

use gladhand_core::negotiation::{
    Agreement, Capability, Defined, Kind, Minimum, Need, Offer, Peer, Refusal, Rule, Rules, Side, VersionRule, Wants,
    agree,
};
use gladhand_core::operations::Feature;
use gladhand_core::wire::{Members, RawValue, values};
use serde::Serialize;

use super::envelope::Form;
use crate::side::{ClientSetup, ServerSetup};

/// Maximum number of tools that become terms of the agreement. Calls are not limited to these.
const MAX_TOOL_TERMS: usize = 256;

/// The version of the protocol page. The shipped server reports another one on the wire.
pub(super) const VERSION: &str = "0.1.0";

const HANDSHAKE: Capability = Capability::named("handshake");
const TOOLS: Capability = Capability::named("tools");

/// The names of all capabilities, which the server provides. Each tool is one too, as `tools.NAME`.
pub const CAPABILITIES: [&str; 2] = ["handshake", "tools"];

const RULES: Rules = Rules {
    dialect: "fluxloop",
    versions: VersionRule::ServerDecides,
    minimum: Minimum::Nothing,
    defines: |_, side, name| match (side, name) {
        (Side::Server, name) if CAPABILITIES.contains(&name) => Defined::Yes,
        (Side::Server, name) if name.starts_with("tools.") => Defined::Yes,
        _ => Defined::Unknown,
    },
};

/// The method table. The only message with an operation is `request`.
pub(super) static ROWS: [Rule; 1] = [Rule {
    name: "request",
    from: Side::Client,
    kind: Kind::Call,
    needs: Some(Need { owner: Side::Server, capability: "tools" }),
    since: "",
    until: "",
}];

/// The rows that carry a feature.
pub(super) fn carriers(feature: Feature) -> Vec<Rule> {
    if feature == Feature::Tools { ROWS.to_vec() } else { Vec::new() }
}

/// How a client opened its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opened {
    /// The client sent a handshake.
    ByHandshake,
    /// The client called a tool first.
    ByRequest,
}

/// The agreement with a client. A Fluxloop client declares nothing about itself.
pub(super) fn agreement(setup: &ServerSetup, opened: Opened) -> Result<Agreement, Refusal> {
    let mut server = Offer::new(setup.identity.clone(), [VERSION]).providing(HANDSHAKE);
    if setup.menu.tools {
        server = server.providing(TOOLS);
    }
    let mut client = Offer::new(Peer::default(), None::<String>);
    if opened == Opened::ByRequest {
        client.wants = Wants::Only([TOOLS].into());
    }
    agree(&RULES, &client, &server)
}

/// The result of a handshake. Names and versions are those of the page or of the shipped server; our own identity is in
/// `implementation`.
#[derive(Debug, Serialize)]
pub(super) struct HandshakeResult<'a> {
    name: &'static str,
    version: &'static str,
    capabilities: Capabilities<'a>,
    implementation: &'a Peer,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Capabilities<'a> {
    Page { tools: Vec<&'a str> },
    Shipped(Vec<&'a str>),
}

impl<'a> HandshakeResult<'a> {
    /// The result in a form. `names` are the tools without `handshake`.
    pub(super) fn new(form: Form, names: Vec<&'a str>, identity: &'a Peer) -> Self {
        let (name, version, capabilities) = match form {
            Form::Page => ("fluxloop-mcp", VERSION, Capabilities::Page { tools: with_handshake(names) }),
            Form::Shipped => ("fluxloop", "0.0.1", Capabilities::Shipped(names)),
        };
        Self { name, version, capabilities, implementation: identity }
    }
}

/// All names including `handshake`, in the order of the handshake.
pub(super) fn with_handshake(names: Vec<&str>) -> Vec<&str> {
    std::iter::once("handshake").chain(names).collect()
}

/// The names of the tools without `handshake`, from a handshake result in either form.
pub(super) fn read_names(result: &RawValue) -> Result<Vec<String>, &'static str> {
    let result = Members::of(result).ok_or("the result of the handshake is not an object")?;
    let capabilities = result.raw("capabilities").ok_or("the result of the handshake has no `capabilities`")?;
    let list = Members::of(capabilities).and_then(|object| object.raw("tools")).unwrap_or(capabilities);
    let mut names: Vec<String> =
        values::read(list.get()).map_err(|_| "`capabilities` contains no list of tool names")?;
    names.retain(|name| name != "handshake");
    Ok(names)
}

/// Parses a server's answer to our handshake.
pub(super) fn read_answer(setup: &ClientSetup, result: &RawValue) -> Result<Agreement, Refusal> {
    let names = read_names(result).map_err(|problem| Refusal::PeerMisbehaved { problem: problem.to_owned() })?;
    let members = Members::of(result).unwrap_or_default();
    let text = |members: &Members<'_>, name: &str| members.str(name).unwrap_or_default().into_owned();
    // The `version` in the result is a product version, not the protocol version, so nothing depends on it.
    let own = members.object("implementation").unwrap_or_else(|| members.clone());
    let mut server = Offer::new(Peer::new(text(&own, "name"), text(&own, "version")), [VERSION])
        .providing(HANDSHAKE)
        .providing(TOOLS);
    for name in names.into_iter().take(MAX_TOOL_TERMS) {
        server = server.providing(Capability::from_wire(format!("tools.{name}")));
    }
    let mut client = Offer::new(setup.identity.clone(), [setup.version.clone()]);
    client.provides = setup.provides.iter().cloned().collect();
    if let Some(wants) = &setup.wants {
        client.wants = Wants::Only(wants.iter().cloned().collect());
    }
    agree(&RULES, &client, &server)
}
