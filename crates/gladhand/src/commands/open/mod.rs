//! `gladhand open`: opens a session with a server as some client, and shows what happened.
//!
//! The output shows the exchange that took place. Lines are recorded and drawn as they cross the channel, and the
//! verdict, the table and the JSON are made from the same record.

pub(in crate::commands) mod capabilities;
pub(in crate::commands) mod draw;
pub(in crate::commands) mod every;
pub(in crate::commands) mod exchange;
pub(in crate::commands) mod report;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueHint};
use futures_util::future::join_all;
use gladhand_core::negotiation::{Capability, Refusal, Side};
use gladhand_dialects::{ClientSetup, Dialect, REGISTRY, mcp};
use tokio::time::Instant;

use crate::commands::CommandError;
use crate::commands::shared::arguments::{AS, clients_beside, seconds};
use crate::commands::shared::opened_server::{Access, client_setup, headers, hint_for};
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::sign_in;
use crate::config;
use crate::exit::Exit;
use crate::terminal::layout::{message_width, pieces};
use crate::terminal::text::plain;
use gladhand_client::upstream::{IgnoreEvents, OpenError, Options, Speak, Target, Upstream};
use gladhand_server::signals::{self, Signals};

use exchange::{Plan, Record, Verdict};

const OPEN_HELP: &str = "\
Shows the messages on the wire, a table of capabilities (declared by the
client, by the server, in force), the capabilities that are absent with the
reason, and the result. The exit code is 0 only if a session opened.

Examples:
  gladhand open -- my-server
  gladhand open --as mcp@2025-06-18
  gladhand open --as mcp -- npx -y @modelcontextprotocol/server-everything stdio
  gladhand open --as mcp@2026-07-28 https://example.org/mcp
  gladhand open --as all -- my-server
  gladhand open --as a2e --want tools,memory --json -- my-a2e-host

GLADHAND_A2E_TOKEN is the token for `--as a2e`, and GLADHAND_MCP_TOKEN is the
bearer token over HTTP. A server that is started does not receive them.";

/// Options of `open`.
#[derive(Debug, Args)]
#[command(after_help = OPEN_HELP)]
pub struct OpenArgs {
    /// As which client to talk to the server.
    #[arg(long = "as", value_name = "DIALECT[@VERSION]", default_value = "auto", value_parser = open_clients(), ignore_case = true, help = format!("{AS}; `all` tries each one and prints a table"))]
    pub client: String,
    /// Print one JSON object instead of the drawing.
    #[arg(long)]
    pub json: bool,
    /// Use only these capabilities of the server: names of the dialect, comma-separated.
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub want: Vec<String>,
    /// Declare these capabilities as the client: names of the dialect, comma-separated.
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',')]
    pub declare: Vec<String>,
    /// Limit for the opening, in seconds.
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

/// The clients that `open` can be: those of every command, and all of them one beside the other.
fn open_clients() -> clap::builder::PossibleValuesParser {
    clients_beside(&[Speak::AUTO, ALL])
}

/// The client that stands for all of them.
pub const ALL: &str = "all";

