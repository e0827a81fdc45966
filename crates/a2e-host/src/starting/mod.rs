//! The processes that capabilities start, with pipes to them.

pub(crate) mod ending;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gladhand_process::child::pipes;
use gladhand_process::starting::{Channels, Held, Program, Starter};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// The search path for programs if our own environment has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables of our own environment that every program needs and that reveal nothing private.
const HARMLESS: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TERM", "TMPDIR", "TZ"];

/// A process to start.
#[derive(Debug, Clone, Default)]
pub struct ProcessSpec {
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
    pub held: Arc<dyn Held>,
}

impl ProcessSpec {
    /// Starts the process with pipes, in a group of its own.
    pub(crate) async fn start(&self, starter: &dyn Starter) -> io::Result<Started> {
        let (file, arguments) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        let environment = self.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let program = Program {
            file: file.as_ref(),
            arguments: &arguments,
            folder: self.folder.as_deref(),
            environment: &environment,
        };
        let ((stdin, stdout, stderr), theirs) = pipes()?;
        let held = starter.start(program, Channels::Three(theirs)).await?;
        Ok(Started { pid: held.id().unwrap_or_default(), stdin, stdout, stderr, held })
    }
}

/// Finds the file of a program. A name without a folder is searched in the absolute folders of `path`. A name with a
/// folder is relative to `base`, or else to our own working directory. The working directory of the new process is not
/// used: the caller may choose it, and would choose the program with it. A program that is not found keeps its name,
/// and starting it fails.
pub fn find_program(name: &str, path: &OsStr, base: Option<&Path>) -> String {
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
