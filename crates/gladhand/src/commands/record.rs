//! `gladhand record`: runs a server command unchanged, and records what passes.
//!
//! Three threads copy standard input, output and error output, as the bytes come. Each chunk is passed on before it is
//! recorded. The command stays in our process group and has our environment, so that it runs as without us.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::{Args, ValueHint};
use gladhand_core::sync::Unpoisoned as _;
use gladhand_core::wire::lines::{MAX_LINE, Terminator};
use gladhand_core::wire::{FrameSummary, Line, Lines, rpc};
use gladhand_dialects::{Dialect, REGISTRY, dialect_of_line};
use gladhand_recording::{EntryKind, Sender, SessionEnd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use crate::commands::CommandError;
use crate::commands::shared::arguments::sizes;
use crate::commands::shared::runtime;
use crate::exit::Exit;
use crate::recorder::opening::ObservedOpening;
use crate::recorder::{Existing, FileRecorder, MAX_MIB, Masks, NotRecorded, kind_word, too_long};

const RECORD_HELP: &str = "\
The command runs as without `gladhand record`: every byte, signal and the exit
code pass unchanged, in any dialect. Put `gladhand record FILE --` before the
command of a server in the configuration of a client. Secrets are masked in the
file. Parts of N MiB that are full become FILE.1 to FILE.4.

Examples:
  gladhand record session.ndjson -- npx -y my-server
  gladhand record session.ndjson --force --mask 'cust-[0-9]+' -- my-server

The exit code is that of the command, or 128 and the number of the signal that
ended it. It is 2 if the file exists, and 4 if the command cannot be started.";

/// The session of the client with the command.
const SESSION: &str = "client-1";

/// Size of the chunks that are copied, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// A process that the ended command left behind may hold the output open. How long to wait while it writes nothing.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// How long the command may take to end after SIGTERM, when its client is gone.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of `record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub struct RecordArgs {
    /// File of the recording.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Mask text that matches this regular expression, in addition to secrets; may be repeated.
    #[arg(long, value_name = "REGEX")]
    pub mask: Vec<String>,
    /// Size in MiB at which a new part of the recording begins.
    #[arg(long, value_name = "N", default_value_t = MAX_MIB, value_parser = sizes())]
    pub max_mib: u64,
    /// Replace the file if it exists, and its older parts.
    #[arg(long)]
    pub force: bool,
    /// Command that starts the server.
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Records until the command ends.
pub fn run(args: &RecordArgs) -> Result<ExitCode, CommandError> {
    let masks = Masks::of(&args.mask).map_err(CommandError::usage)?;
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let recorder = FileRecorder::begin(&args.file, existing, &words, args.max_mib, masks).map_err(not_recorded)?;
    let recording = Arc::new(Recording::new(recorder));
    let (program, arguments) = args.command.split_first().ok_or_else(|| anyhow!("there is no command"))?;
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        let error = anyhow!("cannot start `{}`: {error}", words.first().map(String::as_str).unwrap_or_default());
        CommandError::new(Exit::PeerFailed, error)
    })?;
    // The command keeps the signals that this process ignores, so it starts before they are handled here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = runtime::wait_for(&runtime, async { Signals::listen() })?;
    let outputs = copy_all(&mut child, &recording)?;
    let status = runtime::wait_for(&runtime, wait(&mut child, signals, &recording.client_gone))?;
    outputs.wait(&recording);
    recording.close(status);
    Ok(ExitCode::from(exit_code(status)))
}

/// The error of a recording that could not be begun.
pub(in crate::commands) fn not_recorded(error: NotRecorded) -> CommandError {
    match error {
        NotRecorded::Exists { why: "", .. } => {
            CommandError::usage(error).hint("name another file, or replace it with --force")
        }
        NotRecorded::Exists { .. } => CommandError::usage(error).hint("name another file"),
        error => error.into(),
    }
}

