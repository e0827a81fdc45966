//! The interface for starting programs and ending them with all their descendants. It is a trait, because an embedder
//! may have a better implementation than this crate.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Environment, Exit};

/// How long processes may take to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// Starts programs.
#[async_trait]
pub trait Starter: fmt::Debug + Send + Sync {
    /// Starts a program on these channels.
    async fn start(&self, program: Program<'_>, channels: Channels) -> io::Result<Arc<dyn Held>>;
}

/// A started program with all its descendants. Dropping it kills those that still run.
#[async_trait]
pub trait Held: fmt::Debug + Send + Sync {
    /// The process id of the program.
    fn id(&self) -> Option<u32>;

    /// Sends SIGTERM to all processes.
    fn terminate(&self);

    /// Sends SIGKILL to all processes.
    fn kill(&self);

    /// Waits until the program itself has ended. Its descendants may still run.
    async fn ended(&self) -> io::Result<ExitStatus>;

    /// Waits until no process is left.
    async fn gone(&self);

    /// Whether no process is left.
    fn is_gone(&self) -> bool;
}

/// A program, its arguments, its working directory and its environment.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Its file.
    pub file: &'a Path,
    /// Its arguments.
    pub arguments: &'a [std::ffi::OsString],
    /// Its working directory.
    pub folder: &'a Path,
    /// Its complete environment variables.
    pub environment: &'a Environment,
}

/// The standard streams of a program.
pub enum Channels {
    /// Its stdin, stdout and stderr.
    Three([OwnedFd; 3]),
    /// A terminal for all three. The program becomes its session leader.
    Terminal(pty_process::Pts),
}

impl Channels {
    /// All three file descriptors.
    pub fn three(self) -> io::Result<[OwnedFd; 3]> {
        match self {
            Self::Three(three) => Ok(three),
            Self::Terminal(terminal) => {
                let copy = || terminal.as_fd().try_clone_to_owned();
                Ok([copy()?, copy()?, copy()?])
            }
        }
    }

    /// Whether this is a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_terminal() { "a terminal" } else { "three channels" })
    }
}

/// Ends all processes: first SIGTERM, after the grace period SIGKILL.
pub(crate) async fn end(held: &dyn Held) -> Exit {
    held.terminate();
    if tokio::time::timeout(GRACE, held.gone()).await.is_err() {
        held.kill();
        // Only a process stuck in the kernel survives this.
        let _ = tokio::time::timeout(GRACE, held.gone()).await;
    }
    let status = tokio::time::timeout(GRACE, held.ended()).await;
    status.ok().and_then(Result::ok).map_or_else(Exit::default, Exit::from)
}

/// Kills all processes when it is dropped, unless they are released first.
#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Option<Arc<dyn Held>>);

impl Guard {
    /// Releases the processes: they may keep running.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.kill();
        }
    }
}
