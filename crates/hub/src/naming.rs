//! The names under which the tools, prompts and resources of a provider are shown.
//!
//! Names of many servers meet here. A prefix keeps them apart (`server__tool`). Clients accept letters, digits, `_` and
//! `-`, at most 64 of them. A name that does not fit is cut and marked with a hash of the original, so that it is the
//! same each time.

use std::collections::BTreeMap;

use gladhand_core::Pattern;

/// The longest name that every client accepts.
const LONGEST: usize = 64;

/// The separator between a prefix and a name.
pub const BETWEEN: &str = "__";

/// How the names of one provider are shown. By default, unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naming {
    /// The prefix of each name. It also keeps equal URIs apart.
    pub prefix: Option<String>,
    /// Names that are replaced completely, including the prefix.
    pub renamed: BTreeMap<String, String>,
    /// If not empty: only names that match one of these are shown.
    pub only: Vec<Pattern>,
    /// Names that match one of these are not shown.
    pub hidden: Vec<Pattern>,
    /// Whether a provider without this mark wins if it offers the same name. For upstreams that the user trusts less.
    pub yields: bool,
}

impl Naming {
    /// With a prefix.
    pub fn prefixed(prefix: impl Into<String>) -> Self {
        Self { prefix: Some(prefix.into()), ..Self::default() }
    }

    /// The shown form of a name, or `None` if it is hidden.
    pub fn shown(&self, name: &str) -> Option<String> {
        if self.hidden.iter().any(|pattern| pattern.fits(name)) {
            return None;
        }
        if !self.only.is_empty() && !self.only.iter().any(|pattern| pattern.fits(name)) {
            return None;
        }
        if let Some(renamed) = self.renamed.get(name) {
            return Some(renamed.clone());
        }
        Some(self.prefixed_name(name))
    }

    /// The shown form of a name that is not renamed: with the prefix, if there is one.
    pub(crate) fn prefixed_name(&self, name: &str) -> String {
        match &self.prefix {
            Some(prefix) => fitted(&format!("{prefix}{BETWEEN}{name}")),
            None => name.to_owned(),
        }
    }

    /// How closely a shown name fits this naming: the longer the prefix that it begins with, the closer. `None` if the
    /// name cannot come from this provider. Without a prefix, any name can.
    pub fn fits(&self, shown: &str) -> Option<usize> {
        let Some(prefix) = &self.prefix else { return Some(0) };
        let prefix = format!("{prefix}{BETWEEN}");
        let is_renamed = self.renamed.values().any(|renamed| renamed == shown);
        (is_renamed || shown.starts_with(&prefix)).then_some(prefix.len())
    }

    /// A replacement for a name that belongs to another provider. It is within this provider's prefix and within no
    /// other.
    pub fn instead(&self, name: &str) -> String {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        let plain: Vec<_> = name.split('_').filter(|part| !part.is_empty()).collect();
        let between = if prefix.is_empty() { "" } else { BETWEEN };
        marked(&clean(&format!("{prefix}{between}{}", plain.join("_"))), &format!("{prefix}\0{name}"))
    }

    /// A replacement for a URI that belongs to another provider, or `None` without a prefix to distinguish them.
    pub(crate) fn other_uri(&self, uri: &str) -> Option<String> {
        self.prefix.as_ref().map(|prefix| format!("{prefix}+{uri}"))
    }
}

/// A name that all clients accept.
fn fitted(name: &str) -> String {
    if name.len() <= LONGEST && name.chars().all(is_fine) {
        return name.to_owned();
    }
    marked(&clean(name), name)
}

fn is_fine(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn clean(name: &str) -> String {
    name.chars().map(|c| if is_fine(c) { c } else { '_' }).collect()
}

/// A clean name with a hash of the original, cut to the maximum length.
fn marked(clean: &str, of: &str) -> String {
    let mark = format!("_{:08x}", hash(of) >> 32);
    let kept: String = clean.chars().take(LONGEST - mark.len()).collect();
    kept + &mark
}

/// FNV-1a: stable across machines and releases, as names must be.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_prefix_and_fit_everywhere() {
        let naming = Naming::prefixed("git");
        assert_eq!(naming.shown("status").as_deref(), Some("git__status"));
        assert_eq!(Naming::default().shown("a.b/c").as_deref(), Some("a.b/c"), "a single server keeps its names");
        let odd = naming.shown("a.b/ü").unwrap();
        assert!(odd.starts_with("git__a_b___") && odd.len() <= 64, "{odd}");
        assert_ne!(odd, naming.shown("a_b/ü").unwrap(), "similar names stay distinct");
        let (long, longer) = (naming.shown(&"x".repeat(64)).unwrap(), naming.shown(&"x".repeat(65)).unwrap());
        assert_eq!((long.len(), longer.len()), (64, 64));
        assert_ne!(long, longer);
        assert_eq!(long, naming.shown(&"x".repeat(64)).unwrap(), "a shortened name is stable");
    }

    #[test]
    fn renamed_and_hidden_names() {
        let naming = Naming {
            renamed: BTreeMap::from([("status".to_owned(), "how_is_it".to_owned())]),
            hidden: vec![Pattern("push*".to_owned())],
            ..Naming::prefixed("git")
        };
        assert_eq!(naming.shown("status").as_deref(), Some("how_is_it"));
        assert_eq!(naming.shown("push_force"), None);
        let naming = Naming { only: vec![Pattern("log".to_owned())], ..Naming::default() };
        assert_eq!((naming.shown("log").as_deref(), naming.shown("diff")), (Some("log"), None));
    }

    #[test]
    fn a_shown_name_fits_its_own_prefix_best() {
        let fits = |prefix: Option<&str>, shown| prefix.map_or_else(Naming::default, Naming::prefixed).fits(shown);
        assert_eq!((fits(Some("a"), "b__x"), fits(None, "b__x")), (None, Some(0)));
        assert!(fits(Some("a__b"), "a__b__x") > fits(Some("a"), "a__b__x"));
        let renamed = BTreeMap::from([("status".to_owned(), "how_is_it".to_owned())]);
        assert!(Naming { renamed, ..Naming::prefixed("git") }.fits("how_is_it").is_some());
    }
}
