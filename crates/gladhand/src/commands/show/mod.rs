//! `gladhand show`: a recording as the drawing that `open` makes, as JSON, or as one HTML page.

mod follow;
mod html;
mod report;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueHint};

use crate::commands::shared::drawing::headline;
use crate::commands::shared::message_filter::MessageFilter;
use crate::commands::shared::recordings::Recording;
use crate::commands::shared::session_drawing::{draw_exchange, draw_line, drawing, session_head};
use crate::commands::{CommandError, note, print_json, written};
use crate::exit::Exit;
use crate::terminal::text::plain;

const SHOW_HELP: &str = "\
Draws each session: who, dialect, revision and duration, then an arrow for each
message with its method, id and time. A filter for messages keeps a request
together with its response. The other parts of a rotated recording (FILE.1,
FILE.2 and so on) are read too.

Examples:
  gladhand show session.ndjson
  gladhand show session.ndjson --session client-1 --full
  gladhand show session.ndjson --method 'tools/*' --errors
  gladhand show session.ndjson --tool echo --json
  gladhand show session.ndjson --follow
  gladhand show session.ndjson --html session.html";

/// Options of `show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub struct ShowArgs {
    /// The recording.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Which messages.
    #[command(flatten)]
    pub filter: MessageFilter,
    /// Show whole messages.
    #[arg(long)]
    pub full: bool,
    /// Keep reading a file that is still being written, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub follow: bool,
    /// Print one JSON object instead of the drawing.
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Write one self-contained page to this file instead of the drawing; `-` is stdout.
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// Shows a recording.
pub fn run(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    let filter = &args.filter;
    if args.follow {
        return follow::run(args);
    }
    let mut recording = Recording::read(&args.file)?;
    if let Some(id) = &filter.session {
        let known: Vec<_> = recording.sessions.iter().map(|session| plain(&session.id)).collect();
        recording.sessions.retain(|session| session.id == *id);
        if recording.sessions.is_empty() {
            let error = CommandError::usage(anyhow!("the recording has no session `{}`", plain(id)));
            return Err(error.hint(format!("its sessions: {}", known.join(", "))));
        }
    }
    if args.json {
        print_json(&report::report(&recording, filter))?;
        return Ok(Exit::Success.into());
    }
    if let Some(out) = &args.html {
        let page = html::page(&recording, filter);
        if out.as_os_str() == "-" {
            crate::commands::print_data(&page)?;
        } else {
            write_page(out, &page).context("cannot write the page")?;
        }
    } else {
        draw(&recording, filter, args.full)?;
    }
    recording.remarks().iter().for_each(|remark| note(&format!("warning: {remark}")));
    Ok(Exit::Success.into())
}

/// A recording as one self-contained HTML page.
pub(in crate::commands) fn html_page(recording: &Recording) -> String {
    html::page(recording, &MessageFilter::none())
}

/// Writes a page. It shows what the recording has, so a new file can be read only by its owner, as a recording can.
fn write_page(file: &Path, page: &str) -> std::io::Result<()> {
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(page.as_bytes())
}

fn draw(recording: &Recording, filter: &MessageFilter, is_full: bool) -> Result<(), CommandError> {
    let mut drawing = drawing(is_full);
    let title = format!("recording of gladhand {}", plain(&recording.header.version));
    drawing.print(&headline(&title, &recording.header.command.join(" "), drawing.width));
    for session in &recording.sessions {
        let (shown, exchanges) = (filter.shown(session), filter.shown_exchanges(session));
        if filter.is_partial() && shown.is_empty() && exchanges.is_empty() {
            continue;
        }
        drawing.print(&session_head(session, drawing.width));
        drawing.has_messages = false;
        let mut exchanges = exchanges.into_iter().peekable();
        for at in shown {
            while let Some(exchange) = exchanges.next_if(|exchange| exchange.after <= at) {
                draw_exchange(&mut drawing, exchange, session.first_ms);
            }
            draw_line(&mut drawing, &session.lines[at], session.first_ms);
        }
        exchanges.for_each(|exchange| draw_exchange(&mut drawing, exchange, session.first_ms));
        let mut text = String::new();
        drawing.end_garbage(&mut text);
        text.push('\n');
        drawing.print(&text);
        if drawing.written.is_err() {
            break;
        }
    }
    written(drawing.written)
}
