//! The configuration file: where it is looked for, what it may say, and its mistakes with their place.
//!
//! Order of precedence: flags over environment over file over defaults.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy;
use gladhand_accord::Secret;
use serde::Deserialize;

use crate::authorization::AuthorizationConfig;
use crate::config_policy::{AuditConfig, PolicyConfig, ProfileConfig};

/// Environment variables that we read, named in one place.
pub mod env {
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
}

/// The largest configuration file.
const LARGEST: u64 = 1024 * 1024;

/// What the file may say. Everything has a default; unknown keys are mistakes.
#[derive(Debug, Clone, Default, Deserialize)]
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
    /// `[profiles.NAME]`; the first by name that fits a caller counts.
    pub profiles: BTreeMap<String, ProfileConfig>,
    /// `[mcp]`
    pub mcp: McpConfig,
}

/// Settings of the MCP dialect.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Answer lists of what there is none of with an empty list in place of an error.
    pub empty_lists: bool,
    /// For how many milliseconds lists may be kept without asking again (2026-07-28).
    pub cache_ms: u64,
}

/// Settings of the A2E dialect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct A2eConfig {
    /// Tokens that an agent may present. None: any token is accepted.
    #[serde(deserialize_with = "secrets")]
    pub tokens: Vec<Secret>,
    /// How many calls of one session run at once.
    pub max_parallel: u32,
}

impl Default for A2eConfig {
    fn default() -> Self {
        Self { tokens: Vec::new(), max_parallel: 4 }
    }
}

/// Bounds. Each is answered in the dialect's own words when it is reached.
#[derive(Debug, Clone, Deserialize)]
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
        Self { line_bytes: gladhand_wire::lines::MAX_LINE, in_flight: 1024, page_size: 100, drain_ms: 5000 }
    }
}

impl Limits {
    /// How long calls in flight may take to finish when the session ends.
    pub fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}

/// Settings and bounds of HTTP.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    /// Hosts that requests may be addressed to, beside loopback names and the address that is listened on.
    pub allow_hosts: Vec<String>,
    /// Origins of web pages that may talk to us, beside those on an allowed host.
    pub allow_origins: Vec<String>,
    /// Connections that may be open.
    pub connections: usize,
    /// Sessions that may be open; beyond it one that nobody uses gives way.
    pub sessions: usize,
    /// After how many seconds without use, and without anybody waiting, a session ends.
    pub idle_s: u64,
    /// Event streams that may be open.
    pub streams: usize,
    /// Exchanges of one session that may be open.
    pub streams_per_session: usize,
    /// Calls without a session that may run.
    pub in_flight: usize,
    /// How much of a stream is kept for a reader that was cut off or is slow, in bytes.
    pub replay_bytes: usize,
    /// How long the head of a request may take, the wait for it on an open connection included, in milliseconds.
    pub head_ms: u64,
    /// How long the body of a request may take, in milliseconds.
    pub body_ms: u64,
    /// After which silence an event stream says that it is alive, in milliseconds.
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
            head_ms: 60_000,
            body_ms: 30_000,
            keep_alive_ms: 15_000,
        }
    }
}

impl HttpConfig {
    /// After which time without use a session ends.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_s)
    }

    /// After which silence an event stream says that it is alive.
    pub fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms)
    }

    /// The first value that is out of range, and what it may be.
    fn out_of_range(&self) -> Option<(&'static str, &'static str)> {
        let many = 1..=1_000_000;
        let counts = [
            ("http.connections", self.connections),
            ("http.sessions", self.sessions),
            ("http.streams", self.streams),
            ("http.streams_per_session", self.streams_per_session),
            ("http.in_flight", self.in_flight),
        ];
        let times = [
            ("http.head_ms", self.head_ms),
            ("http.body_ms", self.body_ms),
            ("http.keep_alive_ms", self.keep_alive_ms),
        ];
        let count = counts.iter().find(|(_, count)| !many.contains(count));
        let time = times.iter().find(|(_, time)| !(10..=3_600_000).contains(time));
        count
            .map(|(key, _)| (*key, "from 1 to 1000000"))
            .or_else(|| time.map(|(key, _)| (*key, "from 10 to 3600000")))
            .or_else(|| (!(1..=604_800).contains(&self.idle_s)).then_some(("http.idle_s", "from 1 to 604800")))
            .or_else(|| {
                let fits = (4096..=1 << 30).contains(&self.replay_bytes);
                (!fits).then_some(("http.replay_bytes", "from 4096 to 1073741824"))
            })
    }
}

fn secrets<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret>, D::Error> {
    // serde's own complaint would quote what it found, which is a secret.
    let complaint = || serde::de::Error::custom("expected an array of strings");
    let toml::Value::Array(tokens) = toml::Value::deserialize(deserializer)? else { return Err(complaint()) };
    let complaint_of_nothing = || serde::de::Error::custom("a token must not be empty");
    let secret = |token: toml::Value| match token.as_str() {
        None => Err(complaint()),
        Some("") => Err(complaint_of_nothing()),
        Some(token) => Ok(Secret::new(token)),
    };
    tokens.into_iter().map(secret).collect()
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that was named is not there or cannot be read.
    #[error("could not read the configuration: {0}")]
    Unreadable(std::io::Error),
    /// The file is wrong; the text shows where.
    #[error("{} is not a valid configuration:\n{problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        problem: String,
    },
    /// The token in the environment cannot be one.
    #[error("{0} is not UTF-8")]
    TokenNotText(&'static str),
    /// A value is out of range.
    #[error("{}: {key} must be {expected}", path.display())]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What it may be.
        expected: &'static str,
    },
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
        Ok(token) => Ok(Some(Secret::new(token))),
        Err(std::env::VarError::NotPresent) => Ok(None),
        // Going on without it would let everybody in.
        Err(std::env::VarError::NotUnicode(_)) => Err(ConfigError::TokenNotText(name)),
    }
}

