//! The configuration file: its location, its settings, and its mistakes with line and column.
//!
//! Order of precedence: flags over environment over file over defaults.

mod a2e;
mod agent;
mod anchor;
mod authorization;
pub mod expand;
mod held;
mod layers;
mod own_files;
mod policy;
mod project;
mod repository;
pub mod schema;
mod source;
pub mod spelling;
mod surroundings;
pub mod text;
mod trust;
mod upstreams;
mod words;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use gladhand_core::Secret;
pub use gladhand_redaction::MASK;
use gladhand_redaction::{Life, learn};
use serde::{Deserialize, Serialize};

pub use a2e::{
    A2eConfig, AgentPass, CapabilityName, EnvConfig, LearningConfig, MemoryConfig, OWN_ENVIRONMENTS, ProcConfig,
    RegistrationConfig, SkillConfig, ToolkitConfig,
};
pub use agent::{AgentConfig, Approve};
pub use authorization::{AuthorizationConfig, DpopConfig, IssuerConfig, TokenConfig};
pub use expand::Lookup;
pub use expand::is_malformed;
pub use layers::ExaminedLayers;
pub use layers::{Layers, Loaded, PROJECT_FILE, Project, references};
pub use own_files::OwnFiles;
pub use policy::{AuditConfig, PolicyConfig, ProfileConfig};
pub use project::SetAside;
pub use repository::RepositoryConfig;
use source::in_order;
pub use source::{Problem, Source};
pub use surroundings::{Surroundings, usual};
pub use trust::place;
pub use trust::{Grants, Standing, TrustRecord, TrustStore};
pub use upstreams::BUILT_IN;
pub use upstreams::{Hidden, Inherit, Origin, UpstreamConfig, Upstreams};

/// Environment variables that we read, named in one place.
pub mod env {
    use std::ffi::OsStr;

    /// The configuration file.
    pub const CONFIG: &str = "GLADHAND_CONFIG";
    /// The data folder.
    pub const DATA_DIR: &str = "GLADHAND_DATA_DIR";
    /// What to log.
    pub const LOG: &str = "GLADHAND_LOG";
    /// A token that A2E agents must present, and that `open --as a2e` presents.
    pub const A2E_TOKEN: &str = "GLADHAND_A2E_TOKEN";
    /// A bearer token that commands present to MCP servers over HTTP.
    pub const MCP_TOKEN: &str = "GLADHAND_MCP_TOKEN";
    /// The passphrase of the secret store.
    pub const PASSPHRASE: &str = "GLADHAND_PASSPHRASE";
    /// The configuration files of all outer instances, so that a nested instance can detect recursion.
    pub const WITHIN: &str = "GLADHAND_WITHIN";
    /// The address of the service that searches the web for the agent.
    pub const EXA_BASE: &str = "GLADHAND_EXA_BASE";
    /// The prefix of environment variables that hold secrets.
    pub const SECRET: &str = "GLADHAND_SECRET_";

    /// Whether this variable is withheld from every program that we start: upstreams, tools of the agent, the browser.
    pub fn is_never_passed_on(name: &OsStr) -> bool {
        [A2E_TOKEN, MCP_TOKEN, PASSPHRASE].iter().any(|ours| name == *ours)
            || name.as_encoded_bytes().starts_with(SECRET.as_bytes())
    }

    /// The variables of our environment that are withheld from every program.
    pub fn never_passed_on() -> Vec<String> {
        let names = std::env::vars_os().map(|(name, _)| name).filter(|name| is_never_passed_on(name));
        names.filter_map(|name| name.into_string().ok()).collect()
    }
}

/// The largest configuration file.
const LARGEST: u64 = 1024 * 1024;

/// How many upstreams a file has at most.
const MOST_UPSTREAMS: usize = 1000;

/// The settings of the file. Every key has a default; unknown keys are mistakes.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `[a2e]`
    pub a2e: A2eConfig,
    /// `[limits]`
    pub limits: Limits,
    /// `[http]`
    pub http: HttpConfig,
    /// `[authorization]`
    pub authorization: AuthorizationConfig,
    /// `[policy]`
    pub policy: PolicyConfig,
    /// `[audit]`
    pub audit: AuditConfig,
    /// `[profiles.NAME]`. The first profile by name that matches a caller applies.
    pub profiles: BTreeMap<String, ProfileConfig>,
    /// `[mcp]`
    pub mcp: McpConfig,
    /// `[toolbox]`
    pub toolbox: ToolboxConfig,
    /// `[repository]`
    pub repository: RepositoryConfig,
    /// `[agent]`
    pub agent: AgentConfig,
    /// `[upstreams.NAME]`
    pub upstreams: Upstreams,
}

