//! `gladhand config`: the configuration file looked at, shown, described, filled from other programs' files; and us put
//! into theirs.

mod adoption;
mod check;
mod import;
mod install;
mod masked;
mod show;
mod text_diff;
mod trust;
mod uninstall;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use gladhand_redaction::redact;
use serde_json::Value;

use crate::clients::Client;
use crate::commands::{CommandError, written};
use crate::config::env;
use crate::exit::Exit;
use crate::terminal::text::{counted, plain_lines};

const CONFIG_HELP: &str = "\
Examples:
  gladhand config import --write          import servers from your editor
  gladhand config check                   list all errors
  gladhand config show                    show the settings in force
  gladhand config install claude-desktop  add Gladhand to a client's file";

const SCHEMA_HELP: &str = "\
Examples:
  gladhand config schema > gladhand.schema.json";

/// Options of `config`.
#[derive(Debug, Args)]
#[command(after_help = CONFIG_HELP)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// List all errors of the configuration file.
    Check(CheckArgs),
    /// Show the settings in force, with secrets masked.
    Show(ShowArgs),
    /// Print the JSON Schema of the configuration file.
    ///
    /// Editors with support for TOML schemas use it to complete and check gladhand.toml.
    #[command(after_help = SCHEMA_HELP)]
    Schema,
    /// Import servers from another program's configuration.
    Import(ImportArgs),
    /// Add `gladhand serve` to another program's configuration.
    Install(InstallArgs),
    /// Remove it again, and restore the servers that it replaced.
    Uninstall(UninstallArgs),
    /// Show the files of this project, and trust them.
    Trust(TrustArgs),
}

const CHECK_HELP: &str = "\
Each problem is shown with line, column and key. Exit codes: 0 no error; 2 the
file has errors or cannot be read. A program, folder, variable or secret that
does not exist causes a warning, which does not change the exit code.

Examples:
  gladhand config check
  gladhand config check --json team/gladhand.toml";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
