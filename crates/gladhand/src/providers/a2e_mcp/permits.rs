//! Which servers agents may register, and how many.

use std::path::PathBuf;
use std::time::Duration;

use gladhand_a2e_host::roots::inside;
use gladhand_a2e_host::starting::find_program;
use gladhand_core::Pattern;
use gladhand_core::Secret;
use gladhand_core::negotiation::Capability;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::words::hex_id;
use crate::config::usual;
use gladhand_client::upstream::{Options, Speak, Target};
use gladhand_process::surroundings::Surroundings;

/// Limits on MCP servers that agents register.
#[derive(Debug, Clone)]
pub struct RegistrationLimits {
    /// Commands that may be started: what begins with all words of one of these.
    pub commands: Vec<Vec<String>>,
    /// The folder in which a program with a folder (`./server`) begins. None: where we were started.
    pub base: Option<PathBuf>,
    /// Where there may be servers: addresses whose origin is that of one of these and whose path begins with its.
    pub urls: Vec<Url>,
    /// Variables that an agent may set for a command.
    pub variables: Vec<String>,
    /// Folders that a command may work in, with everything below them; the first is where it works if it is not told.
    /// Without any it works where we do.
    pub folders: Vec<PathBuf>,
    /// Folders that registered servers receive when they ask for roots; if there are none, the agent is asked.
    pub roots: Vec<Root>,
    /// How many servers a session may register.
    pub of_session: usize,
    /// How many servers may be registered or still end at a time.
    pub all: usize,
    /// How long a call of a server may go without progress. An agent cannot raise it.
    pub longest: Duration,
    /// How registered servers are opened.
    pub options: Options,
}

impl Default for RegistrationLimits {
    fn default() -> Self {
        let usual = usual().map(|name| Pattern(name.to_owned())).collect();
        let surroundings = Surroundings { inherits: Some(usual), ..Surroundings::default() };
        Self {
            commands: Vec::new(),
            base: None,
            urls: Vec::new(),
            variables: Vec::new(),
            folders: Vec::new(),
            roots: Vec::new(),
            of_session: 8,
            all: 32,
            longest: Duration::from_secs(300),
            options: Options { surroundings, ..Options::default() },
        }
    }
}

/// A folder that servers receive as a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Root {
    /// Where it is.
    pub uri: String,
    /// Its name.
    pub name: String,
}

/// A server as an agent describes it.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct ServerConfig {
    server_id: Option<String>,
    name: String,
    transport: String,
    cmd: Vec<String>,
    cwd: String,
    env: Map<String, Value>,
    url: String,
    headers: Map<String, Value>,
    timeout: f64,
    auto_reconnect: bool,
    tool_allow_list: Vec<String>,
    resource_allow_list: Vec<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            server_id: None,
            name: String::new(),
            transport: "stdio".to_owned(),
            cmd: Vec::new(),
            cwd: String::new(),
            env: Map::new(),
            url: String::new(),
            headers: Map::new(),
            timeout: 300.0,
            auto_reconnect: true,
            tool_allow_list: Vec::new(),
            resource_allow_list: Vec::new(),
        }
    }
}

/// A server that may be registered.
#[derive(Debug)]
pub(super) struct Permitted {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) transport: &'static str,
    pub(super) target: Target,
    pub(super) options: Options,
    pub(super) reconnects: bool,
    /// The only tools that are shown, by name; empty: all.
    pub(super) tools: Vec<String>,
    /// The only resources that are shown, by name; empty: all.
    pub(super) resources: Vec<String>,
}

/// How long an id may be.
const LONGEST_ID: usize = 64;

/// Maximum size of the request that describes a server, in bytes. The description is kept as long as the server.
pub(super) const MAX_BYTES: usize = 256 * 1024;

/// The refusal of a description that is too long.
pub(super) fn too_long(size: usize) -> String {
    format!("config: the request has {size} bytes, the limit is {MAX_BYTES}")
}

/// How many entries a list of the description may have.
const ENTRIES: usize = 1000;