/// Settings of the toolbox: our own three tools.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolboxConfig {
    /// Whether the toolbox is enabled.
    pub enabled: bool,
}

impl Default for ToolboxConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Settings of the MCP dialect.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Return an empty list instead of an error for unsupported list methods.
    pub empty_lists: bool,
    /// For how many milliseconds clients may cache lists (2026-07-28).
    pub cache_ms: u64,
}

/// Limits. When one is reached, the caller gets an error in its own dialect.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Longest line in bytes.
    pub line_bytes: usize,
    /// Calls of one session that may wait or run.
    pub in_flight: usize,
    /// Tools on a page of a list.
    pub page_size: usize,
    /// How long calls in flight may take to finish when the session ends, in milliseconds.
    pub drain_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: gladhand_core::wire::lines::MAX_LINE, in_flight: 1024, page_size: 100, drain_ms: 5000 }
    }
}

/// Settings and bounds of HTTP.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Hosts that requests may be addressed to, in addition to loopback names and the listening address.
    pub allow_hosts: Vec<String>,
    /// Origins of web pages that may send requests, in addition to those on an allowed host.
    pub allow_origins: Vec<String>,
    /// Connections that may be open.
    pub connections: usize,
    /// Sessions that may be open. Beyond it, an idle session is closed for a new one.
    pub sessions: usize,
    /// Close a session after this many seconds without a request or a pending call.
    pub idle_s: u64,
    /// Event streams that may be open.
    pub streams: usize,
    /// Exchanges of one session that may be open.
    pub streams_per_session: usize,
    /// Calls without a session that may run.
    pub in_flight: usize,
    /// Bytes of a stream that are kept for a reader that is slow or lost its connection.
    pub replay_bytes: usize,
    /// Bytes that are kept for absent readers and callers, over all sessions.
    pub kept_bytes: usize,
    /// How long the head of a request may take, the wait for it on an open connection included, in milliseconds.
    pub head_ms: u64,
    /// How long the body of a request may take, in milliseconds.
    pub body_ms: u64,
    /// Send a keep-alive on an event stream after this many milliseconds of silence.
    pub keep_alive_ms: u64,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            allow_origins: Vec::new(),
            connections: 20_000,
            sessions: 10_000,
            idle_s: 1800,
            streams: 20_000,
            streams_per_session: 256,
            in_flight: 10_000,
            replay_bytes: 256 * 1024,
            kept_bytes: 256 * 1024 * 1024,
            head_ms: 60_000,
            body_ms: 30_000,
            keep_alive_ms: 15_000,
        }
    }
}

impl HttpConfig {
    /// Returns the values that are out of range, with the allowed range.
    fn out_of_range(&self) -> Vec<(&'static str, &'static str)> {
        let many = |count: usize| ("from 1 to 1000000", (1..=1_000_000).contains(&count));
        let time = |ms: u64| ("from 10 to 3600000", (10..=3_600_000).contains(&ms));
        let all = [
            ("http.connections", many(self.connections)),
            ("http.sessions", many(self.sessions)),
            ("http.streams", many(self.streams)),
            ("http.streams_per_session", many(self.streams_per_session)),
            ("http.in_flight", many(self.in_flight)),
            ("http.head_ms", time(self.head_ms)),
            ("http.body_ms", time(self.body_ms)),
            ("http.keep_alive_ms", time(self.keep_alive_ms)),
            ("http.idle_s", ("from 1 to 604800", (1..=604_800).contains(&self.idle_s))),
            ("http.kept_bytes", ("from 1048576 to 1073741824", (1 << 20..=1 << 30).contains(&self.kept_bytes))),
            ("http.replay_bytes", ("from 4096 to 1073741824", (4096..=1 << 30).contains(&self.replay_bytes))),
        ];
        all.into_iter().filter(|(_, (_, fits))| !fits).map(|(key, (expected, _))| (key, expected)).collect()
    }
}

