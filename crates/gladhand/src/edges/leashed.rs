//! A process on a leash, as we see it.

use std::io;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::leash;

/// How long a leash may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a leash may take to end what it holds.
const LAST: Duration = Duration::from_secs(6);

/// A process that is held by a leash. When this is dropped, everything that came of it is ended.
#[derive(Debug)]
pub(super) struct Leashed {
    /// The process and its group.
    process: Pid,
    leash: Child,
    control: UnixStream,
    /// What came of a line that is not whole yet.
    heard: Vec<u8>,
    status: Option<ExitStatus>,
}

/// Our ends of the channels of a process.
#[derive(Debug)]
pub(super) struct Channels {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Why there is no process.
#[derive(Debug)]
pub(super) enum NotHeld {
    /// There is no leash.
    NoLeash(io::Error),
    /// The program could not be started.
    NotStarted(io::Error),
}

impl From<io::Error> for NotHeld {
    fn from(error: io::Error) -> Self {
        Self::NoLeash(error)
    }
}

impl Leashed {
    /// Starts a command in the surroundings that `surround` makes.
    pub(super) async fn start(
        command: &[String],
        surround: impl FnOnce(&mut Command),
    ) -> Result<(Self, Channels), NotHeld> {
        let (stdin, to_stdin) = io::pipe()?;
        let (from_stdout, stdout) = io::pipe()?;
        let (from_stderr, stderr) = io::pipe()?;
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        let mut builder = Command::new(std::env::current_exe()?);
        surround(&mut builder);
        builder.arg(leash::WORD).args(command).stdin(Stdio::from(OwnedFd::from(theirs)));
        // Ctrl-C is meant for us; what becomes of the children is then our decision.
        builder.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let leash = builder.spawn()?;
        drop(builder);
        let theirs = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut sent = SendAncillaryBuffer::new(&mut space);
        sent.push(SendAncillaryMessage::ScmRights(&theirs));
        sendmsg(&ours, &[IoSlice::new(&[0])], &mut sent, SendFlags::empty()).map_err(io::Error::from)?;
        drop((stdin, stdout, stderr));
        let channels = Channels {
            stdin: ChildStdin::from_std(OwnedFd::from(to_stdin).into())?,
            stdout: ChildStdout::from_std(OwnedFd::from(from_stdout).into())?,
            stderr: ChildStderr::from_std(OwnedFd::from(from_stderr).into())?,
        };
        // Until the first line is there, nobody knows which process it is.
        let process = Pid::INIT;
        let mut leashed = Self { process, leash, control: ours, heard: Vec::new(), status: None };
        let line = tokio::time::timeout(PATIENCE, leashed.line());
        let line = line.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let (word, number) = line.split_at_checked(1).ok_or(io::ErrorKind::InvalidData).map_err(io::Error::from)?;
        let number = number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        match (word, Pid::from_raw(number)) {
            ("p", Some(process)) => leashed.process = process,
            _ => return Err(NotHeld::NotStarted(io::Error::from_raw_os_error(number))),
        }
        Ok((leashed, channels))
    }

    /// The process, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.status.is_none().then(|| self.process.as_raw_nonzero().get().unsigned_abs())
    }

    /// Waits until the process has ended. What it started may still be there. May be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        while self.status.is_none() {
            let line = self.line().await?;
            let status = line.strip_prefix('x').and_then(|status| status.parse().ok());
            self.status = status.map(ExitStatus::from_raw);
        }
        self.status.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Tells the process and its group to leave.
    pub(super) fn terminate(&self) {
        self.order(leash::TERMINATE, Signal::TERM);
    }

    /// Interrupts the process and its group, as Ctrl-C does.
    pub(super) fn interrupt(&self) {
        if self.status.is_none() && self.process != Pid::INIT {
            let _ = kill_process_group(self.process, Signal::INT);
        }
    }

    /// Ends everything that came of it.
    pub(super) fn kill(&self) {
        self.order(leash::KILL, Signal::KILL);
    }

    /// Waits until everything that was killed is gone.
    pub(super) async fn gone(&mut self) {
        let _ = tokio::time::timeout(LAST, self.leash.wait()).await;
    }

    fn order(&self, order: u8, signal: Signal) {
        let has_heard = self.control.try_write(&[order]).is_ok();
        // Without its leash the group is all that is known of it.
        if !has_heard && self.status.is_none() && self.process != Pid::INIT {
            let _ = kill_process_group(self.process, signal);
        }
    }

    /// The next line that the leash says.
    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.heard.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.control.read_buf(&mut self.heard).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
