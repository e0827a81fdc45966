//! How a session with an upstream is to be had.

use std::sync::Arc;
use std::time::Duration;

use gladhand_accord::{Capability, Peer, Secret};
use gladhand_auth::Roots;
use gladhand_dialects::{Dialect, REGISTRY, mcp};
use gladhand_hub::policy::Violations;
use gladhand_operations::Level;
use gladhand_wire::RawValue;
use gladhand_wire::lines::MAX_LINE;
use http::HeaderMap;

use super::eras::Eras;
use crate::edges::http_client::Authorizer;
use crate::edges::surroundings::Surroundings;

/// How to open a session, and what to declare in it.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the upstream is called in the log; by default what its program is called.
    pub name: Option<String>,
    /// Who we are.
    pub identity: Peer,
    /// What to speak.
    pub speak: Speak,
    /// What our host can answer, in the dialect's words: `roots`, `sampling`, `elicitation`, `elicitation.url`,
    /// `extensions.io.modelcontextprotocol/tasks` …, with settings.
    pub provides: Vec<(Capability, Option<Box<RawValue>>)>,
    /// Whether to hear of changed lists, also where that takes a stream of its own.
    pub listen: bool,
    /// From which level on log lines are wanted; `None`: as the upstream likes.
    pub log_level: Option<Level>,
    /// How long the opening may take.
    pub opening_timeout: Duration,
    /// How long a call may take without a sign of life; `None`: as long as it likes.
    pub call_timeout: Option<Duration>,
    /// Headers that every HTTP request carries.
    pub headers: HeaderMap,
    /// Where authorization comes from, on HTTP.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Whose certificates are trusted, on HTTPS, beside those that the system trusts.
    pub roots: Roots,
    /// The token to present, in a dialect whose opening has one.
    pub token: Option<Secret>,
    /// As whom to present ourselves to a host of A2E; `None`: by the name of our identity.
    pub agent_id: Option<String>,
    /// The longest line or message that is taken from it, in bytes.
    pub line_bytes: usize,
    /// Variables of our environment that a process is not given.
    pub hidden: Vec<String>,
    /// What a process finds around it.
    pub surroundings: Surroundings,
    /// What is remembered of upstreams that were opened before.
    pub eras: Eras,
    /// What the upstream is called where what it does against what was negotiated is counted.
    pub called: String,
    /// Where that is counted, and what is done about it.
    pub violations: Arc<Violations>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
            speak: Speak::Auto,
            provides: Vec::new(),
            listen: false,
            log_level: None,
            opening_timeout: Duration::from_secs(30),
            call_timeout: None,
            headers: HeaderMap::new(),
            authorizer: None,
            roots: Roots::default(),
            token: None,
            agent_id: None,
            line_bytes: MAX_LINE,
            hidden: Vec::new(),
            surroundings: Surroundings::default(),
            eras: Eras::default(),
            called: String::new(),
            violations: Arc::default(),
        }
    }
}

/// What to speak to an upstream.
#[derive(Debug, Clone, Copy)]
pub enum Speak {
    /// Whatever the upstream turns out to speak.
    Auto,
    /// MCP, in whichever era the upstream turns out to be.
    Mcp,
    /// This dialect in this version, one of its own, and no other.
    As(&'static Dialect, &'static str),
}

impl Speak {
    /// The word for finding out.
    pub const AUTO: &'static str = "auto";

    /// What `auto`, `mcp` (of any era), `mcp@2025-06-18` or `a2e` mean; `None` for what we do not speak.
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