fn secrets<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret>, D::Error> {
    // serde's own message would quote the value, which is a secret.
    let complaint = || serde::de::Error::custom("expected a list of strings");
    let toml::Value::Array(tokens) = toml::Value::deserialize(deserializer)? else { return Err(complaint()) };
    let complaint_of_nothing = || serde::de::Error::custom("a token must not be empty");
    let secret = |token: toml::Value| match token.as_str() {
        None => Err(complaint()),
        Some("") => Err(complaint_of_nothing()),
        Some(token) => {
            learn(token, Life::Process);
            Ok(Secret::new(token))
        }
    };
    tokens.into_iter().map(secret).collect()
}

fn masked_all<S: serde::Serializer>(secrets: &[Secret], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(secrets.iter().map(|_| MASK))
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that was named is not there or cannot be read.
    #[error("could not read the configuration: {0}")]
    Unreadable(std::io::Error),
    /// The file is wrong.
    #[error("{} is not a valid configuration:\n{}", path.display(), lines(problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        problems: Vec<Problem>,
    },
    /// The token in the environment cannot be one.
    #[error("{0} is not UTF-8")]
    TokenNotText(&'static str),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The token in `GLADHAND_A2E_TOKEN`; none if it is not set or empty.
pub fn token_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(env::A2E_TOKEN)
}

/// The token in `GLADHAND_MCP_TOKEN`; none if it is not set or empty.
pub fn mcp_token_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(env::MCP_TOKEN)
}

/// The passphrase in `GLADHAND_PASSPHRASE`; none if it is not set or empty.
pub fn passphrase_in_environment() -> Result<Option<Secret>, ConfigError> {
    secret_in_environment(env::PASSPHRASE)
}

fn secret_in_environment(name: &'static str) -> Result<Option<Secret>, ConfigError> {
    match std::env::var(name) {
        Ok(token) if token.is_empty() => Ok(None),
        Ok(token) => {
            learn(&token, Life::Process);
            Ok(Some(Secret::new(token)))
        }
        Err(std::env::VarError::NotPresent) => Ok(None),
        // Continuing without the token would let every client in.
        Err(std::env::VarError::NotUnicode(_)) => Err(ConfigError::TokenNotText(name)),
    }
}

/// A configuration file's text, bounded.
pub fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    gladhand_store::files::no_pipe(path)?;
    let read = fs_err::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text);
    let length = read.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            std::io::Error::new(error.kind(), format!("{} is not UTF-8", path.display()))
        }
        _ => error,
    })?;
    if length as u64 > LARGEST {
        return Err(std::io::Error::other(format!("{} is larger than {LARGEST} bytes", path.display())));
    }
    Ok(text)
}

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

impl File {
    /// Parses the file, or returns all mistakes in it.
    #[cfg(test)]
    pub fn parse(&self, reading: Reading<'_>) -> Result<Config, Vec<Problem>> {
        self.examine(reading).sound()
    }

    /// Parses as much of the file as possible, and collects all mistakes in it.
    pub fn examine(&self, reading: Reading<'_>) -> Examined<'_> {
        // Relative paths begin in the folder of the file.
        read_through(&self.text, self.path.parent(), reading)
    }

    /// The settings of an upstream as written, for display. References in them are not looked up.
    pub fn written(&self, upstream: &str) -> Option<UpstreamConfig> {
        let (source, _) = Source::read(&self.text);
        let all = source.parse::<Config>().0.unwrap_or_default().upstreams.0;
        all.into_iter().find(|(name, _)| name == upstream).map(|(_, config)| config)
    }
}

/// The file in the user's config folder.
pub fn users_file() -> Option<PathBuf> {
    config_dir().map(|folder| folder.join("gladhand.toml"))
}

/// Which part of a file is read.
#[derive(Debug, Clone, Copy)]
pub enum Reading<'l> {
    /// The whole file, with references in upstreams resolved.
    Whole(&'l Lookup<'l>),
    /// The whole file, without upstreams whose references were not granted or cannot be resolved.
    Granted(&'l Lookup<'l>, &'l Grants),
    /// As [`Reading::Whole`], for the file of a stranger. The author must not choose what is masked, so redaction learns only
    /// the values behind references.
    Strangers(&'l Lookup<'l>),
    /// The whole file. References in upstreams and relative paths stay as written, and are not checked.
    AsWritten,
    /// Everything except the upstreams, for commands that do not use them.
    WithoutUpstreams,
}

impl<'l> Reading<'l> {
    /// The same for a project file, to which these references are granted.
    pub fn granted(self, grants: &'l Grants) -> Self {
        match self {
            Self::Whole(lookup) => Self::Granted(lookup, grants),
            other => other,
        }
    }
}

/// Parses a configuration that is in no file, or returns all mistakes in it. Relative paths begin in the current
/// folder.
pub fn parse(text: &str, reading: Reading<'_>) -> Result<Config, Vec<Problem>> {
    read_through(text, None, reading).sound()
}

/// A configuration with everything that is wrong with it.
#[derive(Debug)]
pub struct Examined<'t> {
    /// The settings, if they could be read.
    pub config: Option<Config>,
    /// The mistakes, in the order of the file.
    pub problems: Vec<Problem>,
    /// Upstreams that were removed because their references were not granted or cannot be resolved.
    pub refused: Vec<Problem>,
    /// References of upstreams that cannot be resolved. These upstreams are unavailable; all others work.
    pub unresolved: Vec<Problem>,
    /// The positions of all keys.
    pub places: Source<'t>,
}

