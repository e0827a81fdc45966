//! `gladhand open`: starts a server, opens a session with it as some client, and shows what happened.
//!
//! What is shown is the exchange that took place: lines are recorded as they cross the channel, and
//! the drawing and the JSON are made from one record.

mod draw;
mod exchange;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use gladhand_accord::{Capability, Peer, Refusal, Secret};
use gladhand_dialects::{ClientSetup, Dialect, REGISTRY};

use crate::cli::OpenArgs;
use crate::commands::CommandError;
use crate::config::env;
use crate::exit::Exit;

use exchange::{Record, Verdict};

/// Opens a session and shows how that went.
pub fn run(args: OpenArgs, verbosity: u8) -> Result<ExitCode, CommandError> {
    let (dialect, version) = wanted_client(&args.client)?;
    let command = if args.server.is_empty() { vec![own_program()?, "serve".to_owned()] } else { args.server };
    let setup = ClientSetup {
        identity: Peer::new("gladhand", env!("CARGO_PKG_VERSION")),
        version: version.to_owned(),
        wants: (!args.want.is_empty()).then(|| args.want.into_iter().map(Capability::from_wire).collect()),
        provides: args.declare.into_iter().map(|name| (Capability::from_wire(name), None)).collect(),
        token: std::env::var(env::A2E_TOKEN).ok().filter(|token| !token.is_empty()).map(Secret::new),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let timeout = Duration::from_secs(args.timeout);
    let record = runtime.block_on(exchange::open(dialect, setup, command, timeout, verbosity > 0))?;
    if args.json {
        draw::json(&record)?
    } else {
        draw::terminal(&record)?
    }
    Ok(exit(&record).into())
}

fn exit(record: &Record) -> Exit {
    match &record.verdict {
        Verdict::Opened(_) => Exit::Success,
        Verdict::Refused(Refusal::PeerGone | Refusal::TimedOut { .. } | Refusal::PeerMisbehaved { .. }) => {
            Exit::PeerFailed
        }
        Verdict::Refused(_) => Exit::Refused,
        Verdict::NotStarted(_) | Verdict::Interrupted => Exit::PeerFailed,
    }
}

/// The dialect and version of `mcp@2025-06-18`, `a2e` and the like.
fn wanted_client(text: &str) -> Result<(&'static Dialect, &'static str), CommandError> {
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let known = || {
        let each = REGISTRY.iter().flat_map(|dialect| match dialect.versions {
            [_] => vec![dialect.name.to_owned()],
            versions => versions.iter().map(|version| format!("{}@{version}", dialect.name)).collect(),
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let dialect = REGISTRY.iter().copied().find(|dialect| dialect.name == name).ok_or_else(|| {
        CommandError::usage(anyhow!("no client `{text}` can be opened as")).hint(format!("it may be {}", known()))
    })?;
    let version = match version {
        None => dialect.versions.first().copied(),
        Some(version) => dialect.versions.iter().copied().find(|known| *known == version),
    };
    let version = version.ok_or_else(|| {
        let versions = dialect.versions.join(", ");
        CommandError::usage(anyhow!("`{text}` is no version of {name} that is spoken here"))
            .hint(format!("{name} is spoken in {versions}"))
    })?;
    Ok((dialect, version))
}

fn own_program() -> Result<String, CommandError> {
    let path = std::env::current_exe()?;
    path.into_os_string().into_string().map_err(|_| anyhow!("the path of this program is not UTF-8").into())
}
