//! Servers in the files of other programs, as upstreams of ours.
//!
//! The shapes differ little: a `command` with `args`, `env` and `cwd`, or a `url` with `headers`, under one of a few
//! names. What cannot be taken over is said in a note.

use std::fmt;
use std::path::Path;

use gladhand_wire::invisible::{Layout, escape};
use gladhand_wire::{Members, RawValue};
use serde_json::{Map, Value};

use super::jsonc::{self, BadJson};
use crate::config::text;

/// Members that say nothing which we need.
const IDLE: [&str; 14] = [
    "type",
    "source",
    "transport",
    "alwaysAllow",
    "autoApprove",
    "settings",
    "dev",
    "gallery",
    "version",
    "name",
    "description",
    "icon",
    "enabled",
    "disabled",
];

/// A server that was found.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    /// What it can be called here.
    pub(crate) name: String,
    /// Its settings, in the order in which they are written.
    settings: Vec<(&'static str, Value)>,
    /// What a person should know.
    notes: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            // What a name holds must not become a line of its own.
            writeln!(f, "# {}", escape(note, Layout::Line))?;
        }
        writeln!(f, "[upstreams.{}]", self.name)?;
        self.settings.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {}", text::value(value)))
    }
}

/// A server that is not taken over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// What it is called there.
    pub(crate) name: String,
    /// Why.
    pub(crate) why: &'static str,
}

/// What a file's text says of servers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Servers {
    /// Those that can be taken over.
    pub(crate) found: Vec<Found>,
    /// Those that cannot.
    pub(crate) left_out: Vec<LeftOut>,
}

/// All servers in a file's text; those of one project too, where the file has projects. Whatever starts us is left out.
pub(crate) fn read(text: &str, project: Option<&Path>) -> Result<Servers, BadJson> {
    let cleaned = jsonc::clean(text);
    let root = Members::parse(&cleaned.text)?;
    let mut sections: Vec<Members<'_>> =
        ["mcpServers", "servers", "context_servers"].iter().filter_map(|name| root.object(name)).collect();
    sections.extend(root.object("mcp").and_then(|mcp| mcp.object("servers")));
    let of_project = project.and_then(Path::to_str).and_then(|project| root.object("projects")?.object(project));
    sections.extend(of_project.and_then(|project| project.object("mcpServers")));
    let servers = sections.iter().flat_map(|section| section.iter());
    let Servers { mut found, mut left_out } = Servers::default();
    for (name, server) in servers {
        match upstream(name, server) {
            Ok(mut server) => {
                let base = server.name.clone();
                let mut number = 2;
                while found.iter().any(|other: &Found| other.name == server.name) {
                    server.name = format!("{base}-{number}");
                    number += 1;
                }
                found.push(server);
            }
            Err(why) => left_out.push(LeftOut { name: (*name).to_owned(), why }),
        }
    }
    Ok(Servers { found, left_out })
}

/// One server as an upstream; why not, if it is us, or nothing that can be started or reached.
fn upstream(name: &str, server: &RawValue) -> Result<Found, &'static str> {
    let mut server: Map<String, Value> = serde_json::from_str(server.get()).map_err(|_| "it is no object")?;
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
    let mut take = |key: &str| server.remove(key).filter(|value| !value.is_null());
    let command = take("command").filter(Value::is_string);
    let args = take("args").and_then(|args| args.as_array().cloned()).unwrap_or_default();
    let is_us = |command: &Value| {
        let stem = command.as_str().and_then(|program| Path::new(program).file_stem()?.to_str());
        stem == Some("gladhand") && args.first().is_some_and(|first| first == "serve")
    };
    if command.as_ref().is_some_and(is_us) {
        return Err("it is gladhand itself");
    }
    let url = take("url").or_else(|| take("serverUrl")).or_else(|| take("httpUrl")).filter(Value::is_string);
    let (env, cwd, headers) = (take("env"), take("cwd"), take("headers"));
    let hide = take("disabledTools").filter(Value::is_array);
    let is_off = take("disabled") == Some(Value::Bool(true)) || take("enabled") == Some(Value::Bool(false));
    let texts = |value: Option<Value>| match value {
        Some(Value::Object(members)) if !members.is_empty() => Some(Value::Object(in_text(members))),
        _ => None,
    };
    let mut settings = Vec::new();
    match (command, url) {
        (Some(command), _) => {
            let words: Vec<_> = std::iter::once(command).chain(args).collect();
            settings.push(("command", Some(Value::Array(words))));
            settings.push(("cwd", cwd.filter(Value::is_string)));
            settings.push(("env", texts(env)));
        }
        (None, Some(url)) => {
            settings.push(("url", Some(url)));
            settings.push(("headers", texts(headers)));
        }
        (None, None) => return Err("it has neither a command nor a URL that is a string"),
    }
    settings.push(("hide", hide));
    settings.push(("enabled", is_off.then_some(Value::Bool(false))));
    let left: Vec<_> = server.keys().map(String::as_str).filter(|key| !IDLE.contains(key)).collect();
    if !left.is_empty() {
        notes.push(format!("not taken over: {}", left.join(", ")));
    }
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' }).collect();
    let clean = if clean.is_empty() { "server".to_owned() } else { clean };
    if clean != name {
        notes.push(format!("it was called {}", serde_json::to_string(name).unwrap_or_default()));
    }
    let mut settings: Vec<_> = settings.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    notes.extend(settings.iter().flat_map(|(_, value)| in_clear(value)));
    settings.iter_mut().for_each(|(_, value)| translate(value, &mut notes));
    Ok(Found { name: clean, settings, notes })
}