impl RegistrationLimits {
    /// The server that a description permits, or the reason why it is not permitted.
    pub(super) fn permit(&self, config: ServerConfig) -> Result<Permitted, String> {
        let id = config.server_id.clone().unwrap_or_else(hex_id);
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
        if id.is_empty() || id.len() > LONGEST_ID || !id.chars().all(is_plain) {
            return Err(format!("config.server_id: it is made of 1 to {LONGEST_ID} letters, digits, `_`, `-` and `.`"));
        }
        if config.tool_allow_list.len() > ENTRIES || config.resource_allow_list.len() > ENTRIES {
            return Err(format!("config: a list of what is allowed has at most {ENTRIES} entries"));
        }
        let mut options = Options {
            name: Some(id.clone()),
            called: id.clone(),
            speak: Speak::Mcp,
            listen: true,
            provides: ["sampling", "roots", "roots.listChanged"].map(|name| (Capability::named(name), None)).into(),
            call_timeout: Some(self.patience(config.timeout)),
            ..self.options.clone()
        };
        let (transport, target) = match config.transport.as_str() {
            "stdio" => ("stdio", self.command(&config, &mut options)?),
            "sse" => ("sse", self.url(&config, &mut options)?),
            "ws" => return Err("config.transport: ws is not spoken yet".to_owned()),
            other => return Err(format!("config.transport: {other:?} is neither stdio nor sse")),
        };
        let name = if config.name.is_empty() { id.clone() } else { config.name };
        Ok(Permitted {
            id,
            name: name.chars().take(LONGEST_ID).collect(),
            transport,
            target,
            options,
            reconnects: config.auto_reconnect,
            tools: config.tool_allow_list,
            resources: config.resource_allow_list,
        })
    }

    fn patience(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|wanted| !wanted.is_zero())
            .unwrap_or(self.longest)
            .min(self.longest)
    }

    fn command(&self, config: &ServerConfig, options: &mut Options) -> Result<Target, String> {
        if config.cmd.is_empty() {
            return Err("config.cmd: no command is given".to_owned());
        }
        let is_permitted = |words: &Vec<String>| !words.is_empty() && config.cmd.starts_with(words);
        if !self.commands.iter().any(is_permitted) {
            return Err(format!("config.cmd: {:?} may not be started here", config.cmd[0]));
        }
        for (name, value) in &config.env {
            if !self.variables.contains(name) {
                return Err(format!("config.env: {name} may not be set here"));
            }
            let value = value.as_str().ok_or_else(|| format!("config.env.{name}: it is to be a text"))?;
            options.surroundings.variables.push((name.clone(), Secret::new(value)));
        }
        options.surroundings.folder = match (self.folders.first(), config.cwd.as_str()) {
            (first, "") => first.cloned(),
            (None, _) => return Err("config.cwd: commands may not work there".to_owned()),
            (Some(first), cwd) => {
                let folder = inside(&first.join(cwd), &self.folders).filter(|folder| folder.is_dir());
                Some(folder.ok_or("config.cwd: commands may not work there")?)
            }
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = find_program(&config.cmd[0], &path, self.base.as_deref());
        Ok(Target::Command(std::iter::once(program).chain(config.cmd[1..].iter().cloned()).collect()))
    }

    fn url(&self, config: &ServerConfig, options: &mut Options) -> Result<Target, String> {
        let url = Url::parse(&config.url).map_err(|error| format!("config.url: {error}"))?;
        if !self.urls.iter().any(|permitted| is_below(&url, permitted)) {
            return Err("config.url: servers may not be there".to_owned());
        }
        for (name, value) in &config.headers {
            let wrong = || format!("config.headers.{name}: it cannot be sent");
            let value = value.as_str().and_then(|value| HeaderValue::from_str(value).ok()).ok_or_else(wrong)?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            if redirects(&name) {
                return Err(format!("config.headers.{name}: it may not be set here"));
            }
            options.headers.insert(name, value);
        }
        Ok(Target::Url(url))
    }
}

/// Whether an address is of the same origin as another, and its path the same or below.
fn is_below(url: &Url, permitted: &Url) -> bool {
    let path = permitted.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(path);
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_http = matches!(url.scheme(), "http" | "https");
    is_http
        && is_plain
        && url.origin() == permitted.origin()
        && rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('/') && !may_lead_up(rest)))
}

/// Whether some server could read a path as one that leaves its folder, though an address does not: many decode a path
/// before they split it, or cut parameters (`..;x`) off first.
fn may_lead_up(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    ["..", ";", "\\", "%2e", "%2f", "%3b", "%5c", "%25", "%00"].iter().any(|part| path.contains(part))
}

