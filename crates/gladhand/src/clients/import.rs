//! Servers in the files of other programs, as upstreams of ours.
//!
//! The shapes differ little: a `command` with `args`, `env` and `cwd`, or a `url` with `headers`, under one of a few
//! names. A note names settings that have no counterpart here.

use std::path::{Path, PathBuf};

use gladhand_core::wire::Members;
use serde_json::{Map, Value};

use super::found::{Found, Origin, secret_name};
use super::record::fingerprint;
use super::setting::{Setting, Text};
use super::{BadFile, Client, Format, carried, jsonc};
use crate::config::{BUILT_IN, MOST_UPSTREAMS};

/// Where clients keep their servers in a file.
const SECTIONS: [&[&str]; 5] =
    [&["mcpServers"], &["servers"], &["context_servers"], &["mcp", "servers"], &["mcp_servers"]];

/// A file with servers.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) file: PathBuf,
    /// The client whose file it is, if that is known.
    pub(crate) client: Option<Client>,
    /// The project whose file it is. Its servers start in that folder.
    pub(crate) project: Option<PathBuf>,
}

impl Source {
    /// The user's own file of a client.
    pub(crate) fn of_client(client: Client, file: PathBuf) -> Self {
        Self { file, client: Some(client), project: None }
    }

    /// A file that is named. Its name tells whether it belongs to a client or to a project.
    pub(crate) fn named(file: &Path) -> Self {
        let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let clients = <Client as clap::ValueEnum>::value_variants();
        if let Some(client) = clients.iter().find(|client| client.file().is_some_and(|own| own == whole)) {
            return Self::of_client(*client, file.to_owned());
        }
        let of_project = clients.iter().find_map(|client| {
            let name = Path::new(client.project_file()?);
            let folder = whole.ancestors().nth(name.components().count())?;
            (folder.join(name) == whole).then(|| (*client, folder.to_owned()))
        });
        let (client, project) = of_project.unzip();
        Self { file: file.to_owned(), client, project }
    }

    /// Whether it is the user's own file of a client. Any other file may come from a stranger, so it refers to no secret or
    /// variable of the user.
    fn is_own(&self) -> bool {
        self.client.is_some() && self.project.is_none()
    }

    /// Where its servers come from, in words.
    pub(crate) fn origin(&self) -> Origin {
        let place = match (self.client, &self.project) {
            (Some(client), None) => client.name(),
            (_, Some(_)) => "project".to_owned(),
            (None, None) => "file".to_owned(),
        };
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        Origin { place, file }
    }
}

/// A server that is not taken over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Its name in the client's file.
    pub(crate) name: String,
    /// Why.
    pub(crate) why: String,
}

/// Why an entry that starts us is left out.
const US: &str = "it is gladhand itself";

impl LeftOut {
    /// Whether the entry starts us.
    pub(crate) fn is_us(&self) -> bool {
        self.why == US
    }
}

/// The servers in the text of a file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Servers {
    /// Those that can be taken over.
    pub(crate) found: Vec<Found>,
    /// Those that cannot.
    pub(crate) left_out: Vec<LeftOut>,
}

/// All servers in a file's text; those of the project `here` too, where the file has projects. An entry that starts us is left
/// out.
pub(crate) fn read(text: &str, source: &Source, here: Option<&Path>) -> Result<Servers, BadFile> {
    let project = source.project.as_deref();
    let mut all: Vec<_> = SECTIONS
        .iter()
        .map(|section| Ok((project, entries(text, source, section)?)))
        .collect::<Result<_, BadFile>>()?;
    if let Some((here, folder)) = here.and_then(|here| Some((here, here.to_str()?))) {
        all.push((Some(here), entries(text, source, &["projects", folder, "mcpServers"])?));
    }
    let count = all.iter().map(|(_, servers)| servers.len()).sum();
    if count > MOST_UPSTREAMS {
        return Err(BadFile::TooManyServers(count));
    }
    Ok(collected(all, source))
}

/// The servers in the section of a client that holds for all projects.
pub(crate) fn read_section(text: &str, source: &Source, section: &str) -> Result<Servers, BadFile> {
    Ok(collected(vec![(None, entries(text, source, &[section])?)], source))
}

/// A server as it is written there, under its name.
type Written = (String, Value);

