//! `[a2e]`: which agents may connect, which capabilities they get, and the limits on them.

mod mistakes;

pub use mistakes::OWN_ENVIRONMENTS;

use std::collections::BTreeMap;
use std::path::PathBuf;

use gladhand_core::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Hidden;
use super::hidden::{masked_all, secrets};
use super::policy::Schema;

/// Settings of the A2E dialect.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct A2eConfig {
    /// Tokens that grant every capability to any agent. Without these and without `agents`, any token is accepted.
    #[serde(deserialize_with = "secrets", serialize_with = "masked_all")]
    #[schemars(with = "Vec<String>")]
    pub tokens: Vec<Secret>,
    /// Tokens of single agents, and the capabilities that each token grants.
    pub agents: Vec<AgentPass>,
    /// How many calls of one session run at once.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_parallel: u32,
    /// How many sessions may be open over HTTP. As many again may wait for their handshake.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sessions: usize,
    /// Close an HTTP session after this many minutes without a request, an open stream or a pending call.
    #[schemars(range(min = 1, max = 10_080))]
    pub idle_minutes: u64,
    /// A session over HTTP ends if its handshake has not come after this many seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub handshake_seconds: u64,
    /// Enabled capabilities besides `tools`. Default: all that are safe with the current configuration.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// The folders in which processes, programs of `env` and registered MCP servers start. Skills must be inside them.
    /// Registered MCP servers get them as roots.
    pub roots: Vec<PathBuf>,
    /// The folder of the configuration file. Agents name a program exactly as `allowed` and `commands` spell it. So
    /// these paths keep their spelling, and relative ones are resolved against this folder.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    /// A token that no agent has. The endpoint requires it while a change that adds the first token is not trusted yet.
    #[serde(skip)]
    pub lock: Option<Secret>,
    /// Processes that agents start.
    pub proc: ProcConfig,
    /// Limits on memory.
    pub memory: MemoryConfig,
    /// The location of skills.
    pub skill: SkillConfig,
    /// Environments in addition to the built-in ones.
    pub env: EnvConfig,
    /// When experience becomes advice.
    pub learning: LearningConfig,
    /// MCP servers that agents may register.
    pub mcp: RegistrationConfig,
    /// Bundles of tools that agents configure together.
    pub toolkits: Vec<ToolkitConfig>,
}

impl Default for A2eConfig {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            agents: Vec::new(),
            max_parallel: 4,
            sessions: 2000,
            idle_minutes: 30,
            handshake_seconds: 10,
            capabilities: None,
            roots: Vec::new(),
            folder: None,
            lock: None,
            proc: ProcConfig::default(),
            memory: MemoryConfig::default(),
            skill: SkillConfig::default(),
            env: EnvConfig::default(),
            learning: LearningConfig::default(),
            mcp: RegistrationConfig::default(),
            toolkits: Vec::new(),
        }
    }
}

impl A2eConfig {
    /// Whether a capability starts programs of this machine for an agent: processes, skills, environments or MCP servers.
    pub fn starts_programs(&self) -> bool {
        let Self { proc, skill, env, mcp, .. } = self;
        !proc.allowed.is_empty() || skill.path.is_some() || !env.commands.is_empty() || !mcp.commands.is_empty()
    }

    /// Whether the section asks agents for a token.
    pub fn is_required(&self) -> bool {
        !self.tokens.is_empty() || !self.agents.is_empty()
    }

    /// The enabled capabilities. By default, `proc`, `skill` and `toolkits` are disabled until they are configured.
    pub fn enabled(&self) -> Vec<CapabilityName> {
        let is_of_use = |name: &CapabilityName| match name {
            CapabilityName::Proc => !self.proc.allowed.is_empty(),
            CapabilityName::Skill => self.skill.path.is_some(),
            CapabilityName::Toolkits => !self.toolkits.is_empty(),
            _ => true,
        };
        let of_use = || CapabilityName::ALL.into_iter().filter(is_of_use).collect();
        self.capabilities.clone().unwrap_or_else(of_use)
    }
}

/// The capabilities of A2E. `tools` is always enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityName {
    /// Calls of tools.
    Tools,
    /// Bundles of tools that are configured together.
    Toolkits,
    /// Skill folders.
    Skill,
    /// Environments.
    Env,
    /// Processes.
    Proc,
    /// Memory.
    Memory,
    /// Learning from experience.
    Learning,
    /// Graphs of calls.
    Chains,
    /// MCP servers that agents register.
    Mcp,
    /// Agents that work for each other.
    MultiAgent,
    /// Plans and their tasks.
    Planning,
}

impl CapabilityName {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Tools,
        Self::Toolkits,
        Self::Skill,
        Self::Env,
        Self::Proc,
        Self::Memory,
        Self::Learning,
        Self::Chains,
        Self::Mcp,
        Self::MultiAgent,
        Self::Planning,
    ];

    /// The name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Toolkits => "toolkits",
            Self::Skill => "skill",
            Self::Env => "env",
            Self::Proc => "proc",
            Self::Memory => "memory",
            Self::Learning => "learning",
            Self::Chains => "chains",
            Self::Mcp => "mcp",
            Self::MultiAgent => "multi_agent",
            Self::Planning => "planning",
        }
    }
}

