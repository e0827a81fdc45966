//! Compares the offers of client and server, and records the result.
//!
//! A capability is in force only if its owner provides it and the other side wants it. Both axes, server and client,
//! follow this rule. Each declared or wanted capability becomes a [`Term`], in force or not, so an agreement can always
//! explain why a capability is missing.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::negotiation::offer::{Capability, Defined, Minimum, Offer, Peer, Rules, Side, VersionRule, Wants, shorten};
use crate::negotiation::refusal::Refusal;

/// Prefix of a principal's name in [`Agreement::pass`]. It keeps a configured name from being equal to the digest of a
/// token.
pub const NAMED: &str = "named:";

/// The result of comparing two offers. It is fixed for the session, or for one request in stateless MCP.
#[derive(Debug, Clone, Serialize)]
pub struct Agreement {
    /// The dialect of the session.
    pub dialect: &'static str,
    /// The version in force.
    pub version: String,
    /// The version that the client asked for, if it differs from the version in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_version: Option<String>,
    /// The session id, if the dialect has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether every request carries its own opening. The agreement then holds for one request and not for a session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub per_request: bool,
    /// The peer that opened the session.
    pub client: Peer,
    /// The peer that accepted the session.
    pub server: Peer,
    /// Instructions of the server on how to use it, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Maximum number of concurrent calls, if the dialect limits them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Every declared or wanted capability, with its verdict.
    pub terms: Vec<Term>,
    /// The principal of the opening's token, if the dialect has tokens: a name with the prefix [`NAMED`], or the digest
    /// of a token that has no name. Never the token itself.
    #[serde(skip)]
    pub pass: Option<Arc<str>>,
    /// Compatibility switches in effect: we are more lenient than the agreement towards peers that ignore it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compatibility: Vec<&'static str>,
}

/// One capability, the stance of both sides, and the verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Term {
    /// The side that provides it.
    pub owner: Side,
    /// The capability's name in the dialect.
    pub capability: Capability,
    /// The client's stance.
    pub client: Stance,
    /// The server's stance.
    pub server: Stance,
    /// The settings that the owner declared with the capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<RawValue>>,
    /// Whether it is in force.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The stance of one side towards a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stance {
    /// The side provides the capability.
    Provides,
    /// The side asked for the capability by name.
    Wants,
    /// The side accepts every provided capability, without naming this one.
    Accepts,
    /// The side did not mention the capability, or declined it.
    Silent,
}

impl Stance {
    /// The name of the stance, for output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Provides => "provides",
            Self::Wants => "wants",
            Self::Accepts => "accepts",
            Self::Silent => "-",
        }
    }
}

/// Whether a capability is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "why", rename_all = "snake_case")]
pub enum Verdict {
    /// The capability is in force.
    Agreed,
    /// The capability is not in force.
    Refused(Why),
}

/// Why a capability is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The other side wants the capability, but its owner does not provide it.
    NotProvided,
    /// The owner provides the capability, but the other side did not ask for it.
    NotWanted,
    /// The version in force does not define it.
    NotInThisVersion,
    /// No version of the dialect defines it.
    Unknown,
    /// It is part of a capability that is not in force.
    PartOfRefused,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotProvided => "not provided",
            Self::NotWanted => "not asked for",
            Self::NotInThisVersion => "not in this version",
            Self::Unknown => "unknown to the dialect",
            Self::PartOfRefused => "part of something refused",
        })
    }
}

impl Agreement {
    /// The principal of the opening's token, as policy rules name it.
    pub fn principal(&self) -> Option<&str> {
        let pass = self.pass.as_deref()?;
        Some(pass.strip_prefix(NAMED).unwrap_or(pass)).filter(|principal| !principal.is_empty())
    }

    /// Whether a capability of `owner` is in force.
    pub fn allows(&self, owner: Side, capability: &str) -> bool {
        self.term(owner, capability).is_some_and(|term| term.verdict == Verdict::Agreed)
    }

    /// The approximate size of the client's declarations in bytes.
    pub fn client_weight(&self) -> usize {
        let of_term = |term: &Term| {
            let settings = term.settings.as_ref().map_or(0, |settings| settings.get().len());
            size_of::<Term>() + term.capability.0.len() + settings
        };
        let terms = self.terms.iter().filter(|term| term.owner == Side::Client);
        let Peer { name, version, .. } = &self.client;
        let description = self.client.description().map_or(0, str::len);
        terms.map(of_term).sum::<usize>() + name.len() + version.len() + description
    }

    /// The term for a capability of `owner`, in force or not.
    pub fn term(&self, owner: Side, capability: &str) -> Option<&Term> {
        self.terms.iter().find(|term| term.owner == owner && term.capability.0 == capability)
    }

    /// The capabilities of `owner` that are in force.
    pub fn agreed(&self, owner: Side) -> impl Iterator<Item = &Term> {
        self.terms.iter().filter(move |term| term.owner == owner && term.verdict == Verdict::Agreed)
    }
}