struct CheckArgs {
    /// Configuration file [default: the one that `gladhand serve` would use].
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Configuration file, as an option.
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const SHOW_HELP: &str = "\
Settings that equal their defaults are hidden unless --all is set. References
such as ${VAR} and ${secret:NAME} are shown unchanged; secrets in clear text
are shown as ***.

Examples:
  gladhand config show
  gladhand config show --all
  gladhand config show --json | jq .upstreams";

#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
struct ShowArgs {
    /// Configuration file [default: the one that `gladhand serve` would use].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// Show all settings, including defaults.
    #[arg(long)]
    all: bool,
    /// Print all settings as one JSON object.
    #[arg(long)]
    json: bool,
}

const IMPORT_HELP: &str = "\
Reads the files of Claude Desktop, Claude Code, Cursor, VS Code, Zed, Windsurf,
Codex, Gemini CLI, Cline, JetBrains (Junie), LM Studio and Copilot CLI, with or
without comments. Without a source, it reads all of these that exist, and the
files of this folder (.mcp.json, .cursor/mcp.json, .vscode/mcp.json and
others). The output is valid in gladhand.toml and names the origin of each
server. A server of a project gets the project's folder as its `cwd`.

If two servers have the same name, the first is imported and the differences
are shown. Values that look like secrets are listed. With --secrets, they are
stored in the secret store and replaced with ${secret:NAME}.

Examples:
  gladhand config import
  gladhand config import cursor --write --secrets
  gladhand config import .mcp.json --into gladhand.toml --dry-run";

#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
struct ImportArgs {
    /// A file, or one of claude-desktop, claude-code, cursor, vscode, zed, windsurf, codex, gemini-cli, cline, jetbrains,
    /// lm-studio, copilot-cli.
    #[arg(value_name = "FILE|CLIENT", value_hint = ValueHint::FilePath)]
    source: Option<String>,
    /// Add new servers to the configuration file, instead of printing them.
    #[arg(long)]
    write: bool,
    /// Add new servers to this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    into: Option<PathBuf>,
    /// Move clear-text secrets to the secret store.
    #[arg(long)]
    secrets: bool,
    /// Show the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

const INSTALL_HELP: &str = "\
The rest of the program's file stays unchanged, comments included, and a backup
is written next to it. A second run changes nothing. With --config, the entry
names that file, which is trusted whenever the program starts Gladhand. A
configuration with errors is not installed.

With --replace, the program's servers become upstreams of that configuration
and are removed from the program's file. Servers that cannot be moved stay, and
are listed. `gladhand config uninstall` undoes all of this.

Examples:
  gladhand config install claude-desktop --dry-run
  gladhand config install zed
  gladhand config install codex --replace --secrets
  gladhand config install cursor --name tools --config ~/team/gladhand.toml";

#[derive(Debug, Args)]
#[command(after_help = INSTALL_HELP)]
struct InstallArgs {
    /// Program whose configuration is changed.
    client: Client,
    /// Move the program's servers into the configuration of Gladhand.
    #[arg(long)]
    replace: bool,
    /// Move clear-text secrets of these servers to the secret store.
    #[arg(long, requires = "replace")]
    secrets: bool,
    /// Show the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Name of the entry.
    #[arg(long, default_value = "gladhand")]
    name: String,
    /// Configuration file for the entry [default: your own].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

const UNINSTALL_HELP: &str = "\
Removes the entries of Gladhand and restores the servers that --replace moved.
Upstreams and secrets that were added for them are removed, except upstreams
that you changed or that another program needs. A file that did not change
since is restored byte for byte. In a changed file, only the entries are
undone.

Examples:
  gladhand config uninstall cursor --dry-run
  gladhand config uninstall codex";

#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_HELP)]
struct UninstallArgs {
    /// Program whose configuration is changed.
    client: Client,
    /// Show the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

const TRUST_HELP: &str = "\
A project's gladhand.toml and its skills (.agents/skills) are not used until
you have trusted exactly their content. This command shows what they start,
connect to and read, and asks. A change asks again and shows the difference. A
trusted gladhand.toml can add upstreams and narrow policy; it cannot widen what
your own configuration allows.

Trust can be given only at a terminal. A script can name a file with --config,
which needs no trust.

Examples:
  gladhand config trust
  gladhand config trust ../other-project
  gladhand config trust --revoke ../other-project
  gladhand config trust --list";

#[derive(Debug, Args)]
#[command(after_help = TRUST_HELP, group(ArgGroup::new("reporting").args(["revoke", "list"])))]
struct TrustArgs {
    /// Folder of a project, or one file [default: the current folder].
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: Option<PathBuf>,
    /// Revoke the trust in a file, or in all files below a folder.
    #[arg(long)]
    revoke: bool,
    /// List the trusted files.
    #[arg(long, conflicts_with = "path")]
    list: bool,
    /// With --list and --revoke: print one JSON object.
    #[arg(long, requires = "reporting")]
    json: bool,
    /// Data folder [default: the user's data folder].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

/// Does what is asked for.
pub fn run(args: &ConfigArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        ConfigCommand::Check(args) => check::run(args),
        ConfigCommand::Show(args) => show::run(args),
        ConfigCommand::Schema => print(&format!("{:#}\n", crate::config::schema::schema())),
        ConfigCommand::Import(args) => import::run(args),
        ConfigCommand::Install(args) => install::run(args),
        ConfigCommand::Uninstall(args) => uninstall::run(args),
        ConfigCommand::Trust(args) => trust::run(args),
    }
}

fn print(text: &str) -> Result<ExitCode, CommandError> {
    written(anstream::stdout().write_all(text.as_bytes()))?;
    Ok(Exit::Success.into())
}

fn print_json(value: &Value) -> Result<ExitCode, CommandError> {
    crate::commands::print_json(&value.to_string())?;
    Ok(Exit::Success.into())
}

/// The changes to a file, without secrets.
fn changed(file: &Path, before: &str, after: &str) -> String {
    redact(&changed_as_it_is(file, before, after)).into_owned()
}

/// The same for texts that can be shown as they are.
fn changed_as_it_is(file: &Path, before: &str, after: &str) -> String {
    format!("{}\n{}", file.display(), text_diff::of(&plain_lines(before), &plain_lines(after)))
}

/// Tells the person something that is not the report.
fn say(text: &str) {
    crate::commands::note(text);
}
