//! `[a2e]`: who may come in, what agents get to use, and within which bounds.

mod mistakes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gladhand_a2e_host::owner;
use gladhand_core::Secret;
use gladhand_core::negotiation::NAMED;
use gladhand_dialects::Pass;
use serde::{Deserialize, Serialize};

use super::policy::Schema;
use super::{Hidden, masked_all, secrets};
use crate::edges::http::AgentLimits;

/// Settings of the A2E dialect.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct A2eConfig {
    /// Tokens that open everything to anybody. With neither these nor agents, any token is accepted.
    #[serde(deserialize_with = "secrets", serialize_with = "masked_all")]
    pub tokens: Vec<Secret>,
    /// `[[a2e.agents]]`: tokens of single agents, and what they open.
    pub agents: Vec<AgentPass>,
    /// How many calls of one session run at once.
    pub max_parallel: u32,
    /// How many sessions may be open over HTTP. As many again may wait for their handshake.
    pub sessions: usize,
    /// After how many minutes without use, and without anybody reading or waiting, a session over HTTP ends.
    pub idle_minutes: u64,
    /// A session over HTTP ends if its handshake has not come after this many seconds.
    pub handshake_seconds: u64,
    /// The capabilities that there are beside `tools`. Unless it is said: all that can do no harm as they are configured.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// The folders that processes, programs of `env` and registered MCP servers start in, that skills must be in, and that
    /// registered MCP servers are told of.
    pub roots: Vec<PathBuf>,
    /// The folder of the configuration file. Agents name a program as `allowed` and `commands` have it, so these stay as
    /// they are written, and their relative paths begin here.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    /// A token that no agent has. It is asked for while a change that asks for the first token is not trusted yet.
    #[serde(skip)]
    pub(crate) lock: Option<Secret>,
    /// `[a2e.proc]`
    pub proc: ProcConfig,
    /// `[a2e.memory]`
    pub memory: MemoryConfig,
    /// `[a2e.skill]`
    pub skill: SkillConfig,
    /// `[a2e.env]`
    pub env: EnvConfig,
    /// `[a2e.learning]`
    pub learning: LearningConfig,
    /// `[a2e.mcp]`
    pub mcp: RegistrationConfig,
    /// `[[a2e.toolkits]]`: bundles of tools that agents configure together.
    pub toolkits: Vec<ToolkitConfig>,
}

impl Default for A2eConfig {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            agents: Vec::new(),
            max_parallel: 4,
            sessions: AgentLimits::default().sessions,
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
    pub(crate) fn starts_programs(&self) -> bool {
        let Self { proc, skill, env, mcp, .. } = self;
        !proc.allowed.is_empty() || skill.path.is_some() || !env.commands.is_empty() || !mcp.commands.is_empty()
    }

    /// What lets agents in, with one more token that is good for anybody.
    pub fn passes(&self, also: Option<Secret>) -> Vec<Pass> {
        let anybody = self.tokens.iter().cloned().chain(also).map(unnamed_pass);
        let mut passes: Vec<_> = anybody.chain(self.agents.iter().map(AgentPass::pass)).collect();
        if passes.is_empty() {
            passes.extend(self.lock.clone().map(unnamed_pass));
        }
        passes
    }

    /// Whether the section asks agents for a token.
    pub(crate) fn is_required(&self) -> bool {
        !self.tokens.is_empty() || !self.agents.is_empty()
    }

    /// The bounds on sessions over HTTP.
    pub fn limits(&self) -> AgentLimits {
        AgentLimits {
            sessions: self.sessions,
            idle: Duration::from_secs(self.idle_minutes * 60),
            handshake: Duration::from_secs(self.handshake_seconds),
        }
    }

    /// The capabilities that there are. Who may start no program, or has no skills, has no use for the word.
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

/// A token that is good for any agent. Without a name of its own, it is a principal of its own.
pub(crate) fn unnamed_pass(token: Secret) -> Pass {
    Pass { principal: Some(owner::of_token(&token)), ..Pass::any(token) }
}

/// The capabilities of A2E beside `tools`, which are always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
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
    /// What is remembered.
    Memory,
    /// What is learned from experience.
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

    /// As it goes over the wire.
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

/// `[[a2e.agents]]`: a token of one agent, and what it opens.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AgentPass {
    /// What the agent calls itself (`agent_id`).
    pub id: String,
    /// The token that it must present.
    pub token: Hidden,
    /// The capabilities that it opens; unless it is said, all that there are.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// Whom it stands for. Agents of one principal share plans, learning and semantic memory. Default: the id.
    pub principal: Option<String>,
}

impl AgentPass {
    fn pass(&self) -> Pass {
        let names = |names: &Vec<CapabilityName>| names.iter().map(|name| name.word().to_owned()).collect();
        Pass {
            token: self.token.0.clone(),
            client: Some(self.id.clone()),
            capabilities: self.capabilities.as_ref().map(names),
            principal: Some(format!("{NAMED}{}", self.principal.as_ref().unwrap_or(&self.id)).into()),
        }
    }
}

