//! Finds the features that an agreement excludes, and why. It reads the same table rows as the gates.

use std::fmt;

use gladhand_core::Order as _;
use gladhand_core::negotiation::{Agreement, Need, Rule, Side, Verdict, Why};
use gladhand_core::operations::Feature;

use crate::side::Dialect;

/// Why a feature of the neutral model is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// The dialect does not have the feature.
    NoWords {
        /// The dialect's name.
        dialect: &'static str,
    },
    /// Other versions of the dialect have it.
    OtherVersions {
        /// The dialect's name.
        dialect: &'static str,
        /// The versions that have it, oldest first.
        versions: Vec<&'static str>,
    },
    /// The required capability is not in force.
    NotAgreed {
        /// The required capability.
        need: Need,
        /// Why it is not in force, if either side mentioned it.
        why: Option<Why>,
    },
}

impl Absence {
    /// A stable identifier of the reason, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoWords { .. } => "not_in_dialect",
            Self::OtherVersions { .. } => "not_in_version",
            Self::NotAgreed { .. } => "not_agreed",
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWords { dialect } => write!(f, "{dialect} has no message for it"),
            Self::OtherVersions { dialect, versions } => write!(f, "only in {dialect} {}", versions.join(", ")),
            Self::NotAgreed { need: Need { owner, capability }, why } => match (why, owner) {
                (None | Some(Why::NotProvided), Side::Server) => {
                    write!(f, "the server does not provide `{capability}`")
                }
                (None | Some(Why::NotProvided), Side::Client) => {
                    write!(f, "the client did not declare `{capability}`")
                }
                (Some(why), _) => write!(f, "`{capability}` is {why}"),
            },
        }
    }
}

/// The features that cannot be used under an agreement, each with the reason.
pub fn absent(dialect: &Dialect, agreement: &Agreement) -> Vec<(Feature, Absence)> {
    let why = |feature: &Feature| Some((*feature, absence(dialect, *feature, agreement)?));
    Feature::ALL.iter().filter_map(why).collect()
}

fn absence(dialect: &Dialect, feature: Feature, agreement: &Agreement) -> Option<Absence> {
    let rows = (dialect.carriers)(feature);
    let here: Vec<_> = rows.iter().filter(|row| row.is_in(&agreement.version)).collect();
    let is_open = |row: &&&Rule| row.needs.is_none_or(|need| agreement.allows(need.owner, need.capability));
    match (here.first(), here.iter().find(is_open)) {
        (_, Some(_)) => None,
        (Some(row), None) => row.needs.map(|need| {
            let need = whole(dialect, need, agreement);
            let term = agreement.term(need.owner, need.capability);
            let why = term.and_then(|term| match term.verdict {
                Verdict::Refused(why) => Some(why),
                Verdict::Agreed => None,
            });
            Absence::NotAgreed { need, why }
        }),
        (None, None) if rows.is_empty() => Some(Absence::NoWords { dialect: dialect.name }),
        (None, None) => {
            Some(Absence::OtherVersions { dialect: dialect.name, versions: versions_with(dialect, feature) })
        }
    }
}

/// If a part belongs to a capability that is not in force either, returns that capability: the part then needs no
/// separate reason.
fn whole(dialect: &Dialect, part: Need, agreement: &Agreement) -> Need {
    let Some((capability, _)) = part.capability.split_once('.') else { return part };
    let whole = Need { capability, ..part };
    let opens_something = |feature: &Feature| (dialect.carriers)(*feature).iter().any(|row| row.needs == Some(whole));
    let is_in_force = agreement.allows(whole.owner, whole.capability);
    if !is_in_force && Feature::ALL.iter().any(opens_something) { whole } else { part }
}

/// The versions of a dialect that have a feature, oldest first.
pub fn versions_with(dialect: &Dialect, feature: Feature) -> Vec<&'static str> {
    let rows = (dialect.carriers)(feature);
    let has_it = |version: &&'static str| rows.iter().any(|row| row.is_in(version));
    let mut versions: Vec<_> = dialect.versions.iter().copied().filter(has_it).collect();
    versions.order();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Pair, client_setup, server_setup};
    use crate::{REGISTRY, mcp};

    fn absences(dialect: &'static Dialect, version: &str) -> Vec<String> {
        let mut pair = Pair::new(dialect, server_setup(), client_setup(version));
        let agreement = pair.open().unwrap();
        let all = absent(dialect, &agreement);
        all.iter().map(|(feature, absence)| format!("{}: {absence}", feature.word())).collect()
    }

    #[test]
    fn absent_features_have_the_reason_from_the_tables() {
        let absences = |version| absences(&mcp::DIALECT, version);
        assert!(
            absences("2024-11-05").contains(&"elicitation: only in mcp 2025-06-18, 2025-11-25, 2026-07-28".to_owned())
        );
        assert!(absences("2025-06-18").contains(&"elicitation: the client did not declare `elicitation`".to_owned()));
        assert!(absences("2025-06-18").contains(&"prompts: the server does not provide `prompts`".to_owned()));
        assert!(!absences("2026-07-28").iter().any(|line| line.starts_with("tools:") || line.starts_with("progress:")));
    }

    #[test]
    fn every_dialect_has_tools() {
        for dialect in REGISTRY {
            assert_eq!(versions_with(dialect, Feature::Tools).len(), dialect.versions.len(), "{}", dialect.name);
            let absences = absences(dialect, dialect.versions[0]);
            assert!(!absences.iter().any(|line| line.starts_with("tools:")), "{absences:?}");
            let expected = format!("roots: {} has no message for it", dialect.name);
            assert_eq!(absences.contains(&expected), dialect.name != "mcp", "{absences:?}");
        }
    }
}
