//! The dialects with their versions and the names of their capabilities, for the switches of the explorer.

use gladhand_core::negotiation::Side;
use gladhand_dialects::mcp::capabilities::CAPABILITIES;
use gladhand_dialects::{Dialect, REGISTRY};
use serde_json::{Value, json};

use crate::commands::open::capabilities::known;

/// All dialects.
pub(super) fn all() -> Value {
    REGISTRY.iter().map(|dialect| described(dialect)).collect()
}

fn described(dialect: &Dialect) -> Value {
    let names = |side| known(dialect, side).into_iter().map(|name| capability(dialect, side, name)).collect::<Value>();
    json!({
        "name": dialect.name,
        "versions": dialect.versions,
        "client": names(Side::Client),
        "server": names(Side::Server),
    })
}

/// A capability, with its versions if the dialect has several.
fn capability(dialect: &Dialect, side: Side, name: &str) -> Value {
    let row = CAPABILITIES.iter().find(|row| dialect.name == "mcp" && row.owner == side && row.name == name);
    json!({
        "name": name,
        "since": row.map(|row| row.since.as_str()),
        "until": row.map(|row| row.until.as_str()),
    })
}
