//! `gladhand replay`: plays one side of a recorded session to a live peer.

mod as_client;
mod as_server;
mod expected;
mod live_server;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum, ValueHint};
use gladhand_core::negotiation::Side;
use gladhand_core::wire::RawValue;
use gladhand_dialects::{Dialect, mcp};

use crate::commands::shared::arguments::seconds;
use crate::commands::shared::drawing::describe;
use crate::commands::shared::opened_server;
use crate::commands::shared::recordings::{Recording, Session};
use crate::commands::{CommandError, note};
use crate::terminal::text::plain;

const REPLAY_HELP: &str = "\
Sends the messages of a recorded client to a live server, each after the server
messages that preceded it, and shows where the answers of the server
differ. Values that change from run to run are normalised: session ids, cursors,
times, durations, UUIDs. A masked value (***) of the recording equals any value.
With `--as server`, answers a client on stdin and stdout as the recorded server.

Examples:
  gladhand replay session.ndjson -- my-server
  gladhand replay session.ndjson --session client-2 --json -- my-server
  gladhand replay session.ndjson --timing original --timeout 30 -- my-server
  gladhand replay session.ndjson https://example.org/mcp
  gladhand tools -- gladhand replay session.ndjson --as server

Exit codes: 0 no differences, 2 wrong file, 4 failure of the server,
5 differences.";

/// The longest pause with the original timing.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Options of `replay`.
#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
pub struct ReplayArgs {
    /// The recording.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// URL of the server, unless a command follows.
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub url: Option<String>,
    /// The recorded session [default: the first session with a client].
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The recorded side to play.
    #[arg(long = "as", value_name = "SIDE", value_enum, default_value = "client")]
    pub side: PlayedSide,
    /// When to send: as soon as possible, or with the pauses of the recording.
    #[arg(long, value_enum, default_value = "immediate")]
    pub timing: Timing,
    /// How long to wait for a recorded message of the server, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: u64,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Send this header with every HTTP request; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    pub header: Vec<String>,
    /// Trust the certificate authorities in this PEM file, in addition to those of the system.
    #[arg(long, value_name = "FILE", requires = "url", value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
    /// Command that starts the server [default: gladhand serve].
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}

/// The side of a recording that is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlayedSide {
    /// The client, to a server that is started.
    Client,
    /// The server, to a client on stdin and stdout.
    Server,
}

/// The pauses between messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Timing {
    /// None.
    Immediate,
    /// Those of the recording.
    Original,
}

/// Plays a recording.
pub fn run(args: &ReplayArgs) -> Result<ExitCode, CommandError> {
    let recording = Recording::read(&args.file)?;
    recording.remarks().iter().for_each(|remark| note(&format!("warning: {remark}")));
    let session = chosen(recording, args.session.as_deref())?;
    match args.side {
        PlayedSide::Client => {
            let target = opened_server::target(args.url.as_deref(), &args.command)?;
            as_client::run(args, &session, &target)
        }
        PlayedSide::Server if args.json || args.url.is_some() || !args.command.is_empty() => {
            let error = anyhow!("`--as server` serves stdin and stdout: it has no report and needs no server");
            Err(CommandError::usage(error))
        }
        PlayedSide::Server => as_server::run(session, args.timing),
    }
}

/// The session to play.
fn chosen(recording: Recording, id: Option<&str>) -> Result<Session, CommandError> {
    let known: Vec<_> = recording.sessions.iter().map(|session| plain(&session.id)).collect();
    let has_client = |session: &Session| session.lines.iter().any(|line| line.from == Side::Client);
    let mut sessions: Vec<_> = recording.sessions.into_iter().filter(has_client).collect();
    let at = match id {
        Some(id) => sessions.iter().position(|session| session.id == id),
        None => {
            // A bridge records both of its sides. Its client is the one of interest.
            let first = sessions.iter().position(|session| session.id.starts_with("client-"));
            first.or_else(|| (!sessions.is_empty()).then_some(0))
        }
    };
    let Some(at) = at else {
        return Err(match id {
            Some(id) => CommandError::usage(anyhow!("no client sent anything in a session `{}`", plain(id)))
                .hint(format!("the sessions of the recording: {}", known.join(", "))),
            None => CommandError::usage(anyhow!("the recording has no message of a client")),
        });
    };
    if id.is_none() && known.len() > 1 {
        let (id, count) = (plain(&sessions[at].id), known.len());
        note(&format!("replaying {id} of {count} sessions; --session chooses another: {}", known.join(", ")));
    }
    Ok(sessions.swap_remove(at))
}

/// The dialect of a session. Recordings that name none are of MCP.
fn dialect(session: &Session) -> &'static Dialect {
    session.known_dialect().unwrap_or(&mcp::DIALECT)
}

/// A line with another id of its request. The rest stays as it is written.
fn with_id(dialect: &Dialect, text: &str, id: &str) -> String {
    match describe(Some(dialect), text).and_then(|summary| summary.id) {
        Some(raw) => replaced(text, raw, id),
        None => text.to_owned(),
    }
}

/// A text with other JSON in the place of a value that was borrowed from it.
fn replaced(text: &str, raw: &RawValue, by: &str) -> String {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    format!("{}{by}{}", &text[..start], &text[start + raw.get().len()..])
}

/// A pause of the recording.
fn pause(timing: Timing, ms: f64) -> Duration {
    match timing {
        Timing::Immediate => Duration::ZERO,
        Timing::Original => {
            Duration::try_from_secs_f64(ms.max(0.0) / 1e3).map_or(LONGEST_PAUSE, |pause| pause.min(LONGEST_PAUSE))
        }
    }
}

/// Its `progressToken`, if a message is about the progress of a request or asks for it.
fn progress_token(text: &str) -> Option<&RawValue> {
    let members = gladhand_core::wire::Members::parse(text).ok()?;
    let params = members.object("params")?;
    params.some("progressToken").or_else(|| params.object("_meta")?.some("progressToken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_replaced_where_it_stands() {
        let text = r#"{"jsonrpc":"2.0", "params":{"id":7}, "id": 7 ,"result":{}}"#;
        let expected = r#"{"jsonrpc":"2.0", "params":{"id":7}, "id": "x" ,"result":{}}"#;
        assert_eq!(with_id(&mcp::DIALECT, text, r#""x""#), expected);
        assert_eq!(with_id(&mcp::DIALECT, "nothing", "1"), "nothing");
    }

    #[test]
    fn a_hostile_time_is_a_bounded_pause() {
        for ms in [f64::MAX, f64::INFINITY, f64::NAN, -1.0] {
            assert!(pause(Timing::Original, ms) <= LONGEST_PAUSE);
        }
    }
}
