//! Patterns over names, as policies, lists of variables and project files use them.

/// A name pattern: `*` matches any number of characters, every other character matches itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(pub String);

impl Pattern {
    /// The literal text that every matching name begins with.
    pub fn literal(&self) -> &str {
        self.0.split('*').next().unwrap_or_default()
    }

    /// Whether a name matches.
    pub fn fits(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut parts: Vec<_> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_a_whole() {
        for (pattern, name, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("*b*", "abc", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(Pattern(pattern.to_owned()).fits(name), fits, "{pattern} {name}");
        }
    }
}