/// The entries of a section, in the order of the file.
fn entries(text: &str, source: &Source, section: &[&str]) -> Result<Vec<Written>, BadFile> {
    match Format::of(&source.file) {
        Format::Json => {
            let cleaned = jsonc::clean(text);
            let root = if cleaned.text.trim().is_empty() { Members::default() } else { Members::parse(&cleaned.text)? };
            let found = section.iter().try_fold(root, |members, name| members.object(name)).unwrap_or_default();
            found.iter().map(|(name, raw)| Ok((name.to_owned(), serde_json::from_str(raw.get())?))).collect()
        }
        Format::Toml => {
            let root = serde_json::to_value(text.parse::<toml::Table>()?)?;
            let found = section.iter().try_fold(&root, |value, name| value.get(name)).and_then(Value::as_object);
            Ok(found.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect())
        }
    }
}

fn collected(sections: Vec<(Option<&Path>, Vec<Written>)>, source: &Source) -> Servers {
    let Servers { mut found, mut left_out } = Servers::default();
    for (project, servers) in sections {
        for (name, server) in servers {
            match upstream(&name, server, source, project) {
                Ok(mut server) => {
                    let base = server.name.clone();
                    let mut number = 2;
                    while found.iter().any(|other: &Found| other.name == server.name) {
                        server.name = format!("{base}-{number}");
                        number += 1;
                    }
                    found.push(server);
                }
                Err(why) => left_out.push(LeftOut { name, why: why.to_owned() }),
            }
        }
    }
    Servers { found, left_out }
}

/// Whether an entry starts us.
fn is_us(command: &Value, args: &[Value]) -> bool {
    let stem = command.as_str().and_then(|program| Path::new(program).file_stem()?.to_str());
    stem == Some("gladhand") && args.first().is_some_and(|first| first == "serve")
}

/// One server as an upstream; why not, if it is us, or nothing that can be started or reached.
fn upstream(name: &str, server: Value, source: &Source, project: Option<&Path>) -> Result<Found, &'static str> {
    let Value::Object(mut server) = server else { return Err("it is no object") };
    let mut notes = Vec::new();
    // Zed used to keep the whole command in one object.
    if let Some(Value::Object(mut inner)) = server.remove("command").map(|command| match command {
        Value::Object(inner) => Value::Object(inner),
        other => Value::Object(Map::from_iter([("command".to_owned(), other)])),
    }) {
        if let Some(path) = inner.remove("path") {
            inner.insert("command".to_owned(), path);
        }
        server.extend(inner);
    }
    let timeouts = carried::timeouts(&mut server, source.client, &mut notes);
    let mut take = |key: &str| server.remove(key).filter(|value| !value.is_null());
    let command = take("command").filter(Value::is_string);
    let args = take("args").and_then(|args| args.as_array().cloned()).unwrap_or_default();
    if command.as_ref().is_some_and(|command| is_us(command, &args)) {
        return Err(US);
    }
    let url = take("url").or_else(|| take("serverUrl")).or_else(|| take("httpUrl")).filter(Value::is_string);
    let (env, cwd) = (take("env"), take("cwd").filter(Value::is_string));
    let mut headers = take("headers").or_else(|| take("http_headers"));
    // Codex names variables that hold the values.
    if let Some(Value::Object(variables)) = take("env_http_headers") {
        let all = headers.get_or_insert_with(|| Value::Object(Map::new()));
        for (header, variable) in variables {
            if let (Some(all), Some(variable)) = (all.as_object_mut(), variable.as_str()) {
                all.insert(header, Value::String(format!("${{{variable}}}")));
            }
        }
    }
    let bearer = take("bearer_token_env_var").and_then(|name| Some(Value::String(format!("${{{}}}", name.as_str()?))));
    let inherited = take("env_vars").filter(Value::is_array);
    let inherited = inherited.filter(|names| source.is_own() || withhold_variables(names, &mut notes));
    let mut list = |names: [&str; 3]| names.iter().find_map(|name| take(name)).filter(Value::is_array);
    let only = list(["includeTools", "enabled_tools", "tools"]);
    let [only, hide] = carried::names(only, list(["disabledTools", "excludeTools", "disabled_tools"]), source.client);
    let (disabled, enabled) = (take("disabled"), take("enabled"));
    let is_off = disabled == Some(Value::Bool(true)) || enabled == Some(Value::Bool(false));
    let texts = |value: Option<Value>| match value {
        Some(Value::Object(members)) if !members.is_empty() => Some(Value::Object(in_text(members))),
        _ => None,
    };
    let mut settings = Vec::new();
    let unused = match (command, url) {
        (Some(command), url) => {
            let words: Vec<_> = std::iter::once(command).chain(args).collect();
            settings.push(("command", Some(Value::Array(words))));
            settings.push(("cwd", cwd));
            settings.push(("env", texts(env)));
            settings.push(("inherit_env", inherited));
            [("url", url), ("headers", headers)]
        }
        (None, Some(url)) => {
            settings.push(("url", Some(url)));
            settings.push(("headers", texts(headers)));
            settings.push(("bearer", bearer));
            [("env", env), ("cwd", cwd)]
        }
        (None, None) => return Err("it has neither a command nor a URL that is a string"),
    };
    server.extend(unused.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    settings.extend(timeouts);
    settings.push(("only", only));
    settings.push(("hide", hide));
    settings.push(("enabled", is_off.then_some(Value::Bool(false))));
    notes.extend(carried::left_behind(&server));
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect();
    let clean = match clean.as_str() {
        "" => "server".to_owned(),
        name if BUILT_IN.contains(&name) => format!("{name}-server"),
        _ => clean,
    };
    if clean != name {
        notes.push(format!("it was called {}", serde_json::to_string(name).unwrap_or_default()));
    }
    let bare = source.client == Some(Client::GeminiCli);
    let stranger = (!source.is_own()).then_some(Stranger { file: &source.file, server: name });
    let references = References { project, bare, stranger };
    let is_strangers = references.stranger.is_some();
    let mut text = |text: &str| translated(text, &references, &mut notes);
    let settings = settings.into_iter().filter_map(|(key, value)| Some((key, Setting::new(value?, &mut text))));
    let mut settings: Vec<_> = settings.collect();
    place_in(project, &mut settings);
    let found = Found { name: clean, called: name.to_owned(), origin: source.origin(), is_strangers, settings, notes };
    found.learn_secrets();
    Ok(found)
}

