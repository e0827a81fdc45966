//! A server under measurement: started with pipes, sockets or a port, observed through `/proc`, and ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};

use super::request::Era;
use super::scenario::Way;

/// Timeout of a single run: a server that is silent for this long is killed, and its run fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// The placeholder for the port in the arguments of a server.
pub(crate) const PORT: &str = "{port}";

/// Variables that give access to the keys of the user who runs the bench, and through them to the network.
const PERSONAL: [&str; 5] =
    ["DBUS_SESSION_BUS_ADDRESS", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "EXA_API_KEY"];

/// How to start a server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    /// The arguments for stdio, if the server supports it.
    pub(crate) stdio: Option<Vec<OsString>>,
    /// The arguments for HTTP, if the server supports it; [`PORT`] stands for the port.
    pub(crate) http: Option<Vec<OsString>>,
    /// The number of concurrent sessions that it must keep; 0 if it keeps no session.
    pub(crate) sessions: u32,
    /// An empty folder to run in, so that no user configuration affects the measurement.
    pub(crate) scratch: PathBuf,
    /// Additional environment variables.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// The kind of stdin and stdout of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    Pipes,
    Sockets,
}

/// A running server and our ends of its streams.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) input: File,
    pub(crate) output: File,
    pub(crate) process: Process,
}

/// A running server that listens, or is about to.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
}

/// A started program, which ends when this is dropped or when it takes too long.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    _watchdog: mpsc::Sender<()>,
}

/// The usage of a process according to `/proc`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

impl Server {
    pub(crate) fn size(&self) -> Result<u64> {
        Ok(self.program.metadata().with_context(|| format!("no {}", self.program.display()))?.len())
    }

    /// Whether it supports this transport.
    pub(crate) fn serves(&self, way: Way) -> bool {
        match way {
            Way::Stdio(_) => self.stdio.is_some(),
            Way::Http => self.http.is_some(),
        }
    }

    pub(crate) fn start(&self, streams: Streams) -> Result<Running> {
        let mut command = self.command(self.stdio.as_ref().context("it does not serve stdio")?);
        let sockets = match streams {
            Streams::Pipes => {
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                None
            }
            Streams::Sockets => {
                let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
                let ((ours_in, its_in), (ours_out, its_out)) = (pair()?, pair()?);
                command.stdin(its_in).stdout(its_out);
                Some((ours_in, ours_out))
            }
        };
        let mut process = Process::start(command)?;
        let child = &mut process.child;
        let (input, output): (OwnedFd, OwnedFd) = match (sockets, child.stdin.take(), child.stdout.take()) {
            (Some(ours), ..) => ours,
            (None, Some(input), Some(output)) => (input.into(), output.into()),
            _ => bail!("the streams of {} are missing", self.name),
        };
        Ok(Running { input: input.into(), output: output.into(), process })
    }

    /// Starts it on a port that was free a moment ago.
    pub(crate) fn listen(&self) -> Result<Listening> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr())?;
        let port = address.port().to_string();
        let placed = |argument: &OsString| OsString::from(argument.to_string_lossy().replace(PORT, &port));
        let arguments = self.http.as_ref().context("it does not serve HTTP")?.iter().map(placed);
        let mut command = self.command(&arguments.collect::<Vec<_>>());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Listening { address, process: Process::start(command)? })
    }

    /// The command that starts it with these arguments.
    pub(crate) fn command(&self, arguments: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.scratch).stderr(Stdio::null());
        for folder in ["GLADHAND_DATA_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(folder, &self.scratch);
        }
        for name in PERSONAL {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Running {
    /// Opens the session and returns when the first answer was read.
    pub(crate) fn open(&mut self, era: Era) -> Result<Instant> {
        self.input.write_all(era.opening().as_bytes())?;
        let mut line = Vec::new();
        let mut chunk = [0; 4096];
        while !line.ends_with(b"\n") {
            match self.output.read(&mut chunk)? {
                0 => bail!("it ended or was silent before the opening was answered"),
                count => line.extend_from_slice(&chunk[..count]),
            }
        }
        let answered = Instant::now();
        let answer: serde_json::Value = serde_json::from_slice(&line).context("the opening's answer is no JSON")?;
        if answer.pointer(era.proof_of_opening()).is_none() {
            bail!("the opening was refused: {answer}");
        }
        self.input.write_all(era.confirmation().as_bytes())?;
        Ok(answered)
    }
}

impl Process {
    /// The command is dropped immediately: while it holds the server's ends of sockets, a reader never sees the end of
    /// file.
    fn start(mut command: Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("could not start {}", program.display()))?;
        let watchdog = watch(&child);
        Ok(Self { child, _watchdog: watchdog })
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = std::fs::read_to_string(folder.join("status"))?;
        let kibibytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).context("no such line in status")
        };
        let stat = std::fs::read_to_string(folder.join("stat"))?;
        // Fields are counted after the name, which is in parentheses and may hold anything.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let cpu = Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64);
        Ok(Usage { cpu, resident: kibibytes("VmRSS:")? * 1024, peak: kibibytes("VmHWM:")? * 1024 })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A clean shutdown is not measured here: the tests check that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills the child unless the returned sender is dropped in time. Our blocking reads then see the end of file.
fn watch(child: &Child) -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel::<()>();
    let pid = Pid::from_child(child);
    std::thread::spawn(move || {
        if receiver.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    sender
}
