//! Patterns of names: `*` matches any number of characters, every other character matches itself.

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
        matches(&self.0, name)
    }
}

/// Whether a pattern matches a whole name.
///
/// The first match of each piece between stars is as good as any later one, so the search never goes back. The time is
/// bounded by the length of the name times the number of pieces.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name) in [
            ("a", "a"),
            ("*", ""),
            ("*", "x"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("*b*", "abc"),
            ("a*c", "abbc"),
            ("a*b*a", "aba"),
            ("a*b*c", "aXbYc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("a", "ab"),
            ("a", ""),
            ("a*", "ba"),
            ("*c", "cb"),
            ("a*a", "a"),
            ("a*b*a", "abab"),
            ("a*b*c", "acb"),
            ("ab*ba", "aba"),
            ("", "x"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