/// The exit code of a command, as shells state it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failure as u8)
}

/// One of the three channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

/// The recording of the three channels.
struct Recording {
    /// What was read and is not recorded, in the order of reading. A thread adds its chunk before it passes it on, so that no
    /// answer precedes its request. Each thread has at most one chunk here.
    chunks: Mutex<VecDeque<(Stream, Instant, Vec<u8>)>>,
    recorded: Mutex<Recorded>,
    /// Number of chunks that were added.
    added: AtomicU64,
    /// The client reads nothing more.
    is_unread: AtomicBool,
    /// Told when the client neither writes nor reads any more.
    client_gone: Notify,
}

struct Recorded {
    recorder: FileRecorder,
    /// Number of chunks that were recorded.
    chunks: u64,
    lines: [Lines; 3],
    dialect: Option<&'static Dialect>,
    opening: ObservedOpening,
    /// The entry for the opening, which follows the message that opened the session.
    opened: Option<EntryKind>,
}

impl Recording {
    fn new(recorder: FileRecorder) -> Self {
        let lines = [(); 3].map(|()| Lines::with_limit(MAX_LINE));
        Self {
            chunks: Mutex::default(),
            recorded: Mutex::new(Recorded {
                recorder,
                chunks: 0,
                lines,
                dialect: None,
                opening: ObservedOpening::default(),
                opened: None,
            }),
            added: AtomicU64::new(0),
            is_unread: AtomicBool::new(false),
            client_gone: Notify::new(),
        }
    }

    /// Adds a chunk, and returns its number.
    fn add(&self, stream: Stream, chunk: &[u8]) -> u64 {
        let mut chunks = self.chunks.lock().unpoisoned();
        chunks.push_back((stream, Instant::now(), chunk.to_vec()));
        self.added.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records the chunks up to this number. Later ones are left to their threads, so that none works for the others.
    fn record(&self, number: u64) {
        let mut recorded = self.recorded.lock().unpoisoned();
        while recorded.chunks < number {
            let next = self.chunks.lock().unpoisoned().pop_front();
            let Some((stream, at, chunk)) = next else { return };
            recorded.chunks += 1;
            recorded.chunk(stream, at, &chunk);
        }
    }

    /// Records the end of the command.
    fn close(&self, status: ExitStatus) {
        self.record(u64::MAX);
        let mut recorded = self.recorded.lock().unpoisoned();
        let now = Instant::now();
        for stream in [Stream::Stdin, Stream::Stdout, Stream::Stderr] {
            recorded.last_line(stream, now);
        }
        let end = EntryKind::Closed(SessionEnd { reason: Some(status.to_string()) });
        recorded.recorder.record(now, Some(SESSION.to_owned()), end);
        recorded.recorder.finish();
    }
}

impl Recorded {
    fn chunk(&mut self, stream: Stream, at: Instant, chunk: &[u8]) {
        let mut lines = std::mem::take(&mut self.lines[stream as usize]);
        lines.push(chunk);
        // All entries of a chunk are written at once.
        self.recorder.collect();
        while let Some(line) = lines.next_line() {
            self.line(stream, at, line);
            if stream != Stream::Stderr {
                lines.end_lines_at(self.terminator());
            }
        }
        self.recorder.flush();
        self.lines[stream as usize] = lines;
    }

    fn last_line(&mut self, stream: Stream, at: Instant) {
        let mut lines = std::mem::take(&mut self.lines[stream as usize]);
        if let Some(line) = lines.last_line() {
            self.line(stream, at, line);
        }
    }

    fn terminator(&self) -> Terminator {
        self.dialect.map_or(Terminator::Lf, |dialect| dialect.text.terminator)
    }

