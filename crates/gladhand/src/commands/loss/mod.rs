//! `gladhand loss`: what each client loses and gains with a server if the bridge is between them.
//!
//! The server is opened as every client twice: directly, and through `gladhand bridge`. Both agreements come from real
//! sessions, and the features that they lack from the tables that the gates read. Nothing here knows what a dialect
//! can do.

mod comparison;
mod draw;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueHint};
use futures_util::future::join_all;
use gladhand_core::negotiation::{Capability, Side};
use gladhand_dialects::mcp::capabilities::CAPABILITIES;

use crate::commands::open::exchange::{Record, Verdict};
use crate::commands::open::{Waiting, every};
use crate::commands::shared::arguments::{clients_beside, seconds};
use crate::commands::shared::opened_server::{Access, client_setup, headers, hint_for, roots, target, typed};
use crate::commands::shared::{references, sign_in};
use crate::commands::{CommandError, own_program, print_report};
use crate::config;
use crate::exit::Exit;
use gladhand_client::upstream::{OpenError, Speak, Target};
use gladhand_server::signals::{self, Signals};

use comparison::Comparison;

const LOSS_HELP: &str = "\
Opens the server as every client, directly and through `gladhand bridge`, and
compares the two sessions: features that the client gains or loses with the
bridge, and features that the server has and this client cannot get either way,
with the reason. No tool is called. The exit code is 0 if a session opened, and
4 if none did.

Examples:
  gladhand loss -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand loss --only mcp@2024-11-05 -- my-server
  gladhand loss --only mcp --declare elicitation --json https://example.org/mcp";

/// Options of `loss`.
#[derive(Debug, Args)]
#[command(after_help = LOSS_HELP)]
pub struct LossArgs {
    /// Compare only this client, or this dialect [default: every client].
    #[arg(long, value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = clients_beside(&[Speak::AUTO]), ignore_case = true)]
    pub only: String,
    /// Capabilities of the client, comma-separated [default: elicitation, sampling and roots].
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub declare: Option<Vec<String>>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Limit for each opening, and for the lists of each session, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: u64,
    /// Send this header with every HTTP request to the server; may be repeated.
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

/// Opens the server both ways, and shows the differences.
pub fn run(args: &LossArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let target = target(args.url.as_deref(), &args.command)?;
    let bridge = through_bridge(args, &target)?;
    let mcp_token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
    let headers = headers(&args.header).map_err(CommandError::usage)?;
    let roots = roots(&target, args.ca.as_deref())?;
    let setup = client_setup(declared(args)?)?;
    let timeout = Duration::from_secs(args.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let access = Access::to(&target, headers, roots, mcp_token, sign_in::Manner::InPassing).await;
        let (lists, log_stderr) = (Some(timeout), verbosity > 0);
        let hidden = config::env::never_passed_on();
        let directly =
            every::Survey { target: &target, access: &access, setup: &setup, timeout, log_stderr, lists, hidden };
        let hidden = references::hidden_from_ourselves();
        let hidden = if matches!(target, Target::Url(_)) { Vec::new() } else { hidden };
        let through = every::Survey { target: &bridge, hidden, ..directly_again(&directly) };
        let both = async {
            let direct = survey(&directly, "directly").await?;
            let bridged = survey(&through, "through the bridge").await?;
            Ok::<_, CommandError>((direct, bridged))
        };
        let (direct, bridged) = tokio::select! {
            both = both => both?,
            // Dropping the surveys ends every process at once.
            stop = signals.next() => return Ok(signals::exit_status(stop).into()),
        };
        let comparison = Comparison::new(&target, &direct, &bridged, |record| is_wanted(record, &args.only));
        let failure = (!comparison.opened).then(|| {
            CommandError::new(Exit::PeerFailed, anyhow!("no session opened in any dialect"))
                .hint("`gladhand probe` shows what the server does")
        });
        if args.json {
            return print_report(serde_json::to_value(&comparison)?, failure.as_ref());
        }
        match failure {
            Some(error) => Err(error),
            None => {
                draw::print(&comparison)?;
                Ok(Exit::Success.into())
            }
        }
    })
}

/// The same survey, to be changed.
fn directly_again<'a>(survey: &every::Survey<'a>) -> every::Survey<'a> {
    let every::Survey { target, access, setup, timeout, log_stderr, lists, .. } = *survey;
    every::Survey { target, access, setup, timeout, log_stderr, lists, hidden: Vec::new() }
}

/// Opens a server as every client, and ends it.
async fn survey(survey: &every::Survey<'_>, how: &str) -> Result<Vec<Record>, CommandError> {
    let waiting = Waiting::tell(&format!("opening as every client, {how} …"));
    let opened = every::open(survey).await;
    drop(waiting);
    let (records, servers): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    // A program that cannot be started is the same for every client.
    if let Some(Verdict::Failed(error @ OpenError::NotStarted { .. })) = records.first().map(|record| &record.verdict) {
        let hint = error.hint(survey.target, hint_for(&typed(survey.target)));
        return Err(CommandError::new(Exit::PeerFailed, anyhow!(error.to_string())).code(error.word()).hint(hint));
    }
    join_all(servers.into_iter().zip(&records).map(|(server, record)| server.end(record))).await;
    Ok(records)
}

/// The command of a bridge in front of the server.
fn through_bridge(args: &LossArgs, target: &Target) -> Result<Target, CommandError> {
    let mut words = vec![own_program()?, "bridge".to_owned()];
    words.extend(args.header.iter().flat_map(|header| ["--header".to_owned(), header.clone()]));
    if let Some(file) = &args.ca {
        let file = file.to_str().ok_or_else(|| CommandError::usage(anyhow!("the path of --ca is not UTF-8")))?;
        words.extend(["--ca".to_owned(), file.to_owned()]);
    }
    match target {
        Target::Url(url) => words.push(url.to_string()),
        Target::Command(command) => {
            words.push("--".to_owned());
            words.extend(command.iter().cloned());
        }
    }
    Ok(Target::Command(words))
}

/// The capabilities of the client.
fn declared(args: &LossArgs) -> Result<Vec<Capability>, CommandError> {
    let Some(names) = &args.declare else {
        return Ok(["elicitation", "sampling", "roots"].map(Capability::from_wire).to_vec());
    };
    let known: Vec<_> =
        CAPABILITIES.iter().filter(|known| known.owner == Side::Client).map(|known| known.name).collect();
    let names: Vec<_> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    match names.iter().find(|name| !known.contains(name)) {
        Some(unknown) => {
            let error = anyhow!("--declare: there is no capability `{unknown}` of a client");
            Err(CommandError::usage(error).hint(format!("known names: {}", known.join(", "))))
        }
        None => Ok(names.into_iter().map(Capability::from_wire).collect()),
    }
}

/// Whether a client is among those that `--only` names.
fn is_wanted(record: &Record, only: &str) -> bool {
    let name = format!("{}@{}", record.dialect.name, record.version);
    only.eq_ignore_ascii_case(Speak::AUTO)
        || only.eq_ignore_ascii_case(record.dialect.name)
        || only.eq_ignore_ascii_case(&name)
}
