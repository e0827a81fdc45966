//! `gladhand tap`: shows the messages of a running process live.

mod process;
mod stream;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, ValueHint};
use gladhand_recording::{Entry, EntryKind, NotARecording};
use gladhand_server::control::{self, ProcessStatus};
use gladhand_server::signals::{self, Signals};

use crate::commands::record::not_recorded;
use crate::commands::shared::arguments::sizes;
use crate::commands::shared::message_filter::MessageFilter;
use crate::commands::shared::runtime::wait_for;
use crate::commands::shared::session_drawing::{LiveDrawing, LiveSessions, of_session};
use crate::commands::{CommandError, note, written};
use crate::exit::Exit;
use crate::recorder::{Existing, FileRecorder, MAX_MIB};
use crate::terminal::text::{Reader, plain};

use stream::{Followed, Next};

const TAP_HELP: &str = "\
Shows the messages of a running `gladhand serve` or `gladhand bridge` of this
user, from now on, until Ctrl-C or the end of the process. PROCESS is the id
that `gladhand ps` shows, `serve` or `bridge`, or the name of a client or of an
upstream. It may be left out if one process runs. Secrets are masked before
they leave the process. No session waits for this command: if it reads too
slowly, messages are lost, and it tells how many.

Examples:
  gladhand tap
  gladhand tap 4711 --tool echo --full
  gladhand tap github --errors
  gladhand tap --json | jq .message
  gladhand tap --record session.ndjson

Exit codes: 0 end of the process, 2 no such process or several, 130 Ctrl-C.";

/// Options of `tap`.
#[derive(Debug, Args)]
#[command(after_help = TAP_HELP)]
pub struct TapArgs {
    /// The process: its id, its command, or the name of its client or upstream.
    #[arg(value_name = "PROCESS")]
    pub process: Option<String>,
    /// Which messages.
    #[command(flatten)]
    pub filter: MessageFilter,
    /// Show whole messages.
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// Print the lines of a recording instead of the drawing: JSON, one entry per line.
    #[arg(long)]
    pub json: bool,
    /// Also record all messages in this file, without regard to filters.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// Size in MiB at which a new part of the recording begins.
    #[arg(long, value_name = "N", requires = "record", default_value_t = MAX_MIB, value_parser = sizes())]
    pub max_mib: u64,
    /// Replace the file of the recording if it exists, and its older parts.
    #[arg(long, requires = "record")]
    pub force: bool,
}

/// Shows the messages of a process until it ends, or a signal comes.
pub fn run(args: &TapArgs) -> Result<ExitCode, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            stop = signals.next() => Ok(signals::exit_status(stop).into()),
            shown = show(args) => shown,
        }
    })
}

async fn show(args: &TapArgs) -> Result<ExitCode, CommandError> {
    let process = process::named(control::everybody().await, args.process.as_deref())?;
    let mut followed = Followed::open(&process).await?;
    let mut output = Output::begin(args, &process, &followed)?;
    while let Next::Entry(number, entry) = followed.next().await? {
        if !output.show(args, number, entry)? {
            return Ok(Exit::Success.into());
        }
    }
    note(&format!("process {} ended", process.pid));
    Ok(Exit::Success.into())
}

/// Where entries are shown and recorded.
struct Output {
    shown: Shown,
    recorder: Option<FileRecorder>,
}

enum Shown {
    Drawing(Box<LiveDrawing>),
    Lines(LiveSessions),
}

impl Output {
    fn begin(args: &TapArgs, process: &ProcessStatus, followed: &Followed) -> Result<Self, CommandError> {
        let header = followed.header();
        let existing = if args.force { Existing::Replace } else { Existing::Refuse };
        let record = |file: &PathBuf| FileRecorder::begin_copy(file, existing, args.max_mib, header.clone());
        let recorder = args.record.as_ref().map(record).transpose().map_err(not_recorded)?;
        let shown = if args.json {
            print_line(&header.to_line())?;
            Shown::Lines(LiveSessions::default())
        } else {
            let mut drawing = LiveDrawing::new(args.full);
            drawing.headline(&plain(&process::title(process)), &header.command);
            Shown::Drawing(Box::new(drawing))
        };
        Ok(Self { shown, recorder })
    }

    /// Shows an entry. Returns false if the reader of the output is gone.
    fn show(&mut self, args: &TapArgs, number: u64, entry: Result<Entry, NotARecording>) -> Result<bool, CommandError> {
        if let (Some(recorder), Ok(entry)) = (&mut self.recorder, &entry) {
            recorder.record_entry(entry.clone());
        }
        match &mut self.shown {
            Shown::Drawing(drawing) => {
                drawing.show(number, entry, &args.filter);
                drawing.is_unread().map(|is_unread| !is_unread)
            }
            Shown::Lines(sessions) => {
                let line = entry.as_ref().map(Entry::to_line).unwrap_or_default();
                if matches!(&entry, Ok(Entry { kind: EntryKind::Dropped(_), .. })) {
                    return print_line(&line);
                }
                let Some((ms, id, kind)) = of_session(number, entry) else { return Ok(true) };
                let has_ended = matches!(kind, EntryKind::Closed(_));
                let is_opened = matches!(kind, EntryKind::Opened { .. });
                let added = sessions.add(number, ms, id.clone(), kind);
                let passes = added.passes(&args.filter)
                    || (is_opened && !args.filter.is_partial() && args.filter.has_session(added.session));
                if has_ended {
                    sessions.forget(&id);
                }
                if passes { print_line(&line) } else { Ok(true) }
            }
        }
    }
}

/// Prints a line of JSON. Returns false if its reader is gone.
fn print_line(line: &str) -> Result<bool, CommandError> {
    let mut stdout = std::io::stdout().lock();
    let line = format!("{}\n", Reader::of_stdout().json(line));
    match stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        gone => written(gone).map(|()| false),
    }
}

/// The error of a process that cannot be followed.
fn not_followed(process: &ProcessStatus, why: &str) -> CommandError {
    CommandError::new(Exit::Failure, anyhow!("cannot follow process {}: {why}", process.pid))
}
