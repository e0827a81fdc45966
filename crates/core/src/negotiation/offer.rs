//! What a side declares in its opening, and the rules by which a dialect compares two of those.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Secret;

/// Who provides something: the one who connects, or the one connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The peer that opens: an agent, an editor.
    Client,
    /// The peer that is opened: a tool server, a host.
    Server,
}

impl Side {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// A capability in its dialect's own words; sub-flags are dotted (`tools.listChanged`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Capability(pub Cow<'static, str>);

impl Capability {
    /// A capability known at compile time.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A capability as a peer wrote it. One longer than any real name is cut: it is kept for people.
    pub fn from_wire(name: impl Into<String>) -> Self {
        Self(Cow::Owned(shorten(name.into())))
    }

    /// What a sub-flag belongs to: `tools` for `tools.listChanged`.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('.').map(|(parent, _)| parent)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who a peer says it is. Self-reported: never a basis for trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its name; empty if it gave none.
    pub name: String,
    /// Its own version; empty if it gave none.
    pub version: String,
    /// The JSON object in which it says so, where that has more members: `title`, `icons`, `websiteUrl`.
    description: Option<Arc<str>>,
}

impl Peer {
    /// A peer with a name and a version, which are cut if they are longer than any real ones.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: shorten(name.into()), version: shorten(version.into()), description: None }
    }

    /// The same peer, which described itself in this JSON object. The object is kept if it says more than name and version,
    /// and is not longer than `longest` bytes.
    pub fn described(mut self, object: &RawValue, longest: usize) -> Self {
        let members = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(object.get()).unwrap_or_default();
        let says_more = members.keys().any(|name| name != "name" && name != "version");
        self.description = (says_more && object.get().len() <= longest).then(|| object.get().into());
        self
    }

    /// The JSON object in which it described itself, where that was kept.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

/// A peer as it writes itself on the wire: the object in which it described itself, or name and version.
impl Serialize for Peer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Brief<'a> {
            #[serde(skip_serializing_if = "str::is_empty")]
            name: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            version: &'a str,
        }
        let whole = self.description().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
        match whole {
            Some(whole) => whole.serialize(serializer),
            None => Brief { name: &self.name, version: &self.version }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Peer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct Brief {
            name: String,
            version: String,
        }
        let whole = Box::<RawValue>::deserialize(deserializer)?;
        let brief: Brief = serde_json::from_str(whole.get()).map_err(serde::de::Error::custom)?;
        Ok(Self::new(brief.name, brief.version).described(&whole, whole.get().len()))
    }
}

/// The most characters that are kept of a name that a peer gave itself or something else.
///
/// Agreements outlive lines, are logged, shown and handed to tools; what a peer puts into them must
/// not be able to grow.
const LONGEST_NAME: usize = 128;

/// Cuts a text that is longer than [`LONGEST_NAME`] characters.
pub(in crate::negotiation) fn shorten(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST_NAME) {
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

/// What a side wants of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// Whatever it provides.
    Everything,
    /// These and no others.
    Only(BTreeSet<Capability>),
}

impl Wants {
    /// Whether a capability of the other side is wanted.
    pub fn wants(&self, capability: &Capability) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(wanted) => wanted.contains(capability),
        }
    }
}

/// What a side declared: who it is, versions it speaks, what it provides and wants, credentials.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Who it is.
    pub peer: Peer,
    /// Versions it speaks, the preferred one first. Empty: it named none and takes any.
    pub versions: Vec<String>,
    /// What it provides, with the settings it gave.
    pub provides: BTreeMap<Capability, Option<Box<RawValue>>>,
    /// What it wants of the other side.
    pub wants: Wants,
    /// Tokens: those it presents (a client: at most one) or those it accepts (a server: none means any).
    pub tokens: Vec<Secret>,
}

impl Default for Offer {
    fn default() -> Self {
        Self::new(Peer::default(), [""; 0])
    }
}

impl Offer {
    /// An offer that provides nothing and wants everything.
    pub fn new(peer: Peer, versions: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            peer,
            versions: versions.into_iter().map(Into::into).collect(),
            provides: BTreeMap::new(),
            wants: Wants::Everything,
            tokens: Vec::new(),
        }
    }

    /// The same offer with one more capability.
    pub fn providing(mut self, capability: Capability) -> Self {
        self.provides.insert(capability, None);
        self
    }
}

/// How two sides come to one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRule {
    /// The server echoes what the client prefers if it speaks it, and otherwise offers its own
    /// preferred version: the client decides whether to stay (MCP's handshake).
    ServerOffers,
    /// Both must speak it; the newest in common is taken, whoever is asked first.
    Common,
    /// Only the number before the first dot must be common (A2E).
    CommonMajor,
    /// The server's version holds, whatever the client asked for (loaf, unless it asks strictly).
    ServerDecides,
}

/// How little may be agreed for there to be a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minimum {
    /// A session without any capability is still a session.
    Nothing,
    /// At least one capability must be in force.
    OneCapability,
}

/// Whether a version has a capability on a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// It has.
    Yes,
    /// Another version has it, this one has not.
    NotInThisVersion,
    /// No version has it.
    Unknown,
}

/// What distinguishes one dialect's negotiation from another's.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The dialect's name, for the agreement.
    pub dialect: &'static str,
    /// How versions are chosen.
    pub versions: VersionRule,
    /// How little is enough.
    pub minimum: Minimum,
    /// Whether `version` has `capability` on `side`.
    pub defines: fn(version: &str, side: Side, capability: &str) -> Defined,
}
