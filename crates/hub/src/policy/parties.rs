//! The caller and the target of a call as policy sees them, and how rules name them.

use std::collections::BTreeSet;
use std::fmt;

use gladhand_core::Pattern;
use gladhand_core::negotiation::Agreement;
use gladhand_core::operations::Tool;
use gladhand_core::wire::Members;
use serde::Serialize;

use crate::claims::is_within;
use crate::naming::BETWEEN;
use crate::provider::{Context, SessionId};

/// The caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who<'a> {
    /// The principal that the caller has authenticated as, by the transport or else by the token of its opening.
    pub principal: Option<&'a str>,
    /// The name that the client declares. It is not verified.
    pub client: &'a str,
    /// The session, or [`SessionId::NONE`].
    pub session: SessionId,
    /// The scopes that were granted to the principal, separated by spaces. `None`: the transport has no scopes.
    pub scopes: Option<&'a str>,
}

impl<'a> Who<'a> {
    /// The caller of a call.
    pub(crate) fn of(context: &Context<'a>) -> Self {
        let terms = context.terms;
        Self {
            scopes: terms.principal.as_ref().map(|_| terms.scopes.as_deref().unwrap_or_default()),
            ..Self::in_session(terms.principal.as_deref(), context.agreement, context.caller.session())
        }
    }

    /// A peer in a session, without scopes. `principal`: as the transport authenticated it, else as its opening did.
    pub fn in_session(principal: Option<&'a str>, agreement: &'a Agreement, session: SessionId) -> Self {
        let principal = principal.or_else(|| agreement.principal());
        Self { principal, client: &agreement.client.name, session, scopes: None }
    }
}

/// Kinds of things that callers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Called.
    Tool,
    /// Read, watched or completed.
    Resource,
    /// Filled in or completed.
    Prompt,
    /// Receives a request: a capability of A2E besides tools.
    Capability,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Tool, Self::Resource, Self::Prompt, Self::Capability];

    /// The word for this kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Prompt => "prompt",
            Self::Capability => "capability",
        }
    }

    /// The kind that a word names.
    pub fn parse(word: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.word() == word);
        kind.ok_or_else(|| "expected `tool`, `resource`, `prompt` or `capability`".to_owned())
    }
}

/// The target of a call: exactly one thing of one provider.
#[derive(Debug, Clone, Copy)]
pub struct CallTarget<'a> {
    /// The kind of thing.
    pub kind: Kind,
    /// The provider that has it.
    pub upstream: &'a str,
    /// The provider's own name for it: a name or a URI; for a request, the capability that it belongs to.
    pub own: &'a str,
    /// The shown name: a name or a URI; for a request to a capability, the type of the request.
    pub name: &'a str,
    /// The tool, if it is one.
    pub tool: Option<&'a Tool>,
    /// The prefix of the provider's names.
    prefix: Option<&'a str>,
    /// Prefixes of other providers that the shown name begins with, too.
    rivals: &'a [String],
    /// The name that it would have if no other provider had that name.
    taken_name: Option<&'a str>,
}

impl<'a> CallTarget<'a> {
    /// A tool under its shown name.
    pub fn tool(upstream: &'a str, own: &'a str, tool: &'a Tool) -> Self {
        Self { tool: Some(tool), ..Self::named(Kind::Tool, upstream, own, &tool.name) }
    }

    /// Something that is not a tool.
    pub fn named(kind: Kind, upstream: &'a str, own: &'a str, name: &'a str) -> Self {
        Self { kind, upstream, own, name, tool: None, prefix: None, rivals: &[], taken_name: None }
    }

    /// The same thing among all providers: with the prefix of its provider, and the prefixes of other providers that
    /// its shown name begins with, too.
    pub fn among(self, prefix: Option<&'a str>, rivals: &'a [String]) -> Self {
        Self { prefix, rivals, ..self }
    }

    /// The same thing, which would have this name if no other provider had that name.
    pub fn instead_of(self, taken_name: Option<&'a str>) -> Self {
        Self { taken_name, ..self }
    }

    /// Whether a restriction applies to it, also by the name that it would have without a conflict. Otherwise adding a
    /// provider could lift a restriction, because its prefix changes the shown names of other providers.
    pub(super) fn is_within(&self, fits: impl Fn(&Self) -> bool) -> bool {
        fits(self) || self.taken_name.is_some_and(|name| fits(&Self { name, rivals: &[], taken_name: None, ..*self }))
    }

    /// Whether a pattern of shown names matches it.
    ///
    /// A pattern may begin with the prefix of a provider (`a__*`). Then it applies to that provider alone, even if
    /// names of other providers match (`a__b__x` of `a__b`). If several prefixes match, the longest one counts.
    pub(super) fn is_meant_by(&self, pattern: &Pattern) -> bool {
        if !pattern.fits(self.name) {
            return false;
        }
        let claims = |prefix: &str| is_within(pattern.literal(), prefix).then_some(prefix.len());
        let rival = self.rivals.iter().filter_map(|prefix| claims(prefix)).max();
        rival.is_none_or(|rival| self.prefix.and_then(claims).is_some_and(|own| own > rival))
    }

    /// Whether the provider declares that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.hint("readOnlyHint") == Some(true)
    }

    /// Whether it may destroy something. As in MCP, the default is yes, unless the provider declares otherwise.
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.hint("destructiveHint") != Some(false)
    }

    fn hint(&self, name: &str) -> Option<bool> {
        let annotations = self.tool?.extra.iter().find(|(member, _)| member == "annotations");
        let members = annotations.and_then(|(_, annotations)| Members::of(annotations));
        match members?.some(name)?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
}

