//! The configuration files of other programs: where they are, what they say of servers, and how we get into them.

mod carried;
pub(crate) mod found;
pub(crate) mod import;
mod jsonc;
pub(crate) mod projects;
pub(crate) mod record;
mod setting;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::config::MOST_UPSTREAMS;

/// The largest file that is read. Some programs keep much else beside their servers.
const LARGEST: u64 = 64 * 1024 * 1024;

/// Why a program's file cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadFile {
    /// It is no JSON.
    #[error("not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// It is no TOML. The parser's message quotes the line, which may hold a secret.
    #[error("not TOML")]
    NotToml(#[from] toml::de::Error),
    /// Something in it has another shape than it should have.
    #[error("`{0}` is not an object")]
    NotObject(String),
    /// An entry is written in a way that cannot be changed without changing something else.
    #[error("`{0}` is written in a way that cannot be changed here: edit the file by hand")]
    Uneditable(String),
    /// It has more servers than a configuration file can have.
    #[error("it has {0} servers, and at most {MOST_UPSTREAMS} can be imported")]
    TooManyServers(usize),
}

/// The text of a program's file.
pub(crate) fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    gladhand_store::files::no_pipe(path)?;
    let length = fs_err::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if length as u64 > LARGEST {
        return Err(std::io::Error::other(format!("{} is larger than {LARGEST} bytes", path.display())));
    }
    Ok(text)
}

/// How a program's file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Toml,
}

impl Format {
    /// The format of a file, by its name.
    pub(crate) fn of(file: &Path) -> Self {
        if file.extension().is_some_and(|ending| ending == "toml") { Self::Toml } else { Self::Json }
    }

    /// The text with `section.name` set to an entry; `None` if it is so already.
    pub(crate) fn put(self, text: &str, section: &str, name: &str, entry: &Entry) -> Result<Option<String>, BadFile> {
        match self {
            Self::Json => jsonc::put(text, section, name, entry),
            Self::Toml => tables::put(text, section, name, &serde_json::to_value(entry)?),
        }
    }

    /// The text without `section.name`, and what was written there; `None` if there is no such entry.
    pub(crate) fn take(self, text: &str, section: &str, name: &str) -> Result<Option<(String, String)>, BadFile> {
        match self {
            Self::Json => jsonc::take(text, section, name),
            Self::Toml => tables::take(text, section, name),
        }
    }

    /// The text with what was taken; the same text if there is something of that name.
    pub(crate) fn restore(self, text: &str, section: &str, name: &str, written: &str) -> Result<String, BadFile> {
        match self {
            Self::Json => jsonc::restore(text, section, name, written),
            Self::Toml => tables::restore(text, section, name, written),
        }
    }
}

/// A program that starts servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Client {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code, for all projects.
    ClaudeCode,
    /// Cursor, for all projects.
    Cursor,
    /// Visual Studio Code, for all projects.
    Vscode,
    /// Zed.
    Zed,
    /// Windsurf.
    Windsurf,
    /// Codex, for all projects.
    Codex,
    /// Gemini CLI, for all projects.
    GeminiCli,
    /// Cline.
    Cline,
    /// Junie, the agent of JetBrains, for all projects.
    Jetbrains,
    /// LM Studio.
    LmStudio,
    /// Copilot CLI, for all projects.
    CopilotCli,
}

/// Which of its own variables a client gives to the servers that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenVariables {
    /// All of them, as far as is known.
    All,
    /// A few, and those that `env_vars` of the entry lists.
    Listed,
    /// A few, and those that `env` of the entry refers to, with this before each name.
    Referenced(&'static str),
    /// A few, and no others.
    Few,
}

/// A family of operating systems, as far as folders are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Linux,
    Mac,
    Windows,
}

impl System {
    const THIS: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::Mac
    } else {
        Self::Linux
    };
}

