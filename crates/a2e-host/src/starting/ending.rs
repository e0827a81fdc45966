//! How processes are ended, and how is known that all of them are.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Held, Signal};

/// How long what is killed may take to be gone. Only what the kernel itself holds back takes longer.
const LAST: Duration = Duration::from_secs(5);

/// How long output may be awaited after the end: somebody who left the group may still hold on to the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Ends when a process has ended and whatever is still in its pipes could have been read.
pub(crate) async fn last_words_are_over(ended: &CancellationToken) {
    ended.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}

/// Ends a process and everything that came of it: first a request, then force.
pub(crate) async fn end(held: &mut dyn Held, grace: Duration) -> Option<ExitStatus> {
    // Whoever cannot be told has left already.
    let _ = held.signal(Signal::Terminate);
    let left = tokio::time::timeout(grace, held.wait()).await;
    // Those that it started may have stayed.
    let _ = held.signal(Signal::Kill);
    match left {
        Ok(status) => status.ok(),
        Err(_) => tokio::time::timeout(LAST, held.wait()).await.ok().and_then(Result::ok),
    }
}

/// Who is still at work. At the end they are waited for.
#[derive(Debug, Clone)]
pub(crate) struct Roster(Arc<watch::Sender<usize>>);

impl Default for Roster {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Roster {
    /// Somebody begins to work, until what is returned is dropped.
    pub(crate) fn enter(&self) -> AtWork {
        self.0.send_modify(|count| *count += 1);
        AtWork(Arc::clone(&self.0))
    }

    /// Ends when nobody is at work.
    pub(crate) async fn all_left(&self) {
        // The sender is ours, so the channel does not close.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Somebody at work.
#[derive(Debug)]
pub(crate) struct AtWork(Arc<watch::Sender<usize>>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
