//! A child process as an upstream's byte channel, and its orderly end.
//!
//! The child leads a process group of its own, so that what it started goes with it. Its stderr is
//! always read (a child must never block on it) and its end is kept, bounded, for error messages.

use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

#[cfg(unix)]
use crate::leashed::{Kind, Leashed, NotHeld};
use crate::surroundings::{Permit, Surroundings};

/// How much of stderr is kept: its last bytes.
const KEPT: usize = 16 * 1024;

/// How long a child may take to exit after its stdin closed, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a child that is ended with [`Manner::Hurried`] may take to exit after SIGTERM.
const HURRIED_EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long to wait for the exit of a child that closed its output, and then for the end of its stderr.
const ENDED_TIMEOUT: Duration = Duration::from_millis(200);

/// How long a leash may take to end its processes.
#[cfg(unix)]
const LEASH_TIMEOUT: Duration = Duration::from_secs(6);

/// How to end a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The child gets time to exit by itself.
    Polite,
    /// The process did not answer, or a caller is waiting: SIGTERM immediately.
    Hurried,
}

/// A running child.
#[derive(Debug)]
pub struct ChildPeer {
    process: Process,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: StderrTail,
    reader: tokio::task::JoinHandle<()>,
    /// Its place in a limit. A leash keeps a copy until everything that it holds has ended.
    _permit: Option<Permit>,
}

impl ChildPeer {
    /// Starts a command in its surroundings, without the variables of ours that are named in `hidden`. Lines of its
    /// stderr are handed to `on_stderr`, which must not block.
    pub async fn start(
        command: &[String],
        surroundings: &Surroundings,
        hidden: &[&str],
        mut on_stderr: impl FnMut(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (process, (stdin, stdout, mut errors)) =
            Process::start(command, surroundings.permit.as_ref(), |builder| surroundings.surround(builder, hidden))
                .await?;
        let stderr = StderrTail::default();
        let kept = Arc::clone(&stderr.0);
        let reader = tokio::spawn(async move {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = errors.read(&mut chunk).await {
                on_stderr(&String::from_utf8_lossy(&chunk[..length]));
                let mut kept = kept.lock().unpoisoned();
                kept.extend_from_slice(&chunk[..length]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
        });
        let permit = surroundings.permit.clone();
        Ok(Self { process, stdin: Some(stdin), stdout, stderr, reader, _permit: permit })
    }

    /// Its id, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.process.id()
    }

    /// Appends what the child wrote, waiting until there is something. Zero means the end.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.stdout.read_buf(buffer).await
    }

    /// Writes everything.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => stdin.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Hands over the child's stdin, so that it can be written while stdout is read. Dropping it closes the stdin.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Ends the child: closes its stdin, waits, then SIGTERM, then SIGKILL, to its whole group.
    pub async fn end(&mut self, manner: Manner) {
        self.stdin = None;
        let has_left = manner == Manner::Polite && self.leaves_within(EXIT_TIMEOUT).await;
        if !has_left {
            self.process.signal(Signal::Terminate);
            self.leaves_within(if manner == Manner::Polite { EXIT_TIMEOUT } else { HURRIED_EXIT_TIMEOUT }).await;
        }
        self.kill();
        self.process.gone().await;
        self.reader.abort();
    }

    /// Ends it at once. Also for one that left by itself: what it started may have stayed.
    pub fn kill(&mut self) {
        self.process.signal(Signal::Kill);
    }

    /// How the child ended, if it has or is about to. Its stderr is complete then, unless a descendant still holds it.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        let status = tokio::time::timeout(ENDED_TIMEOUT, self.process.wait()).await.ok().and_then(Result::ok);
        // Grandchildren may hold stderr open for ever.
        if !self.reader.is_finished() {
            let _ = tokio::time::timeout(ENDED_TIMEOUT, &mut self.reader).await;
        }
        status
    }

    /// The end of its stderr. It stays readable after the child.
    pub fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    async fn leaves_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.process.wait()).await.is_ok()
    }
}