impl Client {
    /// The file in which this user configures it; none for a user without a home.
    pub(crate) fn file(self) -> Option<PathBuf> {
        let home = crate::config::home_dir()?;
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let moved = match self {
            Self::Codex => named("CODEX_HOME").map(|folder| folder.join("config.toml")),
            Self::Cline => named("CLINE_MCP_SETTINGS_PATH"),
            Self::CopilotCli => named("COPILOT_HOME").map(|folder| folder.join("mcp-config.json")),
            _ => None,
        };
        if moved.is_some() {
            return moved;
        }
        let settings = match System::THIS {
            System::Linux => named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            System::Mac => home.join("Library/Application Support"),
            System::Windows => named("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
        };
        let (usual, other) = self.files_on(System::THIS, &home, &settings);
        Some(other.filter(|other| other.is_file() && !usual.is_file()).unwrap_or(usual))
    }

    /// The same for any system, given the user's home and where programs keep their settings: the usual place, and another
    /// one that some versions use.
    fn files_on(self, system: System, home: &Path, settings: &Path) -> (PathBuf, Option<PathBuf>) {
        let usual = match self {
            Self::ClaudeDesktop => settings.join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => home.join(".claude.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Vscode => settings.join("Code/User/mcp.json"),
            Self::Zed => match system {
                System::Windows => settings.join("Zed/settings.json"),
                System::Mac => home.join(".config/zed/settings.json"),
                System::Linux => settings.join("zed/settings.json"),
            },
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
            Self::Codex => home.join(".codex/config.toml"),
            Self::GeminiCli => home.join(".gemini/settings.json"),
            Self::Cline => {
                settings.join("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")
            }
            Self::Jetbrains => home.join(".junie/mcp/mcp.json"),
            Self::LmStudio => home.join(".lmstudio/mcp.json"),
            Self::CopilotCli => home.join(".copilot/mcp-config.json"),
        };
        let other = match self {
            Self::Cline => Some(home.join(".cline/data/settings/cline_mcp_settings.json")),
            Self::LmStudio => Some(home.join(".cache/lm-studio/mcp.json")),
            _ => None,
        };
        (usual, other)
    }

    /// The file in which a project configures it, in the project's folder.
    pub(crate) fn project_file(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some(".mcp.json"),
            Self::Cursor => Some(".cursor/mcp.json"),
            Self::Vscode => Some(".vscode/mcp.json"),
            Self::Codex => Some(".codex/config.toml"),
            Self::GeminiCli => Some(".gemini/settings.json"),
            Self::Jetbrains => Some(".junie/mcp/mcp.json"),
            Self::CopilotCli => Some(".github/mcp.json"),
            Self::ClaudeDesktop | Self::Zed | Self::Windsurf | Self::Cline | Self::LmStudio => None,
        }
    }

    /// The member of the file that holds its servers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::ClaudeDesktop | Self::ClaudeCode | Self::Cursor | Self::Windsurf => "mcpServers",
            Self::GeminiCli | Self::Cline | Self::Jetbrains | Self::LmStudio | Self::CopilotCli => "mcpServers",
            Self::Vscode => "servers",
            Self::Zed => "context_servers",
            Self::Codex => "mcp_servers",
        }
    }

    /// Which of its variables a server gets.
    pub(crate) fn given_variables(self) -> GivenVariables {
        match self {
            Self::Codex => GivenVariables::Listed,
            // Gemini CLI withholds only variables that look like secrets, unless an entry refers to them.
            Self::GeminiCli | Self::CopilotCli => GivenVariables::Referenced(""),
            Self::Cline => GivenVariables::Referenced("env:"),
            Self::ClaudeDesktop => GivenVariables::Few,
            Self::ClaudeCode | Self::Cursor | Self::Vscode | Self::Zed => GivenVariables::All,
            Self::Windsurf | Self::Jetbrains | Self::LmStudio => GivenVariables::All,
        }
    }

    /// The entry that makes it start a program as a server, which needs these variables beside the plain ones.
    pub(crate) fn entry(self, program: &str, arguments: &[String], needed: &BTreeSet<String>) -> Entry {
        let kind = match self {
            Self::ClaudeCode | Self::Vscode => Some("stdio"),
            Self::CopilotCli => Some("local"),
            _ => None,
        };
        let source = (self == Self::Zed).then_some("custom");
        let tools = if self == Self::CopilotCli { vec!["*"] } else { Vec::new() };
        let mut entry =
            Entry { kind, source, command: program.to_owned(), args: arguments.to_vec(), ..Entry::default() };
        match self.given_variables() {
            GivenVariables::Listed => entry.env_vars = needed.iter().cloned().collect(),
            GivenVariables::Referenced(before) => {
                // A client may leave a reference to an unset variable as it is, and a default would not apply.
                let set = needed.iter().filter(|name| std::env::var_os(name).is_some());
                entry.env = set.map(|name| (name.clone(), format!("${{{before}{name}}}"))).collect();
            }
            GivenVariables::All | GivenVariables::Few => {}
        }
        Entry { tools, ..entry }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A server in a client's file.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Entry {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    command: String,
    args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env_vars: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_client_is_written_by_the_agent_only_with_approval() {
        let home = Path::new("/h");
        let is_held =
            |file: &Path| gladhand_agent_tools::steers_programs(home, file.strip_prefix(home).unwrap_or(file));
        for client in Client::value_variants() {
            let (usual, other) = client.files_on(System::Linux, home, Path::new("/h/.config"));
            let of_project = client.project_file().map(PathBuf::from);
            for file in [usual].into_iter().chain(other).chain(of_project) {
                assert!(is_held(&file), "{}", file.display());
            }
        }
    }

    #[test]
    fn every_client_has_a_file_on_every_system() {
        let home = Path::new("/h");
        for (system, settings, desktop, zed) in [
            (System::Linux, "/h/.config", "/h/.config/Claude/", "/h/.config/zed/settings.json"),
            (
                System::Mac,
                "/h/Library/Application Support",
                "/h/Library/Application Support/Claude/",
                "/h/.config/zed/settings.json",
            ),
            (
                System::Windows,
                "/h/AppData/Roaming",
                "/h/AppData/Roaming/Claude/",
                "/h/AppData/Roaming/Zed/settings.json",
            ),
        ] {
            let file = |client: Client| client.files_on(system, home, Path::new(settings)).0;
            assert_eq!(file(Client::ClaudeDesktop), Path::new(desktop).join("claude_desktop_config.json"));
            assert_eq!(file(Client::Zed), Path::new(zed));
            assert_eq!(file(Client::ClaudeCode), Path::new("/h/.claude.json"));
            assert_eq!(file(Client::Codex), Path::new("/h/.codex/config.toml"));
            assert!(file(Client::Vscode).starts_with(settings) && file(Client::Cline).starts_with(settings));
        }
    }

    #[test]
    fn each_client_gets_an_entry_in_its_own_shape() {
        let entry = |client: Client| {
            let entry = client.entry("g", &["serve".to_owned()], &BTreeSet::new());
            let format = Format::of(&client.files_on(System::Linux, Path::new("/h"), Path::new("/s")).0);
            let text = format.put("", client.section(), "x", &entry).unwrap().unwrap();
            assert_eq!(format.put(&text, client.section(), "x", &entry).unwrap(), None, "once is enough");
            let (rest, _) = format.take(&text, client.section(), "x").unwrap().unwrap();
            assert!(format.take(&rest, client.section(), "x").unwrap().is_none(), "and it can be taken out");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let plain = r#"{ "mcpServers": { "x": { "command": "g", "args": [ "serve" ] } } }"#;
        for client in [Client::Cursor, Client::GeminiCli, Client::Cline, Client::Jetbrains, Client::LmStudio] {
            assert_eq!(entry(client), plain, "{client:?}");
        }
        assert!(
            entry(Client::Vscode).starts_with(r#"{ "servers": { "x": { "#) && entry(Client::Vscode).contains("stdio")
        );
        assert!(entry(Client::Zed).contains(r#""source": "custom""#));
        let copilot = entry(Client::CopilotCli);
        assert!(copilot.contains(r#""type": "local""#) && copilot.contains(r#""tools": [ "*" ]"#), "{copilot}");
        assert_eq!(entry(Client::Codex), "[mcp_servers.x] command = \"g\" args = [\"serve\"]");
    }

    #[test]
    fn an_entry_names_needed_variables_only_where_the_client_withholds_them() {
        // A client expands only what is set, so the test uses variables that cargo sets.
        let needed = BTreeSet::from(["CARGO_PKG_NAME".to_owned(), "NO_SUCH_VARIABLE".to_owned()]);
        let entry = |client: Client| serde_json::to_value(client.entry("g", &[], &needed)).unwrap();
        let reference = |text: &str| serde_json::json!({ "CARGO_PKG_NAME": text });
        assert_eq!(entry(Client::Codex)["env_vars"], serde_json::json!(["CARGO_PKG_NAME", "NO_SUCH_VARIABLE"]));
        assert_eq!(entry(Client::GeminiCli)["env"], reference("${CARGO_PKG_NAME}"));
        assert_eq!(entry(Client::CopilotCli)["env"], reference("${CARGO_PKG_NAME}"));
        assert_eq!(entry(Client::Cline)["env"], reference("${env:CARGO_PKG_NAME}"));
        for client in [Client::ClaudeCode, Client::ClaudeDesktop, Client::Cursor] {
            let entry = entry(client);
            assert!(entry["env"].is_null() && entry["env_vars"].is_null(), "{entry}");
        }
    }
}
