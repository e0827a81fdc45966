//! `cargo xtask picture`: a real conversation with `gladhand chat` in a terminal, drawn into `docs/chat.svg`.
//!
//! The program is a normal build, the model is scripted (`provider.rs`), and the terminal is a pseudoterminal of the
//! kernel. Its output is put on a grid (`grid.rs`) and drawn from there (`drawing.rs`).

mod drawing;
mod grid;
mod provider;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use self::grid::Grid;
use crate::shell;

const COLUMNS: u16 = 84;
const ROWS: u16 = 40;
/// A timeout longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The keys to type, each with the text that must appear first.
const KEYS: [(&str, &str); 3] =
    [("› ", "Which file of src is the longest?\r"), ("in this chat: ", "y\r"), ("› ", "\u{4}")];

/// The files of the project in the picture, each with its number of lines.
const FILES: [(&str, usize); 4] = [("lexer.rs", 214), ("main.rs", 38), ("parser.rs", 547), ("syntax.rs", 163)];

pub(crate) fn run() -> Result<ExitCode> {
    let build = shell::cargo(&["build", "--package", "gladhand", "--bin", "gladhand"]);
    shell::run(&mut { build }, "the binary must build before it can be drawn")?;
    let scratch = shell::target().join("picture");
    let _ = fs::remove_dir_all(&scratch);
    let project = scratch.join("parrot");
    fs::create_dir_all(project.join("src"))?;
    for (name, lines) in FILES {
        fs::write(project.join("src").join(name), "// A line.\n".repeat(lines))?;
    }
    let seen = converse(&scratch, &project)?;
    let mut grid = Grid::new(COLUMNS.into());
    grid.write(&format!("\u{1b}[32m~/parrot\u{1b}[0m $ gladhand chat\r\n{seen}"));
    let picture = shell::root().join("docs/chat.svg");
    fs::write(&picture, drawing::draw(&grid))?;
    eprintln!("picture: {}", picture.display());
    Ok(ExitCode::SUCCESS)
}

/// Runs the conversation, and returns the whole output.
fn converse(scratch: &Path, project: &Path) -> Result<String> {
    let base = provider::start()?;
    let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    tcsetwinsize(&ours, Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
    let name = ptsname(&ours, Vec::new())?.into_string()?;
    let side = || File::options().read(true).write(true).open(&name);
    let mut command = Command::new(shell::target().join("debug/gladhand"));
    command.arg("chat").current_dir(project).stdin(side()?).stdout(side()?).stderr(side()?);
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"] {
        command.env(name, scratch);
    }
    for name in ["NO_COLOR", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GLADHAND_CONFIG"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm-256color").env("GLADHAND_COMPATIBLE_BASE", base);
    command.env("GLADHAND_OLLAMA_BASE", "").env("GLADHAND_LLAMACPP_BASE", "");
    let mut child = command.spawn().context("could not start gladhand")?;
    let mut ours = File::from(ours);
    let mut keys = ours.try_clone()?;
    let (sender, shown) = channel();
    // Held until everything is read: a terminal that no process holds open hangs up.
    let theirs = side()?;
    std::thread::spawn(move || {
        let (_theirs, mut buffer) = (theirs, [0; 4096]);
        while let Ok(count) = ours.read(&mut buffer) {
            if sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut seen = Seen { shown, all: String::new(), at: 0 };
    for (sign, typed) in KEYS {
        seen.wait_for(sign)?;
        keys.write_all(typed.as_bytes())?;
    }
    child.wait()?;
    Ok(seen.all)
}

/// The output of a terminal.
struct Seen {
    shown: Receiver<String>,
    all: String,
    /// Output before this position was already waited for.
    at: usize,
}

impl Seen {
    fn wait_for(&mut self, sign: &str) -> Result<()> {
        loop {
            if let Some(found) = self.all[self.at..].find(sign) {
                self.at += found + sign.len();
                return Ok(());
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(more) => self.all.push_str(&more),
                Err(_) => bail!("{sign:?} was never seen, but {:?}", &self.all[self.at..]),
            }
        }
    }
}
