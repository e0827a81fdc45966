//! The leash: a small supervisor process between us and each process that we start. It ends everything that the process
//! leaves behind.
//!
//! If we are killed with SIGKILL, we cannot end our children. A process that left its group and its parent cannot be
//! found through either. A second copy of this program therefore starts each process, and adopts orphans below it (on
//! Linux). When we order it, or when its connection to us closes because we are gone, it ends the process, its group,
//! and all adopted processes, until none is left.
//!
//! The leash reads orders of one byte: [`TERMINATE`] or [`KILL`]. It writes [`READY`] before it starts anything. Then
//! it writes `p` and the process id once the process is started, or `e` and the error number. Last, it writes `x` and
//! the exit status.
//!
//! A process can kill or stop its own leash. On Linux we are a subreaper too, so the children of a dead leash become
//! our children, and [`end_strays`] ends them. Each leash leads a separate session, and its processes can never join
//! ours. This distinguishes strays from programs that we started without a leash, such as a browser.

use std::collections::HashSet;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use gladhand_core::sync::Unpoisoned as _;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpgid, getrlimit, kill_process, kill_process_group, setrlimit, wait,
    waitpid,
};

use crate::leashed::Kind;

/// The first argument that makes this program act as a leash. The command to start follows it.
pub(crate) const WORD: &str = "--leash";

/// The same for a command that becomes the session leader of a terminal.
pub(crate) const TERMINAL_WORD: &str = "--leash-terminal";

/// The first line that a leash writes.
pub(crate) const READY: &str = "r";

/// Order: send SIGTERM to all processes.
pub(crate) const TERMINATE: u8 = b't';

/// Order: kill all processes immediately.
pub(crate) const KILL: u8 = b'k';

/// How long processes may take to exit after SIGTERM once we are gone.
const GRACE: Duration = Duration::from_millis(500);

/// How long to keep killing processes that start others meanwhile.
const LAST: Duration = Duration::from_secs(60);

/// How often to look for remaining processes, which may have started others meanwhile.
const ROUND: Duration = Duration::from_millis(5);

static ENABLED: OnceLock<()> = OnceLock::new();

/// Must be called first in the `gladhand` binary. It turns this process into a leash if it was started as one.
/// Otherwise, all later children get a leash. Programs that embed the library have no leash.
pub fn enable() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let kind = words.next().and_then(|word| match word.to_str() {
        Some(WORD) => Some(Kind::Plain),
        Some(TERMINAL_WORD) => Some(Kind::Terminal),
        _ => None,
    });
    if let Some(kind) = kind {
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        crate::signals::reset(&mut command);
        match kind {
            Kind::Plain => drop(command.process_group(0)),
            Kind::Terminal => leads_its_terminal(&mut command),
        }
        return Some(if hold(command).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::debug!(%error, "what a dead leash held cannot be found");
    }
    ENABLED.get_or_init(|| ());
    None
}

/// The leashes of this process that were not waited for yet. Holding this lock prevents new ones from starting.
pub(crate) fn leashes() -> MutexGuard<'static, HashSet<Pid>> {
    static LEASHES: LazyLock<Mutex<HashSet<Pid>>> = LazyLock::new(Mutex::default);
    LEASHES.lock().unpoisoned()
}

/// Ends the processes of killed leashes, and returns when they are gone. Blocks.
pub(crate) fn end_strays() {
    end_all(
        || {
            let leashes = leashes();
            let (ours, processes) = (rustix::process::getpid(), processes());
            let our_session = processes.iter().find(|process| process.id == ours).map(|process| process.session);
            let strays = processes.iter().filter(|process| {
                process.parent == Some(ours) && Some(process.session) != our_session && !leashes.contains(&process.id)
            });
            // A process that exits right after starting the next one is visible only through its children. Include dead
            // ones.
            let mut found: Vec<_> = strays.copied().collect();
            for process in found.iter_mut().filter(|process| process.is_dead) {
                // The group id cannot be reused before the process is waited for.
                if let Some(group) = process.group.take() {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                // No other code waits for this process.
                let _ = waitpid(Some(process.id), WaitOptions::NOHANG);
            }
            let ids: Vec<_> = found.iter().map(|process| process.id).collect();
            found.extend(below(&ids, &processes));
            found
        },
        2,
    );
}

/// Whether children are put on a leash.
pub fn is_enabled() -> bool {
    ENABLED.get().is_some()
}

/// Makes the command the leader of a session, and so of a group, whose terminal is what it reads from.
fn leads_its_terminal(command: &mut Command) {
    #[expect(unsafe_code, reason = "a session can be begun only between fork and exec")]
    // SAFETY: two system calls that neither allocate nor lock, on a channel that is open.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?;
            Ok(())
        });
    }
}

