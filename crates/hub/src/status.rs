//! Status reports for people.

use serde::{Deserialize, Serialize};

use crate::claims::Conflict;
use crate::policy::Handling;

/// The status of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubStatus {
    /// Sessions with downstreams.
    pub sessions: usize,
    /// Tools that are shown.
    pub tools: usize,
    /// The status of the upstreams, in display order.
    pub upstreams: Vec<UpstreamStatus>,
    /// The reaction to protocol violations.
    #[serde(default)]
    pub violations: Handling,
    /// Protocol violations of downstreams.
    #[serde(default)]
    pub offences: Vec<Offence>,
    /// Names that providers offered, but that belong to other providers.
    #[serde(default)]
    pub conflicts: Vec<Conflict>,
}

/// How often a peer broke a rule of the negotiated protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offence {
    /// The name of the peer.
    pub who: String,
    /// The rule's name.
    pub rule: String,
    /// The number of violations.
    pub count: u64,
}

/// The status of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// The configured name.
    pub name: String,
    /// The address or command, without secrets.
    pub target: String,
    /// `idle` (not started yet), `opening`, `open`, or `failed`.
    pub state: String,
    /// If it failed, whether it cannot be opened before the configuration or the environment changes: a variable or a secret is
    /// missing.
    #[serde(default)]
    pub unavailable: bool,
    /// If it is open, the server's name and version; if it failed, the reason; if it is opening, for how long.
    pub detail: Option<String>,
    /// Processes that this process started for it.
    pub processes: Vec<u32>,
    /// Open sessions with it, whether they have a process or not.
    #[serde(rename = "ways")]
    pub connections: usize,
    /// Calls in progress.
    pub calls: usize,
    /// How often it was reopened.
    pub restarts: u64,
    /// Tools that it has.
    pub tools: usize,
    /// If it is open and some lists are unknown, the reasons.
    #[serde(default)]
    pub unlisted: Vec<String>,
    /// If it is an open process, the last lines of its stderr.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
    /// Protocol violations of this upstream.
    #[serde(default)]
    pub offences: Vec<Offence>,
}

/// A session with a downstream, or all requests of a transport that use no session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The number of the session; `None` for requests without a session.
    pub session: Option<u64>,
    /// The client; empty before the opening has ended. Requests without a session may come from several clients.
    pub clients: Vec<ClientStatus>,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// Number of calls so far.
    pub calls: u64,
    /// Number of running calls.
    pub under_way: usize,
    /// The running calls one by one, up to a limit.
    pub running: Vec<RunningCall>,
    /// Number of ended calls that were not answered at once.
    #[serde(default)]
    pub waited_calls: u64,
    /// How long these calls took in total, in microseconds.
    #[serde(default)]
    pub waited_us: u64,
}

/// A client as it introduced itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// The declared name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The authenticated principal, if any.
    pub principal: Option<String>,
    /// The dialect that it speaks.
    pub dialect: String,
    /// The revision of the dialect.
    pub revision: String,
}

/// A running call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCall {
    /// The kind of call: `tool`, `resource`, `subscription`, `prompt`, `completion`, `capability`, `agent` or `list`.
    pub kind: String,
    /// Its name, at most 64 bytes of it.
    pub name: String,
    /// How long it has been running.
    pub seconds: u64,
}
