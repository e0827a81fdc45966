//! Records the scopes needed for content that outlives the request that produced it.
//!
//! A session or a task belongs to a principal, and a principal can have several tokens. The result of a call stays in
//! the session or task for later requests. Its record says which scopes those requests need.

use std::collections::BTreeSet;
use std::sync::RwLock;

use crate::sync::Unpoisoned as _;

/// The scopes needed by the calls of one session, or by the call of one task. Scopes are only added, never removed.
#[derive(Debug, Default)]
pub struct ScopeRecord(RwLock<BTreeSet<Box<str>>>);

impl ScopeRecord {
    /// Adds scopes that a call needs. Must be called before the call runs, so that no result is kept without its
    /// scopes.
    pub fn add<'s>(&self, scopes: impl IntoIterator<Item = &'s str>) {
        let mut needed = self.0.write().unpoisoned();
        for scope in scopes {
            if !needed.contains(scope) {
                needed.insert(scope.into());
            }
        }
    }

    /// Returns all needed scopes, separated by spaces, if the granted scopes (also separated by spaces) do not cover
    /// them.
    pub fn needed_beyond(&self, granted: Option<&str>) -> Option<String> {
        let needed = self.0.read().unpoisoned();
        let is_granted = |scope: &str| granted.unwrap_or_default().split(' ').any(|granted| granted == scope);
        let lacks = needed.iter().any(|scope| !is_granted(scope));
        lacks.then(|| needed.iter().map(|scope| &**scope).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_scopes_add_up_and_are_named_together() {
        let record = ScopeRecord::default();
        assert_eq!(record.needed_beyond(None), None);
        record.add(["ops", "repo"]);
        record.add(["ops"]);
        assert_eq!(record.needed_beyond(None).as_deref(), Some("ops repo"));
        assert_eq!(record.needed_beyond(Some("repo talk")).as_deref(), Some("ops repo"));
        assert_eq!(record.needed_beyond(Some("ops repository")).as_deref(), Some("ops repo"));
        assert_eq!(record.needed_beyond(Some("talk repo ops")), None);
    }
}
