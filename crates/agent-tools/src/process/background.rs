//! Background commands, which tools read from and write to.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_process::starting::{Channels, Held, Signal};
use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::unix::pipe::Sender;
use tokio_util::sync::CancellationToken;

use super::ending::GRACE;
use super::escapes::Stripper;
use super::foreground::{OUTPUT_GRACE, read_all};
use super::output::{Reading, Tail};
use super::pipes::Pipes;
use super::{Exit, Plan, pipes};
use crate::moment;
use crate::tool_set::Job;

/// Timeout of a write to a process that does not read its input.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a stop request waits, so that most reports already have the exit status.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

/// How a background process is started and named.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) plan: Plan,
    /// The prefix of its id.
    pub(crate) prefix: &'static str,
    pub(crate) name: String,
    /// A terminal of this size, or pipes.
    pub(crate) terminal: Option<Size>,
    /// Whether escape sequences are removed from its output.
    pub(crate) strips_escapes: bool,
    /// A file that is removed when the process has ended.
    pub(crate) script: Option<TempPath>,
}

/// A background process.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) plan: Plan,
    pub(crate) pid: Option<u32>,
    pub(crate) created_at: String,
    held: Arc<dyn Held>,
    live: Mutex<Live>,
    input: tokio::sync::Mutex<InputChannel>,
    ended: CancellationToken,
}

/// The state that changes while it runs.
#[derive(Debug)]
struct Live {
    updated_at: String,
    size: Option<Size>,
    exit: Option<Exit>,
    stdout: Tail,
    stderr: Tail,
}

/// Its input.
#[derive(Debug)]
enum InputChannel {
    Pipe(Sender),
    Terminal(pty_process::OwnedWritePty),
    Closed,
}

