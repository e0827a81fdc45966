//! The offer of one side in its opening, and the rules by which a dialect compares two offers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Secret;

/// One of the two sides of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The peer that connects: an agent, an editor.
    Client,
    /// The peer that accepts the connection: a tool server, a host.
    Server,
}

impl Side {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// The name of the side, for output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// A capability by its name in the dialect. Sub-flags are dotted (`tools.listChanged`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Capability(pub Cow<'static, str>);

impl Capability {
    /// A capability known at compile time.
    pub const fn named(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A capability as the peer wrote it. A name longer than any real one is cut, since it only serves for display.
    pub fn from_wire(name: impl Into<String>) -> Self {
        Self(Cow::Owned(shorten(name.into())))
    }

    /// The capability that a sub-flag belongs to: `tools` for `tools.listChanged`.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('.').map(|(parent, _)| parent)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity that a peer reports about itself. It is never a basis for trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// The peer's name. Empty if it gave none.
    pub name: String,
    /// The version of the peer's software. Empty if it gave none.
    pub version: String,
    /// The JSON object of its self-description, if that has further members: `title`, `icons`, `websiteUrl`.
    description: Option<Arc<str>>,
}

impl Peer {
    /// A peer with a name and a version. Both are cut if they are longer than any real ones.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: shorten(name.into()), version: shorten(version.into()), description: None }
    }

    /// The same peer with the JSON object of its self-description. The object is kept only if it has members other than
    /// `name` and `version`, and has at most `max_bytes` bytes.
    pub fn described(mut self, object: &RawValue, max_bytes: usize) -> Self {
        let members = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(object.get()).unwrap_or_default();
        let says_more = members.keys().any(|name| name != "name" && name != "version");
        self.description = (says_more && object.get().len() <= max_bytes).then(|| object.get().into());
        self
    }

    /// The JSON object of its self-description, if it was kept.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

/// The wire form of a peer: the object of its self-description, or else `name` and `version`.
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

/// Maximum length, in characters, of a name that a peer sends.
///
/// An agreement lives longer than the line it came from. It is logged, displayed and passed to tools, so
/// peer-controlled text in it must be bounded.
const MAX_NAME_CHARS: usize = 128;

/// Cuts a text that is longer than [`MAX_NAME_CHARS`] characters.
pub(in crate::negotiation) fn shorten(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_NAME_CHARS) {
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

/// The capabilities that a side wants from the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// All capabilities that the other side provides.
    Everything,
    /// Only these capabilities.
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

/// The declaration of one side: identity, versions, provided and wanted capabilities, credentials.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The identity of the peer.
    pub peer: Peer,
    /// The versions it speaks, preferred first. Empty: it named none and accepts any.
    pub versions: Vec<String>,
    /// The capabilities that it provides, with their settings.
    pub provides: BTreeMap<Capability, Option<Box<RawValue>>>,
    /// The capabilities that it wants from the other side.
    pub wants: Wants,
    /// Tokens. A client presents at most one. A server lists the tokens it accepts; an empty list accepts any client.
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

/// How the two sides choose a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRule {
    /// If the server speaks the client's preferred version, it echoes that version. Otherwise it offers its own
    /// preferred version, and the client decides whether to stay (handshake of MCP).
    ServerOffers,
    /// Both sides must speak the version. The newest common version is chosen, independent of who opened.
    Common,
    /// Only the major version, the number before the first dot, must be equal (A2E).
    CommonMajor,
    /// The server's version is used, regardless of the client's request (loaf, unless the client requires a strict
    /// match).
    ServerDecides,
}

/// The minimum that must be agreed for a session to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minimum {
    /// A session may open without any capability.
    Nothing,
    /// At least one capability must be in force.
    OneCapability,
}

/// Whether a version defines a capability on a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// This version defines it.
    Yes,
    /// Only another version defines it.
    NotInThisVersion,
    /// No version defines it.
    Unknown,
}

/// The parameters that distinguish the negotiation of one dialect from another.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The dialect's name, for the agreement.
    pub dialect: &'static str,
    /// How a version is chosen.
    pub versions: VersionRule,
    /// The minimum that must be agreed.
    pub minimum: Minimum,
    /// Whether `version` defines `capability` on `side`.
    pub defines: fn(version: &str, side: Side, capability: &str) -> Defined,
}
