//! One process: what it says is told, what it is sent is carried to it, and it ends when its time has come.
//!
//! All of that is one task. It waits for whoever listens to keep up, so that a process which floods is slowed down by its
//! own pipe. When the process has ended, what it started ends too; then what is left of its output is told, then its end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::inlet::Inlet;
use super::pieces::Pieces;
use super::telling::{Stream, Telling};
use crate::starting::ending::{end, last_words_are_over};
use crate::starting::{Held, Signal, Started};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// How much output is told after the end. No pipe holds more.
const LEFT_IN_PIPE: usize = 1024 * 1024;

/// The number of the signal that nobody survives.
const KILLED: i32 = 9;

/// How many signals may wait to be sent.
const SIGNALS: usize = 8;

/// A process, as requests see it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: String,
    pub(super) command: Vec<String>,
    pub(super) pid: u32,
    pub(super) started_at: f64,
    pub(super) inlet: Inlet,
    end: Mutex<Option<End>>,
    signals: mpsc::Sender<Signal>,
    /// Whoever had it started is gone.
    abandoned: CancellationToken,
    ended: CancellationToken,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Its code, negative for a signal; none if that was not to be seen.
    pub(super) code: Option<i32>,
    pub(super) cause: Cause,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// As it saw fit.
    Itself,
    /// Somebody sent it a signal.
    Signalled,
    /// Its time was over.
    TimedOut,
    /// It said too much.
    SaidTooMuch,
}

/// What a process may do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How long it may run.
    pub(super) time: Option<Duration>,
    /// How long it may take to leave when it is told to.
    pub(super) grace: Duration,
    /// How long a piece of its output may be.
    pub(super) longest_piece: usize,
    /// How many bytes may wait for it to read them.
    pub(super) most_waiting: usize,
    /// Whether it is given anything to read.
    pub(super) reads: bool,
}

/// The work that a process makes while it runs.
#[derive(Debug)]
pub(super) struct Tending {
    process: Arc<Process>,
    started: Started,
    signals: mpsc::Receiver<Signal>,
    bounds: Bounds,
    telling: Telling,
}

impl Process {
    /// A process that was started, and the work that it makes from now on.
    pub(super) fn of(started: Started, command: Vec<String>, bounds: Bounds, telling: Telling) -> (Arc<Self>, Tending) {
        let (to_signals, signals) = mpsc::channel(SIGNALS);
        let process = Arc::new(Self {
            id: telling.process().to_owned(),
            command,
            pid: started.pid,
            started_at: crate::now(),
            inlet: Inlet::of_at_most(bounds.most_waiting, bounds.reads),
            end: Mutex::new(None),
            signals: to_signals,
            abandoned: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let tending = Tending { process: Arc::clone(&process), started, signals, bounds, telling };
        (process, tending)
    }

    /// Sends it a signal. Those that come faster than they can be sent are one.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = self.signals.try_send(signal);
    }

    /// Nobody wants it any more.
    pub(super) fn abandon(&self) {
        self.abandoned.cancel();
    }

    /// Ends when it has ended.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tending {
    /// Does all of it. Whoever drops this ends the process at once.
    pub(super) async fn run(self) {
        let Self { process, started, mut signals, bounds, telling } = self;
        let Started { stdin, stdout, stderr, mut held, .. } = started;
        let stdin = Some(stdin).filter(|_| bounds.reads);
        let life = async {
            let end = process.live(&mut *held, &mut signals, bounds, &telling).await;
            *process.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            process.ended.cancel();
            end
        };
        let (end, (), (), ()) = tokio::join!(
            life,
            process.hear(Stream::Stdout, stdout, bounds, &telling),
            process.hear(Stream::Stderr, stderr, bounds, &telling),
            process.inlet.carry(stdin, &process.ended),
        );
        telling.end(end.code);
    }
}

impl Process {
    async fn live(
        &self,
        held: &mut dyn Held,
        signals: &mut mpsc::Receiver<Signal>,
        bounds: Bounds,
        telling: &Telling,
    ) -> End {
        let time_is_over = async {
            match bounds.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(time_is_over);
        let mut cause = Cause::Itself;
        let status = loop {
            tokio::select! {
                status = held.wait() => break status.ok(),
                Some(signal) = signals.recv() => {
                    cause = Cause::Signalled;
                    // Who has left need not be told.
                    let _ = held.signal(signal);
                }
                () = telling.is_too_much() => {
                    cause = Cause::SaidTooMuch;
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
        // What it started ends with it.
        let _ = held.signal(Signal::Kill);
        // Who is ended by force may leave nobody behind to say so.
        let killed = || (cause != Cause::Itself).then_some(-KILLED);
        End { code: status.and_then(code).or_else(killed), cause }
    }

    async fn hear(&self, stream: Stream, mut source: impl AsyncRead + Unpin, bounds: Bounds, telling: &Telling) {
        let mut pieces = Pieces::of_at_most(bounds.longest_piece);
        let mut chunk = vec![0; CHUNK];
        let mut after_the_end = 0;
        loop {
            let read = tokio::select! {
                biased;
                () = self.abandoned.cancelled() => return,
                read = source.read(&mut chunk) => read,
                () = last_words_are_over(&self.ended) => break,
            };
            let Ok(count @ 1..) = read else { break };
            let mut bytes = &chunk[..count];
            while let Some(piece) = pieces.next(&mut bytes) {
                if !telling.output(stream, &piece) {
                    return;
                }
                if self.abandoned.run_until_cancelled(telling.keeping_up()).await.is_none() {
                    return;
                }
            }
            if self.ended.is_cancelled() {
                after_the_end += count;
                if after_the_end > LEFT_IN_PIPE {
                    break;
                }
            }
        }
        if let Some(piece) = pieces.last() {
            telling.output(stream, &piece);
        }
    }
}

impl End {
    /// The word for it, and what there is to say.
    pub(super) fn status(self) -> (&'static str, String) {
        match (self.cause, self.code) {
            (Cause::TimedOut, _) => ("killed", "timeout".to_owned()),
            (Cause::SaidTooMuch, _) => ("killed", "output limit".to_owned()),
            (_, Some(0)) => ("completed", String::new()),
            (Cause::Signalled, _) => ("killed", String::new()),
            (Cause::Itself, Some(code)) => ("failed", format!("exit code {code}")),
            (Cause::Itself, None) => ("error", "how it ended was not to be seen".to_owned()),
        }
    }

    /// The word for it in lists.
    pub(super) fn state(self) -> &'static str {
        match (self.cause, self.code) {
            (Cause::TimedOut, _) => "timedout",
            (Cause::Itself, Some(0)) | (Cause::Signalled, _) => "stopped",
            (Cause::SaidTooMuch | Cause::Itself, _) => "crashed",
        }
    }
}

/// The code of an end; that of a signal is its number below zero.
fn code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| Some(-status.signal()?))
}