    fn line(&mut self, stream: Stream, at: Instant, line: Line<'_>) {
        let from = if stream == Stream::Stdin { Sender::Client } else { Sender::Server };
        let is_stderr = stream == Stream::Stderr;
        let text = |text| Some(EntryKind::Text { from, is_stderr, text });
        let entry = match line {
            Line::TooLong { limit } => text(too_long(limit)),
            Line::Bytes(bytes) if bytes.trim_ascii().is_empty() => None,
            Line::Bytes(bytes) if is_stderr => text(String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned()),
            Line::Bytes(bytes) => self.message(from, bytes),
        };
        if let Some(entry) = entry {
            self.recorder.record(at, Some(SESSION.to_owned()), entry);
        }
        if let Some(opened) = self.opened.take() {
            self.recorder.record(at, Some(SESSION.to_owned()), opened);
        }
    }

    fn message(&mut self, from: Sender, bytes: &[u8]) -> Option<EntryKind> {
        // Some programs begin with a byte-order mark.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
        if self.dialect.is_none() && from == Sender::Client {
            self.dialect = dialect_of_line(REGISTRY, bytes);
        }
        let describe = self
            .dialect
            .map_or(rpc::describe as for<'a> fn(&'a str) -> Option<FrameSummary<'a>>, |dialect| dialect.describe);
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let kind = describe(text).map(|summary| summary.kind);
        if let (Some(dialect), Some(kind)) = (self.dialect, kind) {
            match from {
                Sender::Client => self.opening.sent(dialect, text),
                Sender::Server => self.opened = self.opening.answered(dialect, kind, text),
            }
        }
        let kind = kind.and_then(kind_word);
        EntryKind::of_line(from, bytes, self.dialect.map(|dialect| dialect.name), kind)
    }
}

/// The threads that copy what the command writes.
struct Outputs(std::sync::mpsc::Receiver<()>);

impl Outputs {
    /// Waits until everything that the ended command wrote is passed on.
    fn wait(&self, recording: &Recording) {
        let mut before = recording.added.load(Ordering::Relaxed);
        loop {
            match self.0.recv_timeout(LAST_OUTPUT) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let now = recording.added.load(Ordering::Relaxed);
                    if now == before {
                        return;
                    }
                    before = now;
                }
            }
        }
    }
}

/// Starts the threads that copy the three channels.
fn copy_all(child: &mut Child, recording: &Arc<Recording>) -> Result<Outputs, CommandError> {
    let channels = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = channels else { return Err(anyhow!("no channels").into()) };
    let [our_stdin, our_stdout] = [0, 1].map(|number| {
        #[expect(unsafe_code, reason = "the channels must be closed when the other side is, and have no other owner")]
        // SAFETY: they are open since the start, and this process uses them nowhere else.
        unsafe {
            OwnedFd::from_raw_fd(number)
        }
    });
    let our_stderr = rustix::io::dup(std::io::stderr())?;
    let our_stdout = Arc::new(our_stdout);
    let (input, watched) = (Arc::clone(recording), Arc::downgrade(&our_stdout));
    spawn("stdin", move || {
        let stdin = OwnedFd::from(stdin);
        copy(Stream::Stdin, our_stdin, &stdin, &input);
        drop(stdin);
        if is_closed_by_reader(&watched, &input) {
            input.client_gone.notify_one();
        }
    })?;
    let (done, outputs) = channel();
    let channels = [(Stream::Stdout, stdout.into(), our_stdout), (Stream::Stderr, stderr.into(), Arc::new(our_stderr))];
    for (stream, from, to) in channels {
        let (recording, done) = (Arc::clone(recording), done.clone());
        spawn("output", move || {
            copy(stream, from, &to, &recording);
            drop((to, done));
        })?;
    }
    Ok(Outputs(outputs))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Copies a channel until one of its ends is closed. The reading end is closed then.
fn copy(stream: Stream, from: OwnedFd, to: &OwnedFd, recording: &Recording) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Some(length @ 1..) = read(from.as_fd(), &mut buffer) {
        let number = recording.add(stream, &buffer[..length]);
        let is_passed_on = write_all(to.as_fd(), &buffer[..length]);
        recording.record(number);
        if !is_passed_on {
            // The command gets the error of a closed pipe, as without us.
            drop(from);
            recording.is_unread.fetch_or(stream == Stream::Stdout, Ordering::Relaxed);
            return;
        }
    }
}

