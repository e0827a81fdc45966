//! Who calls what, as policy sees it, and how rules name them.

use std::fmt;

use gladhand_accord::Agreement;
use gladhand_operations::Tool;
use gladhand_wire::Members;

use crate::naming::Pattern;
use crate::provider::{Context, SessionId};

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who<'a> {
    /// Who it has proved to be, where the transport knows.
    pub principal: Option<&'a str>,
    /// What it calls itself. Nobody checks that.
    pub client: &'a str,
    /// The session, where there are sessions.
    pub session: SessionId,
}

impl<'a> Who<'a> {
    /// Who made a call.
    pub(crate) fn of(context: &Context<'a>) -> Self {
        Self::saying(context.agreement, context.terms.principal.as_deref(), context.caller.session())
    }

    /// Who made an agreement.
    pub(crate) fn saying(agreement: &'a Agreement, principal: Option<&'a str>, session: SessionId) -> Self {
        Self { principal, client: &agreement.client.name, session }
    }
}

/// What is called.
#[derive(Debug, Clone, Copy)]
pub struct What<'a> {
    /// Who has it.
    pub upstream: &'a str,
    /// What they call it.
    pub own: &'a str,
    /// The tool, under the name by which it is shown.
    pub tool: &'a Tool,
}

impl What<'_> {
    /// Whether whoever has it says that it changes nothing.
    pub fn is_read_only(&self) -> bool {
        self.hint("readOnlyHint") == Some(true)
    }

    /// Whether it may destroy something. As in MCP, that is so unless whoever has it says otherwise.
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.hint("destructiveHint") != Some(false)
    }

    fn hint(&self, name: &str) -> Option<bool> {
        let annotations = self.tool.extra.iter().find(|(member, _)| member == "annotations");
        let members = annotations.and_then(|(_, annotations)| Members::of(annotations));
        match members?.some(name)?.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }
}

/// Which callers a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callers {
    /// Whose principal or client name fits: `ci-*`.
    Called(Pattern),
    /// Whose principal fits: `principal:alice`.
    Principal(Pattern),
    /// Whose client name fits: `client:cursor*`.
    Client(Pattern),
}

impl Callers {
    /// As it is written in the configuration.
    pub fn parse(text: &str) -> Self {
        let pattern = |text: &str| Pattern(text.to_owned());
        match text.split_once(':') {
            Some(("principal", rest)) => Self::Principal(pattern(rest)),
            Some(("client", rest)) => Self::Client(pattern(rest)),
            _ => Self::Called(pattern(text)),
        }
    }

    /// Whether somebody is meant.
    pub fn fits(&self, who: &Who<'_>) -> bool {
        let principal = |pattern: &Pattern| who.principal.is_some_and(|principal| pattern.fits(principal));
        match self {
            Self::Called(pattern) => principal(pattern) || pattern.fits(who.client),
            Self::Principal(pattern) => principal(pattern),
            Self::Client(pattern) => pattern.fits(who.client),
        }
    }
}

/// Which tools a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// Whose shown name fits: `git__*`.
    Called(Pattern),
    /// Those that say that they change nothing: `@readonly`.
    ReadOnly,
    /// Those that may destroy something: `@destructive`.
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
    /// As it is written in the configuration.
    pub fn parse(text: &str) -> Result<Self, UnknownClass> {
        match text {
            "@readonly" => Ok(Self::ReadOnly),
            "@destructive" => Ok(Self::Destructive),
            text if text.starts_with('@') => Err(UnknownClass(text.to_owned())),
            text => Ok(Self::Called(Pattern(text.to_owned()))),
        }
    }

    /// Whether a tool is meant.
    pub fn fits(&self, what: &What<'_>) -> bool {
        match self {
            Self::Called(pattern) => pattern.fits(&what.tool.name),
            Self::ReadOnly => what.is_read_only(),
            Self::Destructive => what.is_destructive(),
        }
    }
}

/// Whether one of them fits, or there are none, which means everything.
pub(super) fn any_fits<P>(patterns: &[P], fits: impl FnMut(&P) -> bool) -> bool {
    patterns.is_empty() || patterns.iter().any(fits)
}
