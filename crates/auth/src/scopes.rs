//! Ordered sets of scopes, in the order in which they were added.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The scopes of a token or a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// Parses a space-separated list.
    pub fn parse(list: &str) -> Self {
        list.split_ascii_whitespace().collect()
    }

    /// Adds the scopes that are missing.
    pub fn add(&mut self, others: &Self) {
        for scope in &others.0 {
            if !self.0.contains(scope) {
                self.0.push(scope.clone());
            }
        }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this set contains all of the others.
    pub fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.has(scope))
    }

    /// Whether the set contains this scope.
    pub fn has(&self, scope: &str) -> bool {
        self.0.iter().any(|one| one == scope)
    }

    /// Iterates over the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut all = Self::default();
        for scope in scopes {
            if !all.has(scope) {
                all.0.push(scope.to_owned());
            }
        }
        all
    }
}

/// Separated by spaces, as on the wire.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}
