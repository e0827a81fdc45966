//! The configuration file: its location, its settings, and its mistakes with line and column.
//!
//! Order of precedence: flags over environment over file over defaults.

mod a2e;
mod agent;
mod authorization;
mod deserializer;
pub mod env;
mod error;
pub mod expand;
mod file;
mod hidden;
mod layers;
mod mistake;
mod own_files;
mod policy;
mod program_environment;
mod project;
mod reading;
mod relative_paths;
mod repository;
pub mod schema;
mod schema_check;
mod sections;
mod source;
pub mod spelling;
#[cfg(test)]
mod tests;
pub mod text;
mod trust;
mod untrusted_change;
mod upstreams;

use std::collections::BTreeMap;

pub use gladhand_redaction::MASK;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use a2e::{
    A2eConfig, AgentPass, CapabilityName, EnvConfig, LearningConfig, MemoryConfig, OWN_ENVIRONMENTS, ProcConfig,
    RegistrationConfig, SkillConfig, ToolkitConfig,
};
pub use agent::{AgentConfig, Approve, ProviderKeys};
pub use authorization::{AuthorizationConfig, DpopConfig, IssuerConfig, TokenConfig};
pub use env::{
    console_token_in_environment, mcp_token_in_environment, passphrase_in_environment, token_in_environment,
};
pub use error::{ConfigError, MOST_SHOWN, more};
pub use expand::Lookup;
pub use expand::is_malformed;
pub use file::{File, config_dir, data_dir, home_dir, read, users_file};
pub use hidden::Hidden;
pub use layers::ExaminedLayers;
pub use layers::{Layers, Loaded, PROJECT_FILE, Project, project_file, references};
pub use own_files::OwnFiles;
pub use policy::{AccessLogConfig, AuditConfig, PolicyConfig, ProfileConfig};
pub use program_environment::{ProgramEnvironment, usual};
pub use project::SetAside;
pub use reading::{Examined, MOST_UPSTREAMS, Reading, parse};
pub use repository::RepositoryConfig;
pub use sections::{HttpConfig, Limits, McpConfig, MetricsConfig, RecordConfig, TelemetryConfig, ToolboxConfig};
pub use source::{Problem, Source};
pub use trust::place;
pub use trust::{Grants, Standing, TrustRecord, TrustStore};
pub use upstreams::BUILT_IN;
pub use upstreams::{Inherit, Origin, UpstreamConfig, Upstreams};

/// The settings of the file. Every key has a default; unknown keys are mistakes.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "gladhand.toml")]
pub struct Config {
    /// Settings of the A2E dialect.
    pub a2e: A2eConfig,
    /// Bounds on every session.
    pub limits: Limits,
    /// Settings and bounds of HTTP.
    pub http: HttpConfig,
    /// Which clients are let in over HTTP.
    pub authorization: AuthorizationConfig,
    /// Rules, limits and checks of calls.
    pub policy: PolicyConfig,
    /// The records that are written for each call.
    pub audit: AuditConfig,
    /// One line for each call, for operators.
    pub access_log: AccessLogConfig,
    /// Numbers for Prometheus.
    pub metrics: MetricsConfig,
    /// Traces and metrics for a collector.
    pub telemetry: TelemetryConfig,
    /// Recordings of all sessions.
    pub record: RecordConfig,
    /// The tools that certain callers see. The first profile by name that matches a caller applies.
    pub profiles: BTreeMap<String, ProfileConfig>,
    /// Settings of the MCP dialect.
    pub mcp: McpConfig,
    /// Gladhand's own three tools.
    pub toolbox: ToolboxConfig,
    /// The tools that read repositories.
    pub repository: RepositoryConfig,
    /// The coding agent: its permissions, and the addresses of its models.
    pub agent: AgentConfig,
    /// The servers behind this one, each under its name.
    pub upstreams: Upstreams,
}
