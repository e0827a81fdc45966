//! SIGINT, SIGTERM and SIGHUP (Ctrl-C elsewhere) as a stream of reasons to stop.

#[cfg(unix)]
use std::io::Read as _;

use gladhand_dialects::Stop;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Signals that may wait to be heard. Two end the process.
const QUEUE: usize = 4;

/// Hears signals for as long as it lives. Made before the first line is read, so none is missed.
///
/// A task waits for them. The loop of a session then looks at one queue instead of at each kind of signal.
#[derive(Debug)]
pub struct Signals {
    heard: mpsc::Receiver<Stop>,
    _listening: AbortOnDropHandle<()>,
}

/// The kinds of signals that are heard.
#[derive(Debug)]
struct Sources {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    /// `None` if the parent process ignores SIGHUP (as `nohup` does), or if SIGHUP has another use.
    #[cfg(unix)]
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Starts listening.
    pub fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
            Ok(Self::of(Sources { hang_up, ..Sources::except_hang_up()? }))
        }
        #[cfg(not(unix))]
        Self::except_hang_up()
    }

    /// Starts listening, but leaves SIGHUP for another use.
    pub fn except_hang_up() -> std::io::Result<Self> {
        Sources::except_hang_up().map(Self::of)
    }

    fn of(mut sources: Sources) -> Self {
        let (to_queue, heard) = mpsc::channel(QUEUE);
        let listening = tokio::spawn(async move {
            loop {
                let stop = sources.next().await;
                // A full queue already says to exit at once.
                let _ = to_queue.try_send(stop);
            }
        });
        Self { heard, _listening: AbortOnDropHandle::new(listening) }
    }

    /// The next signal.
    pub async fn next(&mut self) -> Stop {
        match self.heard.recv().await {
            Some(stop) => stop,
            // The runtime is being shut down.
            None => std::future::pending().await,
        }
    }
}

impl Sources {
    fn except_hang_up() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            // A write beyond the file size limit must fail with an error. Without a handler for this signal, the
            // process would be terminated.
            drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
            Ok(Self { interrupt, terminate, hang_up: None })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    async fn next(&mut self) -> Stop {
        #[cfg(unix)]
        {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(hang_up) => hang_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => Stop::Interrupted,
                _ = self.terminate.recv() => Stop::Terminated,
                _ = hang_up => Stop::HungUp,
            }
        }
        #[cfg(not(unix))]
        {
            // An error means that there is no console to press Ctrl-C on.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            Stop::Interrupted
        }
    }
}

/// Whether SIGHUP was ignored when we were started, as `nohup` has it. To listen would end that. This reads `/proc`; on
/// other systems the answer is no.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    // At once: read in pieces it would be a good part of a start.
    let mut status = [0; 4096];
    let read = std::fs::File::open("/proc/self/status").and_then(|mut file| file.read(&mut status));
    let status = read.ok().and_then(|read| std::str::from_utf8(&status[..read]).ok()).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // Signals are counted from one, and this is the first.
    ignored & 1 != 0
}

/// The exit status of a process that was told to stop and did not finish its work.
pub fn exit_status(stop: Stop) -> u8 {
    match stop {
        Stop::HungUp => 129,
        Stop::Interrupted | Stop::InputClosed => 130,
        Stop::Terminated => 143,
    }
}
