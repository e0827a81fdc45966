//! `[upstreams.NAME]`: the servers behind ours.

mod differences;
mod mistakes;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use gladhand_core::Pattern;
use gladhand_dialects::Speak;
use gladhand_hub::{BETWEEN, Naming};
use gladhand_redaction::{self as redaction, Life};
use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::program_environment::{PLAIN, ProgramEnvironment, usual};
use crate::{Hidden, schema};

pub use words::Inherit;

/// How long an opening may take unless the file says otherwise, in milliseconds.
const OPENING_MS: u64 = 60_000;

/// How long a call may take without a sign of life unless the file says otherwise, in milliseconds.
const CALL_MS: u64 = 300_000;

/// The longest time that can be set, in milliseconds.
const LONGEST_MS: u64 = 86_400_000;

/// The names of built-in providers with tools. An upstream may not use them, because a rule that names a built-in
/// provider must not match an upstream.
pub const BUILT_IN: [&str; 3] = ["toolbox", "repository", "agent"];

/// All upstreams, in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Upstreams(pub Vec<(String, UpstreamConfig)>);

/// `[upstreams.NAME]`: a server that is started, or one that is reached.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamConfig {
    /// Whether the upstream is enabled.
    pub enabled: bool,
    /// The program to start, with its arguments or without.
    #[serde(deserialize_with = "words::words")]
    #[schemars(schema_with = "schema::word_or_words")]
    pub command: Vec<String>,
    /// Additional arguments for the program.
    pub args: Vec<String>,
    /// The folder that the program starts in.
    pub cwd: Option<PathBuf>,
    /// The file that it comes from.
    #[serde(skip)]
    pub origin: Origin,
    /// Variables for the program.
    pub env: BTreeMap<String, Hidden>,
    /// Variables of our environment that the program inherits in addition to the usual ones.
    pub inherit_env: Inherit,
    /// The address of an MCP endpoint.
    pub url: Option<String>,
    /// Headers of every request to it.
    pub headers: BTreeMap<String, Hidden>,
    /// The bearer token to present to it.
    pub bearer: Option<Hidden>,
    /// `oauth`: use tokens from `gladhand login`.
    #[schemars(schema_with = "schema::oauth")]
    pub auth: Option<String>,
    /// A file with certificate authorities that are trusted in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// The dialect to speak. Default: detected.
    #[schemars(schema_with = "schema::spoken")]
    pub speak: Option<String>,
    /// The token to present, in a dialect whose opening has one.
    pub token: Option<Hidden>,
    /// The agent id to present, in a dialect whose handshake requires one: A2E.
    pub agent_id: Option<String>,
    /// Whether a server over HTTP is ready only while the upstream is open.
    pub required: bool,
    /// Whether every session gets its own connection to the upstream.
    pub isolated: bool,
    /// Folders that clients over HTTP may name as their roots to the program.
    pub client_roots: Vec<PathBuf>,
    /// The reason why the upstream is unavailable: one of its references cannot be resolved.
    #[serde(skip)]
    pub unavailable: Option<String>,
    /// How long the opening may take, in milliseconds.
    #[schemars(range(min = 1, max = LONGEST_MS))]
    pub timeout_ms: u64,
    /// How long a call may go without progress, in milliseconds. 0: no limit.
    #[schemars(range(min = 0, max = LONGEST_MS))]
    pub call_timeout_ms: u64,
    /// A prefix for the upstream's names instead of its own name. Empty: no prefix.
    pub prefix: Option<String>,
    /// Names that are shown as something else.
    pub rename: BTreeMap<String, String>,
    /// Show only names that match one of these patterns. Empty: show all.
    pub only: Vec<String>,
    /// Hide names that match one of these patterns.
    pub hide: Vec<String>,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            command: Vec::new(),
            args: Vec::new(),
            cwd: None,
            origin: Origin::Own,
            env: BTreeMap::new(),
            inherit_env: Inherit::default(),
            url: None,
            headers: BTreeMap::new(),
            bearer: None,
            auth: None,
            ca: None,
            speak: None,
            token: None,
            agent_id: None,
            required: false,
            isolated: false,
            client_roots: Vec::new(),
            unavailable: None,
            timeout_ms: OPENING_MS,
            call_timeout_ms: CALL_MS,
            prefix: None,
            rename: BTreeMap::new(),
            only: Vec::new(),
            hide: Vec::new(),
        }
    }
}

/// The file that an upstream comes from. It decides the default folder and variables of the upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// The user's own file, or a file that the operator named.
    #[default]
    Own,
    /// A project file.
    Project,
}

impl Origin {
    /// The folder that a program starts in if there is no `cwd`; none: the current folder.
    ///
    /// The current folder may be a stranger's repository, and many programs (`npx`, `python -m`) run code that they find in their
    /// working folder. So only upstreams of the project itself start there.
    fn folder(self) -> Option<PathBuf> {
        // Without a home folder, one that no other user can write into: a shared one could hold code of another user.
        let root = || PathBuf::from(std::path::MAIN_SEPARATOR_STR);
        let home = || crate::home_dir().filter(|home| home.is_dir()).unwrap_or_else(root);
        (self == Self::Own).then(home)
    }

    /// The variables that a program inherits without being granted them.
    fn variables(self) -> Vec<&'static str> {
        match self {
            Self::Own => usual().collect(),
            Self::Project => PLAIN.to_vec(),
        }
    }
}

