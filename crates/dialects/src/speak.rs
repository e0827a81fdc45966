//! The dialect or revision to speak to a server, as users write it.

use crate::{Dialect, REGISTRY, mcp};

/// The dialect or revision to speak to a server.
#[derive(Debug, Clone, Copy)]
pub enum Speak {
    /// The dialect that the server is found to speak.
    Auto,
    /// MCP, in the era that the server is found to speak.
    Mcp,
    /// Exactly this dialect in this version.
    As(&'static Dialect, &'static str),
}

impl Speak {
    /// The keyword for automatic detection.
    pub const AUTO: &'static str = "auto";

    /// Parses `auto`, `mcp` (any era), `mcp@2025-06-18` or `a2e`. Returns `None` for an unknown dialect.
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case(Self::AUTO) {
            return Some(Self::Auto);
        }
        let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
        let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name.eq_ignore_ascii_case(name))?;
        if version.is_none() && dialect.name == mcp::DIALECT.name {
            return Some(Self::Mcp);
        }
        let mut versions = dialect.versions.iter().copied();
        let version = versions.find(|known| version.is_none_or(|version| version == *known))?;
        Some(Self::As(dialect, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_pins_and_the_bare_name_of_mcp_does_not() {
        assert!(matches!(Speak::parse("mcp"), Some(Speak::Mcp)));
        assert!(matches!(Speak::parse("Auto"), Some(Speak::Auto)));
        assert!(
            matches!(Speak::parse("MCP@2025-03-26"), Some(Speak::As(dialect, "2025-03-26")) if dialect.name == "mcp")
        );
        assert!(matches!(Speak::parse("a2e"), Some(Speak::As(dialect, _)) if dialect.name == "a2e"));
        assert!(Speak::parse("mcp@1999-01-01").is_none() && Speak::parse("telnet").is_none());
    }
}
