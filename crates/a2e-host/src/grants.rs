//! The grant of each A2E capability over a network, which follows from what the capability can reach.
//!
//! [`GRANTS`] is the only table of grants. The providers of this crate answer [`open`] from it, the edge grants what
//! they answer, and a test compares `docs/a2e.md` with it. On standard streams every configured capability is granted,
//! because the user started the agent or this process.

/// Who is granted a capability over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Every agent. The capability keeps data or calls tools, which policy governs.
    Anyone,
    /// Every agent, unless programs are configured for the capability.
    AnyoneWithoutPrograms,
    /// An agent with a token. The capability runs a program, a model or an MCP server.
    Token,
}

/// The capabilities, in the order of their names in the handshake's list.
pub const GRANTS: [(&str, Grant); 11] = [
    ("tools", Grant::Anyone),
    ("memory", Grant::Anyone),
    ("learning", Grant::Anyone),
    ("planning", Grant::Anyone),
    ("env", Grant::AnyoneWithoutPrograms),
    // Nodes that run a skill or a process need that capability too.
    ("chains", Grant::Anyone),
    ("mcp", Grant::Token),
    ("multi_agent", Grant::Token),
    ("proc", Grant::Token),
    ("skill", Grant::Token),
    ("toolkits", Grant::Anyone),
];

/// Whether the operator has configured programs that a capability starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    None,
    Some,
}

/// The answer of a provider of this crate to `Provider::open_capabilities`.
pub(crate) fn open(capability: &'static str, programs: Programs) -> Vec<&'static str> {
    let grant = GRANTS.iter().find(|(name, _)| *name == capability).map_or(Grant::Token, |(_, grant)| *grant);
    let is_open = match grant {
        Grant::Anyone => true,
        Grant::AnyoneWithoutPrograms => programs == Programs::None,
        Grant::Token => false,
    };
    if is_open { vec![capability] } else { Vec::new() }
}
