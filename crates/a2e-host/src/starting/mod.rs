//! How processes are started. The starter guarantees that no process outlives this one.

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

/// The search path for programs if our own environment has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables of our own environment that every program needs and that reveal nothing private.
const HARMLESS: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TERM", "TMPDIR", "TZ"];

/// A process to start.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The program and its arguments. No shell is involved.
    pub command: Vec<String>,
    /// The working directory; `None` for that of this process.
    pub folder: Option<PathBuf>,
    /// The complete environment variables.
    pub environment: Vec<(String, String)>,
}

/// A started process.
#[derive(Debug)]
pub struct Started {
    /// The process id.
    pub pid: u32,
    /// Its standard input.
    pub stdin: ChildStdin,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
    /// The process and all its descendants.
    pub held: Box<dyn Held>,
}

/// Signals that can be sent to a process and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGINT, like Ctrl-C.
    Interrupt,
    /// SIGKILL.
    Kill,
}

/// A process and all its descendants. Dropping it kills all of them.
#[async_trait]
pub trait Held: fmt::Debug + Send + Sync {
    /// Waits until the process has ended. Cancelling the wait is safe; it can be called again.
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

/// Finds the file of a program. A name without a folder is searched in the absolute folders of `path`. A name with a
/// folder is relative to `base`, or else to our own working directory. The working directory of the new process is not
/// used: the caller may choose it, and would choose the program with it. A program that is not found keeps its name,
/// and starting it fails.
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

/// The default environment variables: search path, home, language, time zone and terminal.
pub fn minimal_environment() -> Vec<(String, String)> {
    let ours = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut environment: Vec<(String, String)> =
        HARMLESS.into_iter().filter_map(|name| Some((name.to_owned(), ours(name)?))).collect();
    if !environment.iter().any(|(name, _)| name == "PATH") {
        environment.push(("PATH".to_owned(), DEFAULT_PATH.to_owned()));
    }
    environment
}