/// A configuration file's text, bounded.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let length = fs_err::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if length as u64 > LARGEST {
        return Err(std::io::Error::other(format!("{} is larger than {LARGEST} bytes", path.display())));
    }
    Ok(text)
}

/// Finds and reads the configuration: `--config`, `GLADHAND_CONFIG` (clap merges the two), then
/// `./gladhand.toml`, then the user's config folder. Without any, the defaults hold.
pub fn load(named: Option<&Path>) -> Result<(Config, Option<PathBuf>), ConfigError> {
    if let Some(path) = named {
        let text = read(path).map_err(ConfigError::Unreadable)?;
        return Ok((parse(path, &text)?, Some(path.to_owned())));
    }
    let user = config_dir().map(|folder| folder.join("gladhand.toml"));
    for path in [Some(PathBuf::from("gladhand.toml")), user].into_iter().flatten() {
        match read(&path) {
            Ok(text) => return Ok((parse(&path, &text)?, Some(path))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(ConfigError::Unreadable(error)),
        }
    }
    Ok((Config::default(), None))
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let config: Config = toml::from_str(text)
        .map_err(|error| ConfigError::Invalid { path: path.to_owned(), problem: describe(&error, text) })?;
    let out_of_range = |key, expected| Err(ConfigError::OutOfRange { path: path.to_owned(), key, expected });
    let limits = &config.limits;
    if config.a2e.max_parallel == 0 {
        return out_of_range("a2e.max_parallel", "at least 1");
    }
    if !(1024..=1 << 30).contains(&limits.line_bytes) {
        return out_of_range("limits.line_bytes", "from 1024 to 1073741824");
    }
    if !(1..=100_000).contains(&limits.in_flight) {
        return out_of_range("limits.in_flight", "from 1 to 100000");
    }
    if !(1..=10_000).contains(&limits.page_size) {
        return out_of_range("limits.page_size", "from 1 to 10000");
    }
    if limits.drain_ms > 3_600_000 {
        return out_of_range("limits.drain_ms", "at most 3600000");
    }
    if let Some((key, expected)) = config.http.out_of_range() {
        return out_of_range(key, expected);
    }
    Ok(config)
}

/// Line, column and what is wrong; never the line itself, which may hold a token.
fn describe(error: &toml::de::Error, text: &str) -> String {
    let Some(span) = error.span() else { return error.message().to_owned() };
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(1, |start| start.chars().count() + 1);
    format!("line {line}, column {column}: {}", error.message())
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

    fn problem(text: &str) -> String {
        parse(Path::new("g.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        let config = parse(Path::new("g.toml"), "").unwrap();
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
        assert_eq!(problem("[a2e]\nmax_parallel = 0"), "g.toml: a2e.max_parallel must be at least 1");
        assert_eq!(problem("[limits]\nin_flight = 0"), "g.toml: limits.in_flight must be from 1 to 100000");
        for (setting, expected) in [
            ("sessions = 0", "http.sessions must be from 1 to 1000000"),
            ("body_ms = 9", "http.body_ms must be from 10 to 3600000"),
            ("idle_s = 0", "http.idle_s must be from 1 to 604800"),
            ("replay_bytes = 1", "http.replay_bytes must be from 4096 to 1073741824"),
        ] {
            assert_eq!(problem(&format!("[http]\n{setting}")), format!("g.toml: {expected}"));
        }
    }

    #[test]
    fn mistakes_of_policy_are_told_with_their_place() {
        for (text, told) in [
            (
                "[[policy.rules]]\neffect = \"deny\"\nwhen = 'a = 1'",
                "line 3, column 8: at character 3: expected one of",
            ),
            ("[[policy.rules]]\neffect = \"forbid\"", "line 2, column 10: unknown variant `forbid`"),
            (
                "[[policy.rules]]\ntools = [\"a\", \"@x\"]\neffect = \"deny\"",
                "line 2, column 9: there is no class of tools `@x`",
            ),
            (
                "[[policy.rules]]\neffect = \"deny\"\nschema = { type = 7 }",
                "line 3, column 10: this schema cannot be used",
            ),
            ("[[policy.limits]]\ntools = [\"a\"]", "line 1, column 1: a limit needs one of"),
            ("[policy]\npin = \"maybe\"", "line 2, column 7: unknown variant `maybe`"),
            ("[audit]\nfiel = \"x\"", "line 2, column 1: unknown field `fiel`"),
            ("[profiles.x]\nonli = []", "line 2, column 1: unknown field `onli`"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(told), "{text}\n{problem}");
        }
    }

    #[test]
    fn tokens_do_not_print() {
        let config = parse(Path::new("g.toml"), "[a2e]\ntokens = [\"hush\"]").unwrap();
        assert!(!format!("{config:?}").contains("hush"));
    }
}
