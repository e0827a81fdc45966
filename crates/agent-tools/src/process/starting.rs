//! How programs are started, and how everything that comes of them is ended: a contract, because whoever embeds the
//! tools may know better than they do.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Environment, Exit};

/// How long whoever is told to leave may take.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// Starts programs.
#[async_trait]
pub trait Starter: fmt::Debug + Send + Sync {
    /// Starts one, on these channels.
    async fn start(&self, program: Program<'_>, channels: Channels) -> io::Result<Arc<dyn Held>>;
}

/// A program that was started, with everything that comes of it. Who is still there when this is dropped is killed.
#[async_trait]
pub trait Held: fmt::Debug + Send + Sync {
    /// The id of the program's process.
    fn id(&self) -> Option<u32>;

    /// Tells everybody to leave.
    fn terminate(&self);

    /// Ends everybody at once.
    fn kill(&self);

    /// Waits until the program itself has ended. What it started may still be there.
    async fn ended(&self) -> io::Result<ExitStatus>;

    /// Waits until nobody is left.
    async fn gone(&self);

    /// Whether nobody is left.
    fn is_gone(&self) -> bool;
}

/// A program, how it is called, and what it finds around it.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Its file.
    pub file: &'a Path,
    /// What it is called with.
    pub arguments: &'a [std::ffi::OsString],
    /// Where it begins.
    pub folder: &'a Path,
    /// All the variables that it is given.
    pub environment: &'a Environment,
}

/// What a program reads from and writes to.
pub enum Channels {
    /// Its standard input, output and error output.
    Three([OwnedFd; 3]),
    /// A terminal for all three, which it leads.
    Terminal(pty_process::Pts),
}

impl Channels {
    /// All three, whatever they are.
    pub fn three(self) -> io::Result<[OwnedFd; 3]> {
        match self {
            Self::Three(three) => Ok(three),
            Self::Terminal(terminal) => {
                let copy = || terminal.as_fd().try_clone_to_owned();
                Ok([copy()?, copy()?, copy()?])
            }
        }
    }

    /// Whether they are a terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_terminal() { "a terminal" } else { "three channels" })
    }
}

/// Ends everybody: first a request, then force.
pub(crate) async fn end(held: &dyn Held) -> Exit {
    held.terminate();
    if tokio::time::timeout(GRACE, held.gone()).await.is_err() {
        held.kill();
        // Only a process that the kernel itself holds back survives this.
        let _ = tokio::time::timeout(GRACE, held.gone()).await;
    }
    let status = tokio::time::timeout(GRACE, held.ended()).await;
    status.ok().and_then(Result::ok).map_or_else(Exit::default, Exit::from)
}

/// Kills everybody when it is dropped, unless they are let go first.
#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Option<Arc<dyn Held>>);

impl Guard {
    /// From now on they may stay.
    pub(crate) fn let_go(mut self) {
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
