//! The settings of a set of tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use gladhand_process::starting::{Family, Starter};

/// Returns the key for web search, if there is one. Called for each search, because the key may change.
pub type KeyOfExa = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The paths, permissions and environment of a set of tools.
#[derive(Clone)]
pub struct ToolSettings {
    /// The data folder: custom tools are in `tools` below it, scripts in `js-runtime`.
    pub data: PathBuf,
    /// Folders that file tools use freely, in addition to that of the session. Shell and scripts are not limited by it.
    pub roots: Vec<PathBuf>,
    /// Folders that file tools only read freely.
    pub readable: Vec<PathBuf>,
    /// Paths that file tools use only with approval, in addition to `data` and the known places of secrets.
    pub sensitive: Vec<PathBuf>,
    /// Paths that no file tool ever reads or writes: our own keys.
    pub private: Vec<PathBuf>,
    /// The initial environment variables of processes.
    pub environment: BTreeMap<OsString, OsString>,
    /// The base URL of web search, without `/search`.
    pub exa_base: String,
    /// The key for web search.
    pub exa_key: KeyOfExa,
    /// Whether to offer tools in addition to those that every client expects.
    pub extras: bool,
    /// How programs are started.
    pub starter: Arc<dyn Starter>,
}

impl ToolSettings {
    /// Defaults: file tools are limited to the session's folder, programs are children of this process with its
    /// environment, and there is no key for web search.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            roots: Vec::new(),
            readable: Vec::new(),
            sensitive: Vec::new(),
            private: Vec::new(),
            environment: std::env::vars_os().collect(),
            exa_base: "https://api.exa.ai".to_owned(),
            exa_key: Arc::new(|| None),
            extras: true,
            starter: Arc::new(Family),
        }
    }
}

impl std::fmt::Debug for ToolSettings {
    // The environment and the key may contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSettings")
            .field("data", &self.data)
            .field("roots", &self.roots)
            .field("exa_base", &self.exa_base)
            .field("extras", &self.extras)
            .finish_non_exhaustive()
    }
}