/// Leaves out variables that a file of a stranger wants a program to get, and notes that.
fn withhold_variables(names: &Value, notes: &mut Vec<String>) -> bool {
    notes.push(format!("not taken over: env_vars. If the program may have these variables, add inherit_env = {names}"));
    false
}

/// Gives a program the folder that it starts in. One of a project starts in the project unless it says otherwise.
fn place_in(project: Option<&Path>, settings: &mut Vec<(&'static str, Setting)>) {
    let Some(project) = project.and_then(Path::to_str) else { return };
    let cwd = settings.iter().position(|(key, _)| *key == "cwd").map(|at| settings.remove(at).1);
    let Some(after) = settings.iter().position(|(key, _)| *key == "command") else { return };
    let cwd = cwd.as_ref().and_then(Setting::text).cloned().unwrap_or_default();
    let folder = match cwd.as_plain() {
        Some(cwd) => {
            let folder: PathBuf = Path::new(project).join(cwd).components().collect();
            Text::plain(&folder.to_string_lossy())
        }
        None if cwd.may_be_absolute() => cwd,
        None => cwd.behind(&format!("{project}/")),
    };
    settings.insert(after + 1, ("cwd", Setting::Text(folder)));
}

/// Values of variables and headers are strings here; clients also accept numbers and booleans.
fn in_text(members: Map<String, Value>) -> Map<String, Value> {
    let text = |(name, value): (String, Value)| match value {
        Value::Null => None,
        Value::String(_) => Some((name, value)),
        other => Some((name, Value::String(other.to_string()))),
    };
    members.into_iter().filter_map(text).collect()
}

/// How a client writes references.
struct References<'p> {
    /// The value of `${workspaceFolder}`.
    project: Option<&'p Path>,
    /// Whether `$NAME` is one, too.
    bare: bool,
    /// Set if the file may come from a stranger.
    stranger: Option<Stranger<'p>>,
}

/// A server in a file that may come from a stranger.
struct Stranger<'p> {
    file: &'p Path,
    /// Its name there.
    server: &'p str,
}

impl Stranger<'_> {
    /// The secret that takes the place of an input. The digest of file, server and input keeps the name apart from
    /// every other secret of the user, for any names of servers and inputs in the file.
    fn secret(&self, id: &str) -> String {
        let file = std::path::absolute(self.file).unwrap_or_else(|_| self.file.to_owned());
        let digest = fingerprint(&serde_json::json!([file.to_string_lossy(), self.server, id]).to_string());
        format!("{}-{}", secret_name(self.server, id), &digest[..8])
    }
}

