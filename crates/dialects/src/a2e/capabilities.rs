//! The capability names of A2E 1.0 (a2e §6.2).

use gladhand_core::negotiation::{Defined, Minimum, Rules, Side, VersionRule};

/// The only version.
pub const VERSION: &str = "1.0";

/// The capability that all dialects share.
pub const TOOLS: &str = "tools";

/// The capability that allows the host to ask the agent questions.
pub const MCP: &str = "mcp";

/// All twelve names. The reference client rejects a response that contains any other name.
pub const NAMES: [&str; 12] =
    ["skill", TOOLS, "toolkits", "env", "proc", "memory", "learning", "chains", MCP, "multi_agent", "planning", "test"];

/// The capabilities whose messages are passed to a provider unparsed.
pub const CARRIED: &[&str] =
    &["skill", "toolkits", "env", "proc", "memory", "learning", "chains", MCP, "multi_agent", "planning"];

/// The capabilities that a client requests by default: every name except `test`, which has no messages.
pub fn default_names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| *name != "test")
}

/// The name as a constant, if it is one of the twelve.
pub fn known(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|known| *known == name)
}

/// Whether a name is one of the twelve.
pub fn is_known(name: &str) -> bool {
    known(name).is_some()
}

/// The rules for comparing two offers, with the given minimum.
pub fn rules(minimum: Minimum) -> Rules {
    Rules {
        dialect: "a2e",
        versions: VersionRule::CommonMajor,
        minimum,
        defines: |_, side, name| match side {
            Side::Server if is_known(name) => Defined::Yes,
            // A host with MCP servers behind it may ask the agent on their behalf.
            Side::Client if ["sampling", "roots"].contains(&name) => Defined::Yes,
            _ => Defined::Unknown,
        },
    }
}
