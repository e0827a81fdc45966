//! The names of capabilities that `--want` and `--declare` take.

use anyhow::anyhow;
use gladhand_core::negotiation::{Defined, Side};
use gladhand_dialects::mcp::capabilities::{CAPABILITIES, defines};
use gladhand_dialects::{Dialect, REGISTRY, a2e, fluxloop, loaf, mcp};

use crate::commands::CommandError;
use crate::terminal::text::plain;
use gladhand_client::upstream::Speak;

/// Refuses names that no dialect has which may be spoken.
pub(super) fn check(speak: Speak, option: &str, side: Side, names: &[String]) -> Result<(), CommandError> {
    let spoken: Vec<&'static Dialect> = match speak {
        Speak::As(dialect, _) => vec![dialect],
        Speak::Mcp => vec![&mcp::DIALECT],
        Speak::Auto => REGISTRY.to_vec(),
    };
    let unknown = names
        .iter()
        .map(|name| name.trim())
        .find(|name| !name.is_empty() && !spoken.iter().any(|dialect| is_known(dialect, side, name)));
    let Some(unknown) = unknown else { return Ok(()) };
    let mut known: Vec<&str> = Vec::new();
    for name in spoken.iter().flat_map(|dialect| self::known(dialect, side)) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let error =
        CommandError::usage(anyhow!("{option}: there is no capability `{}` of a {}", plain(unknown), side.word()));
    Err(match known.is_empty() {
        true => error.hint("a client of this dialect declares none"),
        false => error.hint(format!("known names: {}", known.join(", "))),
    })
}

/// The names that a dialect has for capabilities of a side.
pub(in crate::commands) fn known(dialect: &Dialect, side: Side) -> Vec<&'static str> {
    match (dialect.name, side) {
        ("mcp", _) => CAPABILITIES.iter().filter(|known| known.owner == side).map(|known| known.name).collect(),
        ("a2e", Side::Server) => a2e::capabilities::NAMES.to_vec(),
        ("a2e", Side::Client) => vec!["sampling", "roots"],
        ("loaf", Side::Server) => loaf::CAPABILITIES.to_vec(),
        ("fluxloop", Side::Server) => fluxloop::CAPABILITIES.to_vec(),
        _ => Vec::new(),
    }
}

fn is_known(dialect: &Dialect, side: Side, name: &str) -> bool {
    // MCP has names that carry the name of an extension, and Fluxloop names that carry the name of a tool.
    let is_open = match dialect.name {
        "mcp" => defines(dialect.versions[0], side, name) != Defined::Unknown,
        "fluxloop" => side == Side::Server && name.starts_with("tools."),
        _ => false,
    };
    is_open || known(dialect, side).contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_to_the_dialects_that_may_be_spoken() {
        let told = |client: &str, side, name: &str| {
            check(Speak::parse(client).unwrap(), "--want", side, &[name.to_owned()])
                .err()
                .map(|error| error.to_string())
        };
        for (client, side, name) in [
            ("auto", Side::Server, "memory"),
            ("mcp", Side::Server, "tools.listChanged"),
            ("mcp", Side::Server, "experimental.anything"),
            ("mcp@2025-06-18", Side::Client, "elicitation"),
            ("a2e", Side::Client, "roots"),
            ("loaf", Side::Server, "agent"),
            ("fluxloop", Side::Server, "tools.faq"),
            ("mcp", Side::Server, " tools "),
        ] {
            assert_eq!(told(client, side, name), None, "{client} {name}");
        }
        let unknown = "--want: there is no capability `memory` of a server";
        assert_eq!(told("mcp", Side::Server, "memory").as_deref(), Some(unknown));
        assert!(told("auto", Side::Server, "nosuch").is_some() && told("loaf", Side::Client, "roots").is_some());
    }
}