/// Whether a header decides to which server or path a request goes, whose request it is, or where it ends. Credentials
/// (`Authorization`, keys) are the agent's own affair.
fn redirects(name: &HeaderName) -> bool {
    const NAMES: [&str; 17] = [
        "host",
        "forwarded",
        "via",
        "x-real-ip",
        "x-original-url",
        "x-rewrite-url",
        "x-http-method-override",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-type",
        "accept",
        "last-event-id",
    ];
    const BEGINNINGS: [&str; 3] = ["x-forwarded-", "proxy-", "mcp-"];
    NAMES.contains(&name.as_str()) || BEGINNINGS.iter().any(|beginning| name.as_str().starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn permit(settings: &RegistrationLimits, config: Value) -> Result<Permitted, String> {
        settings.permit(serde_json::from_value(config).unwrap())
    }

    #[test]
    fn by_default_nothing_is_permitted() {
        let settings = RegistrationLimits::default();
        let why = |config| permit(&settings, config).unwrap_err();
        assert_eq!(why(json!({"cmd": ["sh"]})), r#"config.cmd: "sh" may not be started here"#);
        assert_eq!(why(json!({})), "config.cmd: no command is given");
        assert_eq!(why(json!({"transport": "sse", "url": "http://x/"})), "config.url: servers may not be there");
        assert_eq!(why(json!({"transport": "sse"})), "config.url: relative URL without a base");
        assert_eq!(why(json!({"transport": "ws"})), "config.transport: ws is not spoken yet");
        assert_eq!(why(json!({"transport": "tcp"})), r#"config.transport: "tcp" is neither stdio nor sse"#);
        for id in ["", "a b", "ü", &"x".repeat(65)] {
            assert!(why(json!({"server_id": id})).starts_with("config.server_id"), "{id}");
        }
    }

    #[test]
    fn a_command_begins_with_all_words_that_are_permitted() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let folder = std::env::temp_dir();
        let settings = RegistrationLimits {
            commands: vec![words(&["npx", "-y", "server"]), words(&[])],
            variables: vec!["KEY".to_owned()],
            folders: vec![folder.clone()],
            ..RegistrationLimits::default()
        };
        let cmd = |cmd: &[&str]| permit(&settings, json!({"cmd": cmd})).is_ok();
        assert!(cmd(&["npx", "-y", "server", "--more"]));
        assert!(!cmd(&["npx", "-y", "other"]) && !cmd(&["npx"]) && !cmd(&["/bin/npx", "-y", "server"]));
        let with = |more: Value| {
            let mut config = json!({"cmd": ["npx", "-y", "server"]});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            permit(&settings, config)
        };
        let permitted = with(json!({"env": {"KEY": "secret"}, "timeout": 5, "cwd": folder.to_str().unwrap()})).unwrap();
        assert_eq!(permitted.options.call_timeout, Some(Duration::from_secs(5)));
        assert_eq!(permitted.options.surroundings.folder, std::fs::canonicalize(folder).ok());
        assert_eq!(permitted.id.len(), 8);
        assert_eq!(
            with(json!({"env": {"LD_PRELOAD": "x"}})).unwrap_err(),
            "config.env: LD_PRELOAD may not be set here"
        );
        assert_eq!(with(json!({"env": {"KEY": 1}})).unwrap_err(), "config.env.KEY: it is to be a text");
        for folder in ["/", "/nowhere/at/all"] {
            assert_eq!(with(json!({"cwd": folder})).unwrap_err(), "config.cwd: commands may not work there");
        }
        for timeout in [0.0, -1.0, 1e9] {
            assert_eq!(with(json!({"timeout": timeout})).unwrap().options.call_timeout, Some(settings.longest));
        }
    }

    #[test]
    fn an_address_is_below_one_that_is_permitted() {
        let urls = vec![Url::parse("https://example.com/mcp/").unwrap()];
        let settings = RegistrationLimits { urls, ..RegistrationLimits::default() };
        let url = |url: &str| permit(&settings, json!({"transport": "sse", "url": url})).is_ok();
        assert!(url("https://example.com/mcp") && url("https://example.com/mcp/a?b"));
        for other in [
            "https://example.com.evil.org/mcp",
            "https://example.com@evil.org/mcp",
            "https://a:b@example.com/mcp",
            "http://example.com/mcp",
            "https://example.com:444/mcp",
            "https://example.com/mcpx",
            "https://example.com/mcp/../x",
            "https://example.com/mcp/%2e%2e/x",
            "https://example.com/mcp/..%2fx",
            "https://example.com/mcp/..%2Fx",
            "https://example.com/mcp/..;/x",
            "https://example.com/mcp/..%3b/x",
            "https://example.com/mcp/a%5c..%5c..%5cx",
            "https://example.com/mcp/%252e%252e%252fx",
            "file:///mcp",
        ] {
            assert!(!url(other), "{other}");
        }
        let header = |name: &str, value: Value| {
            let headers = json!({name: value});
            permit(&settings, json!({"transport": "sse", "url": "https://example.com/mcp", "headers": headers})).is_ok()
        };
        assert!(header("Authorization", json!("Bearer of-the-agent")));
        for name in ["Host", "X-Forwarded-Host", "Forwarded", "X-Original-URL", "Transfer-Encoding", "Mcp-Session-Id"] {
            assert!(!header(name, json!("v")), "{name}");
        }
        assert!(header("X-Key", json!("v")) && !header("X-Key", json!(1)) && !header("X Key", json!("v")));
    }
}
