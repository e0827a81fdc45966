//! What a workbench is told about its surroundings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::process::family::Parent;
use crate::process::starting::Starter;

/// Gives the key for web search, when there is one. Asked at each search, because the key may come and go.
pub type KeyOfExa = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Where a workbench finds and puts things, and what it may touch.
#[derive(Clone)]
pub struct Settings {
    /// Custom tools are in `tools` below it, scripts in `js-runtime`.
    pub data: PathBuf,
    /// Folders that file tools use freely besides that of the session. Shell and scripts are not bound by it.
    pub roots: Vec<PathBuf>,
    /// Folders that file tools only read freely.
    pub readable: Vec<PathBuf>,
    /// Paths that file tools use only with approval, besides `data` and the known places of secrets.
    pub sensitive: Vec<PathBuf>,
    /// What no file tool reads or writes, wherever it is: our own keys.
    pub private: Vec<PathBuf>,
    /// The variables that processes are given at first.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where web search is asked, without `/search`.
    pub exa_base: String,
    /// The key for it.
    pub exa_key: KeyOfExa,
    /// Whether there are tools beyond those that every client expects.
    pub extras: bool,
    /// How programs are started.
    pub starter: Arc<dyn Starter>,
}

impl Settings {
    /// File tools keep to the session's folder, programs are our own children in our own environment, and there is no key for web search.
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
            starter: Arc::new(Parent),
        }
    }
}

impl std::fmt::Debug for Settings {
    // The environment and the key may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("data", &self.data)
            .field("roots", &self.roots)
            .field("exa_base", &self.exa_base)
            .field("extras", &self.extras)
            .finish_non_exhaustive()
    }
}
