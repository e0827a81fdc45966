//! The capability tables, the rules of negotiation, and the parsing of declared capabilities.
//!
//! The presence of a key declares a capability; `false` and `null` do not. Both maps are open: an unknown capability
//! becomes a refused term of the agreement and is never an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use gladhand_core::negotiation::{
    Agreement, Capability, Defined, Gate, Minimum, Offer, Peer, Refusal, Rules, Side, VersionRule, agree,
};
use gladhand_core::wire::Members;
use gladhand_core::wire::json::{self, Kind, RawValue};

use super::methods::TABLE;
use super::revision::Revision;
use crate::side::{Menu, TASKS_EXTENSION};

/// Maps whose keys are defined outside of the protocol. Only one level of them is read.
const OPEN_MAPS: [&str; 2] = ["experimental", "extensions"];

/// Maximum number of capabilities, including parts, that one side may declare.
pub(super) const MAX_DECLARED: usize = 256;

/// Maximum size of their names and settings in bytes. Settings of nested capabilities are kept, and count, once for each
/// level.
pub(super) const MAX_DECLARED_BYTES: usize = 64 * 1024;

/// Maximum size of a client's self-description in bytes. It is kept for the whole session.
pub(super) const CLIENT_DESCRIPTION: usize = 8 * 1024;

/// Maximum size of a server's self-description in bytes.
pub(super) const SERVER_DESCRIPTION: usize = 256 * 1024;

/// Maximum depth of parts. `tasks.requests.tools.call` is the deepest.
const MAX_DEPTH: usize = 4;

/// One row of the capability tables.
#[derive(Debug)]
pub struct Known {
    /// The side that declares it.
    pub owner: Side,
    /// The name. Parts are dotted.
    pub name: &'static str,
    /// The first revision that has it.
    pub since: Revision,
    /// The last revision that has it.
    pub until: Revision,
}

const FIRST: Revision = Revision::V2024_11_05;
const LAST: Revision = Revision::V2026_07_28;
const LAST_HANDSHAKE: Revision = Revision::V2025_11_25;
const FIRST_STATELESS: Revision = Revision::V2026_07_28;

/// Every capability that a revision defines.
pub static CAPABILITIES: &[Known] = &[
    known(Side::Client, "roots", FIRST, LAST),
    known(Side::Client, "roots.listChanged", FIRST, LAST_HANDSHAKE),
    known(Side::Client, "sampling", FIRST, LAST),
    known(Side::Client, "sampling.tools", Revision::V2025_11_25, LAST),
    known(Side::Client, "sampling.context", Revision::V2025_11_25, LAST),
    known(Side::Client, "elicitation", Revision::V2025_06_18, LAST),
    known(Side::Client, "elicitation.form", Revision::V2025_11_25, LAST),
    known(Side::Client, "elicitation.url", Revision::V2025_11_25, LAST),
    known(Side::Client, "tasks", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.list", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.cancel", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.requests", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.requests.sampling", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.requests.sampling.createMessage", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.requests.elicitation", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "tasks.requests.elicitation.create", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Client, "experimental", FIRST, LAST),
    known(Side::Client, "extensions", FIRST, LAST),
    known(Side::Client, TASKS_EXTENSION, FIRST_STATELESS, LAST),
    known(Side::Server, "tools", FIRST, LAST),
    known(Side::Server, "tools.listChanged", FIRST, LAST),
    known(Side::Server, "resources", FIRST, LAST),
    known(Side::Server, "resources.subscribe", FIRST, LAST),
    known(Side::Server, "resources.listChanged", FIRST, LAST),
    known(Side::Server, "prompts", FIRST, LAST),
    known(Side::Server, "prompts.listChanged", FIRST, LAST),
    known(Side::Server, "completions", Revision::V2025_03_26, LAST),
    known(Side::Server, "logging", FIRST, LAST),
    known(Side::Server, "tasks", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Server, "tasks.list", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Server, "tasks.cancel", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Server, "tasks.requests", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Server, "tasks.requests.tools", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Server, "tasks.requests.tools.call", Revision::V2025_11_25, LAST_HANDSHAKE),
    known(Side::Server, "experimental", FIRST, LAST),
    known(Side::Server, "extensions", FIRST, LAST),
    known(Side::Server, TASKS_EXTENSION, FIRST_STATELESS, LAST),
];

const fn known(owner: Side, name: &'static str, since: Revision, until: Revision) -> Known {
    Known { owner, name, since, until }
}

