//! `[a2e]`: who may come in, what agents get to use, and within which bounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gladhand_accord::Secret;
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
    /// How many sessions may be open over HTTP.
    pub sessions: usize,
    /// After how many minutes without use, and without anybody reading or waiting, a session over HTTP ends.
    pub idle_minutes: u64,
    /// How many seconds the handshake of a session over HTTP may be in coming.
    pub handshake_seconds: u64,
    /// The capabilities that there are beside `tools`. Unless it is said: all that can do no harm as they are configured.
    pub capabilities: Option<Vec<CapabilityName>>,
    /// The folders that `proc`, `env` and `skill` keep to, and that registered MCP servers are told of.
    pub roots: Vec<PathBuf>,
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
            handshake_seconds: 30,
            capabilities: None,
            roots: Vec::new(),
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
    /// What lets agents in, with one more token that is good for anybody.
    pub fn passes(&self, also: Option<Secret>) -> Vec<Pass> {
        let anybody = self.tokens.iter().cloned().chain(also).map(Pass::any);
        anybody.chain(self.agents.iter().map(AgentPass::pass)).collect()
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

    /// The folders that it names, and with which key.
    pub(crate) fn folders(&self) -> Vec<(&'static str, &Path)> {
        let roots = self.roots.iter().map(|root| ("a2e.roots", root.as_path()));
        roots.chain(self.skill.path.iter().map(|path| ("a2e.skill.path", path.as_path()))).collect()
    }

    /// The values that are out of range, and what they may be.
    pub(super) fn out_of_range(&self) -> Vec<(&'static str, &'static str)> {
        let many = |count: usize| ("from 1 to 1000000", (1..=1_000_000).contains(&count));
        let bytes = |count: u64| ("from 1024 to 1099511627776", (1024..=1 << 40).contains(&count));
        let (proc, memory, learning) = (&self.proc, &self.memory, &self.learning);
        let all = [
            ("a2e.max_parallel", ("at least 1", self.max_parallel >= 1)),
            ("a2e.sessions", many(self.sessions)),
            ("a2e.idle_minutes", ("from 1 to 10080", (1..=10_080).contains(&self.idle_minutes))),
            ("a2e.handshake_seconds", ("from 1 to 3600", (1..=3600).contains(&self.handshake_seconds))),
            ("a2e.proc.max", ("from 1 to 10000", (1..=10_000).contains(&proc.max))),
            ("a2e.proc.timeout", ("at most 604800", proc.timeout <= 604_800)),
            ("a2e.proc.output_bytes", bytes(proc.output_bytes)),
            ("a2e.memory.working_entries", many(memory.working_entries)),
            ("a2e.memory.episodic_entries", many(memory.episodic_entries)),
            ("a2e.memory.semantic_entries", many(memory.semantic_entries)),
            ("a2e.memory.working_bytes", bytes(memory.working_bytes)),
            ("a2e.memory.episodic_bytes", bytes(memory.episodic_bytes)),
            ("a2e.memory.semantic_bytes", bytes(memory.semantic_bytes)),
            ("a2e.memory.entry_bytes", bytes(memory.entry_bytes)),
            ("a2e.memory.total_bytes", bytes(memory.total_bytes)),
            ("a2e.learning.adapt_every", many(learning.adapt_every)),
            ("a2e.learning.min_experiences", many(learning.min_experiences)),
            (
                "a2e.learning.confidence_threshold",
                ("from 0 to 1", (0.0..=1.0).contains(&learning.confidence_threshold)),
            ),
        ];
        all.into_iter().filter(|(_, (_, fits))| !fits).map(|(key, (expected, _))| (key, expected)).collect()
    }

    /// What is wrong in itself, and with which key.
    pub(super) fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = Vec::new();
        for (name, command) in &self.env.commands {
            if command.first().is_none_or(String::is_empty) {
                mistakes.push(("a2e.env.commands", format!("the command of `{name}` names no program")));
            }
        }
        for (index, toolkit) in self.toolkits.iter().enumerate() {
            if toolkit.name.is_empty() || toolkit.tools.is_empty() {
                let problem = format!("the toolkit #{} needs a `name`, and one tool at least", index + 1);
                mistakes.push(("a2e.toolkits", problem));
            }
            if self.toolkits[..index].iter().any(|earlier| earlier.name == toolkit.name) {
                mistakes.push(("a2e.toolkits", format!("there are two toolkits `{}`", toolkit.name)));
            }
        }
        for url in self.mcp.urls.iter().filter(|url| url::Url::parse(url).is_err()) {
            mistakes.push(("a2e.mcp.urls", format!("`{url}` is no address")));
        }
        let tokens = self.tokens.iter().chain(self.agents.iter().map(|agent| &agent.token.0));
        if tokens.into_iter().any(|token| token.expose().starts_with("${")) {
            let problem =
                "a token stands here as it is: references are not read (GLADHAND_A2E_TOKEN is one more token)";
            mistakes.push(("a2e", problem.to_owned()));
        }
        if self.agents.iter().any(|agent| agent.token.0.expose().is_empty()) {
            mistakes.push(("a2e.agents", "a token must not be empty".to_owned()));
        }
        mistakes
    }
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
}