/// Opens a session and shows how that went.
pub fn run(args: OpenArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let is_all = args.client.eq_ignore_ascii_case(ALL);
    let speak = match is_all {
        true => Speak::Auto,
        false => Speak::parse(&args.client)
            .ok_or_else(|| CommandError::usage(anyhow!("there is no client `{}`", args.client)))?,
    };
    if is_all && !(args.want.is_empty() && args.declare.is_empty()) {
        let error = anyhow!("--want and --declare are in the words of one dialect, and `--as all` speaks several");
        return Err(CommandError::usage(error));
    }
    let target = crate::commands::shared::opened_server::target(args.url.as_deref(), &args.command)?;
    capabilities::check(speak, "--want", Side::Server, &args.want)?;
    capabilities::check(speak, "--declare", Side::Client, &args.declare)?;
    if let (Target::Url(_), Speak::As(dialect, _)) = (&target, speak)
        && !dialect.has_http
    {
        let error = OpenError::NotOverHttp(dialect.name);
        let hint = error.hint(&target, hint_for(&crate::commands::shared::opened_server::typed(&target)));
        return Err(CommandError::usage(error).hint(hint));
    }
    let mcp_token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
    let headers = headers(&args.header).map_err(CommandError::usage)?;
    let roots = crate::commands::shared::opened_server::roots(&target, args.ca.as_deref())?;
    let mut setup = client_setup(with_parents(args.declare))?;
    setup.wants = (!args.want.is_empty()).then(|| with_parents(args.want));
    let timeout = Duration::from_secs(args.timeout);
    let log_stderr = verbosity > 0;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, async {
        let mut signals = Signals::listen()?;
        let begun = Instant::now();
        let access = Access::to(&target, headers, roots, mcp_token, sign_in::Manner::InPassing).await;
        if is_all {
            return tokio::select! {
                opened = open_all(&target, &access, &setup, timeout, log_stderr, args.json) => opened,
                stop = signals.next() => {
                    let record = Record::interrupted(&mcp::DIALECT, mcp::DIALECT.versions[0], target.clone(), stop);
                    show_all(std::slice::from_ref(&record), args.json)?;
                    Ok(exit_code(&record).into())
                }
            };
        }
        let mut possible = Vec::new();
        let (dialect, version) = match speak {
            Speak::As(dialect, version) => (dialect, version),
            Speak::Auto | Speak::Mcp => tokio::select! {
                found = found_out(&target, &access, &setup, speak, timeout) => found.unwrap_or_else(|| {
                    possible = dialects(&target, speak);
                    (&mcp::DIALECT, mcp::DIALECT.versions[0])
                }),
                stop = signals.next() => {
                    let record = Record::interrupted(&mcp::DIALECT, mcp::DIALECT.versions[0], target, stop);
                    let page = (!args.json).then(|| draw::Page::new(record.dialect, &record.version, &record.target));
                    finish(page, &record)?;
                    return Ok(exit_code(&record).into());
                }
            },
        };
        version.clone_into(&mut setup.version);
        let mut page = (!args.json).then(|| draw::Page::new(dialect, version, &target));
        let wait = || {
            let left = timeout.saturating_sub(begun.elapsed()).as_secs_f64().ceil();
            Waiting::tell(&format!("waiting for an answer as {}@{version}, at most {left} s …", dialect.name))
        };
        let mut waiting = wait();
        let mut show = |message: &exchange::RecordedLine| {
            drop(waiting.take());
            page.iter_mut().for_each(|page| page.message(message));
            waiting = wait();
        };
        let given_up = async {
            tokio::select! {
                // The time in which it was found out what the server speaks counts as well.
                () = access.silence(timeout.saturating_sub(begun.elapsed())) => {
                    Verdict::refused(Refusal::TimedOut { seconds: timeout.as_secs() })
                }
                stop = signals.next() => Verdict::Interrupted(stop),
            }
        };
        let plan = Plan {
            dialect,
            setup,
            target,
            access: &access,
            log_stderr,
            lists: None,
            hidden: config::env::never_passed_on(),
        };
        let (mut record, server) = exchange::open(plan, given_up, &mut show).await;
        drop(waiting);
        record.possible = possible;
        // The verdict does not wait until the server has left.
        finish(page, &record)?;
        tokio::select! {
            () = server.end(&record) => {}
            _ = signals.next() => {}
        }
        Ok(exit_code(&record).into())
    })
}

/// Shows how an opening ended: on the page that shows its messages, or as JSON.
fn finish(page: Option<draw::Page>, record: &Record) -> Result<(), CommandError> {
    match page {
        Some(page) => page.finish(record),
        None => report::print(record),
    }
}

/// Shows how the openings as several clients ended.
fn show_all(records: &[Record], is_json: bool) -> Result<(), CommandError> {
    match is_json {
        true => report::print_all(records),
        false => draw::Page::summary(records),
    }
}

