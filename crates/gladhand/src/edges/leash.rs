//! The leash: a small process that outlives us for a moment, to take along what we started.
//!
//! Who is killed outright ends nobody. So the first child process is accompanied by a second copy of this program that
//! only holds one end of a pipe: when the pipe closes, we are gone, and it ends every process group that it was told of
//! and every process that carries our mark in its environment, which children of children have too, also where they
//! made themselves independent.

use std::io::{BufRead, Write};
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The word on our own command line that makes a leash of this program.
const WORD: &str = "--leash";

/// How long whoever is told to leave may take.
const GRACE: std::time::Duration = std::time::Duration::from_millis(500);

/// How often the marked are looked for: they may have started others meanwhile.
const ROUNDS: usize = 20;

/// This process's leash. There is one for all children, whoever starts them.
static LEASH: OnceLock<Option<Leash>> = OnceLock::new();

/// Our end of it.
#[derive(Debug)]
pub(super) struct Leash {
    pipe: Mutex<ChildStdin>,
    mark: String,
}

/// To be called first thing in a program that is `gladhand` itself: becomes a leash if that is what this process was
/// started for, and otherwise puts all children from now on on one. Programs that embed the library have none.
pub fn enable() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == WORD) {
        let mark = words.next().and_then(|mark| mark.into_string().ok()).unwrap_or_default();
        hold(&mark);
        return Some(ExitCode::SUCCESS);
    }
    ENABLED.get_or_init(|| ());
    None
}

static ENABLED: OnceLock<()> = OnceLock::new();

/// The leash, started if it is not there yet; `None` where there is none.
pub(super) fn leash() -> Option<&'static Leash> {
    ENABLED.get()?;
    LEASH.get_or_init(Leash::start).as_ref()
}

impl Leash {
    fn start() -> Option<Self> {
        let mut bits = [0; 8];
        getrandom::fill(&mut bits).ok()?;
        let mark = format!("GLADHAND_LEASH_{:016X}", u64::from_ne_bytes(bits));
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.args([WORD, &mark]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Ctrl-C is meant for us; what becomes of the children is then our decision.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.spawn() {
            Ok(mut child) => Some(Self { pipe: Mutex::new(child.stdin.take()?), mark }),
            Err(error) => {
                tracing::warn!(%error, "no leash: should this process be killed, its children stay");
                None
            }
        }
    }

    /// What a child must carry in its environment.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Takes a process group along, should we go.
    pub(super) fn hold(&self, group: Pid) {
        self.say('+', group);
    }

    /// A process group has ended: its id may belong to others from now on.
    pub(super) fn let_go(&self, group: Pid) {
        self.say('-', group);
    }

    fn say(&self, what: char, group: Pid) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if writeln!(pipe, "{what}{}", group.as_raw_nonzero()).is_err() {
            tracing::debug!("the leash is gone");
        }
    }
}

/// Waits until whoever started us is gone, then ends what it left.
fn hold(mark: &str) {
    let mut groups = std::collections::BTreeSet::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let group = line.get(1..).and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
        match (line.as_bytes().first(), group) {
            (Some(b'+'), Some(group)) => drop(groups.insert(group.as_raw_nonzero())),
            (Some(b'-'), Some(group)) => drop(groups.remove(&group.as_raw_nonzero())),
            _ => {}
        }
    }
    let end = |signal| {
        for group in groups.iter().filter_map(|group| Pid::from_raw(group.get())) {
            // No such group: everybody has left, which is what we want.
            let _ = kill_process_group(group, signal);
        }
    };
    if groups.is_empty() && marked(mark).is_empty() {
        return;
    }
    end(Signal::TERM);
    std::thread::sleep(GRACE);
    end(Signal::KILL);
    for _ in 0..ROUNDS {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        for process in left {
            let _ = kill_process(process, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// All processes that carry a mark.
fn marked(mark: &str) -> Vec<Pid> {
    let wanted = format!("{mark}=");
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let carries =
        |environment: &[u8]| environment.split(|byte| *byte == 0).any(|one| one.starts_with(wanted.as_bytes()));
    let mut marked = Vec::new();
    for process in processes.flatten() {
        let id = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        // What belongs to others cannot be read, and is none of ours.
        if let (Some(id), Ok(environment)) = (id, std::fs::read(process.path().join("environ")))
            && !wanted.starts_with('=')
            && carries(&environment)
        {
            marked.push(id);
        }
    }
    marked
}