/// Compares two offers.
///
/// Versions are compared first, then credentials, then capabilities. A client without a valid token therefore learns
/// nothing about the server's capabilities.
pub fn agree(rules: &Rules, client: &Offer, server: &Offer) -> Result<Agreement, Refusal> {
    let version = choose_version(rules.versions, client, server)?;
    if !server.tokens.is_empty() {
        let presented = client.tokens.first();
        // Compare with every token, so that the time taken does not reveal which one matches.
        let hits = server.tokens.iter().filter(|good| presented.is_some_and(|token| token.matches(good))).count();
        if hits == 0 {
            return Err(Refusal::AuthFailed);
        }
    }
    let mut terms = axis(rules, &version, Side::Server, server, client);
    terms.extend(axis(rules, &version, Side::Client, client, server));
    if rules.minimum == Minimum::OneCapability && !terms.iter().any(|term| term.verdict == Verdict::Agreed) {
        let wanted = match &client.wants {
            Wants::Everything => Vec::new(),
            Wants::Only(wanted) => wanted.iter().cloned().collect(),
        };
        return Err(Refusal::NoCapabilities { wanted });
    }
    let asked_version = client.versions.first().filter(|asked| **asked != version).cloned().map(shorten);
    Ok(Agreement {
        dialect: rules.dialect,
        version,
        asked_version,
        session: None,
        per_request: false,
        client: client.peer.clone(),
        server: server.peer.clone(),
        instructions: None,
        max_parallel: None,
        terms,
        pass: None,
        compatibility: Vec::new(),
    })
}

fn choose_version(rule: VersionRule, client: &Offer, server: &Offer) -> Result<String, Refusal> {
    let mismatch = || Refusal::VersionMismatch { asked: client.versions.clone(), spoken: server.versions.clone() };
    let preferred = || server.versions.first().or_else(|| client.versions.first()).cloned().ok_or_else(mismatch);
    if client.versions.is_empty() || server.versions.is_empty() {
        return preferred();
    }
    match rule {
        VersionRule::ServerDecides => preferred(),
        VersionRule::ServerOffers => {
            let spoken = client.versions.first().filter(|asked| server.versions.contains(asked));
            spoken.cloned().map_or_else(preferred, Ok)
        }
        VersionRule::Common => {
            let common = client.versions.iter().filter(|version| server.versions.contains(version));
            common.max().cloned().ok_or_else(mismatch)
        }
        VersionRule::CommonMajor => {
            let major = |version: &str| version.split('.').next().map(str::trim).map(str::to_owned);
            let common = server
                .versions
                .iter()
                .filter(|ours| client.versions.iter().any(|theirs| major(theirs) == major(ours)))
                .chain(
                    client
                        .versions
                        .iter()
                        .filter(|theirs| server.versions.iter().any(|ours| major(ours) == major(theirs))),
                );
            // If one side speaks 1.0 and the other 1.2, both can rely only on the older version.
            common.min().cloned().ok_or_else(mismatch)
        }
    }
}

/// The terms for the capabilities that `owner` provides to `other`.
fn axis(rules: &Rules, version: &str, side: Side, owner: &Offer, other: &Offer) -> Vec<Term> {
    let mut names: BTreeSet<&Capability> = owner.provides.keys().collect();
    if let Wants::Only(wanted) = &other.wants {
        names.extend(wanted);
    }
    let mut terms: Vec<Term> = Vec::with_capacity(names.len());
    let mut refused: BTreeSet<&str> = BTreeSet::new();
    // The sort order puts a parent before its parts.
    for name in names {
        let provided = owner.provides.get(name);
        let defined = (rules.defines)(version, side, &name.0);
        let parent_refused = name.parent().is_some_and(|parent| refused.contains(parent));
        let verdict = match (provided, defined) {
            (_, Defined::Unknown) => Verdict::Refused(Why::Unknown),
            (None, _) => Verdict::Refused(Why::NotProvided),
            (Some(_), Defined::NotInThisVersion) => Verdict::Refused(Why::NotInThisVersion),
            (Some(_), Defined::Yes) if parent_refused => Verdict::Refused(Why::PartOfRefused),
            (Some(_), Defined::Yes) if !other.wants.wants(name) => Verdict::Refused(Why::NotWanted),
            (Some(_), Defined::Yes) => Verdict::Agreed,
        };
        if verdict != Verdict::Agreed {
            refused.insert(&name.0);
        }
        let owners_stance = if provided.is_some() { Stance::Provides } else { Stance::Silent };
        let others_stance = match &other.wants {
            Wants::Everything if provided.is_some() => Stance::Accepts,
            Wants::Only(wanted) if wanted.contains(name) => Stance::Wants,
            _ => Stance::Silent,
        };
        let (client, server) = match side {
            Side::Server => (others_stance, owners_stance),
            Side::Client => (owners_stance, others_stance),
        };
        let settings = provided.cloned().flatten();
        terms.push(Term { owner: side, capability: name.clone(), client, server, settings, verdict });
    }
    terms
}

#[cfg(test)]
#[path = "agreement_tests.rs"]
mod tests;
