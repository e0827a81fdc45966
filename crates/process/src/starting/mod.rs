//! Starts programs of providers, and ends them with all their descendants.
//!
//! [`OnLeash`] starts a program on a leash, so that no descendant outlives this process. [`Family`] starts it as a child
//! of this process and needs nothing else.

mod family;
mod on_leash;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;

pub use family::{Family, MARK};
pub use on_leash::OnLeash;

/// Starts programs.
#[async_trait]
pub trait Starter: Send + Sync {
    /// Starts a program on these channels, as the leader of a process group.
    async fn start(&self, program: Program<'_>, channels: Channels) -> io::Result<Arc<dyn Held>>;
}

gladhand_core::debug_as_name!(Starter);

/// A started program with all its descendants. Dropping it kills those that still run.
#[async_trait]
pub trait Held: Send + Sync {
    /// The process id of the program.
    fn id(&self) -> Option<u32>;

    /// Sends a signal. Processes that have ended do not get it.
    fn signal(&self, signal: Signal);

    /// Waits until the program itself has ended. Its descendants may still run.
    async fn ended(&self) -> io::Result<ExitStatus>;

    /// Waits until no process is left.
    async fn gone(&self);

    /// Whether no process is left.
    fn is_gone(&self) -> bool;
}

gladhand_core::debug_as_name!(Held);

/// A signal for a program and its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, for all processes.
    Terminate,
    /// SIGINT, for the process group of the program, like Ctrl-C.
    Interrupt,
    /// SIGKILL, for all processes.
    Kill,
}

/// The environment variables of a program.
pub type Environment = BTreeMap<OsString, OsString>;

/// A program, its arguments, its working directory and its environment.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// Its file.
    pub file: &'a OsStr,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// Its working directory; `None` for that of this process.
    pub folder: Option<&'a Path>,
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
    /// Copies of all three file descriptors.
    fn copies(&self) -> io::Result<[OwnedFd; 3]> {
        let [stdin, stdout, stderr] = match self {
            Self::Three(three) => three.each_ref().map(AsFd::as_fd),
            Self::Terminal(terminal) => [terminal.as_fd(); 3],
        };
        Ok([stdin.try_clone_to_owned()?, stdout.try_clone_to_owned()?, stderr.try_clone_to_owned()?])
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_terminal() { "a terminal" } else { "three channels" })
    }
}
