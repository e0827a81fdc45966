//! Ends programs with all their descendants.

use std::sync::Arc;
use std::time::Duration;

use gladhand_process::starting::{Held, Signal};

use super::Exit;

/// How long processes may take to end after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_millis(1500);

/// Ends all processes: first SIGTERM, after the grace period SIGKILL.
pub(crate) async fn end(held: &dyn Held) -> Exit {
    held.signal(Signal::Terminate);
    if tokio::time::timeout(GRACE, held.gone()).await.is_err() {
        held.signal(Signal::Kill);
        // Only a process stuck in the kernel survives this.
        let _ = tokio::time::timeout(GRACE, held.gone()).await;
    }
    let status = tokio::time::timeout(GRACE, held.ended()).await;
    status.ok().and_then(Result::ok).map_or_else(Exit::default, Exit::from)
}

/// Kills all processes when it is dropped, unless they are released first.
#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Option<Arc<dyn Held>>);

impl Guard {
    /// Releases the processes: they may keep running.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.signal(Signal::Kill);
        }
    }
}