/// Starts the command, and exits with the last process that descends from it.
fn hold(mut command: Command) -> std::io::Result<()> {
    // Ctrl-C is meant for the main process, which decides when the children end.
    rustix::process::setsid()?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let ([stdin, stdout, stderr], open_files) = receive_channels(&control)?;
    if open_files > 0 {
        // We may have raised our own limit, which some programs cannot deal with. A lower one can always be set.
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(open_files), ..limit });
    }
    writeln!(control, "{READY}")?;
    let started = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn();
    // The command holds the channels. The other ends must see them close when the process exits.
    drop(command);
    let process = match started {
        Ok(child) => i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::RANGE)?,
        Err(error) => return writeln!(control, "e{}", error.raw_os_error().unwrap_or_default()),
    };
    // If our parent was killed meanwhile, this write fails, but the process must still be ended.
    let _ = writeln!(control, "p{}", process.as_raw_nonzero());
    let (orders, has_left) = (control.try_clone()?, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            obey(orders, process, &has_left);
            // The remaining processes cannot be ended.
            std::process::exit(0);
        });
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((left, status))) if left == process => {
                    has_left.store(true, Ordering::Relaxed);
                    // The parent may be gone. The report is then not needed.
                    let _ = writeln!(control, "x{}", status.as_raw());
                }
                Ok(_) | Err(Errno::INTR) => {}
                // No child is left, and adopted processes would be children too.
                Err(_) if cfg!(target_os = "linux") => std::process::exit(0),
                Err(_) => return Ok(()),
            }
        }
    })
}

/// Executes orders until everything must end, and then ends it.
fn obey(mut orders: UnixStream, process: Pid, has_left: &AtomicBool) {
    let signal = |signal| {
        let everybody = descendants();
        // Once the group is empty, its id may be reused. An error "no such group" is the desired state.
        if !everybody.is_empty() || !has_left.load(Ordering::Relaxed) {
            let _ = kill_process_group(process, signal);
        }
        // Processes outside the group get the signal individually.
        for one in everybody.into_iter().filter(|one| one.group != Some(process)) {
            let _ = kill_process(one.id, signal);
        }
    };
    let mut order = [0];
    loop {
        match orders.read(&mut order) {
            Ok(1) if order[0] == TERMINATE => signal(Signal::TERM),
            Ok(1) if order[0] == KILL => break,
            Ok(1) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                signal(Signal::TERM);
                std::thread::sleep(GRACE);
                break;
            }
        }
    }
    signal(Signal::KILL);
    if cfg!(target_os = "linux") {
        // An empty search does not prove that no process is left. `hold` exits when the kernel says so.
        end_all(descendants, usize::MAX);
        // A process that joined our own group can be killed with its successors only if we go with them.
        let _ = kill_process_group(rustix::process::getpid(), Signal::KILL);
    } else {
        end_all(descendants, 2);
    }
}

