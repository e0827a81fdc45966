//! How processes are ended, and how the host waits until all of them are gone.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use gladhand_process::starting::{Held, Signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a killed process may take to disappear. Only a process stuck in the kernel takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long output is read after the process has ended. A descendant that left the group may still hold the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Waits until a process has ended and there was time to read the rest of its output.
pub(crate) async fn output_drained(ended: &CancellationToken) {
    ended.cancelled().await;
    tokio::time::sleep(OUTPUT_GRACE).await;
}

/// Ends a process and all its descendants: first SIGTERM, after the grace period SIGKILL.
pub(crate) async fn end(held: &dyn Held, grace: Duration) -> Option<ExitStatus> {
    held.signal(Signal::Terminate);
    let left = tokio::time::timeout(grace, held.ended()).await;
    // Descendants may still be running.
    held.signal(Signal::Kill);
    match left {
        Ok(status) => status.ok(),
        Err(_) => tokio::time::timeout(KILL_TIMEOUT, held.ended()).await.ok().and_then(Result::ok),
    }
}

/// Counts running tasks, so that shutdown can wait for them.
#[derive(Debug, Clone)]
pub(crate) struct TaskCounter(Arc<watch::Sender<usize>>);

impl Default for TaskCounter {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl TaskCounter {
    /// Counts one more task until the returned guard is dropped.
    pub(crate) fn add(&self) -> TaskGuard {
        self.0.send_modify(|count| *count += 1);
        TaskGuard(Arc::clone(&self.0))
    }

    /// Waits until no task is running.
    pub(crate) async fn all_done(&self) {
        // We own the sender, so the channel never closes.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Guard of one counted task.
#[derive(Debug)]
pub(crate) struct TaskGuard(Arc<watch::Sender<usize>>);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