/// How the handshake compares two offers.
pub(super) const HANDSHAKE_RULES: Rules =
    Rules { dialect: "mcp", versions: VersionRule::ServerOffers, minimum: Minimum::Nothing, defines };

/// How a stateless request is compared with our offer.
pub(super) const STATELESS_RULES: Rules = Rules { versions: VersionRule::Common, ..HANDSHAKE_RULES };

/// Whether a revision defines a capability on a side.
pub fn defines(version: &str, side: Side, capability: &str) -> Defined {
    let looked_up = match capability.split_once('.') {
        Some((map, _)) if OPEN_MAPS.contains(&map) && capability != TASKS_EXTENSION => map,
        _ => capability,
    };
    let Some(known) = CAPABILITIES.iter().find(|known| known.owner == side && known.name == looked_up) else {
        return Defined::Unknown;
    };
    match Revision::named(version) {
        Some(revision) if known.since <= revision && revision <= known.until => Defined::Yes,
        _ => Defined::NotInThisVersion,
    }
}

/// The agreement in force and its gate: for a session after a handshake, or for one stateless request.
#[derive(Debug)]
pub(super) struct InForce {
    pub(super) revision: Revision,
    pub(super) agreement: Arc<Agreement>,
    pub(super) gate: Gate,
}

impl InForce {
    /// Compares two offers and builds the gate.
    pub(super) fn between(rules: &Rules, client: &Offer, server: &Offer) -> Result<Self, Refusal> {
        let mut agreement = agree(rules, client, server)?;
        let Some(revision) = Revision::named(&agreement.version) else {
            return Err(Refusal::VersionMismatch { asked: client.versions.clone(), spoken: server.versions.clone() });
        };
        agreement.per_request = revision.is_stateless();
        let gate = Gate::new(TABLE, &agreement);
        Ok(Self { revision, agreement: Arc::new(agreement), gate })
    }

    /// The same, with the compatibility switches of a menu added.
    pub(super) fn with_switches_of(mut self, menu: &Menu) -> Self {
        if menu.empty_lists {
            Arc::make_mut(&mut self.agreement).compatibility.push("empty_lists");
        }
        self
    }
}

/// Our offer as a server in these revisions: the features of the menu that at least one of them defines.
pub(super) fn offer_of_menu<const N: usize>(identity: &Peer, menu: &Menu, revisions: [Revision; N]) -> Offer {
    let is_in = |name: &str, revision: &Revision| defines(revision.as_str(), Side::Server, name) == Defined::Yes;
    let mut offer = Offer::new(identity.clone(), super::revision::names(revisions));
    offer.provides = provided(menu);
    offer.provides.retain(|capability, _| revisions.iter().any(|revision| is_in(&capability.0, revision)));
    for map in OPEN_MAPS {
        if !offer.provides.keys().any(|capability| is_part_of(&capability.0, map) && capability.0 != map) {
            offer.provides.remove(&Capability::named(map));
        }
    }
    offer
}