impl Examined<'_> {
    /// The settings, if nothing is wrong with them.
    fn sound(self) -> Result<Config, Vec<Problem>> {
        match self {
            Self { config: Some(config), problems, unresolved, .. } if problems.is_empty() && unresolved.is_empty() => {
                Ok(config)
            }
            Self { problems, unresolved, .. } => Err(in_order(problems.into_iter().chain(unresolved).collect())),
        }
    }
}

fn read_through<'t>(text: &'t str, folder: Option<&Path>, reading: Reading<'_>) -> Examined<'t> {
    let (mut source, problems) = Source::read(text);
    let excess = || too_many_upstreams(&source).filter(|_| !matches!(reading, Reading::WithoutUpstreams));
    let problems = if problems.is_empty() { excess().into_iter().collect() } else { problems };
    if !problems.is_empty() {
        return Examined { config: None, problems, refused: Vec::new(), unresolved: Vec::new(), places: source };
    }
    let mut refused = Vec::new();
    let unresolved = match reading {
        Reading::Whole(lookup) | Reading::Strangers(lookup) => expand::expand_all(&mut source, lookup),
        Reading::Granted(lookup, grants) => {
            refused = expand::take_ungranted(&mut source, grants);
            let expanded = layers::with_granted(lookup, grants, |lookup| expand::expand_all(&mut source, lookup));
            // One unavailable upstream of a project does not stop the others.
            refused.extend(expand::take_unresolved(&mut source, expanded));
            Vec::new()
        }
        Reading::AsWritten => Vec::new(),
        Reading::WithoutUpstreams => {
            source.root.remove("upstreams");
            Vec::new()
        }
    };
    let (config, mut problems) = source.parse::<Config>();
    let Some(mut config) = config else {
        return Examined { config: None, problems: in_order(problems), refused, unresolved, places: source };
    };
    config.upstreams.0.sort_by_cached_key(|(name, _)| source.span(&["upstreams", name]).start);
    if let Some(folder) = folder.filter(|_| !matches!(reading, Reading::AsWritten)) {
        config.anchor(folder);
    }
    let range = config.out_of_range(&source);
    if let Reading::Whole(lookup) | Reading::Granted(lookup, _) | Reading::Strangers(lookup) = reading {
        for (name, upstream) in config.upstreams.0.iter_mut().filter(|(_, upstream)| upstream.enabled) {
            let missing = unresolved.iter().filter(|problem| problem.is_of(&["upstreams", name]));
            let missing: Vec<_> = missing.map(|problem| problem.message.as_str()).collect();
            upstream.unavailable = (!missing.is_empty()).then(|| missing.join("; "));
            // The author of a project file must not choose what is masked in messages about others.
            if matches!(reading, Reading::Whole(_)) {
                upstream.learn_secrets();
            }
            // Skip further checks of an upstream that could not be parsed or resolved.
            if missing.is_empty() && !problems.iter().any(|problem| problem.is_of(&["upstreams", name])) {
                problems.extend(upstream.mistakes(name, lookup).into_iter().map(|(key, message)| {
                    let path: Vec<_> = ["upstreams", name].into_iter().chain(key).collect();
                    source.problem(&path, message)
                }));
            }
        }
    }
    problems.extend(range);
    Examined { config: Some(config), problems: in_order(problems), refused, unresolved, places: source }
}