/// The callers that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callers {
    /// Callers whose principal or client name matches: `ci-*`.
    Called(Pattern),
    /// Callers whose principal matches: `principal:alice`.
    Principal(Pattern),
    /// Callers whose client name matches: `client:cursor*`.
    Client(Pattern),
}

impl Callers {
    /// Parses the form used in the configuration.
    pub fn parse(text: &str) -> Self {
        let pattern = |text: &str| Pattern(text.to_owned());
        match text.split_once(':') {
            Some(("principal", rest)) => Self::Principal(pattern(rest)),
            Some(("client", rest)) => Self::Client(pattern(rest)),
            _ => Self::Called(pattern(text)),
        }
    }

    /// Whether a caller matches.
    pub fn fits(&self, who: &Who<'_>) -> bool {
        let principal = |pattern: &Pattern| who.principal.is_some_and(|principal| pattern.fits(principal));
        match self {
            Self::Called(pattern) => principal(pattern) || pattern.fits(who.client),
            Self::Principal(pattern) => principal(pattern),
            Self::Client(pattern) => pattern.fits(who.client),
        }
    }
}

/// The tools that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// Tools whose shown name matches: `git__*`.
    Called(Pattern),
    /// Tools that declare that they change nothing: `@readonly`.
    ReadOnly,
    /// Tools that may destroy something: `@destructive`.
    Destructive,
}

/// A class of tools that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownClass(pub String);

impl fmt::Display for UnknownClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no class of tools `{}`; there are `@readonly` and `@destructive`", self.0)
    }
}

impl std::error::Error for UnknownClass {}

impl Tools {
    /// Parses the form used in the configuration.
    pub fn parse(text: &str) -> Result<Self, UnknownClass> {
        match text {
            "@readonly" => Ok(Self::ReadOnly),
            "@destructive" => Ok(Self::Destructive),
            text if text.starts_with('@') => Err(UnknownClass(text.to_owned())),
            text => Ok(Self::Called(Pattern(text.to_owned()))),
        }
    }

    /// Whether a tool matches.
    pub fn fits(&self, what: &CallTarget<'_>) -> bool {
        match self {
            Self::Called(pattern) => what.is_meant_by(pattern),
            Self::ReadOnly => what.is_read_only(),
            Self::Destructive => what.is_destructive(),
        }
    }
}

/// The things that a rule or a limit applies to. If all lists of things are empty, it applies to everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subjects {
    /// The providers that it applies to; all if empty.
    pub upstreams: Vec<Pattern>,
    /// Tools, by shown name or class.
    pub tools: Vec<Tools>,
    /// Resources, by shown URI. A template is treated like the URIs that match it.
    pub resources: Vec<Pattern>,
    /// Prompts, by shown name.
    pub prompts: Vec<Pattern>,
    /// Capabilities of A2E, by name (`memory`) or by type of request (`proc/start/req`).
    pub capabilities: Vec<Pattern>,
}

impl Subjects {
    /// Whether a thing matches.
    pub fn fit(&self, what: &CallTarget<'_>) -> bool {
        any_fits(&self.upstreams, |pattern| pattern.fits(what.upstream))
            && (self.is_about_all_kinds()
                || match what.kind {
                    Kind::Tool => self.tools.iter().any(|tools| tools.fits(what)),
                    Kind::Resource => self.resources.iter().any(|pattern| pattern.fits(what.name)),
                    Kind::Prompt => self.prompts.iter().any(|pattern| what.is_meant_by(pattern)),
                    Kind::Capability => {
                        self.capabilities.iter().any(|pattern| pattern.fits(what.own) || pattern.fits(what.name))
                    }
                })
    }

    fn is_about_all_kinds(&self) -> bool {
        self.tools.is_empty() && self.resources.is_empty() && self.prompts.is_empty() && self.capabilities.is_empty()
    }
}

/// Scopes that a principal needs for certain things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededScopes {
    /// Matches names of tools and prompts, URIs, and names of capabilities and of their requests. Resources and
    /// capabilities also match by `PREFIX__NAME`.
    pub pattern: Pattern,
    /// The scopes.
    pub scopes: Vec<String>,
}

impl NeededScopes {
    /// The scopes that a thing needs.
    pub(super) fn of<'n>(all: &'n [Self], what: &CallTarget<'_>) -> BTreeSet<&'n str> {
        let needed = all.iter().filter(|one| what.is_within(|what| one.fits(what))).flat_map(|one| &one.scopes);
        needed.map(String::as_str).collect()
    }

    fn fits(&self, what: &CallTarget<'_>) -> bool {
        let joined =
            |name: &str| self.pattern.fits(&format!("{}{BETWEEN}{name}", what.prefix.unwrap_or(what.upstream)));
        match what.kind {
            Kind::Tool | Kind::Prompt => what.is_meant_by(&self.pattern),
            Kind::Resource => self.pattern.fits(what.name) || joined(what.own),
            Kind::Capability => [what.own, what.name].into_iter().any(|name| self.pattern.fits(name) || joined(name)),
        }
    }
}

/// Whether one of the patterns matches. An empty list matches everything.
pub(super) fn any_fits<P>(patterns: &[P], fits: impl FnMut(&P) -> bool) -> bool {
    patterns.is_empty() || patterns.iter().any(fits)
}