/// Whether a text is nothing but `$NAME`.
fn is_bare_reference(text: &str) -> bool {
    let name = text.strip_prefix('$').unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Adds a note, once.
fn note(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// The translation of a client's reference.
enum Meaning {
    /// A reference in our form.
    Reference(String),
    /// Literal text.
    Text(String),
}

/// A text with references in our form: `${env:NAME}` and `${input:NAME}` are other programs' words for a variable and a secret.
fn translated(text: &str, references: &References<'_>, notes: &mut Vec<String>) -> Text {
    let bare = (references.bare && is_bare_reference(text)).then(|| format!("${{{}}}", &text[1..]));
    let (mut ours, mut rest) = (Text::default(), bare.as_deref().unwrap_or(text));
    while let Some(at) = rest.find("${") {
        // An unclosed reference is literal text.
        let Some((reference, after)) = rest[at + 2..].split_once('}') else { break };
        ours.push_plain(&rest[..at]);
        rest = after;
        match references.meaning(reference, notes) {
            Meaning::Text(text) => ours.push_plain(&text),
            Meaning::Reference(reference) => ours.push_reference(reference),
        }
    }
    ours.push_plain(rest);
    ours
}

impl References<'_> {
    fn meaning(&self, reference: &str, notes: &mut Vec<String>) -> Meaning {
        if let Some(folder) = self.project.and_then(Path::to_str).filter(|_| reference == "workspaceFolder") {
            return Meaning::Text(folder.to_owned());
        }
        if let Some(id) = reference.strip_prefix("input:") {
            let secret = self.stranger.as_ref().map_or_else(|| id.to_owned(), |stranger| stranger.secret(id));
            let how = "or the variable of that secret, takes the place of a question";
            note(notes, format!("`gladhand secret set {secret}`, {how}"));
            return Meaning::Reference(format!("secret:{secret}"));
        }
        let name = reference.strip_prefix("env:").unwrap_or(reference);
        if matches!(name, "userHome" | "HOME") {
            return Meaning::Reference("HOME".to_owned());
        }
        if self.stranger.is_some() {
            return Meaning::Text(withheld(name, notes));
        }
        let is_theirs = name == reference && name.contains(|c: char| c.is_ascii_lowercase());
        if is_theirs && !name.contains(":-") {
            notes.push(format!("set the variable {name}, or write what it stood for there"));
        }
        Meaning::Reference(name.to_owned())
    }
}

/// The replacement for a variable or secret in a file of a stranger: its default, else the reference as text. A note
/// says how the user can let the server have it.
fn withheld(reference: &str, notes: &mut Vec<String>) -> String {
    let (name, default) = reference.split_once(":-").unwrap_or((reference, ""));
    note(notes, format!("`${{{name}}}` is not read for this file; write it here if the server may have it"));
    if default.is_empty() { format!("${{{name}}}") } else { default.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Reading};

    fn file(name: &str, client: Option<Client>) -> Source {
        Source { file: name.into(), client, project: None }
    }

    fn imported(text: &str) -> String {
        imported_from(text, &file("/f.json", Some(Client::Cursor)))
    }

    fn imported_from(text: &str, source: &Source) -> String {
        let found = read(text, source, Some(Path::new("/project"))).unwrap().found;
        let toml: Vec<_> = found.iter().map(ToString::to_string).collect();
        let from = |line: &&str| !line.starts_with("# from ");
        let toml = toml.join("\n").lines().filter(from).map(|line| format!("{line}\n")).collect::<String>();
        config::parse(&toml, Reading::AsWritten).unwrap_or_else(|problems| panic!("{problems:?} in\n{toml}"));
        toml
    }

    #[test]
    fn servers_of_claude_and_cursor_become_upstreams_in_their_order() {
        let text = r#"{
          "mcpServers": {
            "github": { "command": "npx", "args": ["-y", "server-github"], "env": { "TOKEN": "${GH:-x}", "N": 5 } },
            "my docs": { "type": "http", "url": "https://example.org/mcp", "headers": { "Authorization": "Bearer ${env:T}" } },
            "off": { "command": "x", "disabled": true, "disabledTools": ["rm"], "timeout": 5 },
            "gladhand": { "command": "/usr/bin/gladhand", "args": ["serve"] },
            "nothing": {}
          },
          "projects": { "/project": { "mcpServers": { "off": { "command": "y" } } }, "/other": { "mcpServers": { "z": { "command": "z" } } } }
        }"#;
        let expected = r#"[upstreams.github]
command = ["npx", "-y", "server-github"]
env = { N = "5", TOKEN = "${GH:-x}" }

# it was called "my docs"
[upstreams.my_docs]
url = "https://example.org/mcp"
headers = { Authorization = "Bearer ${T}" }

# not taken over: timeout (`call_timeout_ms` is the time for a call, `timeout_ms` the one for the start)
[upstreams.off]
command = ["x"]
hide = ["rm"]
enabled = false

[upstreams.off-2]
command = ["y"]
cwd = "/project"
"#;
        assert_eq!(imported(text), expected);
    }

    #[test]
    fn an_imported_server_with_a_reserved_name_is_renamed() {
        let text = r#"{ "mcpServers": { "agent": { "command": "a" }, "agent-server": { "command": "b" } } }"#;
        let expected = "# it was called \"agent\"\n[upstreams.agent-server]\ncommand = [\"a\"]\n\n\
                        [upstreams.agent-server-2]\ncommand = [\"b\"]\n";
        assert_eq!(imported(text), expected);
    }

    #[test]
    fn inputs_of_vs_code_become_secrets() {
        let text = r#"{
          // asked for by the editor
          "inputs": [{ "id": "api-key", "type": "promptString", "password": true }],
          "servers": { "a": { "type": "stdio", "command": "a", "args": ["${workspaceFolder}"], "env": { "K": "${input:api-key}" } }, },
        }"#;
        let toml = imported(text);
        assert!(toml.contains(r#"env = { K = "${secret:api-key}" }"#), "{toml}");
        assert!(toml.contains("# set the variable workspaceFolder"), "{toml}");
    }

    #[test]
    fn both_forms_of_zed_and_the_one_of_windsurf_are_understood() {
        let zed = r#"{ "theme": "x", // mine
          "context_servers": {
            "new": { "source": "custom", "command": "n", "args": ["1"], "env": {} },
            "old": { "command": { "path": "o", "args": ["2"], "env": null }, "settings": {} } } }"#;
        assert_eq!(
            imported(zed),
            "[upstreams.new]\ncommand = [\"n\", \"1\"]\n\n[upstreams.old]\ncommand = [\"o\", \"2\"]\n"
        );
        let windsurf = r#"{ "mcpServers": { "far": { "serverUrl": "https://x.example/sse" } } }"#;
        assert_eq!(imported(windsurf), "[upstreams.far]\nurl = \"https://x.example/sse\"\n");
    }

    #[test]
    fn notes_point_at_secrets_and_stay_on_their_line() {
        let text = r#"{ "mcpServers": { "a": { "command": "a", "env": { "API_KEY": "x", "LEVEL": "y", "TOKEN": "${T}" } } } }"#;
        let toml = imported(text);
        let evil = imported(r#"{ "servers": { "a\nb = 1": { "command": "a", "c\nd = 2": 1 } } }"#);
        assert_eq!(evil.lines().count(), 4, "{evil}");
        assert!(toml.starts_with("# env.API_KEY looks like a secret in clear text: "), "{toml}");
        assert_eq!(toml.matches("looks like").count(), 1, "{toml}");
    }

    #[test]
    fn servers_that_are_not_imported_are_listed_with_the_reason() {
        let text = r#"{ "mcpServers": { "a": 5, "b": { "command": ["x"] }, "c": { "command": "gladhand", "args": ["serve"] },
          "d": { "command": "d" } } }"#;
        let servers = read(text, &file("f", None), None).unwrap();
        assert_eq!(servers.found.len(), 1);
        let told: Vec<_> = servers.left_out.iter().map(|LeftOut { name, why }| format!("{name}: {why}")).collect();
        let nothing = "b: it has neither a command nor a URL that is a string";
        assert_eq!(told, ["a: it is no object", nothing, "c: it is gladhand itself"]);
    }

    #[test]
    fn a_client_file_without_valid_json_is_an_error() {
        assert!(read("mcpServers: {}", &file("f", None), None).is_err());
        assert!(read("{}", &file("f.toml", None), None).is_err());
        for empty in ["{}", "", "\n"] {
            assert_eq!(read(empty, &file("f", None), None).unwrap(), Servers::default());
        }
    }

    #[test]
    fn servers_of_codex_gemini_cli_and_copilot_cli_keep_their_settings() {
        let codex = r#"
model = "x"
[mcp_servers.git]
command = "git-server"
args = ["-v"]
env_vars = ["GIT_TOKEN"]
enabled_tools = ["log"]
startup_timeout_sec = 20
[mcp_servers.git.env]
LEVEL = "debug"
[mcp_servers.web]
url = "https://x.example/mcp"
bearer_token_env_var = "WEB_TOKEN"
http_headers = { X-Team = "a" }
env_http_headers = { X-Key = "KEY" }
enabled = false
"#;
        let expected = r#"[upstreams.git]
command = ["git-server", "-v"]
env = { LEVEL = "debug" }
inherit_env = ["GIT_TOKEN"]
timeout_ms = 20000
only = ["log"]

[upstreams.web]
url = "https://x.example/mcp"
headers = { X-Key = "${KEY}", X-Team = "a" }
bearer = "${WEB_TOKEN}"
enabled = false
"#;
        assert_eq!(imported_from(codex, &file("/c/config.toml", Some(Client::Codex))), expected);
        let gemini = r#"{ "mcpServers": { "a": { "command": "a", "env": { "T": "$TOKEN", "U": "$5 or so" },
          "timeout": 30000, "trust": true, "includeTools": ["x"], "excludeTools": ["y"] }, "b": { "httpUrl": "https://x.example/mcp" } } }"#;
        let expected = r#"# not taken over: trust (the client itself decides when to ask)
