//! How things stand, for people who look.

use serde::{Deserialize, Serialize};

use crate::claims::Conflict;
use crate::policy::Handling;

/// How a hub stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubStatus {
    /// Sessions with downstreams.
    pub sessions: usize,
    /// Tools that are shown.
    pub tools: usize,
    /// What its upstreams are doing, in the order in which they are shown.
    pub upstreams: Vec<UpstreamStatus>,
    /// What is done about violations.
    #[serde(default)]
    pub violations: Handling,
    /// What downstreams did against what was negotiated.
    #[serde(default)]
    pub offences: Vec<Offence>,
    /// Names that providers offered and that belong to others.
    #[serde(default)]
    pub conflicts: Vec<Conflict>,
}

/// How often a peer broke a rule of what was negotiated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offence {
    /// What the peer is called.
    pub who: String,
    /// The rule's name.
    pub rule: String,
    /// How often.
    pub count: u64,
}

/// How an upstream stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// What it is called here.
    pub name: String,
    /// Where it is; nothing secret.
    pub target: String,
    /// `idle` (not started yet), `open`, or `failed`.
    pub state: String,
    /// Who and what it is when it is open; why not when it failed.
    pub detail: Option<String>,
    /// Processes that we started for it.
    pub processes: Vec<u32>,
    /// Open sessions with it, processes or not.
    #[serde(rename = "ways")]
    pub connections: usize,
    /// Calls under way.
    pub calls: usize,
    /// How often it had to be opened again.
    pub restarts: u64,
    /// Tools that it has.
    pub tools: usize,
    /// Why it has lists that are not known, though it is open.
    #[serde(default)]
    pub unlisted: Vec<String>,
    /// What it did against what was negotiated.
    #[serde(default)]
    pub offences: Vec<Offence>,
}

/// A session with a downstream, or all requests of a transport that use no session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number; none for requests without a session.
    pub session: Option<u64>,
    /// The client; none before the opening has ended. Requests without a session may come from several.
    pub clients: Vec<ClientStatus>,
    /// When it began, in seconds since 1970.
    pub since: u64,
    /// Calls that it has made.
    pub calls: u64,
    /// Calls that run.
    pub under_way: usize,
    /// The same calls one by one, as far as there is room.
    pub running: Vec<RunningCall>,
}

/// A client, as it introduced itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// The name that it gave itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The principal that it proved to be, if any.
    pub principal: Option<String>,
    /// The dialect that it speaks.
    pub dialect: String,
    /// The revision of the dialect.
    pub revision: String,
}

/// A call that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningCall {
    /// The kind of call: `tool`, `resource`, `subscription`, `prompt`, `completion`, `capability`, `agent` or `list`.
    pub kind: String,
    /// Its name, at most 64 bytes of it.
    pub name: String,
    /// How long it has been running.
    pub seconds: u64,
}
