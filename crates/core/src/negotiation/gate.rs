//! The gate: what may pass, read from a dialect's method table and the agreement.
//!
//! A table is data and is read by the gate, the tests and the docs alike. A gate is made once per
//! agreement, so that asking it costs a name comparison.

use crate::negotiation::agreement::Agreement;
use crate::negotiation::offer::Side;

/// Whether a message wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It does.
    Call,
    /// It does not.
    Notice,
}

/// The capability that opens a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Who must provide it.
    pub owner: Side,
    /// Its name.
    pub capability: &'static str,
}

/// One row of a dialect's method table.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The method's or message's name.
    pub name: &'static str,
    /// Who sends it.
    pub from: Side,
    /// Whether it wants an answer.
    pub kind: Kind,
    /// What opens it; `None`: it is always open.
    pub needs: Option<Need>,
    /// The first version that has it; versions compare as text.
    pub since: &'static str,
    /// The last version that has it; empty: it is still there.
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
    /// The table has no such name in that direction.
    Unknown,
    /// Another version has it.
    NotInThisVersion,
    /// Its capability is not in force.
    NotAgreed(Need),
}

/// Decides from the agreement what may pass.
#[derive(Debug, Clone)]
pub struct Gate {
    table: &'static [Rule],
    verdicts: Vec<Result<(), Closed>>,
}

impl Gate {
    /// A gate for an agreement.
    pub fn new(table: &'static [Rule], agreement: &Agreement) -> Self {
        let verdict = |rule: &Rule| match rule.needs {
            _ if !rule.is_in(&agreement.version) => Err(Closed::NotInThisVersion),
            Some(need) if !agreement.allows(need.owner, need.capability) => Err(Closed::NotAgreed(need)),
            _ => Ok(()),
        };
        Self { table, verdicts: table.iter().map(verdict).collect() }
    }

    /// Whether a message may pass, and which row it is.
    pub fn admit(&self, from: Side, name: &str) -> Result<&'static Rule, Closed> {
        let mut answer = Err(Closed::Unknown);
        // A name may stand in several rows (it was removed and came back changed): the open one counts.
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

    /// The row of a message that this version has, whether or not what it needs is in force.
    pub fn row(&self, from: Side, name: &str) -> Option<&'static Rule> {
        let mut rows = self.table.iter().zip(&self.verdicts).filter(|(rule, _)| rule.from == from && rule.name == name);
        rows.find(|(_, verdict)| !matches!(verdict, Err(Closed::NotInThisVersion))).map(|(rule, _)| rule)
    }

    /// The rows that are open to a side.
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
    fn a_gate_opens_what_was_agreed_in_the_version_that_has_it() {
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
