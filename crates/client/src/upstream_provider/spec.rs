//! An upstream as it is configured, and its name for logs and files.

use std::path::PathBuf;
use std::time::Duration;

use gladhand_core::hex;
use ring::digest::{SHA256, digest};

use super::connection_budget::ConnectionBudget;
use crate::upstream::{Options, Target};

/// An upstream as it is configured.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The name of the upstream in the configuration.
    pub name: String,
    /// The address or command of the upstream.
    pub target: Target,
    /// How to open a session. The downstream client decides which client features are declared.
    pub options: Options,
    /// Whether every session gets a separate connection, regardless of the agreement.
    pub isolated: bool,
    /// The folders that clients over a network may name as their roots, where the upstream runs on this machine.
    pub client_roots: Vec<PathBuf>,
    /// The shared budget for connections that serve one caller only. Upstreams served together share it.
    pub connection_budget: ConnectionBudget,
    /// How long a list request waits for the upstream if its lists are unknown. `None`: until it has opened or failed,
    /// for an upstream without others beside it.
    pub list_wait: Option<Duration>,
    /// The file that remembers the upstream's lists between runs.
    pub remembered_in: Option<PathBuf>,
}

impl Spec {
    /// The usual [`Self::list_wait`] of one upstream of many.
    pub const USUAL_LIST_WAIT: Duration = Duration::from_secs(15);

    /// How long a list request waits for lists, apart from the opening.
    pub(super) fn longest_list_wait(&self) -> Duration {
        self.list_wait.unwrap_or(self.options.opening_timeout)
    }

    /// The name for logs and files. If the configured name is the command line, which may contain a secret, the label
    /// is the program name plus a hash that distinguishes it.
    pub(super) fn label(&self) -> String {
        match &self.target {
            Target::Command(words) if self.name == self.target.to_string() => {
                let program = words.first().map_or("", String::as_str);
                let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
                let hash = digest(&SHA256, self.name.as_bytes());
                format!("{program}#{}", hex::encode(&hash.as_ref()[..4]))
            }
            _ => self.name.clone(),
        }
    }
}
