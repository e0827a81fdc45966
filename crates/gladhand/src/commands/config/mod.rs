//! `gladhand config`: the configuration file looked at, shown, described, filled from other programs' files; and us put
//! into theirs.

mod adoption;
mod check;
mod import;
mod install;
mod show;
mod trust;
mod uninstall;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use gladhand_redaction::redact;
use serde_json::Value;

use crate::clients::Client;
use crate::commands::plain::plain_lines;
use crate::commands::{CommandError, difference, written};
use crate::config::env;
use crate::exit::Exit;

const CONFIG_HELP: &str = "\
Examples:
  gladhand config import --write          take over servers your editor knows
  gladhand config check                   list all errors
  gladhand config show                    show the settings that hold
  gladhand config install claude-desktop  put us into a client's file";

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
    /// Show the settings that hold, with secrets masked.
    Show(ShowArgs),
    /// Print the JSON Schema of the configuration file.
    ///
    /// Editors that know TOML schemas complete and check gladhand.toml with it.
    #[command(after_help = SCHEMA_HELP)]
    Schema,
    /// Take over servers from another program's configuration.
    Import(ImportArgs),
    /// Put `gladhand serve` into another program's configuration.
    Install(InstallArgs),
    /// Take it out again, and put back what it replaced.
    Uninstall(UninstallArgs),
    /// Trust the files of this project, after showing what they do.
    Trust(TrustArgs),
}

const CHECK_HELP: &str = "\
Each problem is told with its line, its column and its key, never with its
value. Exit code 0: nothing is wrong; 1: the file is fine, and something that it
names is not there (a program, a folder, a tool); 2: the file is wrong or cannot
be read. An upstream whose variable or secret is not set is a warning that does
not change the exit code: everything else works without it.

Examples:
  gladhand config check
  gladhand config check --json team/gladhand.toml";

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
struct CheckArgs {
    /// The file [default: the one that `gladhand serve` would use].
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// The same as an option.
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The data folder [default: the user's].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const SHOW_HELP: &str = "\
Only what differs from the defaults is shown, unless --all is given. References
such as ${VAR} and ${secret:NAME} are shown as they are written, and what is
written in clear as ***.

Examples:
  gladhand config show
  gladhand config show --all
  gladhand config show --json | jq .upstreams";

#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
struct ShowArgs {
    /// The file [default: the one that `gladhand serve` would use].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The data folder [default: the user's].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
    /// Show everything, what is as it is by default too.
    #[arg(long)]
    all: bool,
    /// Print everything as one JSON object.
    #[arg(long)]
    json: bool,
}

const IMPORT_HELP: &str = "\
Understands the files of Claude Desktop, Claude Code, Cursor, VS Code, Zed,
Windsurf, Codex, Gemini CLI, Cline, JetBrains (Junie), LM Studio and Copilot
CLI, comments and all. Without a source, all of them that are there are read,
and the files of this folder (.mcp.json, .cursor/mcp.json, .vscode/mcp.json and
the like). What is printed can be put into gladhand.toml as it is, with the
origin of each server. Servers of a project get its folder as their `cwd`.

Of two servers with one name the first is taken, and what differs in the other
is told. Values that look like secrets are named; --secrets keeps them in the
secret store and writes ${secret:NAME} instead.

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
    /// Add what is not there yet to the configuration file, instead of printing it.
    #[arg(long)]
    write: bool,
    /// Add it to this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    into: Option<PathBuf>,
    /// Keep secrets that are written out in the secret store, and refer to them.
    #[arg(long)]
    secrets: bool,
    /// Show what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// The data folder [default: the user's].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

const INSTALL_HELP: &str = "\
The rest of the file stays as it is, comments included, and a copy of the old
one is kept beside it. Doing it twice changes nothing. A file that is named with
--config is named in the entry, and is trusted whenever the program starts us.
A configuration with errors is not installed.

With --replace, the program's own servers become upstreams of that configuration
and are taken out of the program's file, so that it has them once, behind us.
What cannot be moved stays and is named. `gladhand config uninstall` undoes it.

Examples:
  gladhand config install claude-desktop --dry-run
  gladhand config install zed
  gladhand config install codex --replace --secrets
  gladhand config install cursor --name tools --config ~/team/gladhand.toml";

#[derive(Debug, Args)]
#[command(after_help = INSTALL_HELP)]
struct InstallArgs {
    /// The program whose configuration is changed.
    client: Client,
    /// Move its servers behind us.
    #[arg(long)]
    replace: bool,
    /// Keep secrets of moved servers in the secret store, and refer to them.
    #[arg(long, requires = "replace")]
    secrets: bool,
    /// Show what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// What to be called there.
    #[arg(long, default_value = "gladhand")]
    name: String,
    /// The configuration file that it starts us with [default: your own].
    #[arg(long, value_name = "FILE", env = env::CONFIG, value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The data folder [default: the user's].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

const UNINSTALL_HELP: &str = "\
Our entries are removed and servers that --replace moved are put back. Upstreams
and secrets that were added for them are removed from our side, except upstreams
that you have changed or that another program needs. A file that has not changed
since is restored byte for byte; in another one only our part is undone.

Examples:
  gladhand config uninstall cursor --dry-run
  gladhand config uninstall codex";

#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_HELP)]
struct UninstallArgs {
    /// The program whose configuration is changed.
    client: Client,
    /// Show what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// The data folder [default: the user's].
    #[arg(long, value_name = "FOLDER", env = env::DATA_DIR, value_hint = ValueHint::DirPath)]
    data_dir: Option<PathBuf>,
}

const TRUST_HELP: &str = "\
A project's gladhand.toml and its skills (.agents/skills) are not used until you
have trusted exactly their content. This command shows what they start, connect
to and read, and asks. A change asks again and shows the difference. A trusted
gladhand.toml can add upstreams and narrow policy; it cannot widen what your own
configuration allows.

The question is asked at a terminal only. For scripts, name a file that you know
with --config: it is used as it is.

Examples:
  gladhand config trust
  gladhand config trust ../other-project
  gladhand config trust --revoke ../other-project
  gladhand config trust --list";

#[derive(Debug, Args)]
#[command(after_help = TRUST_HELP, group(ArgGroup::new("reporting").args(["revoke", "list"])))]
struct TrustArgs {
    /// A project's folder, or one file [default: the current folder].
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: Option<PathBuf>,
    /// Take trust back from a file, or from all files below a folder.
    #[arg(long)]
    revoke: bool,
    /// List the trusted files.
    #[arg(long, conflicts_with = "path")]
    list: bool,
    /// With --list and --revoke: print one JSON object.
    #[arg(long, requires = "reporting")]
    json: bool,
    /// The data folder [default: the user's].
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
    format!("{}\n{}", file.display(), difference::of(&plain_lines(before), &plain_lines(after)))
}

/// Tells the person something that is not the report.
fn say(text: &str) {
    crate::commands::note(text);
}

/// A number of things, in words.
fn counted(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
