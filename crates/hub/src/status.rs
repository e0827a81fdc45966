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
    pub ways: usize,
    /// Calls under way.
    pub calls: usize,
    /// How often it had to be opened again.
    pub restarts: u64,
    /// Tools that it has.
    pub tools: usize,
    /// What it did against what was negotiated.
    #[serde(default)]
    pub offences: Vec<Offence>,
}