/// A note for each variable or header that looks like a secret and is written out.
fn in_clear(value: &Value) -> Vec<String> {
    let is_secret = |name: &str| {
        let name = name.to_ascii_uppercase();
        ["TOKEN", "KEY", "SECRET", "PASSWORD", "AUTHORIZATION"].iter().any(|word| name.contains(word))
    };
    let written_out = value.as_object().into_iter().flatten().filter(|(name, value)| {
        is_secret(name) && value.as_str().is_some_and(|text| !text.is_empty() && !text.contains("${"))
    });
    written_out.map(|(name, _)| format!("{name} is written out: ${{secret:NAME}} keeps it out of this file")).collect()
}

/// Variables and headers are text, whatever they are written as.
fn in_text(members: Map<String, Value>) -> Map<String, Value> {
    let text = |(name, value): (String, Value)| match value {
        Value::Null => None,
        Value::String(_) => Some((name, value)),
        other => Some((name, Value::String(other.to_string()))),
    };
    members.into_iter().filter_map(text).collect()
}

/// Writes references in our way: `${env:NAME}` and `${input:NAME}` are other programs' words for a variable and a secret.
fn translate(value: &mut Value, notes: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains("${") => *text = translated(text, notes),
        Value::Array(items) => items.iter_mut().for_each(|item| translate(item, notes)),
        Value::Object(members) => members.values_mut().for_each(|member| translate(member, notes)),
        _ => {}
    }
}

fn translated(text: &str, notes: &mut Vec<String>) -> String {
    let (mut ours, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        ours.push_str(&rest[..at]);
        let Some((reference, after)) = rest[at + 2..].split_once('}') else {
            // It stands for itself.
            ours.push('$');
            rest = &rest[at..];
            break;
        };
        rest = after;
        if let Some(name) = reference.strip_prefix("env:") {
            ours.push_str(&format!("${{{name}}}"));
        } else if let Some(id) = reference.strip_prefix("input:") {
            let note =
                format!("`gladhand secret set {id}`, or the variable of that secret, takes the place of a question");
            if !notes.contains(&note) {
                notes.push(note);
            }
            ours.push_str(&format!("${{secret:{id}}}"));
        } else if reference == "userHome" {
            ours.push_str("${HOME}");
        } else {
            if reference.contains(|c: char| c.is_ascii_lowercase()) && !reference.contains(":-") {
                notes.push(format!("set the variable {reference}, or write what it stood for there"));
            }
            ours.push_str(&format!("${{{reference}}}"));
        }
    }
    ours + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Reading};

    fn imported(text: &str) -> String {
        let found = read(text, Some(Path::new("/project"))).unwrap().found;
        let toml: Vec<_> = found.iter().map(ToString::to_string).collect();
        let toml = toml.join("\n");
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

# not taken over: timeout
[upstreams.off]
command = ["x"]
hide = ["rm"]
enabled = false

[upstreams.off-2]
command = ["y"]
"#;
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
        assert!(toml.starts_with("# API_KEY is written out: ${secret:NAME} keeps it out of this file\n[up"), "{toml}");
    }

    #[test]
    fn what_is_left_out_is_told_with_the_reason() {
        let text = r#"{ "mcpServers": { "a": 5, "b": { "command": ["x"] }, "c": { "command": "gladhand", "args": ["serve"] },
          "d": { "command": "d" } } }"#;
        let servers = read(text, None).unwrap();
        assert_eq!(servers.found.len(), 1);
        let told: Vec<_> = servers.left_out.iter().map(|LeftOut { name, why }| format!("{name}: {why}")).collect();
        let nothing = "b: it has neither a command nor a URL that is a string";
        assert_eq!(told, ["a: it is no object", nothing, "c: it is gladhand itself"]);
    }

    #[test]
    fn what_is_no_json_is_told() {
        assert!(read("mcpServers: {}", None).is_err());
        assert_eq!(read("{}", None).unwrap(), Servers::default());
    }
}
