//! A process and everything that came of it.
//!
//! Each command runs in a process group of its own, which is signalled as a whole. Who leaves the group (a daemon) is
//! still recognised, on Linux, by a mark in its environment. Elsewhere the group is all that is known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;

use super::Exit;

/// The variable that holds the mark: a path of numbers, from the bench over the session to the command.
pub(crate) const MARK: &str = "GLADHAND_BENCH";

/// How long whoever is told to leave may take.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// How often it is looked who is still there.
const LOOK: Duration = Duration::from_millis(20);

/// How many times those who were started meanwhile are looked for.
const ROUNDS: usize = 10;

/// A process, its group, and who carries its mark.
#[derive(Debug)]
pub(crate) struct Family {
    group: Option<Pid>,
    mark: String,
    /// Whether its members die with this value.
    guarded: AtomicBool,
}

impl Family {
    /// The family of a child that was started as the leader of its group. It dies with this value unless it is
    /// [released](Self::release).
    pub(crate) fn of(child: &Child, mark: &str) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { group, mark: mark.to_owned(), guarded: AtomicBool::new(true) }
    }

    /// From now on its members may outlive this value.
    pub(crate) fn release(&self) {
        self.guarded.store(false, Ordering::Relaxed);
    }

    /// Signals everybody.
    pub(crate) fn signal(&self, signal: Signal) {
        // Whoever is gone already need not be told.
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
        for member in marked(&self.mark) {
            if Some(member.group) != self.group {
                let _ = kill_process(member.id, signal);
            }
        }
    }

    /// Ends everybody: first a request, then force.
    pub(crate) async fn end(&self, child: &mut Child) -> Exit {
        self.signal(Signal::TERM);
        let all_left = async {
            let status = child.wait().await;
            while self.is_here() {
                tokio::time::sleep(LOOK).await;
            }
            status
        };
        let status = match tokio::time::timeout(GRACE, all_left).await {
            Ok(status) => status.ok(),
            Err(_) => {
                self.signal(Signal::KILL);
                // Only a process that the kernel itself holds back survives this.
                tokio::time::timeout(GRACE, child.wait()).await.ok().and_then(Result::ok)
            }
        };
        status.map_or_else(Exit::default, Exit::from)
    }

    /// Whether anybody is left, once the child itself has been waited for.
    fn is_here(&self) -> bool {
        if cfg!(target_os = "linux") {
            !marked(&self.mark).is_empty()
        } else {
            self.group.is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if *self.guarded.get_mut() {
            self.signal(Signal::KILL);
        }
    }
}

/// Ends everybody whose mark is `mark` or lies below it.
pub(crate) async fn sweep(mark: &str) {
    let signal = |signal| {
        let members = marked(mark);
        for member in &members {
            let _ = kill_process(member.id, signal);
        }
        members.len()
    };
    if signal(Signal::TERM) == 0 {
        return;
    }
    let all_left = async {
        while !marked(mark).is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(GRACE, all_left).await.is_err() {
        for _ in 0..ROUNDS {
            if signal(Signal::KILL) == 0 {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A process that carries a mark.
struct Member {
    id: Pid,
    group: Pid,
}

/// Everybody whose mark is `mark` or lies below it. Zombies have no environment any more, so they are not found.
fn marked(mark: &str) -> Vec<Member> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let found = processes.flatten().filter_map(|process| {
        let id = Pid::from_raw(process.file_name().to_str()?.parse().ok()?)?;
        // What belongs to others cannot be read, and is none of ours.
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        if !carries(&environment, mark) {
            return None;
        }
        Some(Member { id, group: rustix::process::getpgid(Some(id)).ok()? })
    });
    found.collect()
}

/// Whether an environment holds a mark or one below it.
fn carries(environment: &[u8], mark: &str) -> bool {
    environment.split(|byte| *byte == 0).any(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        let rest = value.and_then(|value| value.strip_prefix(mark.as_bytes()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_covers_what_lies_below_it_and_nothing_else() {
        let environment = b"A=1\0GLADHAND_BENCH=ab.1.12\0B=2";
        for mark in ["ab", "ab.1", "ab.1.12"] {
            assert!(carries(environment, mark), "{mark}");
        }
        for mark in ["a", "ab.1.1", "ab.2", "b"] {
            assert!(!carries(environment, mark), "{mark}");
        }
        assert!(!carries(b"X_GLADHAND_BENCH=ab", "ab"));
    }
}