/// The end of what a child writes to stderr. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// The last lines.
    pub fn lines(&self, lines: usize) -> Vec<String> {
        let kept = self.0.lock().unpoisoned();
        let text = String::from_utf8_lossy(&kept).into_owned();
        // A line that lost its beginning may begin with half a secret, which would not be found.
        let text = text.split_once('\n').filter(|_| kept.len() == KEPT).map_or(text.as_str(), |(_, whole)| whole);
        let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Drop for ChildPeer {
    /// Kills a process that has not ended, and the processes that it started.
    fn drop(&mut self) {
        self.kill();
        self.reader.abort();
    }
}

/// The process itself, and its leash if it has one.
#[derive(Debug)]
enum Process {
    /// On a leash.
    #[cfg(unix)]
    Leashed(Box<Leashed>),
    /// Our own child, and its process group, which has the id that the child had when it started.
    Child(Child, #[cfg(unix)] Option<rustix::process::Pid>),
}

impl Process {
    async fn start(
        command: &[String],
        #[cfg_attr(not(unix), expect(unused_variables, reason = "only a leash keeps it"))] permit: Option<&Permit>,
        surround: impl Fn(&mut Command),
    ) -> io::Result<(Self, (ChildStdin, ChildStdout, ChildStderr))> {
        #[cfg(unix)]
        if crate::leash::is_enabled() {
            let (ours, theirs) = pipes()?;
            match Leashed::start(command, Kind::Plain, &theirs, &surround, permit.cloned()).await {
                Ok(leashed) => return Ok((Self::Leashed(Box::new(leashed)), ours)),
                Err(NotHeld::NotStarted(error)) => return Err(error),
                Err(NotHeld::NoLeash(error)) => {
                    tracing::warn!(%error, "no leash: should this process be killed, what it started stays");
                }
            }
        }
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut builder = Command::new(program);
        builder.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        surround(&mut builder);
        #[cfg(unix)]
        {
            builder.process_group(0);
            crate::signals::reset(builder.as_std_mut());
        }
        let mut child = builder.spawn()?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((Self::of(child), (stdin, stdout, stderr))),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    #[cfg(unix)]
    fn of(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Self::Child(child, group)
    }

    #[cfg(not(unix))]
    fn of(child: Child) -> Self {
        Self::Child(child)
    }

    /// Its id, while it runs.
    fn id(&self) -> Option<u32> {
        match self {
            #[cfg(unix)]
            Self::Leashed(leashed) => leashed.id(),
            Self::Child(child, ..) => child.id(),
        }
    }

    /// Waits until it has ended.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            #[cfg(unix)]
            Self::Leashed(leashed) => leashed.wait().await,
            Self::Child(child, ..) => child.wait().await,
        }
    }

    /// Waits until everything that was killed is gone, as far as that can be known.
    async fn gone(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Leashed(leashed) => drop(tokio::time::timeout(LEASH_TIMEOUT, leashed.gone()).await),
            Self::Child(child, ..) => drop(child.wait().await),
        }
    }

    /// Signals it and its whole group, which may outlive it; its id stays taken as long as it does.
    #[cfg(unix)]
    fn signal(&mut self, signal: Signal) {
        use rustix::process::Signal as Unix;
        match (self, signal) {
            (Self::Leashed(leashed), Signal::Terminate) => leashed.terminate(),
            (Self::Leashed(leashed), Signal::Kill) => leashed.kill(),
            (Self::Child(_, Some(group)), signal) => {
                let signal = if matches!(signal, Signal::Kill) { Unix::KILL } else { Unix::TERM };
                // An error means that the group is empty already, which is the desired state.
                let _ = rustix::process::kill_process_group(*group, signal);
            }
            (Self::Child(_, None), _) => {}
        }
    }

    #[cfg(not(unix))]
    fn signal(&mut self, _: Signal) {
        let Self::Child(child) = self;
        // Already gone: that is what we want.
        let _ = child.start_kill();
    }
}

/// Three pipes: our ends, and those for a process.
#[cfg(unix)]
pub fn pipes() -> io::Result<((ChildStdin, ChildStdout, ChildStderr), [OwnedFd; 3])> {
    let (stdin, to_stdin) = io::pipe()?;
    let (from_stdout, stdout) = io::pipe()?;
    let (from_stderr, stderr) = io::pipe()?;
    let ours = (
        ChildStdin::from_std(OwnedFd::from(to_stdin).into())?,
        ChildStdout::from_std(OwnedFd::from(from_stdout).into())?,
        ChildStderr::from_std(OwnedFd::from(from_stderr).into())?,
    );
    Ok((ours, [stdin.into(), stdout.into(), stderr.into()]))
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}
