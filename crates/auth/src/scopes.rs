//! Sets of scopes, in the order in which they were first named.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a token may be used for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<String>);

impl Scopes {
    /// The scopes of a space-separated list.
    pub fn parse(list: &str) -> Self {
        list.split_ascii_whitespace().collect()
    }

    /// Adds what is not there yet.
    pub fn add(&mut self, others: &Self) {
        for scope in &others.0 {
            if !self.0.contains(scope) {
                self.0.push(scope.clone());
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of the others are here.
    pub fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|scope| self.has(scope))
    }

    /// Whether this one is here.
    pub fn has(&self, scope: &str) -> bool {
        self.0.iter().any(|one| one == scope)
    }

    /// Each of them.
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