/// `[[a2e.agents]]`: a token of one agent, and the capabilities that it grants.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPass {
    /// The name that the agent gives itself (`agent_id`).
    pub id: String,
    /// The token that it must present.
    pub token: Hidden,
    /// The capabilities that the token grants. Default: all enabled capabilities.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// The principal of the agent. Agents of one principal share plans, learning and semantic memory. Default: the id.
    pub principal: Option<String>,
}

/// `[a2e.proc]`: processes that agents start.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcConfig {
    /// Words that are allowed as the first word of a command. They must match exactly.
    pub allowed: Vec<String>,
    /// Names of variables that agents may set for a process, in addition to language, time zone and terminal.
    pub variables: Vec<String>,
    /// How many processes of one session may run at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub max: usize,
    /// Longest run time of a process in seconds; an agent cannot raise it. 0: until the session ends.
    #[schemars(range(min = 0, max = 604_800))]
    pub timeout: u64,
    /// Bytes of output after which a process is killed.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub output_bytes: u64,
}

impl Default for ProcConfig {
    fn default() -> Self {
        Self { allowed: Vec::new(), variables: Vec::new(), max: 8, timeout: 0, output_bytes: 64 << 20 }
    }
}

/// `[a2e.memory]`: limits on memory.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// Entries that a session may have in working memory.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub working_entries: usize,
    /// Their bytes.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub working_bytes: u64,
    /// Bytes that the working memories of all sessions may have together.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub working_total_bytes: u64,
    /// Entries that an agent may have in episodic memory.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub episodic_entries: usize,
    /// Their bytes.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub episodic_bytes: u64,
    /// Entries that all agents together may have in semantic memory.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub semantic_entries: usize,
    /// Their bytes.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub semantic_bytes: u64,
    /// Bytes of one entry.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub entry_bytes: u64,
    /// Bytes of everything that is kept.
    #[schemars(range(min = 1024, max = 1_099_511_627_776u64))]
    pub total_bytes: u64,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            working_entries: 1000,
            working_bytes: 8 << 20,
            working_total_bytes: 256 << 20,
            episodic_entries: 10_000,
            episodic_bytes: 64 << 20,
            semantic_entries: 10_000,
            semantic_bytes: 256 << 20,
            entry_bytes: 1 << 20,
            total_bytes: 1 << 30,
        }
    }
}

/// `[a2e.skill]`: the location of skills.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SkillConfig {
    /// The folder that contains one folder per skill. Without it, there are no skills.
    pub path: Option<PathBuf>,
}

/// `[a2e.env]`: environments in addition to the built-in one.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EnvConfig {
    /// Programs that act as environments and speak JSON lines, by name, with their arguments.
    pub commands: BTreeMap<String, Vec<String>>,
}

/// `[a2e.learning]`: when experience becomes advice.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LearningConfig {
    /// Re-evaluate after this many experiences.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub adapt_every: usize,
    /// The smallest number of experiences that leads to a conclusion.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub min_experiences: usize,
    /// The lowest confidence that leads to a conclusion.
    #[schemars(range(min = 0, max = 1))]
    pub confidence_threshold: f64,
}

impl Default for LearningConfig {
    fn default() -> Self {
        Self { adapt_every: 100, min_experiences: 32, confidence_threshold: 0.3 }
    }
}

/// `[a2e.mcp]`: MCP servers that agents may register.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrationConfig {
    /// Programs that registration may start. They must match exactly.
    pub commands: Vec<String>,
    /// Allowed addresses of servers. An address must have the origin of an entry, and its path must begin with the path
    /// of that entry.
    pub urls: Vec<String>,
}

/// `[[a2e.toolkits]]`: a bundle of tools that agents configure together.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolkitConfig {
    /// The name.
    pub name: String,
    /// An alternative, shorter name.
    #[serde(default)]
    pub alias: String,
    /// The description.
    #[serde(default)]
    pub description: String,
    /// The category.
    #[serde(default)]
    pub category: String,
    /// Search terms.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Its tools, by the names under which they are shown.
    pub tools: Vec<String>,
    /// A JSON Schema for the toolkit's configuration. Without it, the toolkit has no configuration.
    pub schema: Option<Schema>,
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Reading, parse};
    use super::*;

    fn read(text: &str) -> A2eConfig {
        parse(text, Reading::AsWritten).unwrap().a2e
    }

    #[test]
    fn words_of_capabilities_are_those_of_the_wire() {
        for name in CapabilityName::ALL {
            assert_eq!(serde_json::to_value(name).unwrap(), name.word());
            assert!(gladhand_dialects::a2e::capabilities::is_known(name.word()));
        }
    }

    #[test]
    fn risky_capabilities_are_off_until_they_are_configured() {
        let enabled = |text: &str| read(text).enabled();
        let usual = enabled("");
        for off in [CapabilityName::Proc, CapabilityName::Skill, CapabilityName::Toolkits] {
            assert!(!usual.contains(&off), "{off:?}");
        }
        assert_eq!(usual.len(), 8);
        assert!(enabled("[a2e.proc]\nallowed = ['echo']").contains(&CapabilityName::Proc));
        assert!(enabled("[a2e.skill]\npath = 'skills'").contains(&CapabilityName::Skill));
        assert_eq!(enabled("[a2e]\ncapabilities = ['memory']"), [CapabilityName::Memory]);
    }

    #[test]
    fn defaults_are_the_same_in_the_file_and_without_one() {
        let (read, usual) = (read("[a2e.proc]\n[a2e.memory]\n"), Config::default().a2e);
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&usual).unwrap());
    }
}
