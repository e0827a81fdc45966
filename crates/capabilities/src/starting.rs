//! How processes are started: by whoever sees to it that nothing of them outlives us.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use async_trait::async_trait;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

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
