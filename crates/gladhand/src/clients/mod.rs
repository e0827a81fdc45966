//! The configuration files of other programs: where they are, what they say of servers, and how we get into them.

pub(crate) mod import;
pub(crate) mod jsonc;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

/// The largest file that is read. Some programs keep much else beside their servers.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The text of a program's file.
pub(crate) fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let length = fs_err::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if length as u64 > LARGEST {
        return Err(std::io::Error::other(format!("{} is larger than {LARGEST} bytes", path.display())));
    }
    Ok(text)
}

/// A program that starts servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
        let home = etcetera::home_dir().ok()?;
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let settings = match System::THIS {
            System::Linux => named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            System::Mac => home.join("Library/Application Support"),
            System::Windows => named("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
        };
        Some(self.file_on(System::THIS, &home, &settings))
    }

    /// The same for any system, given the user's home and where programs keep their settings.
    fn file_on(self, system: System, home: &Path, settings: &Path) -> PathBuf {
        match self {
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
        }
    }

    /// The member of the file that holds its servers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::ClaudeDesktop | Self::ClaudeCode | Self::Cursor | Self::Windsurf => "mcpServers",
            Self::Vscode => "servers",
            Self::Zed => "context_servers",
        }
    }

    /// What makes it start a program as a server.
    pub(crate) fn entry(self, program: &str, arguments: &[String]) -> Entry {
        let kind = matches!(self, Self::ClaudeCode | Self::Vscode).then_some("stdio");
        let source = (self == Self::Zed).then_some("custom");
        Entry { kind, source, command: program.to_owned(), args: arguments.to_vec() }
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A server in a client's file.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    command: String,
    args: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let file = |client: Client| client.file_on(system, home, Path::new(settings));
            assert_eq!(file(Client::ClaudeDesktop), Path::new(desktop).join("claude_desktop_config.json"));
            assert_eq!(file(Client::Zed), Path::new(zed));
            assert_eq!(file(Client::ClaudeCode), Path::new("/h/.claude.json"));
            assert!(file(Client::Vscode).starts_with(settings));
        }
    }

    #[test]
    fn each_client_gets_an_entry_in_its_own_shape() {
        let entry = |client: Client| serde_json::to_string(&client.entry("g", &["serve".to_owned()])).unwrap();
        assert_eq!(entry(Client::Cursor), r#"{"command":"g","args":["serve"]}"#);
        assert_eq!(entry(Client::Vscode), r#"{"type":"stdio","command":"g","args":["serve"]}"#);
        assert_eq!(entry(Client::Zed), r#"{"source":"custom","command":"g","args":["serve"]}"#);
    }
}
