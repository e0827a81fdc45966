//! A process on a leash, seen from our side.

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
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::surroundings::Permit;
use crate::{leash, open_files};

/// How long a leash may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A process held by a leash. Dropping this ends all processes that descend from it.
#[derive(Debug)]
pub struct Leashed {
    /// The process id, which is also the group id.
    process: Pid,
    orders: OwnedWriteHalf,
    heard: watch::Receiver<Heard>,
}

/// The known state of a process.
#[derive(Debug, Default)]
struct Heard {
    /// The exit status, once the process has ended.
    status: Option<ExitStatus>,
    /// The leash has exited: no process is left, or none that could be ended.
    is_gone: bool,
}

/// The kind of channels that a process gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any channels.
    Plain,
    /// A terminal, of which the process becomes the session leader.
    Terminal,
}

/// Why the process was not started.
#[derive(Debug)]
pub enum NotHeld {
    /// The leash could not be started.
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
    /// Starts a command on these channels. `surround` sets up its environment. `permit` is kept until no descendant is
    /// left.
    pub async fn start(
        command: impl IntoIterator<Item = impl AsRef<OsStr>>,
        kind: Kind,
        channels: &[OwnedFd; 3],
        surround: impl FnOnce(&mut Command),
        permit: Option<Permit>,
    ) -> Result<Self, NotHeld> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        let mut builder = Command::new(ourselves()?);
        surround(&mut builder);
        builder.arg0("gladhand");
        let word = if kind == Kind::Terminal { leash::TERMINAL_WORD } else { leash::WORD };
        builder.arg(word).args(command).stdin(Stdio::from(OwnedFd::from(theirs)));
        builder.stdout(Stdio::null()).stderr(Stdio::null());
        let leash = Leash::start(&mut builder)?;
        drop(builder);
        let (reports, orders) = ours.into_split();
        let ((sender, heard), (started, process)) = (watch::channel(Heard::default()), oneshot::channel());
        // From here on a task follows the leash, even if this future is dropped.
        tokio::spawn(async move {
            follow(BufReader::new(reports).lines(), leash, started, sender).await;
            drop(permit);
        });
        let sent = channels.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&sent));
        // With the limit on open files that the process gets; zero for that of the leash.
        let limit = open_files::limit_of_children().unwrap_or_default().to_le_bytes();
        sendmsg(orders.as_ref(), &[IoSlice::new(&limit)], &mut message, SendFlags::empty()).map_err(io::Error::from)?;
        let process = process.await.unwrap_or_else(|_| Err(unanswered()))?;
        Ok(Self { process, orders, heard })
    }

    /// The process id, while it cannot be reused by another process.
    pub fn id(&self) -> Option<u32> {
        let heard = self.heard.borrow();
        (heard.status.is_none() && !heard.is_gone).then(|| self.process.as_raw_nonzero().get().unsigned_abs())
    }

    /// Waits until the process has ended. Its descendants may still run.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        let mut heard = self.heard.clone();
        let heard = heard.wait_for(|heard| heard.status.is_some() || heard.is_gone).await.map_err(io::Error::other)?;
        heard.status.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends SIGTERM to all descendants.
    pub fn terminate(&self) {
        self.order(leash::TERMINATE, Signal::TERM);
    }

    /// Interrupts the process and its group, as Ctrl-C does.
    pub fn interrupt(&self) {
        if self.id().is_some() {
            let _ = kill_process_group(self.process, Signal::INT);
        }
    }

    /// Kills all descendants.
    pub fn kill(&self) {
        self.order(leash::KILL, Signal::KILL);
    }

    /// Waits until no descendant is left.
    pub async fn gone(&self) {
        let _ = self.heard.clone().wait_for(|heard| heard.is_gone).await;
    }

    /// Whether no descendant is left.
    pub fn is_gone(&self) -> bool {
        self.heard.borrow().is_gone
    }

    fn order(&self, order: u8, signal: Signal) {
        let has_heard = self.orders.try_write(&[order]).is_ok();
        // Without the leash, only the group is known.
        if !has_heard && self.id().is_some() {
            let _ = kill_process_group(self.process, signal);
        }
    }
}

