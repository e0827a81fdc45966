//! The scopes that individual tools need.

use gladhand_core::pattern;

use crate::scopes::Scopes;

/// Scopes by patterns of tool names. `*` matches any text; the scopes of all matching patterns add up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolScopes(Vec<(String, Scopes)>);

impl ToolScopes {
    /// Whether no tool needs additional scopes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All scopes that at least one tool needs.
    pub fn all(&self) -> Scopes {
        self.needed(|_| true)
    }

    /// The scopes that a tool needs.
    pub(crate) fn of(&self, tool: &str) -> Scopes {
        self.needed(|pattern| pattern::matches(pattern, tool))
    }

    fn needed(&self, counts: impl Fn(&str) -> bool) -> Scopes {
        let mut needed = Scopes::default();
        for (pattern, scopes) in &self.0 {
            if counts(pattern) {
                needed.add(scopes);
            }
        }
        needed
    }
}

impl<S: Into<String>> FromIterator<(S, Scopes)> for ToolScopes {
    fn from_iter<I: IntoIterator<Item = (S, Scopes)>>(tools: I) -> Self {
        Self(tools.into_iter().map(|(pattern, scopes)| (pattern.into(), scopes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_several_patterns_add_up() {
        let scopes = |list: &str| Scopes::parse(list);
        let tools: ToolScopes =
            [("repo_*", scopes("repo")), ("*_delete", scopes("admin repo")), ("echo", scopes("talk"))]
                .into_iter()
                .collect();
        assert_eq!(tools.of("repo_delete"), scopes("repo admin"));
        assert_eq!(tools.of("wait"), Scopes::default());
        assert_eq!(tools.all(), scopes("repo admin talk"));
    }
}