/// One of the two output streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Background {
    /// Starts a process.
    pub(crate) async fn start(start: Start, job: &Job<'_>) -> io::Result<Arc<Self>> {
        let Start { mut plan, prefix, name, terminal, strips_escapes, script } = start;
        let Ends { channels, input, stdout, stderr } = match terminal {
            Some(size) => {
                plan.environment.insert("TERM".into(), "xterm-256color".into());
                in_terminal(size)?
            }
            None => on_pipes()?,
        };
        let held = job.tools.settings.starter.start(plan.program(), channels).await?;
        job.session_state.hold(Arc::clone(&held));
        let created_at = moment::now();
        let background = Arc::new(Self {
            id: format!("{prefix}-{}-{}", moment::milliseconds(), gladhand_system::random_hex::<4>()),
            name,
            pid: held.id(),
            held: Arc::clone(&held),
            plan,
            live: Mutex::new(Live {
                updated_at: created_at.clone(),
                size: terminal,
                exit: None,
                stdout: Tail::default(),
                stderr: Tail::default(),
            }),
            created_at,
            input: tokio::sync::Mutex::new(input),
            ended: CancellationToken::new(),
        });
        let readers = [(Stream::Stdout, Some(stdout)), (Stream::Stderr, stderr)].map(|(stream, source)| {
            let background = Arc::clone(&background);
            tokio::spawn(async move {
                if let Some(source) = source {
                    background.read_output(stream, source, strips_escapes).await;
                }
            })
        });
        let watched = Arc::clone(&background);
        tokio::spawn(async move {
            let exit = held.ended().await.map_or_else(|_| Exit::default(), Exit::from);
            for reader in readers {
                let _ = tokio::time::timeout(OUTPUT_GRACE, reader).await;
            }
            drop(script);
            watched.change(|live| live.exit = Some(exit));
            watched.ended.cancel();
            *watched.input.lock().await = InputChannel::Closed;
        });
        Ok(background)
    }

    async fn read_output(&self, stream: Stream, source: Source, strips_escapes: bool) {
        let mut stripper = Stripper::default();
        let take = |piece: &str| {
            let stripped;
            let piece = if strips_escapes {
                stripped = stripper.strip(piece);
                &stripped
            } else {
                piece
            };
            self.change(|live| match stream {
                Stream::Stdout => live.stdout.push(piece),
                Stream::Stderr => live.stderr.push(piece),
            });
        };
        read_all(source, take).await;
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unpoisoned()
    }

    fn change(&self, change: impl FnOnce(&mut Live)) {
        let mut live = self.live();
        change(&mut live);
        live.updated_at = moment::now();
    }

    /// How it ended, if it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        self.live().exit
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&self) -> bool {
        self.exit().is_none()
    }

    /// The time of the last change.
    pub(crate) fn updated_at(&self) -> String {
        self.live().updated_at.clone()
    }

    /// The size of its terminal, if it has one.
    pub(crate) fn size(&self) -> Option<Size> {
        self.live().size
    }

    /// How much of each stream was not read yet.
    pub(crate) fn unread(&self) -> (usize, usize) {
        let live = self.live();
        (live.stdout.unread(), live.stderr.unread())
    }

    /// Reads one stream.
    pub(crate) fn read(&self, stream: Stream, max_units: usize, is_peek: bool) -> Reading {
        let mut live = self.live();
        match stream {
            Stream::Stdout => live.stdout.read(max_units, is_peek),
            Stream::Stderr => live.stderr.read(max_units, is_peek),
        }
    }

    /// The read position of a stream, without reading.
    pub(crate) fn skip(&self, stream: Stream) -> Reading {
        let live = self.live();
        match stream {
            Stream::Stdout => live.stdout.skip(),
            Stream::Stderr => live.stderr.skip(),
        }
    }

    /// Writes to its input. Fails after a timeout if the process does not read.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let write = async {
            match &mut *self.input.lock().await {
                InputChannel::Pipe(pipe) => {
                    pipe.write_all(bytes).await?;
                    pipe.flush().await
                }
                InputChannel::Terminal(terminal) => terminal.write_all(bytes).await,
                InputChannel::Closed => Err(io::ErrorKind::BrokenPipe.into()),
            }
        };
        let written = tokio::time::timeout(WRITE_TIMEOUT, write).await;
        self.change(|_| ());
        written.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the process does not read its input")))
    }

    /// Resizes its terminal.
    pub(crate) async fn resize(&self, size: Size) -> io::Result<()> {
        if let InputChannel::Terminal(terminal) = &*self.input.lock().await {
            terminal.resize(pty_process::Size::new(size.rows, size.cols)).map_err(io::Error::other)?;
            self.change(|live| live.size = Some(size));
        }
        Ok(())
    }

    /// Terminates or kills the process and all its descendants, and waits a moment for the end.
    pub(crate) async fn stop(&self, mode: StopMode) {
        if self.is_running() {
            match mode {
                StopMode::Terminate => self.held.signal(Signal::Terminate),
                StopMode::Kill => self.held.signal(Signal::Kill),
            }
            let _ = tokio::time::timeout(STOP_WAIT, self.ended.cancelled()).await;
        }
    }

    /// Waits, with a timeout, until the end of the process is recorded here.
    pub(crate) async fn wait_for_end(&self) {
        let _ = tokio::time::timeout(GRACE, self.ended.cancelled()).await;
    }
}

/// How a process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// SIGTERM: it may clean up, and may ignore the signal.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// A source of output.
type Source = Box<dyn AsyncRead + Send + Unpin>;

/// Both ends of the channels to a process.
struct Ends {
    channels: Channels,
    input: InputChannel,
    stdout: Source,
    stderr: Option<Source>,
}

fn on_pipes() -> io::Result<Ends> {
    let (Pipes { stdin, stdout, stderr }, channels) = pipes::open()?;
    Ok(Ends { channels, input: InputChannel::Pipe(stdin), stdout: Box::new(stdout), stderr: Some(Box::new(stderr)) })
}

fn in_terminal(size: Size) -> io::Result<Ends> {
    let (pty, pts) = pty_process::open().map_err(io::Error::other)?;
    pty.resize(pty_process::Size::new(size.rows, size.cols)).map_err(io::Error::other)?;
    let (reader, writer) = pty.into_split();
    let (channels, input) = (Channels::Terminal(pts), InputChannel::Terminal(writer));
    Ok(Ends { channels, input, stdout: Box::new(reader), stderr: None })
}
