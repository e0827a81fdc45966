//! Starts processes in their own process groups and does nothing more: for tests, and for embedders without a better
//! starter.
//!
//! A process that leaves its group, as a daemon does, is not found again. An embedder that must end daemons needs
//! another [`Starter`].

use std::io;
use std::process::{ExitStatus, Stdio};

use async_trait::async_trait;
use rustix::process::{Pid, kill_process_group};
use tokio::process::{Child, Command};

use super::{Held, Plan, Signal, Started, Starter};

/// Starts each process as the leader of a group, and ends the group with it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

#[async_trait]
impl Starter for Plain {
    async fn start(&self, plan: &Plan) -> io::Result<Started> {
        let (program, arguments) = plan.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(plan.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &plan.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let channels = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let held = Box::new(Group { child, group });
        let (Some(stdin), Some(stdout), Some(stderr)) = channels else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Started { pid, stdin, stdout, stderr, held })
    }
}

/// A process and the group that it leads.
#[derive(Debug)]
struct Group {
    child: Child,
    /// `None` once the process has been waited for: its id may belong to another process from then on.
    group: Option<Pid>,
}

#[async_trait]
impl Held for Group {
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.end();
        Ok(status)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let group = self.group.ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process_group(group, number(signal))?)
    }
}

impl Group {
    /// Kills the remaining processes of the group.
    fn end(&mut self) {
        if let Some(group) = self.group.take() {
            // This fails if no process is left, which is the goal.
            let _ = kill_process_group(group, number(Signal::Kill));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

fn number(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Interrupt => rustix::process::Signal::INT,
        Signal::Kill => rustix::process::Signal::KILL,
    }
}
