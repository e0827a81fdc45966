//! `gladhand check`: judges a server or a client by the rules of its dialects.
//!
//! The rules and the lines that exercise them are in the crate `gladhand-check`, which does no I/O. This command sends
//! the lines, records what comes back, and reports which rules are broken.

mod client;
mod formats;
mod listing;
mod posting;
mod server;
mod summary;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, ValueEnum, ValueHint};

use crate::commands::CommandError;
use crate::commands::shared::arguments::{clients_beside, seconds};
use crate::exit::Exit;
use gladhand_client::upstream::Speak;

use summary::Summary;

const CHECK_HELP: &str = "\
Sends a server what its rules are about, and judges the answers: each rule has
a name, a level (MUST, SHOULD or lint) and a section of the specification, and
each failure shows the messages that broke it. No tool of the server is called.
With --client, gladhand is the server, and judges what the client sends.

The exit code is 0 if no MUST rule is broken, 5 if one is, and 4 if there was
no session to judge. With --strict, every broken rule counts.

Examples:
  gladhand check --server -- npx -y @modelcontextprotocol/server-everything
  gladhand check --server --only mcp@2025-11-25 https://example.org/mcp
  gladhand check --server --format junit -- my-server > report.xml
  gladhand check --client -- gladhand tools -- {server}
  gladhand check --list

In the command of a client, {server} stands for the command of the server.";

/// Options of `check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArgs {
    /// Judge a server: a URL, or a command behind `--`.
    #[arg(long, conflicts_with_all = ["client", "list"])]
    pub server: bool,
    /// Judge a client: a command behind `--`, with {server} where the command of a server belongs.
    #[arg(long, conflicts_with_all = ["list", "url"])]
    pub client: bool,
    /// List all rules.
    #[arg(long, conflicts_with_all = ["url", "command"])]
    pub list: bool,
    /// Check only this dialect, or this version of it [default: all that the server speaks].
    #[arg(long, value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients_beside(&[Speak::AUTO]), ignore_case = true)]
    pub only: String,
    /// Count every broken rule as a failure, not only those of the level MUST.
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object; short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Format of the report.
    #[arg(long, value_enum, default_value = "list")]
    pub format: Format,
    /// Limit for each answer, in seconds; the first one has at least 30.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Be the scripted server of this name, and write the exchange into this file.
    #[arg(long, hide = true, num_args = 2, value_names = ["SCRIPT", "FILE"])]
    pub play: Option<Vec<String>>,
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// Command that starts the server [default: gladhand serve], or the client.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people: the broken rules, each with an exchange.
    List,
    /// One JSON object.
    Json,
    /// JUnit XML, for CI.
    Junit,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

impl CheckArgs {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// Judges a server or a client, or lists the rules.
pub fn run(args: &CheckArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    if let Some([script, file]) = args.play.as_deref() {
        return client::play(script, file.as_ref());
    }
    if args.list {
        return listing::print(args.format());
    }
    if args.client {
        return client::run(args);
    }
    if !args.server {
        let error = anyhow!("check needs --server, --client or --list");
        return Err(CommandError::usage(error).hint("`gladhand check --help` shows examples"));
    }
    server::run(args, verbosity)
}

/// Prints the report, and says how the process ends.
fn finish(summary: &Summary, args: &CheckArgs) -> Result<ExitCode, CommandError> {
    let broken = summary.broken(args.strict);
    let failure = if summary.exchanges.iter().all(|exchange| exchange.is_silent()) {
        let error = anyhow!("there was no session to judge");
        Some(CommandError::new(Exit::PeerFailed, error).hint("`gladhand probe` shows what the server speaks"))
    } else if broken > 0 {
        let error = anyhow!("{broken} rule{} broken", if broken == 1 { " is" } else { "s are" });
        Some(CommandError::new(Exit::CallFailed, error).code("rule_broken"))
    } else {
        None
    };
    match args.format() {
        Format::List => text::print(summary)?,
        Format::Json => return formats::print_json_report(summary, failure.as_ref()),
        Format::Junit => crate::commands::print_data(&formats::junit(summary, args.strict))?,
        Format::Sarif => crate::commands::print_data(&formats::sarif(summary))?,
    }
    match failure {
        Some(error) if error.exit == Exit::PeerFailed => Err(error),
        Some(error) => Ok(error.exit.into()),
        None => Ok(Exit::Success.into()),
    }
}