impl AgentPass {
    fn pass(&self) -> Pass {
        let names = |names: &Vec<CapabilityName>| names.iter().map(|name| name.word().to_owned()).collect();
        Pass {
            token: self.token.0.clone(),
            client: Some(self.id.clone()),
            capabilities: self.capabilities.as_ref().map(names),
        }
    }
}

/// `[a2e.proc]`: processes that agents start.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcConfig {
    /// The words that may be the first of a command, literally.
    pub allowed: Vec<String>,
    /// How many processes of one session may run at once.
    pub max: usize,
    /// How many seconds a process may run, whatever its agent says; 0: as long as its session.
    pub timeout: u64,
    /// How many bytes of output a process may make before it is ended.
    pub output_bytes: u64,
}

impl Default for ProcConfig {
    fn default() -> Self {
        Self { allowed: Vec::new(), max: 8, timeout: 0, output_bytes: 64 << 20 }
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
    use super::super::{Config, Problem, Reading, parse};
    use super::*;

    fn read(text: &str) -> A2eConfig {
        parse(text, Reading::AsWritten).unwrap().a2e
    }

    fn problems(text: &str) -> String {
        let problems = parse(text, Reading::AsWritten).unwrap_err();
        problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
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
    fn everything_that_is_wrong_is_told_with_its_place_and_without_secrets() {
        let text = "[a2e]\nsessions = 0\nidle_minutes = 0\ncapabilities = ['memroy']\n\
                    [[a2e.agents]]\ntoken = 'hush'\n[[a2e.agents]]\nid = 'x'\ntoken = 5\n\
                    [a2e.proc]\nmax = 0\nalowed = []\n[a2e.learning]\nconfidence_threshold = 2.0\n\
                    [a2e.env]\ncommands = { chess = [] }\n\
                    [[a2e.toolkits]]\nname = 'k'\ntools = ['a']\nschema = { type = 7 }\n";
        let expected = "\
line 2, column 1: a2e.sessions: must be from 1 to 1000000
line 3, column 1: a2e.idle_minutes: must be from 1 to 10080
line 4, column 17: a2e.capabilities: `memroy` cannot be said here: expected `tools`, `toolkits`, `skill`, `env`, `proc`, `memory`, `learning`, `chains`, `mcp`, `multi_agent` or `planning`
line 5, column 1: a2e.agents#1: `id` is missing
line 9, column 9: a2e.agents#2.token: expected a string
line 11, column 1: a2e.proc.max: must be from 1 to 10000
line 12, column 1: a2e.proc.alowed: there is no key `alowed`: did you mean `allowed`?
line 14, column 1: a2e.learning.confidence_threshold: must be from 0 to 1
line 16, column 1: a2e.env.commands: the command of `chess` names no program";
        let found = problems(text);
        assert!(!found.contains("hush"), "{found}");
        let (found, schema) = found.rsplit_once('\n').unwrap();
        assert_eq!(found, expected);
        assert!(
            schema.starts_with("line 20, column 10: a2e.toolkits#1.schema: this schema cannot be used"),
            "{schema}"
        );
        assert_eq!(
            problems("[[a2e.toolkits]]\nname = 'k'\ntools = []\n[[a2e.toolkits]]\nname = 'k'\ntools = ['a']\n"),
            "line 1, column 7: a2e.toolkits: the toolkit #1 needs a `name`, and one tool at least\n\
             line 1, column 7: a2e.toolkits: there are two toolkits `k`"
        );
    }

    #[test]
    fn defaults_are_the_same_in_the_file_and_without_one() {
        let (read, usual) = (read("[a2e.proc]\n[a2e.memory]\n"), Config::default().a2e);
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&usual).unwrap());
        let (ours, usual) = (usual.limits(), AgentLimits::default());
        assert_eq!((ours.sessions, ours.idle, ours.handshake), (usual.sessions, usual.idle, usual.handshake));
    }
}
