//! Profiles: what certain callers see, and under which names.

use std::collections::BTreeMap;

use gladhand_core::Pattern;

use super::parties::{CallTarget, Callers, Who, any_fits};

/// Restricts what certain callers see. Anything else does not exist for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The callers that it applies to; all if empty.
    pub who: Vec<Callers>,
    /// The visible upstreams; all if empty.
    pub upstreams: Vec<Pattern>,
    /// The visible tools, by shown name; all if empty.
    pub only: Vec<Pattern>,
    /// Hidden tools.
    pub hidden: Vec<Pattern>,
    /// Shown names that are replaced.
    pub renamed: BTreeMap<String, String>,
}

impl Profile {
    /// Whether it applies to a caller.
    pub fn fits(&self, who: &Who<'_>) -> bool {
        any_fits(&self.who, |callers| callers.fits(who))
    }

    /// Whether an upstream is visible.
    pub fn shows_upstream(&self, upstream: &str) -> bool {
        any_fits(&self.upstreams, |pattern| pattern.fits(upstream))
    }

    /// The name under which a tool is visible, or `None` if it is not.
    pub fn shown(&self, what: &CallTarget<'_>) -> Option<String> {
        let seen = self.shows_upstream(what.upstream)
            && any_fits(&self.only, |pattern| what.is_meant_by(pattern))
            && !self.hidden.iter().any(|pattern| what.is_within(|what| what.is_meant_by(pattern)));
        seen.then(|| self.renamed.get(what.name).map_or(what.name, String::as_str).to_owned())
    }
}