[upstreams.a]
command = ["a"]
env = { T = "${TOKEN}", U = "$5 or so" }
call_timeout_ms = 30000
only = ["x"]
hide = ["y"]

[upstreams.b]
url = "https://x.example/mcp"
"#;
        assert_eq!(imported_from(gemini, &file("/g", Some(Client::GeminiCli))), expected);
        let copilot = r#"{ "mcpServers": { "a": { "type": "local", "command": "a", "args": [], "tools": ["*"] },
          "b": { "type": "http", "url": "https://x.example/mcp", "tools": ["one"] } } }"#;
        let expected = r#"[upstreams.a]
command = ["a"]

[upstreams.b]
url = "https://x.example/mcp"
only = ["one"]
"#;
        assert_eq!(imported_from(copilot, &file("/c", Some(Client::CopilotCli))), expected);
    }

    #[test]
    fn servers_of_a_project_start_in_its_folder() {
        let source = Source::named(Path::new("/home/ann/shop/.vscode/mcp.json"));
        assert_eq!(
            (source.client, source.project.as_deref()),
            (Some(Client::Vscode), Some(Path::new("/home/ann/shop")))
        );
        let text = r#"{ "servers": { "a": { "command": "a", "args": ["${workspaceFolder}/x"] },
          "b": { "command": "b", "cwd": "sub" }, "c": { "command": "c", "cwd": "${workspaceFolder}/sub" },
          "d": { "command": "d", "cwd": "/else" }, "e": { "url": "https://x.example/" } } }"#;
        let toml = imported_from(text, &source);
        let folders: Vec<_> = toml.lines().filter_map(|line| line.strip_prefix("cwd = ")).collect();
        assert_eq!(
            folders,
            [r#""/home/ann/shop""#, r#""/home/ann/shop/sub""#, r#""/home/ann/shop/sub""#, r#""/else""#]
        );
        assert!(toml.contains(r#"command = ["a", "/home/ann/shop/x"]"#), "{toml}");
        assert_eq!(Source::named(Path::new("/home/ann/servers.json")).project, None);
    }

    #[test]
    fn a_file_of_a_stranger_gets_no_secret_and_no_variable_of_the_user() {
        let text = r#"{ "servers": {
          "github": { "command": "x", "args": ["${input:token}", "${secret:github}", "$${secret:github}", "${HOME}/x"],
            "cwd": "${secret:github}/x", "env": { "A": "${env:AWS_KEY}", "B": "${GH:-x}", "C": "${userHome}" }, "env_vars": ["*"] },
          "web": { "url": "https://x.example/${input:github-token}/${AWS_KEY}", "bearer_token_env_var": "AWS_KEY" } } }"#;
        for source in ["/home/ann/shop/.vscode/mcp.json", "/home/ann/shop/servers.json"] {
            let toml = imported_from(text, &Source::named(Path::new(source)));
            let secrets: Vec<_> = toml.lines().filter_map(|line| line.split("secret set ").nth(1)).collect();
            let secrets: Vec<_> = secrets.iter().filter_map(|line| line.split('`').next()).collect();
            let [token, web] = secrets[..] else { panic!("{toml}") };
            assert!(token.starts_with("github-token-") && token.len() == "github-token-".len() + 8, "{token}");
            assert!(web.starts_with("web-github-token-"), "{web}");
            // Every reference that is left is one of these.
            let left = toml.lines().filter(|line| !line.starts_with('#')).collect::<String>();
            let mut left = left.replace("$$${", "").replace("$${", "").replace("${HOME}", "");
            for secret in [token, web] {
                left = left.replace(&format!("${{secret:{secret}}}"), "");
            }
            assert!(!left.contains("${"), "{toml}");
            assert!(toml.contains(r#"B = "x""#), "a default is the file's own: {toml}");
            assert!(!toml.lines().any(|line| line.starts_with("inherit_env")), "{toml}");
            assert!(toml.contains(r#"add inherit_env = ["*"]"#), "{toml}");
            assert!(toml.contains("`${AWS_KEY}` is not read for this file"), "{toml}");
        }
        let names = ["/a/.mcp.json", "/b/.mcp.json"].map(|file| {
            let stranger = |server, id| Stranger { file: Path::new(file), server }.secret(id);
            [stranger("a", "b-c"), stranger("a-b", "c")]
        });
        let names: std::collections::HashSet<_> = names.as_flattened().iter().collect();
        assert_eq!(names.len(), 4, "no name belongs to two servers or files: {names:?}");
    }

    #[test]
    fn no_text_of_a_stranger_becomes_a_reference() {
        use crate::config::expand::{Lookup, expand};
        let secret = |name: &str| match name.starts_with("s-") {
            true => Ok(gladhand_core::Secret::new("set for it")),
            false => panic!("the secret {name} is read"),
        };
        let variable = |name: &str| match name {
            "HOME" => Some("/h".to_owned()),
            _ => panic!("the variable {name} is read"),
        };
        let lookup = Lookup { variable: &variable, secret: &secret, authorities: &|_| Ok(()) };
        let pieces = ["$", "{", "}", "${", "$${", "secret:github", "A", ":-", "env:", "input:", "${HOME}", "${A:-"];
        let stranger = Some(Stranger { file: Path::new("/f"), server: "s" });
        let references = References { project: Some(Path::new("/p$")), bare: false, stranger };
        for mut number in 0..pieces.len().pow(5) {
            let mut text = String::new();
            for _ in 0..5 {
                text.push_str(pieces[number % pieces.len()]);
                number /= pieces.len();
            }
            let ours = translated(&text, &references, &mut Vec::new()).written();
            assert!(expand(&ours, &lookup).is_ok(), "{text} became {ours}");
        }
    }

    #[test]
    fn gemini_s_short_references_are_not_read_for_a_project() {
        let source = Source::named(Path::new("/p/.gemini/settings.json"));
        let toml = imported_from(r#"{ "mcpServers": { "a": { "command": "a", "env": { "T": "$TOKEN" } } } }"#, &source);
        assert!(toml.contains(r#"env = { T = "$${TOKEN}" }"#), "{toml}");
    }

    #[test]
    fn a_file_with_more_servers_than_a_configuration_can_have_is_refused() {
        let source = Source::named(Path::new("/p/.mcp.json"));
        let file = |count: usize| {
            let servers: Vec<_> = (0..count).map(|number| format!(r#""s{number}": {{"command": "a"}}"#)).collect();
            read(&format!(r#"{{"mcpServers": {{{}}}}}"#, servers.join(",")), &source, None)
        };
        assert_eq!(file(MOST_UPSTREAMS).unwrap().found.len(), MOST_UPSTREAMS);
        let refused = file(MOST_UPSTREAMS + 1).unwrap_err().to_string();
        assert_eq!(refused, "it has 1001 servers, and at most 1000 can be imported");
    }

    #[test]
    fn each_imported_server_has_a_comment_with_its_source() {
        let source = Source::of_client(Client::Cursor, "/h/.cursor/mcp.json".into());
        let found = read(r#"{ "mcpServers": { "a": { "command": "a" } } }"#, &source, None).unwrap().found;
        let expected = "# from cursor (/h/.cursor/mcp.json)\n[upstreams.a]\ncommand = [\"a\"]\n";
        assert_eq!(found[0].to_string(), expected);
    }
}