/// `[a2e.proc]`: processes that agents start.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcConfig {
    /// The words that may be the first of a command, literally.
    pub allowed: Vec<String>,
    /// Names of variables that agents may set for a process, beside those of language, time zone and terminal.
    pub variables: Vec<String>,
    /// How many processes of one session may run at once.
    pub max: usize,
    /// How many seconds a process may run, whatever its agent says; 0: as long as its session.
    pub timeout: u64,
    /// How many bytes of output a process may make before it is ended.
    pub output_bytes: u64,
}

impl Default for ProcConfig {
    fn default() -> Self {
        Self { allowed: Vec::new(), variables: Vec::new(), max: 8, timeout: 0, output_bytes: 64 << 20 }
    }
}

/// `[a2e.memory]`: how much is remembered.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryConfig {
    /// Entries that a session may have in working memory.
    pub working_entries: usize,
    /// Their bytes.
    pub working_bytes: u64,
    /// Bytes that the working memories of all sessions may have together.
    pub working_total_bytes: u64,
    /// Entries that an agent may have in episodic memory.
    pub episodic_entries: usize,
    /// Their bytes.
    pub episodic_bytes: u64,
    /// Entries that all agents together may have in semantic memory.
    pub semantic_entries: usize,
    /// Their bytes.
    pub semantic_bytes: u64,
    /// Bytes of one entry.
    pub entry_bytes: u64,
    /// Bytes of everything that is kept.
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

/// `[a2e.skill]`: where skills are.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SkillConfig {
    /// The folder in which each folder is a skill; without it there are none.
    pub path: Option<PathBuf>,
}

/// `[a2e.env]`: environments beside our own.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvConfig {
    /// Programs that are environments and speak JSON lines, by name, with their arguments.
    pub commands: BTreeMap<String, Vec<String>>,
}

/// `[a2e.learning]`: when experience becomes advice.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningConfig {
    /// After how many experiences it is looked at them again.
    pub adapt_every: usize,
    /// With how few nothing is concluded.
    pub min_experiences: usize,
    /// Below which confidence nothing is concluded.
    pub confidence_threshold: f64,
}

impl Default for LearningConfig {
    fn default() -> Self {
        Self { adapt_every: 100, min_experiences: 32, confidence_threshold: 0.3 }
    }
}

/// `[a2e.mcp]`: MCP servers that agents may register.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrationConfig {
    /// Programs that may be started for it, literally.
    pub commands: Vec<String>,
    /// Where they may be: addresses of the origin of one of these, whose path begins with its.
    pub urls: Vec<String>,
}

/// `[[a2e.toolkits]]`: a bundle of tools that agents configure together.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitConfig {
    /// What it is called.
    pub name: String,
    /// A shorter name for it, which does as well.
    #[serde(default)]
    pub alias: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// What kind of toolkit it is.
    #[serde(default)]
    pub category: String,
    /// Words that it is found by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Its tools, by the names under which they are shown.
    pub tools: Vec<String>,
    /// A JSON Schema that its configuration must satisfy; without it there is nothing to configure.
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
    fn agents_get_what_their_tokens_open() {
        let config = read(
            "[a2e]\ntokens = ['everything']\n[[a2e.agents]]\nid = 'ann'\ntoken = 'hush'\n\
             capabilities = ['tools', 'multi_agent']\n[[a2e.agents]]\nid = 'bob'\ntoken = 'hist'\n",
        );
        let passes = config.passes(Some(Secret::new("variable")));
        let seen: Vec<_> = passes
            .iter()
            .map(|pass| (pass.token.expose(), pass.client.as_deref(), pass.capabilities.clone()))
            .collect();
        let opened = Some(vec!["tools".to_owned(), "multi_agent".to_owned()]);
        assert_eq!(
            seen,
            [
                ("everything", None, None),
                ("variable", None, None),
                ("hush", Some("ann"), opened),
                ("hist", Some("bob"), None)
            ]
        );
        let principals: Vec<_> = passes.iter().filter_map(|pass| pass.principal.as_deref()).collect();
        assert_eq!(principals.len(), 4);
        assert_eq!(principals[2..], ["named:ann", "named:bob"]);
        assert!(principals[0].starts_with("token:") && principals[0] != principals[1], "{principals:?}");
        assert!(!format!("{config:?}").contains("hush"));
        assert!(!serde_json::to_string(&config).unwrap().contains("hush"));
    }

    #[test]
    fn words_of_capabilities_are_those_of_the_wire() {
        for name in CapabilityName::ALL {
            assert_eq!(serde_json::to_value(name).unwrap(), name.word());
            assert!(gladhand_dialects::a2e::capabilities::is_known(name.word()));
        }
    }

    #[test]
    fn what_could_do_harm_or_nothing_is_off_until_it_is_configured() {
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
        let (ours, usual) = (usual.limits(), AgentLimits::default());
        assert_eq!((ours.sessions, ours.idle, ours.handshake), (usual.sessions, usual.idle, usual.handshake));
    }
}
