//! One process: forwards its output and input, and ends it when a limit is reached.
//!
//! All of that is one task. It waits while the client is behind with reading events, so the full pipe slows down a
//! process that writes too fast. When the process has ended, its descendants are killed. Then the rest of its output is
//! reported, and then its end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gladhand_core::sync::Unpoisoned as _;
use gladhand_hub::Portion;
use gladhand_process::starting::{Held, Signal};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::events::{ProcessEvents, Stream};
use super::line_splitter::LineSplitter;
use super::stdin_queue::StdinQueue;
use crate::starting::Started;
use crate::starting::ending::{end, output_drained};

/// How many bytes one read takes at most.
const CHUNK: usize = 16 * 1024;

/// Maximum number of output bytes read after the end of the process. No pipe holds more.
const MAX_REMAINING_BYTES: usize = 1024 * 1024;

/// The number of SIGKILL.
const KILLED: i32 = 9;

/// Capacity of the signal queue.
const SIGNALS: usize = 8;

/// A process, as requests see it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: String,
    pub(super) command: Vec<String>,
    /// The share of the memory of all processes that this one takes.
    _memory: Portion,
    pub(super) pid: u32,
    pub(super) started_at: f64,
    pub(super) stdin_queue: StdinQueue,
    end: Mutex<Option<End>>,
    signals: mpsc::Sender<Signal>,
    /// Cancelled when the session has ended.
    abandoned: CancellationToken,
    ended: CancellationToken,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Its exit code, or the negative signal number; `None` if unknown.
    pub(super) code: Option<i32>,
    pub(super) cause: Cause,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It exited by itself.
    Exited,
    /// A client sent a signal, or the session ended.
    Signalled,
    /// It exceeded its timeout.
    TimedOut,
    /// It exceeded its output limit.
    OutputLimit,
}

/// Limits of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum run time.
    pub(super) time: Option<Duration>,
    /// How long it may take to end after SIGTERM.
    pub(super) grace: Duration,
    /// Maximum length of a piece of output, in bytes.
    pub(super) max_piece_bytes: usize,
    /// Whether it gets an open stdin.
    pub(super) reads: bool,
}

/// The task that drives a running process.
#[derive(Debug)]
pub(super) struct ProcessTask {
    process: Arc<Process>,
    started: Started,
    signals: mpsc::Receiver<Signal>,
    bounds: Bounds,
    events: ProcessEvents,
}

impl Process {
    /// Creates a process and the task that drives it.
    pub(super) fn of(
        started: Started,
        (command, memory): (Vec<String>, Portion),
        stdin_queue: StdinQueue,
        bounds: Bounds,
        events: ProcessEvents,
    ) -> (Arc<Self>, ProcessTask) {
        let (to_signals, signals) = mpsc::channel(SIGNALS);
        let process = Arc::new(Self {
            id: events.process().to_owned(),
            command,
            _memory: memory,
            pid: started.pid,
            started_at: crate::now(),
            stdin_queue,
            end: Mutex::new(None),
            signals: to_signals,
            abandoned: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let process_task = ProcessTask { process: Arc::clone(&process), started, signals, bounds, events };
        (process, process_task)
    }

    /// Queues a signal. If the queue is full, the signal is dropped.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = self.signals.try_send(signal);
    }

    /// Ends the process because its session has ended.
    pub(super) fn abandon(&self) {
        self.abandoned.cancel();
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        *self.end.lock().unpoisoned()
    }
}

impl ProcessTask {
    /// Runs to the end of the process. Dropping the future kills the process.
    pub(super) async fn run(self) {
        let Self { process, started, mut signals, bounds, events } = self;
        let Started { stdin, stdout, stderr, held, .. } = started;
        let stdin = Some(stdin).filter(|_| bounds.reads);
        let wait_for_end = async {
            let end = process.wait(&*held, &mut signals, bounds, &events).await;
            *process.end.lock().unpoisoned() = Some(end);
            process.ended.cancel();
            end
        };
        let (end, (), (), ()) = tokio::join!(
            wait_for_end,
            process.read_output(Stream::Stdout, stdout, bounds, &events),
            process.read_output(Stream::Stderr, stderr, bounds, &events),
            process.stdin_queue.write_to(stdin, &process.ended),
        );
        events.end(end.code);
    }
}

impl Process {
    async fn wait(
        &self,
        held: &dyn Held,
        signals: &mut mpsc::Receiver<Signal>,
        bounds: Bounds,
        events: &ProcessEvents,
    ) -> End {
        let time_is_over = async {
            match bounds.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(time_is_over);
        let mut cause = Cause::Exited;
        let status = loop {
            tokio::select! {
                status = held.ended() => break status.ok(),
                Some(signal) = signals.recv() => {
                    cause = Cause::Signalled;
                    held.signal(signal);
                }
                () = events.output_limit_exceeded() => {
                    cause = Cause::OutputLimit;
                    break end(held, Duration::ZERO).await;
                }
                () = &mut time_is_over => {
                    cause = Cause::TimedOut;
                    break end(held, bounds.grace).await;
                }
                () = self.abandoned.cancelled() => {
                    cause = Cause::Signalled;
                    break end(held, bounds.grace).await;
                }
            }
        };
        // Its descendants end with it.
        held.signal(Signal::Kill);
        // A killed process may report no status.
        let killed = || (cause != Cause::Exited).then_some(-KILLED);
        End { code: status.and_then(code).or_else(killed), cause }
    }

    async fn read_output(
        &self,
        stream: Stream,
        mut source: impl AsyncRead + Unpin,
        bounds: Bounds,
        events: &ProcessEvents,
    ) {
        let mut splitter = LineSplitter::with_limit(bounds.max_piece_bytes);
        let mut chunk = vec![0; CHUNK];
        let mut after_the_end = 0;
        loop {
            let read = tokio::select! {
                biased;
                () = self.abandoned.cancelled() => return,
                read = source.read(&mut chunk) => read,
                () = output_drained(&self.ended) => break,
            };
            let Ok(count @ 1..) = read else { break };
            let mut bytes = &chunk[..count];
            while let Some(piece) = splitter.next(&mut bytes) {
                if !events.output(stream, &piece) {
                    return;
                }
                if self.abandoned.run_until_cancelled(events.keeping_up()).await.is_none() {
                    return;
                }
            }
            if self.ended.is_cancelled() {
                after_the_end += count;
                if after_the_end > MAX_REMAINING_BYTES {
                    break;
                }
            }
        }
        if let Some(piece) = splitter.last() {
            events.output(stream, &piece);
        }
    }
}

impl End {
    /// The status word and the error text of a response.
    pub(super) fn status(self) -> (&'static str, String) {
        match (self.cause, self.code) {
            (Cause::TimedOut, _) => ("killed", "timeout".to_owned()),
            (Cause::OutputLimit, _) => ("killed", "output limit".to_owned()),
            (_, Some(0)) => ("completed", String::new()),
            (Cause::Signalled, _) => ("killed", String::new()),
            (Cause::Exited, Some(code)) => ("failed", format!("exit code {code}")),
            (Cause::Exited, None) => ("error", "exit status unknown".to_owned()),
        }
    }

    /// The state word in lists.
    pub(super) fn state(self) -> &'static str {
        match (self.cause, self.code) {
            (Cause::TimedOut, _) => "timedout",
            (Cause::Exited, Some(0)) | (Cause::Signalled, _) => "stopped",
            (Cause::OutputLimit | Cause::Exited, _) => "crashed",
        }
    }
}

/// The exit code, or the negative signal number.
fn code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| Some(-status.signal()?))
}