/// The path of this program.
fn ourselves() -> io::Result<PathBuf> {
    // On Linux this is the running binary, even if the file was replaced meanwhile.
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The lines that a leash writes.
type Reports = Lines<BufReader<OwnedReadHalf>>;

/// Reads which process a leash has started. After READY, the process may have started and then killed or stopped its
/// leash. It must not be started again without one.
async fn begun(reports: &mut Reports) -> Result<Pid, NotHeld> {
    if reports.next_line().await?.as_deref() != Some(leash::READY) {
        return Err(NotHeld::NoLeash(io::ErrorKind::UnexpectedEof.into()));
    }
    let line = reports.next_line().await.map_err(NotHeld::NotStarted)?.unwrap_or_default();
    let number = line.get(1..).and_then(|number| number.parse().ok());
    match (line.get(..1), number, number.and_then(Pid::from_raw)) {
        (Some("p"), _, Some(process)) => Ok(process),
        (Some("e"), Some(error), _) => Err(NotHeld::NotStarted(io::Error::from_raw_os_error(error))),
        _ => Err(unanswered()),
    }
}

fn unanswered() -> NotHeld {
    NotHeld::NotStarted(io::Error::new(io::ErrorKind::TimedOut, "its leash does not answer"))
}

/// Forwards the reports of a leash until it has ended. A stopped leash holds nothing, so it is killed.
async fn follow(
    mut reports: Reports,
    leash: Leash,
    started: oneshot::Sender<Result<Pid, NotHeld>>,
    heard: watch::Sender<Heard>,
) {
    let begun = tokio::select! {
        begun = tokio::time::timeout(START_TIMEOUT, begun(&mut reports)) => begun.unwrap_or_else(|_| Err(unanswered())),
        () = leash.stopped() => Err(unanswered()),
    };
    let process = match begun {
        Ok(process) => process,
        Err(error) => {
            leash.end(None).await;
            // The caller may have stopped waiting.
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(process));
    let told = async {
        while let Ok(Some(line)) = reports.next_line().await {
            let status = line.strip_prefix('x').and_then(|status| status.parse().ok()).map(ExitStatus::from_raw);
            heard.send_modify(|heard| heard.status = status.or(heard.status));
        }
    };
    let is_stopped = tokio::select! {
        () = told => false,
        () = leash.stopped() => true,
    };
    let process = Some(process).filter(|_| heard.borrow().status.is_none());
    if is_stopped {
        tracing::warn!("the leash of a process was stopped: what it held is ended");
        leash.end(process).await;
    } else {
        leash.ended(process).await;
    }
    heard.send_modify(|heard| heard.is_gone = true);
}

/// The leash process.
#[derive(Debug)]
struct Leash {
    child: Child,
    id: Pid,
}

impl Leash {
    fn start(builder: &mut Command) -> io::Result<Self> {
        // Register the leash before the process is visible to the search for strays.
        let mut leashes = leash::leashes();
        let child = builder.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        leashes.insert(id);
        Ok(Self { child, id })
    }

    /// Waits until the leash is stopped. The kernel notifies the parent, so waiting costs nothing.
    async fn stopped(&self) {
        let Ok(mut changes) = signal(SignalKind::child()) else { return std::future::pending().await };
        // Ask for stops only, so that the exit status remains for `wait`.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while !matches!(waitid(WaitId::Pid(self.id), options), Ok(Some(_))) {
            if changes.recv().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    /// Kills the leash and ends its processes. `process` is known to run.
    async fn end(mut self, process: Option<Pid>) {
        let _ = self.child.start_kill();
        self.ended(process).await;
    }

    /// Waits for the leash to exit, and ends its processes if it did not.
    async fn ended(mut self, process: Option<Pid>) {
        let ended = self.child.wait().await;
        leash::leashes().remove(&self.id);
        if ended.is_ok_and(|status| status.success()) {
            return;
        }
        tracing::debug!("a leash was killed: what it held is ended");
        if let Some(process) = process {
            let _ = kill_process_group(process, Signal::KILL);
        }
        let _ = tokio::task::spawn_blocking(leash::end_strays).await;
    }
}