/// Kills all processes that `find` returns, until it returns none several times in a row.
fn end_all(find: impl Fn() -> Vec<Process>, enough: usize) {
    let (begun, mut empty_looks) = (Instant::now(), 0);
    let our_group = getpgid(None).ok();
    while begun.elapsed() < LAST {
        let left = find();
        // One empty search proves nothing: a process that loses its parent during the search has no known parent for a
        // moment.
        empty_looks = if left.is_empty() { empty_looks + 1 } else { 0 };
        if empty_looks == enough {
            return;
        }
        for process in left.iter().filter(|process| !process.is_dead) {
            let _ = kill_process(process.id, Signal::KILL);
        }
        // A process that forks and ends at once is gone before it is killed, and its successor is in the same group. The
        // kernel kills a group as a whole: no fork escapes that.
        let groups: HashSet<_> = left.iter().filter_map(|process| process.group).collect();
        for group in groups.into_iter().filter(|group| Some(*group) != our_group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        std::thread::sleep(ROUND);
    }
}

/// Receives the three channels of the process, which the parent sends first, and its limit on open files (zero: ours).
fn receive_channels(control: &UnixStream) -> std::io::Result<([OwnedFd; 3], u64)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut received = RecvAncillaryBuffer::new(&mut space);
    let mut limit = [0; 8];
    recvmsg(control, &mut [IoSliceMut::new(&mut limit)], &mut received, RecvFlags::CMSG_CLOEXEC)?;
    let channels = received.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(channels) => Some(channels.collect::<Vec<_>>()),
        _ => None,
    });
    let channels: Vec<_> = channels.flatten().collect();
    let channels = channels.try_into().map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidData))?;
    Ok((channels, u64::from_le_bytes(limit)))
}

/// All processes below this one that have not ended yet.
fn descendants() -> Vec<Process> {
    below(&[rustix::process::getpid()], &processes())
}

/// The living descendants of the given processes.
fn below(above: &[Pid], processes: &[Process]) -> Vec<Process> {
    let children = |parent: Pid| {
        processes.iter().filter(move |process| process.parent == Some(parent) && !process.is_dead).copied()
    };
    let mut found = Vec::new();
    // If an id is reused during the scan, a process may seem to be its own ancestor. So each process is visited once.
    let mut visited: HashSet<Pid> = above.iter().copied().collect();
    let mut parents = above.to_vec();
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            if visited.insert(child.id) {
                parents.push(child.id);
                found.push(child);
            }
        }
    }
    found
}

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy)]
struct Process {
    id: Pid,
    parent: Option<Pid>,
    group: Option<Pid>,
    session: i32,
    /// It has ended, and its parent has not waited for it yet.
    is_dead: bool,
}

/// All visible processes.
fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let process = |entry: std::fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let text = std::fs::read(entry.path().join("stat")).ok()?;
        // The process name is in parentheses, and may contain any character.
        let after = text.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = String::from_utf8_lossy(text.get(after..)?);
        let mut fields = rest.split_whitespace();
        let is_dead = matches!(fields.next()?, "Z" | "X");
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        let group = Pid::from_raw(fields.next()?.parse().ok()?);
        let session = fields.next()?.parse().ok()?;
        Some(Process { id, parent, group, session, is_dead })
    };
    entries.flatten().filter_map(process).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::process::Stdio;

    #[test]
    fn a_cycle_of_parents_in_a_scan_ends() {
        let id = |id| Pid::from_raw(id).expect("not zero");
        let process =
            |own, parent| Process { id: id(own), parent: Some(id(parent)), group: None, session: 0, is_dead: false };
        let seen = [process(1, 3), process(2, 1), process(3, 2), process(4, 4), process(5, 6)];
        let found = below(&[id(1)], &seen);
        assert_eq!(found.iter().map(|process| process.id).collect::<Vec<_>>(), [id(2), id(3)]);
        assert!(below(&[id(4)], &seen).is_empty());
    }

    #[test]
    fn a_process_that_is_gone_before_it_is_killed_takes_its_successors_along() {
        // The first of the group ends at once; its successor holds the pipe.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & exit"]).process_group(0).stdout(Stdio::piped());
        let mut first = command.spawn().expect("the command starts");
        let id = i32::try_from(first.id()).ok().and_then(Pid::from_raw).expect("a process id");
        first.wait().expect("the first process ends");
        let looks = Cell::new(0);
        let find = || {
            looks.set(looks.get() + 1);
            let seen = Process { id, parent: None, group: Some(id), session: 0, is_dead: false };
            if looks.get() == 1 { vec![seen] } else { Vec::new() }
        };
        end_all(find, 2);
        let mut output = String::new();
        first.stdout.take().expect("piped").read_to_string(&mut output).expect("it is closed when all are gone");
        assert_eq!(looks.get(), 3);
    }
}
