//! `gladhand probe`: finds out what a server is, without calling a tool.
//!
//! The server is opened as every client that we can be, each with a process or connection of its own, all at once. Open
//! sessions are asked for their lists. The dialects that opened are then asked for a version that does not exist, and an
//! MCP server is sent requests too early. One report says what came of it.

mod draw;
mod oddities;
mod questions;
mod report;
mod snippet;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Args, ValueHint};
use futures_util::future::join_all;
use gladhand_dialects::ClientSetup;

use crate::commands::open::Waiting;
use crate::commands::open::every;
use crate::commands::open::exchange::{Record, Verdict};
use crate::commands::shared::arguments::seconds;
use crate::commands::shared::opened_server::{Access, client_setup, headers, hint_for, roots, target, typed};
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::sign_in;
use crate::commands::{CommandError, print_report};
use crate::config;
use crate::exit::Exit;
use gladhand_client::upstream::{OpenError, Target};
use gladhand_server::signals::{self, Signals};

use report::Report;

const PROBE_HELP: &str = "\
Opens a session as every client (each dialect and version, each with a process
or connection of its own, at most eight at once), requests the lists, and asks
for a version that does not exist. No tool is called. The report shows which
versions the server accepts, what it offers, how long each step takes, what is
odd, and the configuration to use. The exit code is 0 if a session opened, and
4 if none did.

Examples:
  gladhand probe -- my-server
  gladhand probe -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand probe --json https://example.org/mcp

GLADHAND_A2E_TOKEN is the token for A2E, and GLADHAND_MCP_TOKEN is the bearer
token over HTTP. A server that is started does not receive them.";

/// Options of `probe`.
#[derive(Debug, Args)]
#[command(after_help = PROBE_HELP)]
pub struct ProbeArgs {
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Limit for each opening, and for the lists of each session, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// URL of the server, unless a command follows.
    pub url: Option<String>,
    /// Command that starts the server [default: gladhand serve].
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// Probes a server and shows the report.
pub fn run(args: &ProbeArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let target = target(args.url.as_deref(), &args.command)?;
    let mcp_token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
    let headers = headers(&args.header).map_err(CommandError::usage)?;
    let roots = roots(&target, args.ca.as_deref())?;
    let setup = client_setup(Vec::new())?;
    let timeout = Duration::from_secs(args.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, async {
        let mut signals = Signals::listen()?;
        let access = Access::to(&target, headers, roots, mcp_token, sign_in::Manner::InPassing).await;
        let report = tokio::select! {
            report = probe(&target, &access, &setup, timeout, verbosity > 0) => report?,
            // Dropping the probe ends every process at once.
            stop = signals.next() => return Ok(signals::exit_status(stop).into()),
        };
        let failure = (!report.opened).then(|| no_session(&report));
        if args.json {
            return print_report(serde_json::to_value(&report)?, failure.as_ref());
        }
        draw::print(&report)?;
        Ok(failure.map_or(Exit::Success, |_| Exit::PeerFailed).into())
    })
}

async fn probe(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    timeout: Duration,
    log_stderr: bool,
) -> Result<Report, CommandError> {
    let begun = Instant::now();
    let count = every::clients(target).len();
    let waiting = Waiting::tell(&format!("opening as {count} clients, at most {} s …", timeout.as_secs()));
    let hidden = config::env::never_passed_on();
    let survey = every::Survey { target, access, setup, timeout, log_stderr, lists: Some(timeout), hidden };
    let opened = every::open(&survey).await;
    drop(waiting);
    let (records, servers): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    // A program that cannot be started is the same for every client.
    if let Some(Verdict::Failed(error @ OpenError::NotStarted { .. })) = records.first().map(|record| &record.verdict) {
        let hint = error.hint(target, hint_for(&typed(target)));
        return Err(CommandError::new(Exit::PeerFailed, anyhow!(error.to_string())).code(error.word()).hint(hint));
    }
    join_all(servers.into_iter().zip(&records).map(|(server, record)| server.end(record))).await;
    let waiting = Waiting::tell("asking for an unknown version …");
    let answers = questions::ask(target, access, setup, &records, timeout).await;
    drop(waiting);
    Ok(Report::new(target, &records, answers, begun.elapsed()))
}

/// The newest client of the preferred dialect that got a session.
fn best(records: &[Record]) -> Option<&Record> {
    records.iter().find(|record| matches!(record.verdict, Verdict::Opened(_)))
}

/// The error of a report without a session.
fn no_session(report: &Report) -> CommandError {
    let error = anyhow!("no session opened in any dialect");
    let first = report.clients.first().and_then(|client| client.message.clone());
    let error = CommandError::new(Exit::PeerFailed, error);
    match first {
        Some(message) => error.hint(format!("as {}: {message}", report.clients[0].name())),
        None => error,
    }
}
