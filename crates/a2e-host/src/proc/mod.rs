//! The capability `proc`: processes that live as long as their session and stream their output (`a2e` §13).
//!
//! A client can start only programs that the operator allows by name, and only in the configured folders. Run time,
//! output and queued input of each process are limited. When the session ends, its processes and all their descendants
//! end too. A [`Starter`] starts the processes.

mod events;
mod line_splitter;
mod process;
mod spawn_request;
mod stdin_queue;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gladhand_core::operations::{CapabilityCall, Failure, Outcome, Party};
use gladhand_hub::{
    Answer, CapabilityProvider, Context, Features, Portion, Portions, Provider, SessionId, SessionObserver, Settling,
    Usage,
};
use gladhand_process::starting::{Signal, Starter};
use serde::Deserialize;
use serde_json::json;

use self::events::ProcessEvents;
use self::process::{Bounds, End, Process};
use self::spawn_request::Spawn;
use self::stdin_queue::StdinQueue;
use crate::reply;
use crate::session_values::{Reservation, ReserveError, SessionValues, ValuesOfSession};
use crate::starting::minimal_environment;
use gladhand_system::random_hex;

/// Maximum number of queued input bytes of all processes.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Maximum memory of the command lines of all processes, in bytes.
const MAX_COMMAND_BYTES: usize = 32 * 1024 * 1024;

/// Which processes may be started, and their limits.
#[derive(Debug, Clone)]
pub struct ProcSettings {
    /// The words that are allowed as the first word of a command, compared literally. Empty: nothing may be started.
    pub allowed: Vec<String>,
    /// The folder to which an allowed word with a folder (`./run.sh`) is relative. `None`: our own working directory.
    pub base: Option<PathBuf>,
    /// The folders in which processes may run. The first is the default. Empty: our own working directory, and no
    /// other.
    pub roots: Vec<PathBuf>,
    /// Names of variables that clients may set, in addition to those of language, time zone and terminal.
    pub variables: Vec<String>,
    /// The environment variables of each process, in addition to those that the client sets.
    pub environment: Vec<(String, String)>,
    /// Maximum number of running processes of one session.
    pub max_running: usize,
    /// Maximum number of running processes of all sessions together.
    pub max_running_total: usize,
    /// How many ended processes are remembered for each session.
    pub remembered: usize,
    /// Maximum run time of a process. A longer timeout in the request is reduced to this. `None`: as long as the
    /// session.
    pub max_duration: Option<Duration>,
    /// Maximum output of a process in bytes. A process that exceeds it is killed.
    pub max_output_bytes: u64,
    /// Maximum size of the text in one event, in bytes. Longer lines are split.
    pub max_piece_bytes: usize,
    /// Maximum number of queued input bytes of a process.
    pub max_queued_bytes: usize,
    /// Maximum number of queued input bytes of all processes. Parties share it.
    pub max_total_queued_bytes: usize,
    /// Maximum memory of all processes that are running or remembered, in bytes: their command lines above all. Parties
    /// share it. Ended processes of a session are forgotten to make room.
    pub max_total_command_bytes: usize,
    /// How long a process may take to end after SIGTERM before it is killed.
    pub grace: Duration,
}

impl Default for ProcSettings {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            base: None,
            roots: Vec::new(),
            variables: Vec::new(),
            environment: minimal_environment(),
            max_running: 8,
            max_running_total: 64,
            remembered: 64,
            max_duration: None,
            max_output_bytes: 64 * 1024 * 1024,
            max_piece_bytes: 16 * 1024,
            max_queued_bytes: 4 * 1024 * 1024,
            max_total_queued_bytes: MAX_QUEUED_BYTES,
            max_total_command_bytes: MAX_COMMAND_BYTES,
            grace: Duration::from_secs(2),
        }
    }
}

/// Provider of the capability `proc`.
#[derive(Debug)]
pub struct Proc {
    settings: Arc<ProcSettings>,
    starter: Arc<dyn Starter>,
    processes: SessionValues<Process>,
    /// The memory of all processes that are running or remembered.
    commands: Arc<Portions>,
    /// The queued input of all processes.
    queued: Arc<Portions>,
}

impl Proc {
    /// Creates the provider. `starter` starts the processes.
    pub fn new(settings: ProcSettings, starter: Arc<dyn Starter>) -> Self {
        Self {
            commands: Portions::lasting(settings.max_total_command_bytes, 0),
            queued: Portions::of(settings.max_total_queued_bytes, 0),
            settings: Arc::new(settings),
            starter,
            processes: SessionValues::default(),
        }
    }
}