/// Opens a session as every client that we can be, and shows what became of each.
async fn open_all(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    timeout: Duration,
    log_stderr: bool,
    is_json: bool,
) -> Result<ExitCode, CommandError> {
    let count = every::clients(target).len();
    let waiting = Waiting::tell(&format!("opening as {count} clients, at most {} s …", timeout.as_secs()));
    let hidden = config::env::never_passed_on();
    let survey = every::Survey { target, access, setup, timeout, log_stderr, lists: None, hidden };
    let (records, servers): (Vec<_>, Vec<_>) = every::open(&survey).await.into_iter().unzip();
    drop(waiting);
    // A program that cannot be started is the same for every client.
    if let (false, Some(Verdict::Failed(error @ OpenError::NotStarted { .. }))) =
        (is_json, records.first().map(|record| &record.verdict))
    {
        let hint = error.hint(target, hint_for(&crate::commands::shared::opened_server::typed(target)));
        return Err(CommandError::new(Exit::PeerFailed, anyhow!(error.to_string())).code(error.word()).hint(hint));
    }
    show_all(&records, is_json)?;
    join_all(servers.into_iter().zip(&records).map(|(server, record)| server.end(record))).await;
    let opened = records.iter().find(|record| matches!(record.verdict, Verdict::Opened(_)));
    Ok(opened.or_else(|| records.first()).map_or(Exit::PeerFailed as u8, exit_code).into())
}

/// A line that tells a person at a terminal what is being done. It is taken away when it is dropped.
pub(in crate::commands) struct Waiting;

impl Waiting {
    pub(in crate::commands) fn tell(text: &str) -> Option<Self> {
        std::io::stderr().is_terminal().then(|| {
            let width = message_width().unwrap_or_default();
            let row = pieces(&plain(text), width.saturating_sub(1)).swap_remove(0);
            // It fails only where stderr is closed.
            let _ = write!(anstream::stderr(), "{row}").and_then(|()| anstream::stderr().flush());
            Self
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = write!(anstream::stderr(), "\r\u{1b}[K").and_then(|()| anstream::stderr().flush());
    }
}

fn exit_code(record: &Record) -> u8 {
    match &record.verdict {
        Verdict::Opened(_) => Exit::Success as u8,
        Verdict::Failed(error) => super::exit_of(error) as u8,
        Verdict::Interrupted(stop) => signals::exit_status(*stop),
    }
}

/// The dialects that a server may speak, in the order in which they are tried.
fn dialects(target: &Target, speak: Speak) -> Vec<&'static str> {
    let is_carried = |dialect: &&&Dialect| matches!(target, Target::Command(_)) || dialect.has_http;
    let others = REGISTRY.iter().filter(|dialect| matches!(speak, Speak::Auto) && dialect.name != mcp::DIALECT.name);
    std::iter::once(mcp::DIALECT.name).chain(others.filter(is_carried).map(|dialect| dialect.name)).collect()
}

/// The dialect and version in which to open a server, chosen as every other command does: the server is opened once in
/// silence, unless it was before. That takes half of the time, so that the exchange can be shown in the rest. None for
/// a server that cannot be opened at all.
async fn found_out(
    target: &Target,
    access: &Access,
    setup: &ClientSetup,
    speak: Speak,
    timeout: Duration,
) -> Option<(&'static Dialect, &'static str)> {
    let eras = crate::commands::shared::opened_server::eras(
        std::env::var_os(config::env::DATA_DIR).map(PathBuf::from).as_deref(),
    );
    let options = Options {
        speak,
        opening_timeout: timeout / 2,
        provides: setup.provides.clone(),
        token: setup.token.clone(),
        hidden: config::env::never_passed_on(),
        eras,
        ..access.options()
    };
    if let Some(known) = options.expected(target) {
        return Some(known);
    }
    let what = match dialects(target, speak).as_slice() {
        [first, others @ ..] if !others.is_empty() => {
            format!("what it speaks: {first}, then {}", others.join(", "))
        }
        _ => "which revision of mcp it speaks".to_owned(),
    };
    let _waiting = Waiting::tell(&format!("finding out {what}, at most {} s …", timeout.as_secs()));
    match Upstream::open(target, options.clone(), Arc::new(IgnoreEvents)).await {
        Ok(upstream) => upstream.close().await,
        Err(error) => tracing::debug!(%error, "what the server speaks could not be found out"),
    }
    options.expected(target)
}

/// Capabilities with what they are parts of: who wants `tools.listChanged` wants `tools`.
fn with_parents(names: Vec<String>) -> Vec<Capability> {
    let mut all = Vec::new();
    for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        let parents = name.match_indices('.').map(|(at, _)| &name[..at]);
        for name in parents.chain([name]) {
            let capability = Capability::from_wire(name);
            if !all.contains(&capability) {
                all.push(capability);
            }
        }
    }
    all
}
