//! A child process as an upstream's byte channel, and its orderly end.
//!
//! The child leads a process group of its own, so that what it started goes with it. Its stderr is
//! always read (a child must never block on it) and its end is kept, bounded, for error messages.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How much of stderr is kept: its last bytes.
const KEPT: usize = 16 * 1024;

/// How long a child may take to leave after its stdin closed, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running child.
#[derive(Debug)]
pub struct ChildPeer {
    child: Child,
    /// The child's process group, which has the id that the child had when it started.
    #[cfg(unix)]
    group: Option<rustix::process::Pid>,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: Arc<Mutex<Vec<u8>>>,
    reader: tokio::task::JoinHandle<()>,
}

impl ChildPeer {
    /// Starts a command. Its stderr is passed on as well if `show_stderr`.
    pub fn start(command: &[String], show_stderr: bool) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut builder = Command::new(program);
        builder.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        builder.process_group(0);
        let mut child = builder.spawn()?;
        let (Some(stdin), Some(stdout), Some(mut errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&stderr);
        let reader = tokio::spawn(async move {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = errors.read(&mut chunk).await {
                if show_stderr {
                    // Passing it on is a courtesy; whether anybody reads it is not our concern.
                    let _ = io::Write::write_all(&mut io::stderr(), &chunk[..length]);
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..length]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
        });
        Ok(Self {
            #[cfg(unix)]
            group: child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw),
            child,
            stdin: Some(stdin),
            stdout,
            stderr,
            reader,
        })
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

    /// Ends the child: closes its stdin, waits, then SIGTERM, then SIGKILL, to its whole group.
    pub async fn end(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        let mut status = self.wait().await;
        if status.is_none() {
            self.signal(Signal::Terminate);
            status = self.wait().await;
        }
        // Also when it left by itself: what it started may have stayed.
        self.signal(Signal::Kill);
        if status.is_none() {
            status = self.child.wait().await.ok();
        }
        // Grandchildren may hold stderr open for ever.
        let _ = tokio::time::timeout(Duration::from_millis(200), &mut self.reader).await;
        self.reader.abort();
        status
    }

    /// The last lines the child wrote to stderr.
    pub fn last_words(&self, lines: usize) -> Vec<String> {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept).into_owned();
        let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| line.trim_end().to_owned()).collect()
    }

    async fn wait(&mut self) -> Option<ExitStatus> {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.ok().and_then(Result::ok)
    }

    /// Signals the whole group. It may outlive the child, and its id stays taken as long as it does.
    #[cfg(unix)]
    fn signal(&self, signal: Signal) {
        let signal = match signal {
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        if let Some(group) = self.group {
            // No such group: everybody has left, which is what we want.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&mut self, _: Signal) {
        let _ = self.child.start_kill();
    }
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}