/// The capabilities of the menu, in the names of all revisions.
fn provided(menu: &Menu) -> BTreeMap<Capability, Option<Box<RawValue>>> {
    const TASKS: &[&str] = &[
        "tasks",
        "tasks.list",
        "tasks.cancel",
        "tasks.requests",
        "tasks.requests.tools",
        "tasks.requests.tools.call",
        "extensions",
        TASKS_EXTENSION,
    ];
    let rows: [(bool, &[&'static str]); 10] = [
        (menu.tools, &["tools"]),
        (menu.tools && menu.tool_changes, &["tools.listChanged"]),
        (menu.resources, &["resources"]),
        (menu.resources && menu.resource_updates, &["resources.subscribe"]),
        (menu.resources && menu.resource_changes, &["resources.listChanged"]),
        (menu.prompts, &["prompts"]),
        (menu.prompts && menu.prompt_changes, &["prompts.listChanged"]),
        (menu.completions, &["completions"]),
        (menu.logging, &["logging"]),
        (menu.tools && menu.tasks, TASKS),
    ];
    let names = rows.into_iter().filter(|(is_there, _)| *is_there).flat_map(|(_, names)| names);
    let mut provides: BTreeMap<_, _> = names.map(|name| (Capability::named(name), None)).collect();
    for (map, entries) in OPEN_MAPS.into_iter().zip([&menu.experimental, &menu.extensions]) {
        for (name, settings) in entries {
            provides.insert(Capability::named(map), None);
            provides.insert(Capability::from_wire(format!("{map}.{name}")), Some(settings.clone()));
        }
    }
    provides
}

/// The `capabilities` object of a server with this menu, in a revision.
pub(super) fn declaration_of_menu(menu: &Menu, revision: Revision) -> String {
    declaration(&offer_of_menu(&Peer::default(), menu, [revision]).provides)
}

/// The `capabilities` object of an offer.
pub(super) fn declaration(provides: &BTreeMap<Capability, Option<Box<RawValue>>>) -> String {
    let mut whole = serde_json::Map::new();
    // A capability sorts before its parts. A part is therefore inserted into the settings of its capability.
    for (capability, settings) in provides {
        let parts = path(&capability.0);
        let settings = settings.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let value = settings.unwrap_or_else(|| match parts.len() {
            1 => serde_json::json!({}),
            _ if capability.0.ends_with(".listChanged") || capability.0.ends_with(".subscribe") => true.into(),
            _ => serde_json::json!({}),
        });
        insert(&mut whole, &parts, value);
    }
    serde_json::Value::Object(whole).to_string()
}

fn insert(map: &mut serde_json::Map<String, serde_json::Value>, parts: &[&str], value: serde_json::Value) {
    let Some((first, rest)) = parts.split_first() else { return };
    if rest.is_empty() {
        // A part in the settings of its capability is already present.
        map.entry(*first).or_insert(value);
        return;
    }
    let inner = map.entry(*first).or_insert_with(|| serde_json::json!({}));
    if let serde_json::Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

/// The path of keys to a capability. Names in the open maps contain dots themselves.
fn path(capability: &str) -> Vec<&str> {
    match capability.split_once('.') {
        Some((map, key)) if OPEN_MAPS.contains(&map) => vec![map, key],
        _ => capability.split('.').collect(),
    }
}

/// The `ClientCapabilities` object with only this capability, to report a missing one to a client.
pub(super) fn required(capability: &str) -> Box<RawValue> {
    json::raw(declaration(&BTreeMap::from([(Capability::from_wire(capability), None)])))
}

/// A side declared too many capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// Parses a `capabilities` object.
pub(super) fn declared(
    owner: Side,
    capabilities: &Members<'_>,
) -> Result<BTreeMap<Capability, Option<Box<RawValue>>>, TooMany> {
    let mut provides = BTreeMap::new();
    let mut room = MAX_DECLARED_BYTES;
    for (key, value) in capabilities.iter() {
        // The last of two equal keys wins, also if it withdraws the capability.
        if provides.contains_key(&Capability::from_wire(key)) {
            provides.retain(|name: &Capability, _| !is_part_of(&name.0, key));
        }
        if !is_declaration(value) {
            continue;
        }
        let known = CAPABILITIES.iter().any(|known| known.owner == owner && known.name == key);
        let depth = if OPEN_MAPS.contains(&key) { 1 } else { MAX_DEPTH };
        add(&mut provides, key.to_owned(), value, if known { depth } else { 0 }, &mut room)?;
    }
    Ok(provides)
}

fn add(
    provides: &mut BTreeMap<Capability, Option<Box<RawValue>>>,
    name: String,
    value: &RawValue,
    depth: usize,
    room: &mut usize,
) -> Result<(), TooMany> {
    if provides.len() >= MAX_DECLARED {
        return Err(TooMany);
    }
    *room = room.checked_sub(name.len() + value.get().len()).ok_or(TooMany)?;
    let parts = if depth == 0 { None } else { Members::of(value) };
    for (key, part) in parts.iter().flat_map(Members::iter) {
        let is_flag = matches!(Kind::of(part), Kind::Object) || part.get() == "true";
        if is_flag {
            add(provides, format!("{name}.{key}"), part, depth - 1, room)?;
        }
    }
    // `{}` and `true` contain no settings.
    let settings = (!matches!(value.get(), "{}" | "true")).then(|| value.to_owned());
    provides.insert(Capability::from_wire(name), settings);
    Ok(())
}

fn is_declaration(value: &RawValue) -> bool {
    Kind::of(value) != Kind::Null && value.get() != "false"
}

fn is_part_of(name: &str, whole: &str) -> bool {
    name == whole || name.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'))
}

/// The self-reported identity of a peer. Its description is kept up to a maximum length.
pub(super) fn peer(info: Option<&RawValue>, longest: usize) -> Peer {
    let Some(info) = info else { return Peer::default() };
    let members = Members::of(info).unwrap_or_default();
    let text = |name: &str| members.str(name).map(String::from).unwrap_or_default();
    Peer::new(text("name"), text("version")).described(info, longest)
}

#[cfg(test)]
#[path = "capabilities_tests.rs"]
mod tests;