/// The first upstream beyond the limit. A tool can write the file of a server, so the length of the file must not
/// decide how long the server works on it.
fn too_many_upstreams(source: &Source<'_>) -> Option<Problem> {
    let mut keys = source.keys().into_iter().filter(|(section, _)| *section == "upstreams");
    let (section, name) = keys.nth(MOST_UPSTREAMS)?;
    Some(source.problem(&[section, name], format!("there are more than {MOST_UPSTREAMS} upstreams in this file")))
}

impl Config {
    /// Returns values that have the right type and are still invalid.
    fn out_of_range(&self, source: &Source<'_>) -> Vec<Problem> {
        let limits = &self.limits;
        let own = [
            ("limits.line_bytes", "from 1024 to 1073741824", (1024..=1 << 30).contains(&limits.line_bytes)),
            ("limits.in_flight", "from 1 to 100000", (1..=100_000).contains(&limits.in_flight)),
            ("limits.page_size", "from 1 to 10000", (1..=10_000).contains(&limits.page_size)),
            ("limits.drain_ms", "at most 3600000", limits.drain_ms <= 3_600_000),
        ];
        let own = own.into_iter().filter(|(_, _, fits)| !fits).map(|(key, expected, _)| (key, expected));
        let problem = |(key, problem): (String, String)| {
            let path: Vec<_> = key.split('.').collect();
            source.problem(&path, problem)
        };
        let address = |key: &'static str| {
            source.problem(&["agent", key], "must be an address that begins with http:// or https://")
        };
        let addresses = self.agent.malformed().into_iter().map(address);
        let ranges = own.chain(self.http.out_of_range()).chain(self.a2e.out_of_range());
        let ranges = ranges.map(|(key, expected)| (key.to_owned(), format!("must be {expected}")));
        ranges.chain(self.a2e.mistakes()).map(problem).chain(addresses).collect()
    }
}

/// The data folder: `--data-dir` or `GLADHAND_DATA_DIR` (clap merges the two), else the user's.
pub fn data_dir(named: Option<&Path>) -> Option<PathBuf> {
    let user = || etcetera::choose_base_strategy().ok().map(|dirs| dirs.data_dir().join("gladhand"));
    named.map(Path::to_owned).or_else(user)
}

