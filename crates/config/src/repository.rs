//! `[repository]`: the tools that read repositories, and what they may read.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the repository tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RepositoryConfig {
    /// Whether the tools are enabled. Default: only for Fluxloop clients.
    pub enabled: Option<bool>,
    /// The only folders that they read. None: on stdio everything that the user may read, over HTTP nothing.
    pub roots: Vec<PathBuf>,
    /// The documentation that `faq` answers from; without it, our own.
    pub docs: Option<PathBuf>,
    /// A folder of further integration targets.
    pub recipes: Option<PathBuf>,
}
