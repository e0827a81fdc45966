//! `gladhand top`: running processes with their sessions, upstreams, calls and latencies, on a screen that updates itself.

mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use clap::Args;
use gladhand_server::control;
use gladhand_server::signals::{self, Signals};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::commands::CommandError;
use crate::commands::shared::runtime::wait_for;
use crate::exit::Exit;
use crate::terminal::layout;
use crate::terminal::screen::Screen;
use crate::utc;

use view::{Order, Snapshot, View};

const TOP_HELP: &str = "\
Shows every `gladhand serve` and `gladhand bridge` of this user: its sessions
with their calls, calls per second and latency, then its upstreams. The latency
is the mean of the calls that ended since the last update; calls that were
answered at once are not counted.

Keys: c calls, s calls per second, r running calls, l latency, a age, n name,
R reverse order, space pause, q quit.

Examples:
  gladhand top
  gladhand top --sort latency --interval 5
  gladhand ps --watch";

/// Options of `top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub struct TopArgs {
    /// Order of the sessions.
    #[arg(long, value_enum, default_value = "rate")]
    pub sort: Order,
    /// Time between updates, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub interval: u64,
}

/// Shows the screen until a key or a signal ends it.
pub fn run(args: &TopArgs) -> Result<ExitCode, CommandError> {
    let has_screen = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    if !(io::stdout().is_terminal() && io::stdin().is_terminal() && has_screen) {
        let error = anyhow!("`gladhand top` needs a terminal");
        return Err(CommandError::usage(error).hint("`gladhand ps --watch` prints text, and `--json` with it JSON"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    wait_for(&runtime, watch(args))
}

async fn watch(args: &TopArgs) -> Result<ExitCode, CommandError> {
    let mut signals = Signals::listen()?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut screen = Screen::enter_with_keys()?;
    let mut keys = read_keys()?;
    let mut view = View::new(args.sort);
    let mut next = tokio::time::Instant::now();
    loop {
        tokio::select! {
            stop = signals.next() => return Ok(signals::exit_status(stop).into()),
            // What is read takes time; a slow process must not block the keys.
            now = async { tokio::time::sleep_until(next).await; snapshot().await }, if !view.is_paused => {
                view.update(now);
                next = tokio::time::Instant::now() + Duration::from_secs(args.interval);
            }
            key = keys.recv() => match key {
                // The end of the terminal counts as `q`.
                Some(b'q' | b'Q' | 4) | None => return Ok(Exit::Success.into()),
                Some(key) => view.press(key),
            },
            _ = resized.recv() => {}
        }
        let width = layout::terminal_width().unwrap_or(80);
        let rows = layout::terminal_height().unwrap_or(24);
        let text = view.drawn(&utc::now(), width, rows);
        screen.draw(&coloured(text), rows)?;
    }
}

/// The state of all processes now.
async fn snapshot() -> Snapshot {
    let processes = control::everybody().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Snapshot { processes, at: Instant::now(), now }
}

/// The keys that are pressed from now on.
fn read_keys() -> io::Result<mpsc::Receiver<u8>> {
    let (sender, keys) = mpsc::channel(64);
    // Reading a terminal cannot be cancelled, so the thread is not joined: it ends with the process.
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let mut typed = [0; 64];
        loop {
            match rustix::io::read(io::stdin(), &mut typed) {
                Ok(0) => return,
                Ok(length) if typed[..length].iter().any(|key| sender.blocking_send(*key).is_err()) => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    })?;
    Ok(keys)
}

/// The same text, without colours where none are wanted. `anstream` would take cursor movements for colours.
fn coloured(text: String) -> String {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_order_has_a_key_that_the_help_names() {
        for order in Order::value_variants() {
            let name = order.to_possible_value().expect("it is shown").get_name().to_owned();
            let line = TOP_HELP.split_once("Keys: ").expect("keys").1;
            let words = line.split_once("q quit").expect("the last key").0.replace('\n', " ");
            let what = if name == "rate" { "calls per second" } else { &name };
            assert!(words.contains(&format!("{} {what}", order.key())), "{name}: {words}");
        }
    }
}
