//! Profiles: what certain callers get to see, and under which names.

use std::collections::BTreeMap;

use super::parties::{Callers, What, Who, any_fits};
use crate::naming::Pattern;

/// What certain callers get to see. What they do not see does not exist for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Whom it is about; everybody if empty.
    pub who: Vec<Callers>,
    /// The upstreams that are seen; all if empty.
    pub upstreams: Vec<Pattern>,
    /// The tools that are seen, by shown name; all if empty.
    pub only: Vec<Pattern>,
    /// Tools that are not seen.
    pub hidden: Vec<Pattern>,
    /// Shown names that are shown as something else.
    pub renamed: BTreeMap<String, String>,
}

impl Profile {
    /// Whether it is about somebody.
    pub fn fits(&self, who: &Who<'_>) -> bool {
        any_fits(&self.who, |callers| callers.fits(who))
    }

    /// Whether what an upstream has is seen.
    pub fn shows_upstream(&self, upstream: &str) -> bool {
        any_fits(&self.upstreams, |pattern| pattern.fits(upstream))
    }

    /// The name under which a tool is seen; `None` if it is not.
    pub fn shown(&self, what: &What<'_>) -> Option<String> {
        let seen = self.shows_upstream(what.upstream)
            && any_fits(&self.only, |pattern| what.is_meant_by(pattern))
            && !self.hidden.iter().any(|pattern| what.is_within(|what| what.is_meant_by(pattern)));
        seen.then(|| self.renamed.get(what.name).map_or(what.name, String::as_str).to_owned())
    }
}
