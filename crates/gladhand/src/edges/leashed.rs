//! A process on a leash, as we see it.

use std::ffi::OsStr;
use std::io;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::leash;

/// How long a leash may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process that is held by a leash. When this is dropped, everything that came of it is ended.
#[derive(Debug)]
pub(super) struct Leashed {
    /// The process and its group.
    process: Pid,
    orders: OwnedWriteHalf,
    heard: watch::Receiver<Heard>,
}

/// What is known of a process.
#[derive(Debug, Default)]
struct Heard {
    /// How it ended, if it has.
    status: Option<ExitStatus>,
    /// Its leash has ended: nobody is left, or nobody who could be ended.
    is_gone: bool,
}

/// What the three channels of a process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whatever they are.
    Plain,
    /// A terminal, which it is to lead.
    Terminal,
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
    /// Starts a command on these channels, in the surroundings that `surround` makes.
    pub(super) async fn start(
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
        kind: Kind,
        channels: &[OwnedFd; 3],
        surround: impl FnOnce(&mut Command),
    ) -> Result<Self, NotHeld> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        let mut builder = Command::new(ourselves()?);
        surround(&mut builder);
        builder.arg0("gladhand");
        let word = if kind == Kind::Terminal { leash::TERMINAL_WORD } else { leash::WORD };
        builder.arg(word).args(command).stdin(Stdio::from(OwnedFd::from(theirs)));
        // Ctrl-C is meant for us; what becomes of the children is then our decision.
        builder.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let leash = builder.spawn()?;
        drop(builder);
        let sent = channels.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&sent));
        sendmsg(&ours, &[IoSlice::new(&[0])], &mut message, SendFlags::empty()).map_err(io::Error::from)?;
        let (reports, orders) = ours.into_split();
        let mut reports = BufReader::new(reports).lines();
        let first = tokio::time::timeout(PATIENCE, reports.next_line());
        let first = first.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??.unwrap_or_default();
        let (word, number) = first.split_at_checked(1).ok_or(io::ErrorKind::InvalidData).map_err(io::Error::from)?;
        let number = number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let ("p", Some(process)) = (word, Pid::from_raw(number)) else {
            return Err(NotHeld::NotStarted(io::Error::from_raw_os_error(number)));
        };
        let (sender, heard) = watch::channel(Heard::default());
        tokio::spawn(follow(reports, leash, sender));
        Ok(Self { process, orders, heard })
    }

    /// The process, as long as its id can belong to nobody else.
    pub(super) fn id(&self) -> Option<u32> {
        self.heard.borrow().status.is_none().then(|| self.process.as_raw_nonzero().get().unsigned_abs())
    }

    /// Waits until the process has ended. What it started may still be there.
    pub(super) async fn wait(&self) -> io::Result<ExitStatus> {
        let mut heard = self.heard.clone();
        let heard = heard.wait_for(|heard| heard.status.is_some() || heard.is_gone).await.map_err(io::Error::other)?;
        heard.status.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Tells everybody who came of it to leave.
    pub(super) fn terminate(&self) {
        self.order(leash::TERMINATE, Signal::TERM);
    }

    /// Interrupts the process and its group, as Ctrl-C does.
    pub(super) fn interrupt(&self) {
        if self.id().is_some() {
            let _ = kill_process_group(self.process, Signal::INT);
        }
    }

    /// Ends everybody who came of it.
    pub(super) fn kill(&self) {
        self.order(leash::KILL, Signal::KILL);
    }

    /// Waits until nobody is left of it.
    pub(super) async fn gone(&self) {
        let _ = self.heard.clone().wait_for(|heard| heard.is_gone).await;
    }

    /// Whether nobody is left of it.
    pub(super) fn is_gone(&self) -> bool {
        self.heard.borrow().is_gone
    }

    fn order(&self, order: u8, signal: Signal) {
        let has_heard = self.orders.try_write(&[order]).is_ok();
        // Without its leash the group is all that is known of it.
        if !has_heard && self.id().is_some() {
            let _ = kill_process_group(self.process, signal);
        }
    }
}

/// The program that we are.
fn ourselves() -> io::Result<PathBuf> {
    // On Linux the one that runs, though another may have taken its place meanwhile.
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Passes on what a leash reports, until it has ended.
async fn follow(mut reports: Lines<BufReader<OwnedReadHalf>>, mut leash: Child, heard: watch::Sender<Heard>) {
    while let Ok(Some(line)) = reports.next_line().await {
        let status = line.strip_prefix('x').and_then(|status| status.parse().ok()).map(ExitStatus::from_raw);
        heard.send_modify(|heard| heard.status = status.or(heard.status));
    }
    let _ = leash.wait().await;
    heard.send_modify(|heard| heard.is_gone = true);
}
