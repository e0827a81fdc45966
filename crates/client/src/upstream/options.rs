//! Options for opening a session with an upstream.

use std::sync::Arc;
use std::time::Duration;

use gladhand_auth::Roots;
use gladhand_core::Secret;
use gladhand_core::negotiation::{Capability, Peer};
use gladhand_core::operations::Level;
use gladhand_core::wire::RawValue;
use gladhand_core::wire::lines::MAX_LINE;
use gladhand_dialects::mcp::revision::Revision;
use gladhand_dialects::{Dialect, REGISTRY, Speak, mcp};
use gladhand_hub::policy::Violations;
use gladhand_session::tap::Tap;
use http::HeaderMap;

use super::eras::{Era, Eras, Verdict};
use super::target::Target;
use super::unsent_budget::UnsentBudget;
use crate::http_client::{Authorizer, ResponseBudget};
use gladhand_process::surroundings::Surroundings;

/// How to open a session, and what to declare in it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the upstream in the log. Default: the name of its program.
    pub name: Option<String>,
    /// The identity that we declare.
    pub identity: Peer,
    /// The dialect and version to speak.
    pub speak: Speak,
    /// The client for which the session is opened, if there is exactly one. An MCP server sees this identity. Other
    /// servers see our own.
    pub client: Option<Peer>,
    /// The revision of MCP that this client speaks.
    pub client_revision: Option<Revision>,
    /// Whether a person at this terminal answers server requests. A server of both eras may have requests that it can
    /// send only in the handshake era.
    pub has_person: bool,
    /// The client features that we declare, named as in the dialect: `roots`, `sampling`, `elicitation`, `elicitation.url`,
    /// `extensions.io.modelcontextprotocol/tasks` …, with settings.
    pub provides: Vec<(Capability, Option<Box<RawValue>>)>,
    /// Whether to receive list changes, even if that needs a separate stream.
    pub listen: bool,
    /// The lowest level of log lines to request. `None`: the upstream decides.
    pub log_level: Option<Level>,
    /// How long the opening may take.
    pub opening_timeout: Duration,
    /// How long a call may run without a sign of life. `None`: no limit.
    pub call_timeout: Option<Duration>,
    /// Headers that every HTTP request carries.
    pub headers: HeaderMap,
    /// Where authorization comes from, on HTTP.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Certificate authorities trusted for HTTPS, in addition to those of the system.
    pub roots: Roots,
    /// The token to present, in a dialect whose opening has one.
    pub token: Option<Secret>,
    /// The agent id for an A2E host. `None`: the name of our identity.
    pub agent_id: Option<String>,
    /// The longest line or message to accept, in bytes.
    pub line_bytes: usize,
    /// The memory limit for responses that arrive over HTTP. Upstreams served together share it.
    pub response_budget: ResponseBudget,
    /// The memory limit for lines that processes do not read. Upstreams served together share it.
    pub unsent: UnsentBudget,
    /// Environment variables that a process does not inherit.
    pub hidden: Vec<String>,
    /// The environment of a process.
    pub surroundings: Surroundings,
    /// Whether secrets in the target, in headers and in variables are masked in all messages of this process. For an upstream
    /// of a project file they are not: its author would choose what is masked.
    pub masked: bool,
    /// The remembered eras and dialects of upstreams.
    pub eras: Eras,
    /// The name under which violations of the upstream are counted.
    pub called: String,
    /// Counts violations, and decides what to enforce.
    pub violations: Arc<Violations>,
    /// The tap that every frame of the session passes.
    pub tap: Arc<Tap>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
            speak: Speak::Auto,
            client: None,
            client_revision: None,
            has_person: false,
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
            response_budget: ResponseBudget::default(),
            unsent: UnsentBudget::default(),
            hidden: Vec::new(),
            surroundings: Surroundings::default(),
            masked: true,
            eras: Eras::default(),
            called: String::new(),
            violations: Arc::default(),
            tap: Arc::default(),
        }
    }
}

impl Options {
    /// The revision of MCP to try first, and why.
    pub(super) fn preferred_revision(&self) -> (Revision, &'static str) {
        match self.client_revision {
            Some(own) => (own, "it is the client's own revision"),
            None if self.has_person => (Revision::HANDSHAKE[0], "a server can ask a person more in it"),
            None => (Revision::STATELESS[0], "it is the newest revision"),
        }
    }

    /// The dialect and version in which an upstream will be opened, as far as that is known from earlier sessions.
    pub fn expected(&self, target: &Target) -> Option<(&'static Dialect, &'static str)> {
        match self.eras.find(target)? {
            Verdict::Other(_) if matches!(self.speak, Speak::Mcp) => None,
            Verdict::Other(name) => {
                let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name == name)?;
                dialect.versions.first().map(|version| (dialect, *version))
            }
            Verdict::Mcp(spoken) => {
                let (preferred, _) = self.preferred_revision();
                let era = spoken.first(Era::of(preferred));
                let revision = if era == Era::of(preferred) { preferred } else { era.newest() };
                (spoken.has(era) == Some(true)).then(|| (&mcp::DIALECT, revision.as_str()))
            }
        }
    }
}
