//! Processes: started in their own groups, read with limits, and ended with all descendants.

pub(crate) mod background;
pub(crate) mod ending;
mod escapes;
pub(crate) mod foreground;
pub(crate) mod output;
pub(crate) mod pipes;
pub(crate) mod programs;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::process::Signal;

pub use gladhand_process::starting::Environment;
use gladhand_process::starting::Program;

/// A program, its arguments, its working directory and its environment.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
}

impl Plan {
    /// The program, ready to start.
    pub(crate) fn program(&self) -> Program<'_> {
        Program {
            file: self.program.as_os_str(),
            arguments: &self.arguments,
            folder: Some(&self.folder),
            environment: &self.environment,
        }
    }

    /// The arguments as reports show them.
    pub(crate) fn shown_arguments(&self) -> Vec<String> {
        self.arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The exit code.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<&'static str>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal().map(signal_name) }
    }
}

/// The name of a signal.
fn signal_name(number: i32) -> &'static str {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    known.iter().find(|(signal, _)| signal.as_raw() == number).map_or("unknown signal", |(_, name)| name)
}

/// A path as reports show it.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Converts arguments for a plan.
pub(crate) fn arguments<T: AsRef<OsStr>>(words: impl IntoIterator<Item = T>) -> Vec<OsString> {
    words.into_iter().map(|word| word.as_ref().to_owned()).collect()
}
