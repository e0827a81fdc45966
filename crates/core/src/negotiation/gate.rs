//! The gate decides which messages may pass, from the dialect's method table and the agreement.
//!
//! The method table is data, shared by the gate, the tests and the docs. A gate is built once per agreement, so that
//! admitting a message costs only name comparisons.

use crate::negotiation::agreement::Agreement;
use crate::negotiation::offer::Side;

/// Whether a message expects an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It expects an answer.
    Call,
    /// It expects no answer.
    Notice,
}

/// The capability that a method requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The side that must provide it.
    pub owner: Side,
    /// The name of the capability.
    pub capability: &'static str,
}

/// One row of a dialect's method table.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The name of the method or message.
    pub name: &'static str,
    /// The side that sends it.
    pub from: Side,
    /// Whether it expects an answer.
    pub kind: Kind,
    /// The required capability. `None`: always allowed.
    pub needs: Option<Need>,
    /// The first version that has it. Versions are compared as text.
    pub since: &'static str,
    /// The last version that has it. Empty: it has not been removed.
    pub until: &'static str,
}

impl Rule {
    /// Whether a version has this row.
    pub fn is_in(&self, version: &str) -> bool {
        self.since <= version && (self.until.is_empty() || version <= self.until)
    }
}

/// Why a message may not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The table has no message of this name in this direction.
    Unknown,
    /// Only another version has it.
    NotInThisVersion,
    /// The required capability is not in force.
    NotAgreed(Need),
}

/// Decides from the agreement which messages may pass.
#[derive(Debug, Clone)]
pub struct Gate {
    table: &'static [Rule],
    verdicts: Vec<Result<(), Closed>>,
}

impl Gate {
    /// Builds the gate of an agreement.
    pub fn new(table: &'static [Rule], agreement: &Agreement) -> Self {
        let verdict = |rule: &Rule| match rule.needs {
            _ if !rule.is_in(&agreement.version) => Err(Closed::NotInThisVersion),
            Some(need) if !agreement.allows(need.owner, need.capability) => Err(Closed::NotAgreed(need)),
            _ => Ok(()),
        };
        Self { table, verdicts: table.iter().map(verdict).collect() }
    }

    /// Returns the table row of a message that may pass, or why it may not.
    pub fn admit(&self, from: Side, name: &str) -> Result<&'static Rule, Closed> {
        let mut answer = Err(Closed::Unknown);
        // A name can have several rows, if it was removed and returned later in another form. An open row wins.
        for (rule, verdict) in self.table.iter().zip(&self.verdicts) {
            if rule.from == from && rule.name == name {
                match verdict {
                    Ok(()) => return Ok(rule),
                    Err(closed) => answer = Err(*closed),
                }
            }
        }
        answer
    }

    /// The row of a message in the version in force, even if the required capability is not agreed.
    pub fn row(&self, from: Side, name: &str) -> Option<&'static Rule> {
        let mut rows = self.table.iter().zip(&self.verdicts).filter(|(rule, _)| rule.from == from && rule.name == name);
        rows.find(|(_, verdict)| !matches!(verdict, Err(Closed::NotInThisVersion))).map(|(rule, _)| rule)
    }

    /// The rows that a side may use.
    pub fn open(&self, from: Side) -> impl Iterator<Item = &'static Rule> {
        let rows = self.table.iter().zip(&self.verdicts);
        rows.filter(move |(rule, verdict)| rule.from == from && verdict.is_ok()).map(|(rule, _)| rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiation::offer::{Capability, Defined, Minimum, Offer, Peer, Rules, VersionRule};

    const TOOLS: Option<Need> = Some(Need { owner: Side::Server, capability: "tools" });
    const ROOTS: Option<Need> = Some(Need { owner: Side::Client, capability: "roots" });
    const TABLE: &[Rule] = &[
        Rule { name: "ping", from: Side::Client, kind: Kind::Call, needs: None, since: "1", until: "1" },
        Rule { name: "tools/call", from: Side::Client, kind: Kind::Call, needs: TOOLS, since: "1", until: "" },
        Rule { name: "tools/watch", from: Side::Client, kind: Kind::Call, needs: TOOLS, since: "2", until: "" },
        Rule { name: "roots/list", from: Side::Server, kind: Kind::Call, needs: ROOTS, since: "1", until: "" },
    ];

    fn gate(version: &str, server: &[&'static str], client: &[&'static str]) -> Gate {
        let rules = Rules {
            dialect: "test",
            versions: VersionRule::Common,
            minimum: Minimum::Nothing,
            defines: |_, _, _| Defined::Yes,
        };
        let offer = |names: &[&'static str]| {
            names
                .iter()
                .fold(Offer::new(Peer::default(), [version]), |offer, name| offer.providing(Capability::named(name)))
        };
        Gate::new(TABLE, &crate::negotiation::agree(&rules, &offer(client), &offer(server)).unwrap())
    }

    #[test]
    fn a_gate_admits_agreed_methods_of_its_version() {
        let open = |gate: &Gate, side, name| gate.admit(side, name).map(|rule| rule.name);
        let one = gate("1", &["tools"], &[]);
        assert_eq!(open(&one, Side::Client, "ping"), Ok("ping"));
        assert_eq!(open(&one, Side::Client, "tools/call"), Ok("tools/call"));
        assert_eq!(open(&one, Side::Client, "tools/watch"), Err(Closed::NotInThisVersion));
        assert_eq!(open(&one, Side::Client, "roots/list"), Err(Closed::Unknown));
        assert_eq!(open(&one, Side::Server, "roots/list"), Err(Closed::NotAgreed(ROOTS.unwrap())));
        let two = gate("2", &[], &["roots"]);
        assert_eq!(open(&two, Side::Client, "ping"), Err(Closed::NotInThisVersion));
        assert_eq!(open(&two, Side::Client, "tools/call"), Err(Closed::NotAgreed(TOOLS.unwrap())));
        assert_eq!(open(&two, Side::Server, "roots/list"), Ok("roots/list"));
        assert_eq!(two.open(Side::Client).count(), 0);
        let row = |gate: &Gate, name| gate.row(Side::Client, name).map(|rule| rule.name);
        assert_eq!((row(&two, "tools/call"), row(&two, "ping"), row(&two, "x")), (Some("tools/call"), None, None));
    }
}
