//! What cannot be had under an agreement, and why: read from the rows that the gates read.

use std::fmt;

use gladhand_accord::{Agreement, Need, Rule, Side};
use gladhand_operations::Feature;

use crate::side::Dialect;

/// Why a feature of the neutral model is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absence {
    /// The dialect has no words for it.
    NoWords {
        /// The dialect's name.
        dialect: &'static str,
    },
    /// Other versions of the dialect have it.
    OtherVersions {
        /// The dialect's name.
        dialect: &'static str,
        /// Its versions that have it, oldest first.
        versions: Vec<&'static str>,
    },
    /// What opens it is not in force.
    NotAgreed(Need),
}

impl Absence {
    /// A word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoWords { .. } => "not_in_dialect",
            Self::OtherVersions { .. } => "not_in_version",
            Self::NotAgreed(_) => "not_agreed",
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWords { dialect } => write!(f, "{dialect} has no message for it"),
            Self::OtherVersions { dialect, versions } => write!(f, "only in {dialect} {}", versions.join(", ")),
            Self::NotAgreed(Need { owner: Side::Server, capability }) => {
                write!(f, "the server does not provide `{capability}`, or it was not asked for")
            }
            Self::NotAgreed(Need { owner: Side::Client, capability }) => {
                write!(f, "the client did not declare `{capability}`")
            }
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
        (Some(row), None) => row.needs.map(Absence::NotAgreed),
        (None, None) if rows.is_empty() => Some(Absence::NoWords { dialect: dialect.name }),
        (None, None) => {
            Some(Absence::OtherVersions { dialect: dialect.name, versions: versions_with(dialect, feature) })
        }
    }
}

/// The versions of a dialect that have a feature, oldest first.
pub fn versions_with(dialect: &Dialect, feature: Feature) -> Vec<&'static str> {
    let rows = (dialect.carriers)(feature);
    let has_it = |version: &&'static str| rows.iter().any(|row| row.is_in(version));
    let mut versions: Vec<_> = dialect.versions.iter().copied().filter(has_it).collect();
    versions.sort_unstable();
    versions
}