/// The user's config folder.
pub fn config_dir() -> Option<PathBuf> {
    etcetera::choose_base_strategy().ok().map(|dirs| dirs.config_dir().join("gladhand"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Vec<Problem>> {
        let variable = |name: &str| (name == "HOME").then(|| "/home/ann".to_owned());
        let secret = |_: &str| Err("make one".to_owned());
        super::parse(text, Reading::Whole(&Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) }))
    }

    fn problem(text: &str) -> String {
        lines(&parse(text).unwrap_err())
    }

    #[test]
    fn addresses_of_the_agent_are_addresses() {
        assert!(parse("[agent]\nexa_base = \"http://127.0.0.1:1/x\"\n").is_ok());
        let text = "[agent]\nopenai_base = \"hush.example\"\nexa_base = \"file:///hush\"\n";
        assert_eq!(
            problem(text),
            "line 2, column 1: agent.openai_base: must be an address that begins with http:// or https://\n\
             line 3, column 1: agent.exa_base: must be an address that begins with http:// or https://"
        );
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let config = parse("").unwrap();
        assert_eq!((config.a2e.max_parallel, config.limits.in_flight), (4, 1024));
        assert!(!config.policy.validate_arguments);
        assert_eq!(config.limits.line_bytes, 16 * 1024 * 1024);
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_without_their_line() {
        let text = "[a2e]\ntokens = [\"hush\"]\nmax_paralel = 2\n";
        let problem = problem(text);
        assert!(problem.contains("line 3, column 1"), "{problem}");
        assert!(problem.contains("max_paralel"), "{problem}");
        assert!(!problem.contains("hush"), "{problem}");
        assert!(!self::problem("[a2e]\ntokens = [\"hush\", 5]\n").contains("hush"));
        assert!(!self::problem("[a2e]\ntokens = \"hush\"\n").contains("hush"));
    }

    #[test]
    fn values_out_of_range_are_told_by_name() {
        assert_eq!(problem("[a2e]\nmax_parallel = 0"), "line 2, column 1: a2e.max_parallel: must be from 1 to 100000");
        assert_eq!(problem("[limits]\nin_flight = 0"), "line 2, column 1: limits.in_flight: must be from 1 to 100000");
        for (setting, expected) in [
            ("sessions = 0", "http.sessions: must be from 1 to 1000000"),
            ("body_ms = 9", "http.body_ms: must be from 10 to 3600000"),
            ("idle_s = 0", "http.idle_s: must be from 1 to 604800"),
            ("replay_bytes = 1", "http.replay_bytes: must be from 4096 to 1073741824"),
            ("kept_bytes = 1", "http.kept_bytes: must be from 1048576 to 1073741824"),
        ] {
            assert_eq!(problem(&format!("[http]\n{setting}")), format!("line 2, column 1: {expected}"));
        }
    }

    /// Without the bound, the second file takes minutes.
    #[test]
    fn a_file_has_at_most_a_thousand_upstreams() {
        let text = |count| (0..count).map(|n| format!("[upstreams.u{n}]\ncommand = 'a'\n")).collect::<String>();
        let config = parse(&text(MOST_UPSTREAMS)).unwrap();
        let names = (0..MOST_UPSTREAMS).map(|n| format!("u{n}"));
        assert!(
            config.upstreams.0.iter().map(|(name, _)| name).eq(&names.collect::<Vec<_>>()),
            "in the order of the file"
        );
        let told = "line 2001, column 12: upstreams.u1000: there are more than 1000 upstreams in this file";
        assert_eq!(problem(&text(30_000)), told);
        let reading = Reading::WithoutUpstreams;
        assert!(super::parse(&text(30_000), reading).is_ok(), "a command without upstreams does not need them");
    }

    #[test]
    fn mistakes_of_policy_are_told_with_their_place() {
        for (text, place, told) in [
            (
                "[[policy.rules]]\neffect = \"deny\"\nwhen = 'a = 1'",
                "line 3, column 8",
                "at character 3: expected one of",
            ),
            (
                "[[policy.rules]]\neffect = \"forbid\"",
                "line 2, column 10",
                "policy.rules#1.effect: `forbid` cannot be said here: expected `allow`, `deny` or `ask`",
            ),
            (
                "[[policy.rules]]\ntools = [\"a\", \"@x\"]\neffect = \"deny\"",
                "line 2, column 9",
                "there is no class of tools `@x`",
            ),
            (
                "[[policy.rules]]\neffect = \"deny\"\nschema = { type = 7 }",
                "line 3, column 10",
                "this schema cannot be used",
            ),
            ("[[policy.limits]]\ntools = [\"a\"]", "line 1, column 1", "a limit needs one of"),
            ("[policy]\npin = \"maybe\"", "line 2, column 7", "`maybe` cannot be said here"),
            ("[audit]\nfiel = \"x\"", "line 2, column 1", "there is no key `fiel`: did you mean `file`?"),
            ("[profiles.x]\nonli = []", "line 2, column 1", "did you mean `only`?"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(place) && problem.contains(told), "{text}\n{problem}");
        }
    }

    #[test]
    fn all_mistakes_in_all_items_of_a_list_are_told_with_their_number() {
        let text = "[[policy.rules]]\neffect = 'allow'\n[[policy.rules]]\neffcet = 'deny'\ntools = 'x'\n\
                    [[policy.rules]]\neffect = 'forbid'\nwhen = 5\n[[policy.limits]]\n[http]\nsessions = 'many'\n";
        let expected = "\
line 3, column 1: policy.rules#2: `effect` is missing
line 4, column 1: policy.rules#2.effcet: there is no key `effcet`: did you mean `effect`?
line 5, column 9: policy.rules#2.tools: expected a list
line 7, column 10: policy.rules#3.effect: `forbid` cannot be said here: expected `allow`, `deny` or `ask`
line 8, column 8: policy.rules#3.when: expected a string
line 9, column 1: policy.limits#1: a limit needs one of `calls`, `concurrent`, `timeout_ms` and `result_bytes`
line 11, column 12: http.sessions: expected a whole number";
        assert_eq!(problem(text), expected);
    }

    #[test]
    fn what_a_key_holds_does_not_reach_the_terminal() {
        let problem = problem("[upstreams.a]\ncommand = 'x'\n\"en\\u001b[31m\\nv\" = 1\n");
        assert!(problem.contains("`en\\u{1b}[31m\\nv`") && !problem.contains('\n'), "{problem}");
    }

    #[test]
    fn tokens_do_not_print() {
        let config = parse("[a2e]\ntokens = [\"hush\"]").unwrap();
        assert!(!format!("{config:?}").contains("hush"));
    }

    #[test]
    fn upstreams_come_in_the_order_of_the_file_with_what_they_refer_to() {
        let text = "[upstreams.zed]\ncommand = ['${HOME}/bin/z', '-v']\nargs = ['x']\nprefix = ''\n\
                    [upstreams.a]\nurl = 'https://example.org/mcp'\nheaders = { X-Key = 'k' }\ntimeout_ms = 5\n";
        let config = parse(text).unwrap();
        let names: Vec<_> = config.upstreams.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["zed", "a"]);
        let (zed, a) = (&config.upstreams.0[0].1, &config.upstreams.0[1].1);
        assert_eq!(
            (&zed.command[..], &zed.args[..]),
            (&["/home/ann/bin/z".to_owned(), "-v".to_owned()][..], &["x".to_owned()][..])
        );
        assert_eq!((zed.naming("zed").prefix, a.naming("a").prefix), (None, Some("a".to_owned())));
        assert_eq!((a.timeout_ms, a.headers().unwrap()["x-key"].to_str().unwrap()), (5, "k"));
    }

    #[test]
    fn everything_that_is_wrong_with_upstreams_is_told_at_once() {
        let text = "[upstreams.a]\ncommand = 'x'\nurl = 'y'\n[upstreams.b]\nenv = { T = 'hush ${NOPE}' }\n\
                    [upstreams.c]\nurl = 'ftp://x'\nargs = ['hush']\nspeak = 'hush'\n[upstreams.'d d']\n\
                    [upstreams.e]\nenabled = false\ncommand = '${NOPE}'\n[http]\nsessions = 0\nstreams = 'hush'\n";
        let problem = problem(text);
        assert!(!problem.contains("hush"), "{problem}");
        let expected = "\
line 3, column 1: upstreams.a.url: there is a `command` already, and only one of the two can be
line 5, column 13: upstreams.b.env.T: the variable NOPE is not set
line 7, column 1: upstreams.c.url: expected an address that begins with http:// or https://
line 8, column 1: upstreams.c.args: it belongs to a `command`, and there is none
line 9, column 1: upstreams.c.speak: expected a dialect, as in \"mcp\", \"mcp@2025-06-18\" or \"a2e\"
line 10, column 12: upstreams.d d: a name is made of letters, digits, `_` and `-`
line 10, column 12: upstreams.d d: it needs a `command` or a `url`
line 15, column 1: http.sessions: must be from 1 to 1000000
line 16, column 11: http.streams: expected a whole number";
        assert_eq!(problem, expected);
    }

    #[test]
    fn commands_without_upstreams_ignore_mistakes_in_them() {
        let text = "[upstreams.a]\ncommand = '${NOPE}'\n";
        assert!(super::parse(text, Reading::WithoutUpstreams).unwrap().upstreams.0.is_empty());
    }

    #[test]
    fn a_server_is_the_same_however_its_names_are_shown() {
        let one = |text: &str| parse(&format!("[upstreams.a]\n{text}")).unwrap().upstreams.0.remove(0).1;
        let before = one("command = 'x'\nenv = { A = '1' }");
        assert!(before.is_same_server(&one("command = ['x']\nenv = { A = '1' }\nprefix = 'b'\nhide = ['*']")));
        assert!(!before.is_same_server(&one("command = 'x'\nenv = { A = '2' }")));
        let same = one("command = 'x'\nenv = { A = '1' }\ncwd = '/x'\nspeak = 'mcp'");
        assert_eq!(same.differences(&before, ["a", "b"]), Vec::<String>::new(), "what only we say is no difference");
        let other = one("command = ['x', '--token', 'hush']\nenv = { A = '2', B = '' }");
        let expected = ["command is `x` in a and `x --token ***` in b", "env.A differs", "env.B is missing in a"];
        assert_eq!(before.differences(&other, ["a", "b"]), expected);
        let far = one("url = 'https://x.example/'");
        assert_eq!(
            far.differences(&before, ["a", "b"])[..2],
            [
                "command is missing in a and `x` in b".to_owned(),
                "url is `https://x.example/` in a and missing in b".to_owned()
            ]
        );
    }
}
