//! SIGINT and SIGTERM (Ctrl-C elsewhere) as a stream of reasons to stop.

use gladhand_dialects::Stop;

/// Hears signals for as long as it lives. Made before the first line is read, so none is missed.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts listening.
    pub fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// The next signal.
    pub async fn next(&mut self) -> Stop {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupted,
            _ = self.terminate.recv() => Stop::Terminated,
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

/// The exit status of a process that was told twice to stop.
pub fn exit_status(stop: Stop) -> u8 {
    match stop {
        Stop::Terminated => 143,
        Stop::Interrupted | Stop::InputClosed => 130,
    }
}
