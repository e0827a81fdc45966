//! `ps --watch`: the same again every two seconds, until Ctrl-C.
//!
//! On a terminal each picture replaces the one before, on the alternate screen, and follows a change of the window's size.
//! Elsewhere the pictures follow each other as plain text, each under its time.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::drawn;
use crate::commands::CommandError;
use crate::exit::Exit;
use crate::terminal::layout;
use crate::terminal::screen::Screen;
use crate::terminal::text::Reader;
use crate::utc;
use gladhand_server::control::{self, ProcessStatus};
use gladhand_server::signals::{self, Signals};

const PAUSE: Duration = Duration::from_secs(2);

/// Shows every process of this user until a signal comes.
pub(super) async fn run(as_json: bool) -> Result<ExitCode, CommandError> {
    let mut signals = Signals::listen()?;
    let mut resized = signal(SignalKind::window_change())?;
    let has_screen = !as_json
        && io::stdout().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let mut screen = has_screen.then(Screen::enter).transpose()?;
    let ended_by = loop {
        let all = tokio::select! {
            stop = signals.next() => break Some(stop),
            all = control::everybody() => all,
        };
        let shown = match (&mut screen, as_json) {
            (Some(screen), _) => picture(screen, &all),
            (None, true) => put(&format!("{}\n", Reader::of_stdout().json(&serde_json::to_string(&all)?))),
            (None, false) => plainly(&all),
        };
        match shown {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break None,
            shown => shown?,
        }
        tokio::select! {
            stop = signals.next() => break Some(stop),
            _ = resized.recv(), if screen.is_some() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    };
    Ok(ended_by.map_or(Exit::Success as u8, signals::exit_status).into())
}

fn plainly(all: &[ProcessStatus]) -> io::Result<()> {
    put(&coloured(format!("{}\n{}\n", utc::now(), drawn(all, layout::width()))))
}

/// Replaces what the screen shows.
fn picture(screen: &mut Screen, all: &[ProcessStatus]) -> io::Result<()> {
    let (columns, rows) = (layout::width(), layout::terminal_height().unwrap_or(usize::MAX));
    let text = format!("{}  Ctrl-C ends\n{}", utc::now(), drawn(all, columns));
    screen.draw(&coloured(text), rows)
}

/// The same text, without colours where none are wanted. `anstream` would take cursor movements for colours.
fn coloured(text: String) -> String {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
        _ => text,
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
