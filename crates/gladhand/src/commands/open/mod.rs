//! `gladhand open`: starts a server, opens a session with it as some client, and shows what happened.
//!
//! What is shown is the exchange that took place: lines are recorded as they cross the channel, drawn
//! as they do, and the verdict, the table and the JSON are made from the same record.

mod draw;
mod exchange;
mod redact;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use gladhand_accord::{Capability, Peer};
use gladhand_dialects::{ClientSetup, Dialect, REGISTRY};

use crate::cli::OpenArgs;
use crate::commands::CommandError;
use crate::config;
use crate::edges::signals::{self, Signals};
use crate::exit::Exit;

use exchange::{Plan, Record, Verdict};
use redact::Redactor;

/// Opens a session and shows how that went.
pub fn run(args: OpenArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let (dialect, version) = wanted_client(&args.client)?;
    let command = if args.server.is_empty() { vec![super::own_program()?, "serve".to_owned()] } else { args.server };
    let setup = ClientSetup {
        identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
        version: version.to_owned(),
        wants: (!args.want.is_empty()).then(|| with_parents(args.want)),
        provides: with_parents(args.declare).into_iter().map(|name| (name, None)).collect(),
        log_level: None,
        listen: false,
        exchanges: false,
        token: config::token_in_environment().map_err(CommandError::usage)?,
    };
    let redactor = Redactor::of(setup.token.as_ref());
    let timeout = Duration::from_secs(args.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut page = (!args.json).then(|| draw::Page::new(dialect, version, &command, redactor.clone()));
        let mut show = |message: &exchange::Message| page.iter_mut().for_each(|page| page.message(message));
        let plan = Plan { dialect, setup, command, timeout, log_stderr: verbosity > 0 };
        let (record, server) = exchange::open(plan, &redactor, &mut signals, &mut show).await;
        // The verdict does not wait until the server has left.
        match page {
            Some(page) => page.finish(&record)?,
            None => report::print(&record, &redactor)?,
        }
        if let Some(server) = server {
            server.end(&record, &mut signals).await;
        }
        Ok(exit(&record))
    })
}

fn exit(record: &Record) -> ExitCode {
    match &record.verdict {
        Verdict::Opened(_) => Exit::Success.into(),
        Verdict::Refused(refusal) => super::exit_of(refusal).into(),
        Verdict::NotStarted(_) => Exit::PeerFailed.into(),
        Verdict::Interrupted(stop) => signals::exit_status(*stop).into(),
    }
}

/// The dialect and version of `mcp@2025-06-18`, `a2e` and the like; the command line let no other through.
fn wanted_client(text: &str) -> Result<(&'static Dialect, &'static str), CommandError> {
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name.eq_ignore_ascii_case(name));
    let known = dialect.and_then(|dialect| {
        let mut versions = dialect.versions.iter().copied();
        let version = versions.find(|known| version.is_none_or(|version| version == *known))?;
        Some((dialect, version))
    });
    known.ok_or_else(|| CommandError::usage(anyhow!("there is no client `{text}`")))
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