/// The memory that a remembered process takes without its command line, and a word of that without its text,
/// approximately.
const PROCESS_BYTES: usize = 2048;
const WORD_BYTES: usize = size_of::<String>() + 16;

/// `proc/write/req`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Write {
    proc_id: String,
    data: String,
    eof: bool,
}

/// `proc/kill/req`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kill {
    proc_id: String,
    signal: Option<String>,
}

/// `proc/status/req`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    proc_id: String,
}

impl Provider for Proc {
    fn features(&self) -> Features {
        Features { silent: true, ..Features::default() }
    }

    fn closing(&self) -> Option<Settling> {
        self.processes.close().iter().for_each(|process| process.abandon());
        let task_counter = self.processes.task_counter().clone();
        Some(Box::pin(async move { task_counter.all_done().await }))
    }

    fn as_capabilities(&self) -> Option<&dyn CapabilityProvider> {
        Some(self)
    }

    fn as_session_observer(&self) -> Option<&dyn SessionObserver> {
        Some(self)
    }
}

impl CapabilityProvider for Proc {
    fn capabilities(&self) -> Vec<&'static str> {
        vec!["proc"]
    }

    fn serve(&self, call: CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let session = context.caller.session();
        let served = match call.kind {
            "proc/spawn/req" => call.read().map(|spawn| self.spawn(spawn, &call, context)),
            "proc/write/req" => call.read().map(|write| Answer::Now(self.write(&write, session))),
            "proc/kill/req" => call.read().and_then(|kill| self.kill(&kill, session)),
            "proc/status/req" => call.read().map(|status: Status| Answer::Now(self.status(&status.proc_id, session))),
            other => Err(Failure::of_capability("invalid_message", format!("not a request to processes: {other}"))),
        };
        served.unwrap_or_else(|failure| Answer::Now(Err(failure)))
    }
}

impl SessionObserver for Proc {
    fn left(&self, session: SessionId) {
        self.processes.left(session).iter().for_each(|process| process.abandon());
    }
}

impl Proc {
    fn spawn(&self, spawn: Spawn, call: &CapabilityCall<'_>, context: &Context<'_>) -> Answer {
        let reads = match spawn.reads() {
            Ok(reads) => reads,
            Err(why) => return Answer::Now(not_started(&why)),
        };
        let spec = match spawn.spec(&self.settings) {
            Ok(spec) => spec,
            Err(why) => return Answer::Now(not_started(&why)),
        };
        let (session, party) = (context.caller.session(), context.terms.party);
        let reservation = match self.reserve(session, party) {
            Ok(reservation) => reservation,
            Err(why) => return Answer::Now(not_started(why)),
        };
        let Some(memory) = self.memory(session, party, &spawn.cmd) else {
            return Answer::Now(not_started("proc_limit"));
        };
        let stdin_queue = StdinQueue::with_limit(
            self.settings.max_queued_bytes,
            self.queued.portion(party.unwrap_or(Party(0))),
            reads,
        );
        let settings = &self.settings;
        let bounds = Bounds {
            time: spawn.time(settings.max_duration),
            grace: settings.grace,
            max_piece_bytes: settings.max_piece_bytes,
            reads,
        };
        let events = ProcessEvents::to(
            Arc::clone(context.caller),
            call.request.clone(),
            random_hex::<16>(),
            settings.max_output_bytes,
        );
        let starter = Arc::clone(&self.starter);
        Answer::Later(Box::pin(async move {
            let started = match spec.start(&*starter).await {
                Ok(started) => started,
                Err(error) => return not_started(&format!("cannot start: {error}")),
            };
            let (process, process_task) = Process::of(started, (spawn.cmd, memory), stdin_queue, bounds, events);
            // If the session has ended meanwhile, the process is dropped here, which kills it.
            let Some(task_guard) = reservation.fill(&process) else { return not_started("the session has ended") };
            tokio::spawn(async move {
                process_task.run().await;
                drop(task_guard);
            });
            reply(&json!({"proc_id": process.id, "ok": true, "pid": process.pid, "error": ""}))
        }))
    }