/// Reads some bytes: zero at the end, `None` if it cannot be read.
fn read(from: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<usize> {
    loop {
        match rustix::io::read(from, &mut *buffer) {
            Ok(length) => return Some(length),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for(from, PollFlags::IN),
            Err(_) => return None,
        }
    }
}

/// Writes everything. Returns false if the other end is closed.
fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            // The other process made it non-blocking.
            Err(Errno::AGAIN) => wait_for(to, PollFlags::OUT),
            Err(_) => return false,
        }
    }
    true
}

fn wait_for(channel: BorrowedFd<'_>, what: PollFlags) {
    let _ = poll(&mut [PollFd::from_borrowed_fd(channel, what)], None);
}

/// Waits until the process that reads our output has closed it. Returns false if the command closed it first.
fn is_closed_by_reader(output: &Weak<OwnedFd>, recording: &Recording) -> bool {
    const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    // Only for a moment at a time, because the output must close when the command closes it.
    while let Some(output) = output.upgrade() {
        let mut channels = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::empty())];
        let is_ready = poll(&mut channels, Some(&INTERVAL)).is_ok_and(|ready| ready > 0);
        if is_ready && channels[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return true;
        }
        if is_ready {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    recording.is_unread.load(Ordering::Relaxed)
}

/// The signals that are passed on.
struct Signals([(tokio::signal::unix::Signal, Signal); 6]);

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let on = |kind, passed_on| Ok::<_, std::io::Error>((signal(kind)?, passed_on));
        Ok(Self([
            on(SignalKind::terminate(), Signal::TERM)?,
            on(SignalKind::hangup(), Signal::HUP)?,
            on(SignalKind::interrupt(), Signal::INT)?,
            on(SignalKind::quit(), Signal::QUIT)?,
            on(SignalKind::user_defined1(), Signal::USR1)?,
            on(SignalKind::user_defined2(), Signal::USR2)?,
        ]))
    }

    /// The next signal for the command.
    async fn next(&mut self) -> Signal {
        let signal = std::future::poll_fn(|context| {
            for (signal, passed_on) in &mut self.0 {
                if let Poll::Ready(Some(())) = signal.poll_recv(context) {
                    return Poll::Ready(*passed_on);
                }
            }
            Poll::Pending
        });
        signal.await
    }
}

/// Whether a terminal has sent this signal to the command too: both are in its foreground group.
fn is_from_terminal(signal: Signal) -> bool {
    if ![Signal::INT, Signal::QUIT].contains(&signal) {
        return false;
    }
    let Ok(terminal) = fs_err::File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(terminal.file()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Waits until the command ends, and passes signals on. If the client is gone, the command is ended.
async fn wait(child: &mut Child, mut signals: Signals, client_gone: &Notify) -> std::io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let (sender, mut ended) = tokio::sync::oneshot::channel();
    spawn("wait", move || {
        // The id of the process stays valid until `child.wait` below.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
        let _ = sender.send(());
    })?;
    let mut deadline = None;
    loop {
        let killing = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = &mut ended => return child.wait(),
            signal = signals.next() => {
                if !is_from_terminal(signal) {
                    let _ = kill_process(pid, signal);
                }
            }
            () = client_gone.notified(), if deadline.is_none() => {
                let _ = kill_process(pid, Signal::TERM);
                deadline = Some(tokio::time::Instant::now() + END_TIMEOUT);
            }
            () = killing => {
                let _ = kill_process(pid, Signal::KILL);
                deadline = Some(tokio::time::Instant::now() + END_TIMEOUT);
            }
        }
    }
}
