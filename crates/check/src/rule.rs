//! A rule: a row of the table of checks.

use std::fmt;

use serde::Serialize;

use crate::message::View;
use crate::tally::Tally;

/// A named check.
#[derive(Clone, Copy)]
pub struct Rule {
    /// The identifier, such as `mcp.initialize.version`.
    pub id: &'static str,
    /// The dialect, or `lint`.
    pub dialect: &'static str,
    /// The strength of the rule.
    pub level: Level,
    /// The side that must keep it.
    pub subject: Subject,
    /// The versions of the dialect that have it.
    pub versions: Versions,
    /// The page of the specification, and the section on it.
    pub section: &'static str,
    /// The demand of the rule, as a sentence without a period.
    pub about: &'static str,
    pub(crate) judge: fn(&View<'_>, &mut Tally),
}

/// How strong a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A peer that breaks it does not speak the dialect.
    Must,
    /// A peer that breaks it surprises others.
    Should,
    /// Advice about what models see. No specification asks for it.
    Lint,
}

impl Level {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Lint => "lint",
        }
    }
}

/// Which side is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The server, also called host.
    Server,
    /// The client, also called agent.
    Client,
}

/// Versions of a dialect. Versions are dates in MCP, so their order is the order of release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// Every version.
    All,
    /// This version and later ones.
    Since(&'static str),
    /// From the first to the second, both included.
    Between(&'static str, &'static str),
}

impl Versions {
    /// Whether a version has the rule.
    pub fn contains(self, version: &str) -> bool {
        match self {
            Self::All => true,
            Self::Since(first) => version >= first,
            Self::Between(first, last) => version >= first && version <= last,
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Since(first) => write!(f, "{first} and later"),
            Self::Between(first, last) if first == last => f.write_str(first),
            Self::Between(first, last) => write!(f, "{first} to {last}"),
        }
    }
}

impl Rule {
    /// A rule for servers in every version.
    pub(crate) const fn new(
        dialect: &'static str,
        level: Level,
        id: &'static str,
        section: &'static str,
        about: &'static str,
        judge: fn(&View<'_>, &mut Tally),
    ) -> Self {
        Self { id, dialect, level, subject: Subject::Server, versions: Versions::All, section, about, judge }
    }

    /// The same for clients.
    pub(crate) const fn for_client(self) -> Self {
        Self { subject: Subject::Client, ..self }
    }

    /// The same since a version.
    pub(crate) const fn since(self, version: &'static str) -> Self {
        Self { versions: Versions::Since(version), ..self }
    }

    /// The same from one version to another.
    pub(crate) const fn between(self, first: &'static str, last: &'static str) -> Self {
        Self { versions: Versions::Between(first, last), ..self }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("id", &self.id).field("level", &self.level).finish_non_exhaustive()
    }
}
