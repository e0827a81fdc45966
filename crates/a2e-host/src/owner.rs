//! The owner of stored data.
//!
//! An agent chooses its own id, and any agent can choose any id. Data is therefore kept for a principal, which the
//! transport or a token has proved, and below that for an agent id. Agents of one principal share the data that is not
//! kept for a single agent. Agents of different principals share nothing.

use std::sync::Arc;

use gladhand_core::Secret;
use gladhand_core::hex;
use gladhand_core::wire::json;
use gladhand_hub::Context;

/// The principal of an agent on standard streams without a token: the user who started this process. Rows that older
/// versions wrote without a principal belong to it.
const LOCAL: &str = "local";

/// The principal of all agents that came over a network without proof of identity.
const ANONYMOUS: &str = "anonymous";

/// A principal and the id of one of its agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    principal: String,
    agent: String,
}

impl Owner {
    /// The owner of the data that a caller stores.
    pub fn of(context: &Context<'_>) -> Self {
        let (terms, agreement) = (context.terms, context.agreement);
        let principal = match (&terms.principal, &agreement.pass) {
            (None, None) if terms.is_over_network() => ANONYMOUS.to_owned(),
            (None, None) => LOCAL.to_owned(),
            // A JSON list, so that no principal's name is equal to one of the words above.
            (proved, pass) => json::to_raw(&(proved.as_deref(), pass.as_deref())).get().to_owned(),
        };
        Self { principal, agent: agreement.client.name.clone() }
    }

    /// An agent on standard streams.
    #[cfg(test)]
    pub(crate) fn local(agent: &str) -> Self {
        Self { principal: LOCAL.to_owned(), agent: agent.to_owned() }
    }

    /// The key of the data that all agents of the principal share.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The id that the agent chose.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Whether both owners are proved to be the same. Owners without proof of identity are never the same, even with
    /// equal names.
    pub fn is_proved_same(&self, other: &Self) -> bool {
        self == other && ![LOCAL, ANONYMOUS].contains(&self.principal.as_str())
    }

    /// The owner of entries in memory that only this agent sees.
    pub(crate) fn own_memory(&self) -> String {
        match self.principal.as_str() {
            LOCAL => format!("agent:{}", self.agent),
            principal => json::to_raw(&(principal, &self.agent)).get().to_owned(),
        }
    }

    /// The common prefix of the owners of all memory entries of the principal. `None` for the local user, who may use
    /// all the space.
    pub(crate) fn memory_of_all(&self) -> Option<String> {
        self.shared_memory().strip_suffix(']').filter(|_| self.principal != LOCAL).map(ToOwned::to_owned)
    }

    /// The owner of entries in memory that all agents of the principal see.
    pub(crate) fn shared_memory(&self) -> String {
        match self.principal.as_str() {
            LOCAL => "shared".to_owned(),
            principal => json::to_raw(&(principal,)).get().to_owned(),
        }
    }
}

/// The principal of a token that has no name. It is a digest: the token cannot be read from it, and another token is
/// another principal.
pub fn of_token(token: &Secret) -> Arc<str> {
    let digest = crate::sha256(&[b"gladhand a2e token\n", token.expose().as_bytes()]);
    format!("token:{}", hex::encode(&digest[..16])).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_owners_have_entries_in_common() {
        let owner = |principal: &str, agent: &str| Owner { principal: principal.to_owned(), agent: agent.to_owned() };
        let names = ["", "ann", "shared", "agent:ann", "[\"ann\"]", "local", "anonymous", "a\",\"b"];
        let principals = [LOCAL, ANONYMOUS, r#"["ann",null]"#, r#"[null,"ann"]"#, r#"["ann","ann"]"#];
        let mut seen = std::collections::HashSet::new();
        for principal in principals {
            assert!(seen.insert(owner(principal, "").shared_memory()), "{principal}");
            for name in names {
                assert!(seen.insert(owner(principal, name).own_memory()), "{principal} {name}");
            }
        }
        assert!(seen.contains("agent:ann") && seen.contains("shared"), "rows of older versions are local");
    }

    #[test]
    fn a_token_is_a_principal_of_its_own_and_cannot_be_read_from_it() {
        let principal = of_token(&Secret::new("hush"));
        assert_eq!(principal, of_token(&Secret::new("hush")));
        assert_ne!(principal, of_token(&Secret::new("hush ")));
        assert!(!principal.contains("hush"));
    }
}