impl UpstreamConfig {
    /// The dialect to speak; none if it is unknown.
    pub fn speak(&self) -> Option<Speak> {
        self.speak.as_deref().map_or(Some(Speak::Auto), Speak::parse)
    }

    /// The environment and working folder of the program.
    pub fn program_environment(&self) -> ProgramEnvironment {
        let pattern = |name: &str| Pattern(name.to_owned());
        let inherits = match &self.inherit_env {
            Inherit::All => None,
            Inherit::Also(names) => {
                let all = self.origin.variables().into_iter().chain(names.iter().map(String::as_str));
                Some(all.map(pattern).collect())
            }
        };
        let variables = self.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
        ProgramEnvironment { folder: self.cwd.clone().or_else(|| self.origin.folder()), inherits, variables }
    }

    /// The prefix of the upstream's names, if it has one.
    pub fn effective_prefix<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        Some(self.prefix.as_deref().unwrap_or(name)).filter(|prefix| !prefix.is_empty())
    }

    /// How its names are shown.
    pub fn naming(&self, name: &str) -> Naming {
        let patterns = |texts: &[String]| texts.iter().cloned().map(Pattern).collect();
        Naming {
            prefix: self.effective_prefix(name).map(str::to_owned),
            renamed: self.rename.clone(),
            only: patterns(&self.only),
            hidden: patterns(&self.hide),
            yields: self.origin == Origin::Project,
        }
    }

    /// The headers of every request. On failure, returns the name of the first invalid header.
    pub fn headers(&self) -> Result<HeaderMap, String> {
        header_map(&self.headers)
    }

    /// Registers the upstream's secrets for redaction. Expansion has already registered the values of references.
    pub(crate) fn learn_secrets(&self) {
        let life = Life::Process;
        // An unresolved reference stays as written, and is not a secret.
        let known = |text: &str| match self.unavailable.is_some() && text.contains("${") {
            true => String::new(),
            false => text.to_owned(),
        };
        self.url.iter().for_each(|url| redaction::learn_text(&known(url), life));
        let words: Vec<_> = self.command.iter().chain(&self.args).map(|word| known(word)).collect();
        redaction::learn_words(&words, life);
        for (name, Hidden(value)) in &self.headers {
            redaction::learn_header(name, &known(value.expose()), life);
        }
        for (name, Hidden(value)) in &self.env {
            redaction::learn_variable(name, &known(value.expose()), life);
        }
        for Hidden(token) in self.bearer.iter().chain(&self.token) {
            redaction::learn(&known(token.expose()), life);
        }
    }

    /// Whether both describe the same server and connection, regardless of how its names are shown, and of whether it is
    /// required.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let nameless = |one: &Self| Self {
            prefix: None,
            rename: BTreeMap::new(),
            only: Vec::new(),
            hide: Vec::new(),
            required: false,
            ..one.clone()
        };
        nameless(self) == nameless(other)
    }
}

/// Headers of requests. On failure, returns the name of the first invalid header.
pub(crate) fn header_map(written: &BTreeMap<String, Hidden>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, Hidden(value)) in written {
        let key = HeaderName::try_from(name.as_str()).map_err(|_| name.clone())?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| name.clone())?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

impl Upstreams {
    /// The upstreams that are not available, and why.
    pub fn unavailable(&self) -> impl Iterator<Item = (&str, &str)> {
        let enabled = self.0.iter().filter(|(_, upstream)| upstream.enabled);
        enabled.filter_map(|(name, upstream)| Some((name.as_str(), upstream.unavailable.as_deref()?)))
    }

    /// Upstreams whose names can clash with those of others, by what the configuration alone says: name and message.
    pub fn clashes(&self) -> Vec<(String, String)> {
        let enabled = || self.0.iter().filter(|(_, upstream)| upstream.enabled);
        let mut clashes = Vec::new();
        for (at, (name, upstream)) in enabled().enumerate() {
            let Some(prefix) = upstream.effective_prefix(name) else { continue };
            for (other_at, (other, rival)) in enabled().enumerate().filter(|(other_at, _)| *other_at != at) {
                match rival.effective_prefix(other).and_then(|rival| rival.strip_prefix(prefix)) {
                    Some("") if other_at < at => clashes.push((
                        name.clone(),
                        format!(
                            "it has the prefix of `{other}`: of two things of one name only the first is shown under it"
                        ),
                    )),
                    Some(rest) if rest.starts_with(BETWEEN) => clashes.push((
                        name.clone(),
                        format!(
                            "names of it that begin with `{}{BETWEEN}` belong to `{other}`",
                            &rest[BETWEEN.len()..]
                        ),
                    )),
                    _ => {}
                }
            }
        }
        clashes
    }
}

impl<'de> Deserialize<'de> for Upstreams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;
        impl<'de> Visitor<'de> for Tables {
            type Value = Upstreams;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table for each upstream, as in [upstreams.NAME]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut upstreams = Vec::new();
                while let Some(upstream) = map.next_entry()? {
                    upstreams.push(upstream);
                }
                Ok(Upstreams(upstreams))
            }
        }
        deserializer.deserialize_map(Tables)
    }
}

impl Serialize for Upstreams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, upstream)| (name, upstream)))
    }
}
