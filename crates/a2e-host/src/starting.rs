//! How processes are started: by whoever sees to it that nothing of them outlives us.

pub(crate) mod ending;
mod plain;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use async_trait::async_trait;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

pub use plain::Plain;

/// Where programs are looked for when our own environment does not say.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What of our own environment is of use to everybody and says nothing that is not theirs to know.
const HARMLESS: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TERM", "TMPDIR", "TZ"];

/// A process to be started.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The program and its arguments; there is no shell.
    pub command: Vec<String>,
    /// Where it works; `None`: where we do.
    pub folder: Option<PathBuf>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
}

/// A process that was started.
#[derive(Debug)]
pub struct Started {
    /// Its id.
    pub pid: u32,
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it writes.
    pub stdout: ChildStdout,
    /// What it complains.
    pub stderr: ChildStderr,
    /// The process and everything that came of it.
    pub held: Box<dyn Held>,
}

/// Signals that can be sent to a process and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Please leave.
    Terminate,
    /// As Ctrl-C.
    Interrupt,
    /// At once.
    Kill,
}

/// A process and everything that came of it. When it is dropped, all of that is ended.
#[async_trait]
pub trait Held: fmt::Debug + Send + Sync {
    /// Waits until the process has ended. May be called again after it was cancelled.
    async fn wait(&mut self) -> io::Result<ExitStatus>;

    /// Sends a signal to the process and its group.
    fn signal(&self, signal: Signal) -> io::Result<()>;
}

/// Starts processes.
#[async_trait]
pub trait Starter: fmt::Debug + Send + Sync {
    /// Starts a process with pipes, in a group of its own.
    async fn start(&self, plan: &Plan) -> io::Result<Started>;
}

/// The file of a program that may be started. A name without a folder is looked up in the absolute folders of `path`; a
/// name with a folder begins in `base`, or else where we were started. The working folder of the process plays no part: the
/// caller may choose that, and would choose the program with it. A program that is not found keeps its name, and starting
/// it fails.
pub fn located(name: &str, path: &OsStr, base: Option<&Path>) -> String {
    let file = if name.contains('/') {
        let base = base.map(Path::to_owned).or_else(|| std::env::current_dir().ok());
        Some(base.unwrap_or_default().join(name))
    } else {
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|file| is_program(file))
    };
    file.map_or_else(|| name.to_owned(), |file| file.to_string_lossy().into_owned())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The environment of whoever is given no other: where programs are, where home is, which language and terminal.
pub fn minimal_environment() -> Vec<(String, String)> {
    let ours = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut environment: Vec<(String, String)> =
        HARMLESS.into_iter().filter_map(|name| Some((name.to_owned(), ours(name)?))).collect();
    if !environment.iter().any(|(name, _)| name == "PATH") {
        environment.push(("PATH".to_owned(), USUAL_PATH.to_owned()));
    }
    environment
}
