//! `gladhand open`: opens a session with a server as some client, and shows what happened.
//!
//! What is shown is the exchange that took place: lines are recorded as they cross the channel, drawn
//! as they do, and the verdict, the table and the JSON are made from the same record.

mod draw;
mod exchange;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use gladhand_accord::{Capability, Peer, Secret};
use gladhand_dialects::{ClientSetup, Dialect, REGISTRY, Unagreed, mcp};

use crate::cli::OpenArgs;
use crate::commands::session::{Access, headers};
use crate::commands::{CommandError, sign_in};
use crate::config;
use crate::edges::http_client;
use crate::edges::signals::{self, Signals};
use crate::exit::Exit;
use crate::upstream::{Alone, OpenError, Options, Speak, Target, Upstream};

use exchange::{Plan, Record, Verdict};

/// Opens a session and shows how that went.
pub fn run(args: OpenArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let wanted = wanted_client(&args.client)?;
    let target = super::session::target(args.url.as_deref(), &args.command)?;
    if let (Target::Url(_), Some((dialect, _))) = (&target, wanted)
        && !http_client::carries(dialect)
    {
        let error = OpenError::NotOverHttp(dialect.name);
        return Err(CommandError::usage(error).hint("start the server behind `--` instead"));
    }
    let mcp_token = config::mcp_token_in_environment().map_err(CommandError::usage)?;
    let headers = headers(&args.header).map_err(CommandError::usage)?;
    let roots = super::session::roots(&target, args.ca.as_deref())?;
    let mut setup = ClientSetup {
        identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
        version: String::new(),
        wants: (!args.want.is_empty()).then(|| with_parents(args.want)),
        provides: with_parents(args.declare).into_iter().map(|name| (name, None)).collect(),
        log_level: None,
        listen: false,
        exchanges: false,
        unagreed: Unagreed::default(),
        token: config::token_in_environment().map_err(CommandError::usage)?,
    };
    let timeout = Duration::from_secs(args.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let access = Access::to(&target, headers, roots, mcp_token, sign_in::Manner::InPassing).await;
        let (dialect, version) = match wanted {
            Some(wanted) => wanted,
            None => tokio::select! {
                found = found_out(&target, &access, setup.token.clone(), timeout / 2) => found,
                stop = signals.next() => return Ok(signals::exit_status(stop).into()),
            },
        };
        version.clone_into(&mut setup.version);
        let mut page = (!args.json).then(|| draw::Page::new(dialect, version, &target));
        let mut show = |message: &exchange::Message| page.iter_mut().for_each(|page| page.message(message));
        let plan = Plan { dialect, setup, target, access, timeout, log_stderr: verbosity > 0 };
        let (record, server) = exchange::open(plan, &mut signals, &mut show).await;
        // The verdict does not wait until the server has left.
        match page {
            Some(page) => page.finish(&record)?,
            None => report::print(&record)?,
        }
        server.end(&record, &mut signals).await;
        Ok(exit(&record))
    })
}

fn exit(record: &Record) -> ExitCode {
    match &record.verdict {
        Verdict::Opened(_) => Exit::Success.into(),
        Verdict::Refused(refusal) => super::exit_of(refusal).into(),
        Verdict::NotStarted(_) | Verdict::Unreachable(_) => Exit::PeerFailed.into(),
        Verdict::Interrupted(stop) => signals::exit_status(*stop).into(),
    }
}

/// What a server speaks, as far as it can be found out: it is opened once in silence, unless it was before. For one that
/// cannot be opened at all that is MCP, so that there is something to see.
async fn found_out(
    target: &Target,
    access: &Access,
    token: Option<Secret>,
    timeout: Duration,
) -> (&'static Dialect, &'static str) {
    let eras = super::session::eras(std::env::var_os(config::env::DATA_DIR).map(PathBuf::from).as_deref());
    if eras.way(target).is_none() {
        let hidden = super::lookup::hidden();
        let options = Options { opening_timeout: timeout, token, hidden, eras: eras.clone(), ..access.options() };
        match Upstream::open(target, options, Arc::new(Alone)).await {
            Ok(upstream) => upstream.close().await,
            Err(error) => tracing::debug!(%error, "what the server speaks could not be found out"),
        }
    }
    eras.way(target).unwrap_or((&mcp::DIALECT, mcp::DIALECT.versions[0]))
}

/// The dialect and version of `mcp@2025-06-18`, `a2e` and the like, none for `auto`; the command line let no other
/// through.
fn wanted_client(text: &str) -> Result<Option<(&'static Dialect, &'static str)>, CommandError> {
    if text.eq_ignore_ascii_case(Speak::AUTO) {
        return Ok(None);
    }
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name.eq_ignore_ascii_case(name));
    let known = dialect.and_then(|dialect| {
        let mut versions = dialect.versions.iter().copied();
        let version = versions.find(|known| version.is_none_or(|version| version == *known))?;
        Some((dialect, version))
    });
    known.map(Some).ok_or_else(|| CommandError::usage(anyhow!("there is no client `{text}`")))
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
