//! The capability names of A2E 1.0 (a2e §6.2).

use gladhand_core::negotiation::{Defined, Minimum, Rules, Side, VersionRule};

/// The one version there is.
pub const VERSION: &str = "1.0";

/// The capability that all dialects share.
pub const TOOLS: &str = "tools";

/// The capability under which an agent can be asked something.
pub const MCP: &str = "mcp";

/// All twelve names. The reference client discards an answer that names any other.
pub const NAMES: [&str; 12] =
    ["skill", TOOLS, "toolkits", "env", "proc", "memory", "learning", "chains", MCP, "multi_agent", "planning", "test"];

/// The capabilities whose messages are carried to whoever serves them.
pub const CARRIED: &[&str] =
    &["skill", "toolkits", "env", "proc", "memory", "learning", "chains", MCP, "multi_agent", "planning"];

/// What a client asks for that was not told what to ask for: every name but `test`, which has no messages.
pub fn worth_asking_for() -> impl Iterator<Item = &'static str> {
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

/// How two offers are compared, given how little may be agreed.
pub fn rules(minimum: Minimum) -> Rules {
    Rules {
        dialect: "a2e",
        versions: VersionRule::CommonMajor,
        minimum,
        defines: |_, side, name| match side {
            Side::Server if is_known(name) => Defined::Yes,
            // Who has servers of MCP behind it can be asked for their sake.
            Side::Client if ["sampling", "roots"].contains(&name) => Defined::Yes,
            _ => Defined::Unknown,
        },
    }
}
