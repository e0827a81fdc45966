//! Programs that are children of this process, and all their descendants.
//!
//! Each program runs in its own process group, which is signalled as a whole. On Linux, a process that leaves the group
//! (a daemon) is still recognised by a mark in its environment. On other systems only the group is known. If this
//! process is killed, the programs keep running.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::{Channels, Held, Program, Signal, Starter};

/// The variable that holds the mark.
pub const MARK: &str = "GLADHAND_BENCH";

/// Polling interval for remaining processes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts programs as children of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Family;

#[async_trait]
impl Starter for Family {
    async fn start(&self, program: Program<'_>, channels: Channels) -> io::Result<Arc<dyn Held>> {
        let mark = gladhand_system::random_hex::<8>();
        let mut command = Command::new(program.file);
        command.args(program.arguments).env_clear().envs(program.environment).env(MARK, &mark).kill_on_drop(true);
        if let Some(folder) = program.folder {
            command.current_dir(folder);
        }
        crate::signals::reset(command.as_std_mut());
        let child = match channels {
            Channels::Three([stdin, stdout, stderr]) => {
                let channels = [stdin, stdout, stderr].map(Stdio::from);
                let [stdin, stdout, stderr] = channels;
                command.stdin(stdin).stdout(stdout).stderr(stderr).process_group(0).spawn()?
            }
            // The process becomes the leader of a session, and so of a group.
            Channels::Terminal(terminal) => {
                pty_process::Command::from(command).spawn(terminal).map_err(io::Error::other)?
            }
        };
        Ok(Arc::new(Members::of(child, mark)))
    }
}

/// A process, its group, and the processes that carry its mark.
#[derive(Debug)]
struct Members {
    /// The process and its group.
    process: Option<Pid>,
    mark: String,
    status: watch::Receiver<Option<ExitStatus>>,
}

impl Members {
    /// Wraps a child that was started as the leader of its group.
    fn of(mut child: Child, mark: String) -> Self {
        let process = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (sender, status) = watch::channel(None);
        tokio::spawn(async move {
            if let Ok(status) = child.wait().await {
                sender.send_replace(Some(status));
            }
        });
        Self { process, mark, status }
    }

    /// The process group. Once the process has ended, its id may belong to others.
    fn group(&self) -> Option<Pid> {
        self.process.filter(|_| self.status.borrow().is_none())
    }
}

#[async_trait]
impl Held for Members {
    fn id(&self) -> Option<u32> {
        self.process.map(|process| process.as_raw_nonzero().get().unsigned_abs())
    }

    fn signal(&self, signal: Signal) {
        let number = match signal {
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        let group = self.group();
        // Signals fail only for processes that have ended.
        if let Some(group) = group {
            let _ = kill_process_group(group, number);
        }
        if signal == Signal::Interrupt {
            return;
        }
        for member in marked(&self.mark) {
            if Some(member.group) != group {
                let _ = kill_process(member.id, number);
            }
        }
    }

    async fn ended(&self) -> io::Result<ExitStatus> {
        let mut status = self.status.clone();
        let status = status.wait_for(Option::is_some).await.map_err(io::Error::other)?;
        status.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    async fn gone(&self) {
        let _ = self.ended().await;
        while !self.is_gone() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn is_gone(&self) -> bool {
        self.status.borrow().is_some() && marked(&self.mark).is_empty()
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.signal(Signal::Kill);
    }
}

/// A process that carries a mark.
struct Member {
    id: Pid,
    group: Pid,
}

/// All processes that carry a mark. Zombies have no environment any more, so they are not found.
fn marked(mark: &str) -> Vec<Member> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let wanted = format!("{MARK}={mark}");
    let found = processes.flatten().filter_map(|process| {
        let id = Pid::from_raw(process.file_name().to_str()?.parse().ok()?)?;
        // The processes of other users cannot be read, and are not ours.
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        if !environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            return None;
        }
        Some(Member { id, group: rustix::process::getpgid(Some(id)).ok()? })
    });
    found.collect()
}