    /// Reserves a place for one more process. Forgets the oldest ended processes, if necessary.
    fn reserve(&self, session: SessionId, party: Option<Party>) -> Result<Reservation<Process>, &'static str> {
        let settings = &self.settings;
        let is_running = |process: &Process| process.end().is_none();
        let admit = |values: &mut ValuesOfSession<Process>, usage: Usage| {
            let running = values.reserved + values.items.iter().filter(|process| is_running(process)).count();
            if running >= settings.max_running || !usage.admits(settings.max_running_total) {
                return Err("proc_limit");
            }
            while values.items.iter().filter(|process| !is_running(process)).count() > settings.remembered {
                let oldest = values.items.iter().position(|process| !is_running(process));
                oldest.map(|oldest| values.items.remove(oldest));
            }
            Ok(())
        };
        self.processes.reserve((session, party), is_running, admit).map_err(|error| match error {
            ReserveError::Closed => "stopping",
            ReserveError::NotAdmitted(why) => why,
        })
    }

    /// The memory for a process. The oldest ended processes of the session make room. `None` if there is not enough.
    fn memory(&self, session: SessionId, party: Option<Party>, command: &[String]) -> Option<Portion> {
        let mut memory = self.commands.portion(party.unwrap_or(Party(0)));
        let words = command.iter().map(|word| word.len() + WORD_BYTES).sum::<usize>();
        while !memory.resize(PROCESS_BYTES + words) {
            self.processes.take(session, |process| process.end().is_some())?;
        }
        Some(memory)
    }

    fn find(&self, session: SessionId, id: &str) -> Option<Arc<Process>> {
        self.processes.find(session, |process| process.id == id)
    }

    fn write(&self, write: &Write, session: SessionId) -> Outcome {
        let (pid, error) = match self.find(session, &write.proc_id) {
            None => (0, "session not found".to_owned()),
            Some(process) if process.end().is_some() => (process.pid, "proc_dead".to_owned()),
            Some(process) => (process.pid, process.stdin_queue.put(&write.data, write.eof).err().unwrap_or_default()),
        };
        reply(&json!({"proc_id": write.proc_id, "ok": error.is_empty(), "pid": pid, "error": error}))
    }

    fn kill(&self, kill: &Kill, session: SessionId) -> Result<Answer, Failure> {
        let signal = match kill.signal.as_deref() {
            None | Some("SIGTERM") => Signal::Terminate,
            Some("SIGKILL") => Signal::Kill,
            Some("SIGINT") => Signal::Interrupt,
            Some(other) => {
                let message = format!("unknown signal: {other:?}; expected SIGTERM, SIGKILL or SIGINT");
                return Err(Failure::refused(message));
            }
        };
        let Some(process) = self.find(session, &kill.proc_id) else {
            return Ok(Answer::Now(reply(&json!({"ok": false, "state": ""}))));
        };
        if let Some(end) = process.end() {
            return Ok(Answer::Now(reply(&json!({"ok": false, "state": end.status().0}))));
        }
        process.signal(signal);
        let grace = self.settings.grace;
        Ok(Answer::Later(Box::pin(async move {
            // Most processes end at once, and then the response says so. A process may also ignore the signal.
            let _ = tokio::time::timeout(grace, process.ended()).await;
            reply(&json!({"ok": true, "state": word(process.end())}))
        })))
    }

    fn status(&self, id: &str, session: SessionId) -> Outcome {
        if id.is_empty() {
            let procs: Vec<_> = self.processes.of(session).iter().map(|process| listed(process)).collect();
            return reply(&json!({"proc_id": "", "status": "ok", "error": "", "procs": procs}));
        }
        let (status, error) = match self.find(session, id) {
            None => ("not_found", "session not found".to_owned()),
            Some(process) => process.end().map_or_else(|| ("running", String::new()), End::status),
        };
        reply(&json!({"proc_id": id, "status": status, "error": error}))
    }
}

fn not_started(why: &str) -> Outcome {
    reply(&json!({"proc_id": "", "ok": false, "pid": 0, "error": why}))
}

fn word(end: Option<End>) -> &'static str {
    end.map_or("running", |end| end.status().0)
}

fn listed(process: &Process) -> serde_json::Value {
    let end = process.end();
    json!({
        "proc_id": process.id,
        "cmd": process.command,
        "state": end.map_or("running", End::state),
        "pid": process.pid,
        "exit_code": end.and_then(|end| end.code),
        "started_at": process.started_at,
    })
}
